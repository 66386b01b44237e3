//! `cargo xtask ci`: all checks that a change must pass.

use super::{
    Failure, LIBRARIES, api, cargo, cross, fuzz, msrv, package, planted, step, test, timing,
};
use crate::poll;

/// Runs the steps up to the first failure, and prints the duration of each.
pub(crate) fn run() -> Result<(), Failure> {
    let start = poll::now();
    let result = run_steps();
    timing::print_table();
    result?;
    println!("==> everything passed in {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Runs the steps in order of cost.
fn run_steps() -> Result<(), Failure> {
    step(&mut cargo(&["fmt", "--all", "--check"]))?;
    step(&mut cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    fuzz::check()?;
    api::check()?;
    // The check of the lists has run rustdoc over the libraries.
    let mut doc = cargo(&["doc", "--workspace", "--no-deps"]);
    doc.args(LIBRARIES.iter().flat_map(|library| ["--exclude", library]));
    step(doc.env("RUSTDOCFLAGS", "-D warnings"))?;
    package::run_without_build()?;
    cross::run()?;
    msrv::run()?;
    test::run_without_skips()?;
    test::kerberos::run(&[])?;
    planted::check()?;
    fuzz::run(&fuzz::Plan::smoke())
}
