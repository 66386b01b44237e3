//! Tests of the packages of others: where they come from, and their licences. `cargo xtask deny` checks more.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// A package from a folder of a version control system has no checksum.
#[test]
fn packages_of_all_lock_files_come_from_one_registry() {
    for lock in [
        "Cargo.lock",
        "fuzz/Cargo.lock",
        "benches/compare/Cargo.lock",
        "crates/zk-gssapi/Cargo.lock",
    ] {
        let text = fs::read_to_string(root().join(lock)).unwrap();
        let sources: BTreeSet<&str> =
            text.lines().filter_map(|line| line.strip_prefix("source = ")).collect();
        assert!(sources.len() <= 1, "{lock}: {sources:?}");
        assert!(
            sources.iter().all(|source| source.starts_with("\"registry+")),
            "{lock}: {sources:?}"
        );
        for entry in text.split("[[package]]").filter(|entry| entry.contains("\nsource = ")) {
            assert!(entry.contains("\nchecksum = "), "{lock}: {entry}");
        }
    }
}

#[test]
fn licences_of_all_packages_are_allowed() {
    let rules = fs::read_to_string(root().join("deny.toml")).unwrap();
    let (_, allowed) = rules.split_once("allow = [").unwrap();
    let (allowed, _) = allowed.split_once(']').unwrap();
    let allowed: BTreeSet<&str> = allowed.split('"').skip(1).step_by(2).collect();
    let mut tree = Command::new(env!("CARGO"));
    tree.args(["tree", "--workspace", "--all-features", "--locked", "--prefix", "none"]);
    tree.args(["--format", "{p}\t{l}"]).current_dir(root());
    let output = tree.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let mut packages = 0;
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let Some((package, licence)) = line.split_once('\t') else { continue };
        assert!(is_allowed(licence.trim_end_matches(" (*)"), &allowed), "{package}: {licence}");
        packages += 1;
    }
    assert!(packages > 100, "{packages} packages");
}

/// Returns true if a licence, or one of several to choose from, is allowed.
fn is_allowed(licence: &str, allowed: &BTreeSet<&str>) -> bool {
    let licence = licence.replace('/', " OR ").replace(['(', ')'], "");
    let is_one = |it: &str| allowed.contains(it.trim());
    // Without brackets, `A OR B AND C` counts as `(A OR B) AND C`, which is never less strict.
    licence.split(" AND ").all(|part| part.split(" OR ").any(is_one))
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}
