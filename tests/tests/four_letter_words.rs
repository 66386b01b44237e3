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

#[tokio::test(flavor = "multi_thread")]
async fn ruok_and_isro_answers_are_equal() {
    for word in ["ruok", "isro"] {
        let Some([real, ours]) = ask_both(word).await else { return };
        assert_eq!(real, ours, "{word}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn srvr_and_stat_have_the_same_lines_in_the_same_order() {
    let labels = |text: &str| {
        let lines = text.lines().map(|line| line.split_once(": ").map_or(line, |(label, _)| label));
        lines.filter(|line| !line.starts_with(" /")).map(str::to_owned).collect::<Vec<_>>()
    };
    for word in ["srvr", "stat"] {
        let Some([real, ours]) = ask_both(word).await else { return };
        assert_eq!(labels(&real), labels(&ours), "{word}: {real}\n{ours}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn client_lines_have_the_same_fields() {
    for word in ["stat", "cons"] {
        let Some([real, ours]) = ask_both(word).await else { return };
        let fields = |text: &str| {
            let clients = text.lines().filter(|line| line.starts_with(" /"));
            let names = |line: &str| {
                let (_, fields) = line.split_once('(').unwrap();
                let names = fields.split(',').map(|field| field.split('=').next().unwrap());
                names.map(str::to_owned).collect::<Vec<_>>()
            };
            clients.map(names).collect::<BTreeSet<_>>()
        };
        assert!(!fields(&ours).is_empty(), "{ours}");
        // Other clients may be connected to the real server, some without a session.
        assert!(fields(&ours).is_subset(&fields(&real)), "{word}: {real}\n{ours}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wchs_has_the_same_format() {
    let Some([real, ours]) = ask_both("wchs").await else { return };
    let shapes = |text: &str| text.lines().map(shape).collect::<Vec<_>>();
    assert_eq!(shapes(&real), shapes(&ours));
}

#[tokio::test(flavor = "multi_thread")]
async fn mntr_conf_and_envi_have_the_same_keys() {
    let Some([real, ours]) = ask_both("mntr").await else { return };
    let (real_keys, our_keys) = (keys(&real, '\t'), keys(&ours, '\t'));
    let unknown: Vec<_> = our_keys.difference(&real_keys).collect();
    assert!(unknown.is_empty() && our_keys.len() > 10, "{unknown:?} in {ours}, not in {real}");
    let Some([real, ours]) = ask_both("conf").await else { return };
    assert_eq!(keys(&real, '='), keys(&ours, '='), "{real}\n{ours}");
    let Some([real, ours]) = ask_both("envi").await else { return };
    assert!(keys(&ours, '=').is_subset(&keys(&real, '=')), "{real}\n{ours}");
    assert_eq!(real.lines().next(), ours.lines().next());
}
