//! Tests of the dependencies of `zk-recipes` and `zk-tls`: few packages, no procedural macro, and no
//! `unsafe` in our libraries. Tests of where all packages come from, and of their licences; `cargo xtask
//! deny` checks more.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

use std::collections::{BTreeMap, BTreeSet};
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
fn optional_parts_add_few_packages() {
    for (base, with, options, part, max) in [
        ("zk-recipes", "zk-tls", &[][..], "rustls", TLS_PACKAGES_MAX),
        ("zk-recipes", "zk-recipes", &["--features", "zk-recipes/tracing"], "tracing-core", 3),
        ("zk-coordination", "zk-discovery", &[], "serde_json", DISCOVERY_PACKAGES_MAX),
        ("zk-recipes", "zk-srv", &[], "zk-srv", 1),
    ] {
        let without = packages(&[base]);
        let mut added = packages_with(&[base, with], options);
        added.retain(|name, _| !without.contains_key(name));
        let names: Vec<_> = added.keys().collect();
        assert!(added.contains_key(part), "{part}: {names:?}");
        assert!(names.len() <= max, "{part}: {} packages: {names:?}", names.len());
    }
}

#[test]
fn dependencies_contain_no_procedural_macro() {
    for (name, line) in packages(&["zk-recipes", "zk-tls", "zk-srv", "zk-discovery"]) {
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
        "zk-srv",
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

/// A package from a folder of a version control system has no checksum.
#[test]
fn packages_of_all_lock_files_come_from_one_registry() {
    for lock in LOCK_FILES {
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

/// The other workspaces are not built with the first one, and so may be forgotten when a crate gets another
/// dependency.
#[test]
fn lock_files_have_all_dependencies_of_our_crates() {
    for lock in LOCK_FILES {
        let text = fs::read_to_string(root().join(lock)).unwrap();
        for entry in text.split("[[package]]").filter(|entry| !entry.contains("\nsource = ")) {
            let Some(name) = entry.split('"').nth(1) else { continue };
            let Ok(manifest) = fs::read_to_string(root().join(format!("crates/{name}/Cargo.toml")))
            else {
                continue;
            };
            let (_, needed) = manifest.split_once("\n[dependencies]\n").unwrap();
            let needed = needed.lines().take_while(|line| !line.starts_with('['));
            let needed = needed.filter(|line| !line.contains("optional = true"));
            for line in needed.filter(|line| line.starts_with(char::is_alphabetic)) {
                let renamed =
                    line.split_once("package = \"").and_then(|(_, it)| it.split('"').next());
                let package = renamed.or_else(|| line.split(['.', ' ', '=']).next()).unwrap();
                assert!(entry.contains(&format!(" \"{package}")), "{lock}: {name}: {package}");
            }
        }
    }
}

#[test]
fn licences_of_all_packages_are_allowed() {
    let rules = fs::read_to_string(root().join("deny.toml")).unwrap();
    let (_, allowed) = rules.split_once("allow = [").unwrap();
    let (allowed, _) = allowed.split_once(']').unwrap();
    let allowed: BTreeSet<&str> = allowed.split('"').skip(1).step_by(2).collect();
    let mut packages = 0;
    for line in tree(&["--workspace", "--all-features", "--format", "{p}\t{l}"]).lines() {
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

/// Returns the packages that `crates` need, including themselves, by name. The value is the line of
/// `cargo tree`: name, version, kind, and features.
fn packages(crates: &[&str]) -> BTreeMap<String, String> {
    packages_with(crates, &[])
}

fn packages_with(crates: &[&str], options: &[&str]) -> BTreeMap<String, String> {
    let of = crates.iter().flat_map(|name| ["--package", name]).chain(options.iter().copied());
    let of: Vec<&str> =
        of.chain(["--edges", "normal", "--no-dedupe", "--format", "{p} {f}"]).collect();
    let printed = tree(&of);
    let lines = printed.lines().filter(|line| !line.is_empty());
    lines.map(|line| (line.split(' ').next().unwrap().to_owned(), line.to_owned())).collect()
}

/// Returns what `cargo tree` prints.
fn tree(options: &[&str]) -> String {
    let mut tree = Command::new(env!("CARGO"));
    tree.args(["tree", "--locked", "--prefix", "none"]).args(options).current_dir(root());
    let output = tree.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

const LOCK_FILES: [&str; 4] =
    ["Cargo.lock", "fuzz/Cargo.lock", "benches/compare/Cargo.lock", "crates/zk-gssapi/Cargo.lock"];
const PACKAGES_MAX: usize = 20;
const TLS_PACKAGES_MAX: usize = 15;
/// Our crate, and the JSON parser.
const DISCOVERY_PACKAGES_MAX: usize = 6;
