//! Tests of `zk digest`, which prints the identity of a user with a password.

use std::fs;

use zk_tests::{Scratch, Zk};

use crate::{expect_refused, zk};

/// The SHA-1 of `alice:sesame` in base64, from another implementation.
const ALICE: &str = "digest:alice:Uf+rvYX44GsoPMksY4Np/GmDzw8=";
/// The password may contain a colon.
const BOB: &str = "digest:bob:J4+K+FVuB1hEWvxpNRVKdRWAekY=";

#[test]
fn digest_is_the_hash_of_user_and_password() {
    let offline = Zk::new("127.0.0.2:1");
    let line = format!("{ALICE}\n");
    for input in ["sesame", "sesame\n", "sesame\r\n"] {
        assert_eq!(offline.run_with("digest alice", input).stdout, line);
    }
    offline.prints("digest alice:sesame", &line);
    offline.prints("digest bob:a:b", &format!("{BOB}\n"));
    offline.prints("digest --auth digest:alice:sesame", &line);
    let json = offline.run_with("digest alice --json", "sesame").stdout;
    let id = ALICE.strip_prefix("digest:").unwrap();
    assert_eq!(json, format!("{{\"id\":\"{id}\",\"scheme\":\"digest\"}}\n"));

    let folder = Scratch::new();
    let credentials = "digest:alice:sesame\ntoken:x\ndigest:bob:a:b\n";
    fs::write(folder.path("auth"), credentials).unwrap();
    let file = folder.path("auth").display().to_string();
    offline.prints(&["digest", "--auth-file", &file], &format!("{ALICE}\n{BOB}\n"));

    expect_refused("digest", "give a digest credential");
    expect_refused("digest :sesame", "write the user");
    expect_refused("digest digest:alice:sesame", "without the scheme");
    offline.run_with("digest alice", "\n").expect_failure(1, "no password");
}

/// With the hash of the password alone, nobody is that user.
#[test]
fn printed_digest_opens_a_node_to_its_user() {
    let Some(zk) = zk("digest") else { return };
    zk.ok(&["create", "/hers", "secret", "--acl", &format!("{ALICE}:cdrwa")]);
    zk.fails("get /hers", 1, "NoAuth");
    zk.clone().option("--auth", "digest:alice:sesame").prints("get /hers", "secret");
    let help = zk.ok("create --help");
    assert!(help.contains("zk digest"), "{help}");
    expect_refused("setacl /hers digest:alice:sesame:r", "SHA-1 of USER:PASSWORD");
    expect_refused("setacl /hers digest:alice:sesame:r", "zk digest USER prints");
}
