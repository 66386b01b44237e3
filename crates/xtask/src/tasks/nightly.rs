//! `cargo xtask nightly`: what `ci` does not run, because it takes too long for each change.

use super::{Failure, servers, test, timing};

/// Step of the night, and the name under which its failure is reported.
struct Step {
    name: String,
    run: Box<dyn FnOnce() -> Result<(), Failure>>,
}

/// Returns the steps in order. A new one is added here.
fn steps() -> Vec<Step> {
    let on_version = |version: &'static servers::Version| Step {
        name: format!("tests on ZooKeeper {}", version.number()),
        run: Box::new(|| test::run_on(version, &[])),
    };
    servers::VERSIONS.iter().map(on_version).collect()
}

/// Runs all steps, also after a failure, and prints the duration of each.
pub(crate) fn run() -> Result<(), Failure> {
    let mut failures = Vec::new();
    for Step { name, run } in steps() {
        println!("==> {name}");
        if let Err(failure) = run() {
            println!("==> FAILED: {name}: {}", failure.message());
            failures.push(format!("{name}: {}", failure.message()));
        }
    }
    timing::print_table();
    if failures.is_empty() { Ok(()) } else { Err(Failure::task(failures.join("\n"))) }
}
