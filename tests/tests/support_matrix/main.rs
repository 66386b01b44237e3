//! The table of what each kind of server supports, in docs/servers.md, from runs on each of them.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod features;

use std::fmt::Write;
use std::fs;

use zk_testing::{Settings, TestServer, Version};
use zk_tests::{release, zookeeper};

use crate::features::FEATURES;

/// The columns of the table: the servers of zk-testing, and the releases that the real ones have.
const SERVERS: [(&str, Version, Option<(u32, u32)>); 2] =
    [("3.8.0", Version::V3_8, Some((3, 8))), ("3.9.5", Version::V3_9, Some((3, 9)))];

/// Tries every feature, each in a session of its own.
async fn column(connect_string: &str) -> Vec<&'static str> {
    let mut column = Vec::new();
    for feature in &FEATURES {
        column.push(feature.on(connect_string).await);
    }
    column
}

async fn modelled(version: Version) -> Vec<&'static str> {
    let server = TestServer::start_with(Settings::new().version(version)).await.unwrap();
    column(&server.connect_string()).await
}

#[tokio::test]
async fn table_in_the_guide_has_what_each_server_supports() {
    let mut columns = Vec::new();
    for (_, version, _) in SERVERS {
        columns.push(modelled(version).await);
    }
    let mut table = String::from("| |");
    SERVERS.iter().for_each(|(name, ..)| write!(table, " {name} |").unwrap());
    write!(table, "\n|---|{}", "---|".repeat(SERVERS.len())).unwrap();
    for (row, feature) in FEATURES.iter().enumerate() {
        write!(table, "\n| {} |", feature.name).unwrap();
        columns.iter().for_each(|column| write!(table, " {} |", column[row]).unwrap());
    }
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/servers.md"));
    assert!(page.unwrap().contains(&table), "docs/servers.md is to have this table:\n{table}");
}

#[tokio::test]
async fn real_server_supports_what_the_table_says() {
    let Some(server) = zookeeper() else { return };
    let release = release(&server);
    let known = SERVERS.iter().find(|(.., real)| *real == Some(release));
    let Some((name, version, _)) = known else { return };
    let real = column(&server.connect_string()).await;
    let modelled = modelled(*version).await;
    for ((feature, real), modelled) in FEATURES.iter().zip(real).zip(modelled) {
        assert_eq!(real, modelled, "{} on {name}", feature.name);
    }
}
