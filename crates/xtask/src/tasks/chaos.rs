//! `cargo xtask chaos`: breaks real ensembles while locks are held.

use super::{Failure, cargo, step};

/// Runs scenarios; the program reads `arguments` itself.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let mut command = cargo(&["run", "--quiet", "-p", "zk-tests", "--bin", "chaos", "--"]);
    step(command.args(arguments))
}
