//! `cargo xtask chaos`: breaks real ensembles while locks are held.

use super::{Failure, build_and_run, cargo};

/// Runs scenarios; the program reads `arguments` itself.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    build_and_run(cargo, &["--package", "zk-tests", "--bin", "chaos"], arguments)
}
