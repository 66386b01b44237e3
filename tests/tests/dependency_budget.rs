//! Tests of the dependencies of `zk-recipes` and `zk-tls`: few packages, no procedural macro, and no
//! `unsafe` in our libraries.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn zk_recipes_needs_at_most_twenty_packages() {
    let packages = packages(&["zk-recipes"]);
    assert!(packages.contains_key("zk-recipes") && packages.contains_key("zk-proto"));
    let names: Vec<_> = packages.keys().collect();
    assert!(names.len() <= PACKAGES_MAX, "{} packages: {names:?}", names.len());
    println!("{} packages: {names:?}", names.len());
}

#[test]
fn tls_adds_at_most_fifteen_packages() {
    let without = packages(&["zk-recipes"]);
    let mut added = packages(&["zk-recipes", "zk-tls"]);
    added.retain(|name, _| !without.contains_key(name));
    let names: Vec<_> = added.keys().collect();
    assert!(added.contains_key("rustls"), "{names:?}");
    assert!(names.len() <= TLS_PACKAGES_MAX, "{} packages: {names:?}", names.len());
    println!("{} packages: {names:?}", names.len());
}

#[test]
fn tracing_adds_three_packages_and_only_if_enabled() {
    let without = packages(&["zk-recipes"]);
    let mut added = packages_with(&["zk-recipes"], &["--features", "zk-recipes/tracing"]);
    added.retain(|name, _| !without.contains_key(name));
    let names: Vec<_> = added.keys().collect();
    assert_eq!(names, ["once_cell", "tracing", "tracing-core"]);
}

#[test]
fn discovery_adds_at_most_six_packages() {
    let without = packages(&["zk-coordination"]);
    let mut added = packages(&["zk-discovery"]);
    added.retain(|name, _| !without.contains_key(name));
    let names: Vec<_> = added.keys().collect();
    assert!(added.contains_key("serde_json"), "{names:?}");
    assert!(names.len() <= DISCOVERY_PACKAGES_MAX, "{} packages: {names:?}", names.len());
}

#[test]
fn dependencies_contain_no_procedural_macro() {
    for (name, line) in packages(&["zk-recipes", "zk-tls", "zk-discovery"]) {
        let looks_like_one = name.ends_with("-macros")
            || name.ends_with("-macro")
            || name.ends_with("-derive")
            || ["syn", "quote", "proc-macro2", "async-trait"].contains(&name.as_str());
        assert!(!looks_like_one && !line.contains("(proc-macro)"), "{line}");
    }
}

#[test]
fn tokio_is_used_without_macros_and_full_features() {
    let tokio = packages(&["zk-recipes"]).remove("tokio").unwrap();
    let features: Vec<&str> = tokio.rsplit(' ').next().unwrap().split(',').collect();
    assert!(features.contains(&"net"), "the features are not at the end of the line: {tokio}");
    for unwanted in ["macros", "full", "tokio-macros", "test-util"] {
        assert!(!features.contains(&unwanted), "{tokio}");
    }
}

#[test]
fn libraries_forbid_unsafe_code() {
    for name in [
        "zk-proto",
        "zk-session-core",
        "zk-session",
        "zk-tls",
        "zk-recipes",
        "zk-coordination",
        "zk-discovery",
    ] {
        let path = root().join(format!("crates/{name}/src/lib.rs"));
        let text = fs::read_to_string(&path).unwrap();
        let forbids = text.lines().any(|line| line == "#![forbid(unsafe_code)]");
        assert!(forbids, "{} does not", path.display());
    }
}

/// Returns the packages that `crates` need, including themselves, by name. The value is the line of
/// `cargo tree`: name, version, kind, and features.
fn packages(crates: &[&str]) -> BTreeMap<String, String> {
    packages_with(crates, &[])
}

fn packages_with(crates: &[&str], options: &[&str]) -> BTreeMap<String, String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--edges", "normal"])
        .args(options)
        .args(crates.iter().flat_map(|name| ["--package", name]))
        .args(["--prefix", "none", "--no-dedupe", "--format", "{p} {f}"])
        .current_dir(root())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let printed = String::from_utf8(output.stdout).unwrap();
    let lines = printed.lines().filter(|line| !line.is_empty());
    lines.map(|line| (line.split(' ').next().unwrap().to_owned(), line.to_owned())).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

const PACKAGES_MAX: usize = 20;
const TLS_PACKAGES_MAX: usize = 15;
/// Our crate, and the JSON parser.
const DISCOVERY_PACKAGES_MAX: usize = 6;
