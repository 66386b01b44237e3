//! `cargo xtask test --connect`: the tests that can run on a server that somebody else has started.

use std::fs;
use std::net::ToSocketAddrs;
use std::path::Path;
use std::process::{self, Command};

use super::{TARGET_OPTIONS, TESTS, Tally, selects};
use crate::tasks::{Failure, cargo, step, target_folder, workspace_root};
use crate::zookeeper::EXISTING_SERVER_VARIABLE;

/// Runs the tests of `zk-tests` that use the shared server, below a path of this run on the server at
/// `address`, and skips the rest. `arguments` go to `cargo test`.
pub(crate) fn run(address: &str, arguments: &[String]) -> Result<(), Failure> {
    let resolved = address.to_socket_addrs();
    resolved.map_err(|error| Failure::task(format!("`{address}`: {error}")))?;
    // With the packages and targets of the tests, cargo chooses the same features as for them.
    step(&mut cargo(&["build", "--workspace", "--bin", "zk", "--example", "take_over"]))?;
    let root = format!("/zk-tests-{}", process::id());
    step(&mut zk(address, &["create", &root]))?;

    let mut test = cargo(&["test", "-p", TESTS, "--no-fail-fast"]);
    if !selects(arguments, &TARGET_OPTIONS) {
        let (chosen, left_out) = targets()?;
        println!(
            "==> not run, because none of their tests can use {address}: {}",
            left_out.join(", ")
        );
        test.args(chosen.iter().flat_map(|name| ["--test", name]));
    }
    test.args(arguments).env(EXISTING_SERVER_VARIABLE, format!("{address}{root}"));
    let tests = Tally::of(&mut test);

    let removed = step(&mut zk(address, &["delete", &root, "--recursive"]));
    let (tally, succeeded) = tests?;
    println!("==> {address}: {tally}");
    println!("==> each skipped test has a line above that begins with SKIPPED");
    match removed {
        Ok(()) => println!(
            "==> {root} is removed; sessions of killed clients expire within their timeout"
        ),
        Err(_) => println!("==> left behind at {address}: {root}, with all nodes below it"),
    }
    if succeeded { Ok(()) } else { Err(Failure::task(format!("tests failed on {address}"))) }
}

/// Returns the command `zk`, connected to `address`.
fn zk(address: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(target_folder().join("debug/zk"));
    command.args(["--connect", address]);
    command.args(CREDENTIALS.iter().flat_map(|credential| ["--auth", credential]));
    command.args(arguments);
    command
}

/// Credentials of the tests, with which `zk` deletes nodes that they have left for their users alone.
const CREDENTIALS: [&str; 4] =
    ["digest:alice:sesame", "digest:alice:secret", "digest:bob:sesame", "digest:team:secret"];

/// Returns the names of the test targets of `zk-tests` that use the shared server, and of all others.
fn targets() -> Result<(Vec<String>, Vec<String>), Failure> {
    let folder = workspace_root().join("tests/tests");
    let read = || {
        let mut names = Vec::new();
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            names.push((name, uses_shared_server(&path)?));
        }
        Ok(names)
    };
    let mut names = read()
        .map_err(|error: std::io::Error| Failure::task(format!("{}: {error}", folder.display())))?;
    names.sort();
    let (chosen, left_out): (Vec<_>, Vec<_>) = names.into_iter().partition(|(_, uses)| *uses);
    let only_names = |pairs: Vec<(String, bool)>| pairs.into_iter().map(|(name, _)| name).collect();
    Ok((only_names(chosen), only_names(left_out)))
}

fn uses_shared_server(path: &Path) -> std::io::Result<bool> {
    if !path.is_dir() {
        return Ok(fs::read_to_string(path)?.contains("shared_zookeeper()"));
    }
    for entry in fs::read_dir(path)? {
        if uses_shared_server(&entry?.path())? {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_split_by_use_of_shared_server() {
        let (chosen, left_out) = targets().unwrap();
        let has = |names: &[String], name: &str| names.iter().any(|known| known == name);
        for name in ["session_basics", "cli_contract", "curator"] {
            assert!(has(&chosen, name) && !has(&left_out, name), "{name}");
        }
        for name in ["ensemble", "hostile_peer", "dependency_budget"] {
            assert!(has(&left_out, name) && !has(&chosen, name), "{name}");
        }
    }
}
