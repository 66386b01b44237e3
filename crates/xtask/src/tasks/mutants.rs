//! `cargo xtask mutants`: changes the code in small ways, and checks that tests fail with each change.

use super::{Failure, cargo, step};

/// Runs cargo-mutants over one crate. `arguments` are passed on to it.
///
/// A mutant counts as caught if a test of its crate fails, or one of zk-testing, whose tests run the whole
/// client. cargo-mutants writes the mutants that no test caught to `target/mutants.out/missed.txt`.
/// `tests/MUTANTS.md` counts the known ones, and lists those that a test might notice.
pub(crate) fn run(name: &str, arguments: &[String]) -> Result<(), Failure> {
    let Some((_, tests)) = CRATES.into_iter().find(|(package, _)| *package == name) else {
        let all = CRATES.map(|(package, _)| package).join(", ");
        return Err(Failure::usage(format!("no crate `{name}` to mutate; there are {all}")));
    };
    let mut command = cargo(&["mutants", "--package", name, "--output", "target"]);
    command.args(["--test-package", tests, "--test-tool", "nextest"]);
    if matches!(name, "zk-session" | "zk-recipes") {
        command.args(["--features", &format!("{name}/tracing")]);
    }
    // Each shard has mutants of all files, and not consecutive ones of a few files.
    command.args(["--sharding", "round-robin"]);
    // Tests, their assertions and examples are not production code. The value of a limit is a choice: tests
    // use limits by name.
    for excluded in ["**/tests.rs", "**/invariants.rs", "**/examples/**", "**/limits.rs"] {
        command.args(["--exclude", excluded]);
    }
    if tests.contains("zk-recipes") {
        // Its tests measure the memory of ten thousand waiters. They take longer than all others together.
        command.args(["--cargo-test-arg=-E", "--cargo-test-arg=not binary(ten_thousand)"]);
    }
    step(&mut cargo(&["mutants", "--version"])).map_err(|_| {
        Failure::task("install what this task needs: `cargo install cargo-mutants cargo-nextest`")
    })?;
    step(command.args(arguments))
}

/// Crates to mutate, each with the packages whose tests run.
const CRATES: [(&str, &str); 7] = [
    ("zk-proto", "zk-proto"),
    ("zk-session-core", "zk-session-core,zk-testing"),
    ("zk-session", "zk-session,zk-testing"),
    ("zk-recipes", "zk-recipes,zk-testing"),
    ("zk-coordination", "zk-coordination"),
    ("zk-discovery", "zk-discovery"),
    ("zk-srv", "zk-srv"),
];
