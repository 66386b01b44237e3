//! `cargo xtask api`: the lists of public items.

use super::{Failure, LIBRARIES, build_and_run};

/// Writes the lists.
pub(crate) fn write() -> Result<(), Failure> {
    run("write")
}

/// Compares the lists with the code. Fails if they differ.
pub(crate) fn check() -> Result<(), Failure> {
    run("check")
}

fn run(verb: &str) -> Result<(), Failure> {
    let arguments: Vec<String> =
        [verb].iter().chain(&LIBRARIES).map(|it| (*it).to_owned()).collect();
    build_and_run(&["--package", "api-listing"], &arguments)
}
