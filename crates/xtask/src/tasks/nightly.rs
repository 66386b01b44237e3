//! `cargo xtask nightly`: checks that take too long for each change.

use std::process::Command;

use super::ci::CUTS;
use super::{Failure, LIBRARIES, cargo, planted, servers, step, this_program};
use crate::poll;

/// Runs all sweeps, also after a failure.
pub(crate) fn run() -> Result<(), Failure> {
    let mut failures = Vec::new();
    for mut sweep in sweeps()? {
        if let Err(failure) = step(&mut sweep) {
            println!("==> FAILED: {}", failure.message());
            failures.push(failure.message().to_owned());
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(Failure::task(failures.join("\n"))) }
}

/// Returns the commands, the shortest first. Each can be run by hand.
fn sweeps() -> Result<Vec<Command>, Failure> {
    let mut doc = cargo(&["doc", "--workspace", "--no-deps"]);
    // `xtask api` has run rustdoc over the libraries.
    doc.args(LIBRARIES.iter().flat_map(|library| ["--exclude", library]));
    doc.env("RUSTDOCFLAGS", "-D warnings");
    let mut planted = this_program(&["planted"]);
    planted.args(planted::third(poll::unix_seconds() / (24 * 60 * 60))?);
    let mut sweeps = vec![
        doc,
        this_program(&["cross"]),
        this_program(&["package"]),
        this_program(&["deny"]),
        this_program(&["msrv"]),
        this_program(&["test", "kerberos"]),
        cargo(&["test", "--package", "zk-recipes", "--test", "ten_thousand"]),
        this_program(&["sim", "--seeds", "20000"]),
        this_program(&["sim", "--coordination", "--seeds", "10000"]),
        this_program(&["sim", "pairs", "--faults", CUTS]),
        planted,
        this_program(&["fuzz", "--secs", "60"]),
    ];
    for version in &servers::VERSIONS {
        sweeps.push(this_program(&["test", "--server", version.number()]));
    }
    Ok(sweeps)
}
