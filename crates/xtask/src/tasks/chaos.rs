//! `cargo xtask chaos`: disturbs real ensembles while locks are held.

use super::{Failure, build_and_run};

/// Runs scenarios; the program parses `arguments` itself.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    build_and_run(&["--package", "zk-tests", "--bin", "chaos"], arguments)
}
