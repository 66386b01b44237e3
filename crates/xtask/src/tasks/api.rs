//! `cargo xtask api`: the lists of public items.

use super::{Failure, LIBRARIES, build_and_run, gssapi};

/// Writes the lists. That of `zk-gssapi` needs the header of the system's library.
pub(crate) fn write() -> Result<(), Failure> {
    run("write", &LIBRARIES)?;
    if gssapi::can_build() {
        return run("write", &[gssapi::PACKAGE]);
    }
    println!("==> skipped: {} cannot be built here", gssapi::PACKAGE);
    Ok(())
}

/// Compares the lists with the code, without that of `zk-gssapi`. Fails if they differ, or if rustdoc warns.
pub(crate) fn check() -> Result<(), Failure> {
    run("check", &LIBRARIES)
}

/// As [`check`], for `zk-gssapi`.
pub(crate) fn check_gssapi() -> Result<(), Failure> {
    run("check", &[gssapi::PACKAGE])
}

fn run(verb: &str, packages: &[&str]) -> Result<(), Failure> {
    let arguments: Vec<String> =
        [verb].iter().chain(packages).map(|word| (*word).to_owned()).collect();
    build_and_run(&["--package", "api-listing"], &arguments)
}
