//! Tests of `zk digest`, which prints the identity of a user with a password.

use std::fs;

use zk_tests::{Ended, Scratch, Zk};

use crate::{LIMIT, expect_failure, expect_refused, zk};

/// The SHA-1 of `alice:sesame` in base64, from another implementation.
const ALICE: &str = "digest:alice:Uf+rvYX44GsoPMksY4Np/GmDzw8=";

/// Returns a command that reaches no server.
fn offline() -> Zk {
    Zk::new("127.0.0.2:1")
}

fn with_input(arguments: &[&str], input: &str) -> Ended {
    let mut running = offline().start(arguments);
    running.give(input.as_bytes());
    running.end_input();
    running.wait(LIMIT)
}

#[test]
fn digest_is_the_hash_of_user_and_password() {
    let line = format!("{ALICE}\n");
    for input in ["sesame", "sesame\n", "sesame\r\n"] {
        assert_eq!(with_input(&["digest", "alice"], input).stdout, line);
    }
    assert_eq!(offline().ok(&["digest", "alice:sesame"]), line);
    // The password may contain a colon.
    assert_eq!(offline().ok(&["digest", "bob:a:b"]), "digest:bob:J4+K+FVuB1hEWvxpNRVKdRWAekY=\n");
    let json = with_input(&["digest", "alice", "--json"], "sesame").stdout;
    assert_eq!(
        json,
        format!("{{\"id\":\"{}\",\"scheme\":\"digest\"}}\n", &ALICE["digest:".len()..])
    );
}

#[test]
fn digest_of_presented_credentials_needs_no_user() {
    let folder = Scratch::new();
    let credentials = "digest:alice:sesame\ntoken:x\ndigest:bob:a:b\n";
    fs::write(folder.path("auth"), credentials).unwrap();
    let file = folder.path("auth").display().to_string();
    let ended = offline().run(&["digest", "--auth-file", &file]);
    assert_eq!(
        ended.stdout,
        format!("{ALICE}\ndigest:bob:J4+K+FVuB1hEWvxpNRVKdRWAekY=\n"),
        "{ended:?}"
    );
    assert_eq!(offline().ok(&["digest", "--auth", "digest:alice:sesame"]), format!("{ALICE}\n"));
}

#[test]
fn digest_without_user_or_password_is_refused() {
    expect_refused(&["digest"], "give a digest credential");
    expect_refused(&["digest", ":sesame"], "write the user");
    expect_refused(&["digest", "digest:alice:sesame"], "without the scheme");
    expect_failure(&with_input(&["digest", "alice"], "\n"), 1, "no password");
}

/// With the hash of the password alone, nobody is that user.
#[test]
fn printed_digest_opens_a_node_to_its_user() {
    let Some(zk) = zk("digest") else { return };
    zk.ok(&["create", "/hers", "secret", "--acl", &format!("{ALICE}:cdrwa")]);
    expect_failure(&zk.run(&["get", "/hers"]), 1, "NoAuth");
    let alice = zk.clone().option("--auth", "digest:alice:sesame");
    assert_eq!(alice.ok(&["get", "/hers"]), "secret");
    let help = zk.ok(&["create", "--help"]);
    assert!(help.contains("zk digest"), "{help}");
    expect_refused(&["setacl", "/hers", "digest:alice:sesame:r"], "SHA-1 of USER:PASSWORD");
    expect_refused(&["setacl", "/hers", "digest:alice:sesame:r"], "zk digest USER prints");
}
