//! The table of what each kind of server supports, in docs/servers.md, from runs on each of them.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod features;

use std::fmt::Write;
use std::fs;

use zk_recipes::session::{OpCode, ServerKind};
use zk_testing::{Settings, TestServer, Version};
use zk_tests::{Standalone, open, release, shared_zookeeper};

use crate::features::FEATURES;

/// A column of the table: servers of zk-testing, and the release of real ones that they are like.
struct Column {
    name: &'static str,
    version: Version,
    release: Option<(u32, u32)>,
}

const COLUMNS: [Column; 8] = [
    Column { name: "3.4.14", version: Version::V3_4, release: Some((3, 4)) },
    Column { name: "3.5", version: Version::V3_5, release: Some((3, 5)) },
    Column { name: "3.6.3", version: Version::V3_6, release: Some((3, 6)) },
    Column { name: "3.8.0", version: Version::V3_8, release: Some((3, 8)) },
    Column { name: "3.9.5", version: Version::V3_9, release: Some((3, 9)) },
    Column { name: "Keeper 25.8", version: Version::Keeper25_8, release: None },
    Column { name: "Keeper 26.6", version: Version::Keeper26_6, release: None },
    Column { name: "RaftKeeper", version: Version::RaftKeeper, release: None },
];

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
    for column in &COLUMNS {
        columns.push(modelled(column.version).await);
    }
    let mut table = String::from("| |");
    COLUMNS.iter().for_each(|column| write!(table, " {} |", column.name).unwrap());
    write!(table, "\n|---|{}", "---|".repeat(COLUMNS.len())).unwrap();
    for (row, feature) in FEATURES.iter().enumerate() {
        write!(table, "\n| {} |", feature.name).unwrap();
        columns.iter().for_each(|column| write!(table, " {} |", column[row]).unwrap());
    }
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/servers.md"));
    assert!(page.unwrap().contains(&table), "docs/servers.md is to have this table:\n{table}");
}

/// Returns the column of a real server, if the table has one.
async fn known(server: &Standalone) -> Option<&'static Column> {
    let client = open(&server.connect_string()).await;
    let is_new = client.supports(OpCode::Create2);
    let release = match client.server_kind() {
        ServerKind::ZooKeeper => Some(release(server)),
        _ => None,
    };
    let newest = if is_new { Version::Keeper26_6 } else { Version::Keeper25_8 };
    COLUMNS.iter().find(|column| match release {
        Some(_) => column.release == release,
        None => column.version == newest,
    })
}

/// Also on the server of somebody else: `cargo xtask test --connect`.
#[tokio::test]
async fn real_server_supports_what_the_table_says() {
    let Some(server) = shared_zookeeper() else { return };
    let Some(Column { name, version, .. }) = known(server).await else { return };
    let real = column(&server.connect_string()).await;
    let modelled = modelled(*version).await;
    for ((feature, real), modelled) in FEATURES.iter().zip(real).zip(modelled) {
        assert_eq!(real, modelled, "{} on {name}", feature.name);
    }
}
