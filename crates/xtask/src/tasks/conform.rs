//! `cargo xtask conform`: compares the server of `zk-testing` with a real one.

use super::{Failure, cargo, step};

/// Runs the comparison; the program parses `arguments` itself.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    step(cargo(&["run", "--quiet", "-p", "zk-tests", "--bin", "conform", "--"]).args(arguments))
}
