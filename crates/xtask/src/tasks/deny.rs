//! `cargo xtask deny`: licences, sources and known faults of the packages of others.

use std::fs;
use std::process::Command;

use super::tools::Tool;
use super::{Failure, cargo_home, step, workspace_root};

/// Checks the packages of all lock files with cargo-deny, which it installs if it is missing.
pub(crate) fn run() -> Result<(), Failure> {
    let program = DENY.find_or_install()?;
    for manifest in MANIFESTS {
        let mut check = Command::new(&program);
        check.current_dir(workspace_root()).args(["--config", "deny.toml"]);
        check.args(["--manifest-path", manifest, "check", "--hide-inclusion-graph"]);
        step(check.args(["licenses", "bans", "sources"]))?;
    }
    let mut advisories = Command::new(&program);
    advisories.current_dir(workspace_root()).args(["--config", "deny.toml", "check", "advisories"]);
    match step(&mut advisories) {
        Err(failure) if !has_advisories() => {
            println!(
                "==> skipped: the database of advisories is not at hand ({})",
                failure.message()
            );
            Ok(())
        }
        checked => checked,
    }
}

/// Returns true if cargo-deny has fetched the database, now or earlier.
fn has_advisories() -> bool {
    let folders = fs::read_dir(cargo_home().join("advisory-dbs"));
    folders.into_iter().flatten().flatten().any(|folder| folder.path().join("crates").is_dir())
}

/// The workspaces, each with a lock file of its own.
const MANIFESTS: [&str; 4] =
    ["Cargo.toml", "fuzz/Cargo.toml", "benches/compare/Cargo.toml", "crates/zk-gssapi/Cargo.toml"];

const DENY: Tool = Tool { name: "cargo-deny", version: "0.20.2", options: &[] };
