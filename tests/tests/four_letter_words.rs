//! Tests that compare the four-letter words of the server of `zk-testing` with those of a real one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

use std::collections::BTreeSet;
use std::net::SocketAddr;

use zk_recipes::session::Client;
use zk_testing::{Settings, TestServer, Version};
use zk_tests::{four_letter, own_shared_zookeeper, release};

/// Returns the answer of each server, with one client connected.
async fn ask_both(word: &'static str) -> Option<[String; 2]> {
    let real = tokio::task::spawn_blocking(own_shared_zookeeper).await.unwrap()?;
    let version = if release(real) == (3, 8) { Version::V3_8 } else { Version::V3_9 };
    let ours = TestServer::start_with(Settings::new().version(version)).await.unwrap();
    let mut answers = Vec::new();
    for address in [real.address(), ours.addresses()[0]] {
        let client = Client::connect(&address.to_string()).await.unwrap();
        client.exists("/").await.unwrap();
        answers.push(ask(address, word).await);
        client.close().await;
    }
    answers.try_into().ok()
}

async fn ask(address: SocketAddr, word: &'static str) -> String {
    tokio::task::spawn_blocking(move || four_letter(address, word).unwrap()).await.unwrap()
}

/// Returns a line without the numbers, which differ from server to server.
fn shape(line: &str) -> String {
    let mut shape = String::new();
    let mut last_was_digit = false;
    for c in line.chars() {
        let is_digit = c.is_ascii_hexdigit() && (c.is_ascii_digit() || last_was_digit);
        if !is_digit {
            shape.push(c);
        } else if !last_was_digit {
            shape.push('0');
        }
        last_was_digit = is_digit;
    }
    shape
}

fn keys(text: &str, separator: char) -> BTreeSet<String> {
    let lines = text.lines().filter_map(|line| line.split_once(separator));
    lines.map(|(key, _)| key.to_owned()).collect()
}

fn labels(text: &str) -> Vec<&str> {
    let lines = text.lines().map(|line| line.split_once(": ").map_or(line, |(label, _)| label));
    lines.filter(|line| !line.starts_with(" /")).collect()
}

/// Returns the names of the fields of each client.
fn fields(text: &str) -> BTreeSet<Vec<&str>> {
    let clients = text.lines().filter(|line| line.starts_with(" /"));
    let lists = clients.filter_map(|line| line.split_once('('));
    lists.map(|(_, list)| list.split(',').filter_map(|it| it.split('=').next()).collect()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_of_both_servers_have_the_same_form() {
    for word in ["ruok", "isro", "srvr", "stat", "cons", "wchs", "mntr", "conf", "envi"] {
        let Some([real, ours]) = ask_both(word).await else { return };
        let says = format!("{word}: {real}\n{ours}");
        match word {
            "ruok" | "isro" => assert_eq!(real, ours, "{word}"),
            "srvr" => assert_eq!(labels(&real), labels(&ours), "{says}"),
            "stat" | "cons" => {
                assert!(word == "cons" || labels(&real) == labels(&ours), "{says}");
                // Other clients may be connected to the real server, some without a session.
                let (real, ours) = (fields(&real), fields(&ours));
                assert!(!ours.is_empty() && ours.is_subset(&real), "{says}");
            }
            "wchs" => {
                let shapes = |text: &str| text.lines().map(shape).collect::<Vec<_>>();
                assert_eq!(shapes(&real), shapes(&ours));
            }
            "mntr" => {
                let (real, ours) = (keys(&real, '\t'), keys(&ours, '\t'));
                assert!(ours.len() > 10 && ours.is_subset(&real), "{says}");
            }
            "conf" => assert_eq!(keys(&real, '='), keys(&ours, '='), "{says}"),
            _ => {
                assert!(keys(&ours, '=').is_subset(&keys(&real, '=')), "{says}");
                assert_eq!(real.lines().next(), ours.lines().next());
            }
        }
    }
}
