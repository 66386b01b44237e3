//! `cargo xtask ci`: all checks that a change must pass.

mod lanes;
mod test_programs;

use std::process::Command;
use std::thread;

use self::lanes::{Job, Lane};
use self::test_programs::TestPrograms;
use super::{Failure, cargo, display, step, test, this_program, timed};

/// Runs the steps up to the first failure, and prints the duration of each.
pub(crate) fn run() -> Result<(), Failure> {
    let (result, took) = timed(run_steps);
    result?;
    println!("==> everything passed in {took:.1} s");
    Ok(())
}

/// Builds all programs, then runs tests and other checks in lanes, each with a part of the work that must
/// not wait for another part.
fn run_steps() -> Result<(), Failure> {
    step(&mut cargo(&["fmt", "--all", "--check"]))?;
    let (set_up, programs) = thread::scope(|scope| {
        // apt-get uses the network while the compiler uses the processors.
        let set_up = scope.spawn(test::set_up);
        let programs = TestPrograms::build();
        (set_up.join(), programs)
    });
    let TestPrograms { alone, waiting, computing } = programs?;
    set_up.map_err(|_| Failure::task("the installation of what the tests need panicked"))??;
    // Programs that wait get a processor when they need one. The rest fills the gaps.
    let lanes = [
        Lane { name: "tests that wait", first: alone, jobs: waiting, workers: 3, niceness: 0 },
        Lane::in_background("tests that compute", computing),
        Lane::in_background("checks", checks()),
        Lane::in_background("simulation and fuzzing", simulation_and_fuzzing()),
    ];
    lanes::run(lanes)
}

/// Checks that build into the folder of the tests, so that each would wait for the others.
fn checks() -> Vec<Job> {
    vec![
        cargo_job("doc-tests", test_programs::linted(cargo(&DOC_TESTS))),
        task(&["api", "--check"]),
        task(&["package", "--no-build"]),
        task(&["fuzz", "--check"]),
        task(&["msrv", "zk-recipes", "zk-coordination", "zk-testing"]),
    ]
}

/// Checks that build into folders of their own.
fn simulation_and_fuzzing() -> Vec<Job> {
    let sim = |arguments: &[&str]| {
        let sim = ["run", "--quiet", "--package", "zk-sim", "--profile", "planted", "--"];
        cargo_job("sim", cargo(&[&sim, arguments].concat()))
    };
    vec![
        sim(&["--seeds", SEEDS]),
        sim(&["--coordination", "--seeds", COORDINATION_SEEDS]),
        sim(&["singles"]),
        sim(&["pairs", "--world", "mutex", "--faults", CUTS]),
        task(&["fuzz", "--quick"]),
    ]
}

fn cargo_job(name: &str, command: Command) -> Job {
    Job::new(name, &display(&command), command)
}

/// Returns a task of this program as a job.
fn task(words: &[&str]) -> Job {
    Job::new(words[0], &format!("cargo xtask {}", words.join(" ")), this_program(words))
}

/// Seeds that every change must pass without a failure.
const SEEDS: &str = "1000";
const COORDINATION_SEEDS: &str = "400";

/// The faults of which every change must pass each pair.
pub(super) const CUTS: &str = "cut-before,cut-after";

/// With the features of the tests, so that nothing is built again.
const DOC_TESTS: [&str; 5] = ["test", "--workspace", "--doc", "--features", "zk-recipes/tracing"];
