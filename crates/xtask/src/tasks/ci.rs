//! `cargo xtask ci`: everything a change must pass.

use super::{Failure, cargo, conform, fuzz, sim, step, test};
use crate::poll;

/// Runs the steps in order of cost, and ends at the first that fails.
pub(crate) fn run() -> Result<(), Failure> {
    let start = poll::now();
    step(&mut cargo(&["fmt", "--all", "--check"]))?;
    step(&mut cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    fuzz::check()?;
    step(cargo(&["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))?;
    test::run_without_skips()?;
    sim::check()?;
    conform::run_without_skips()?;
    fuzz::run(&fuzz::Plan::smoke())?;
    println!("==> everything passed in {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}
