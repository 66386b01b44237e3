//! Tests of the exit status and error text of the program `chaos`, without a server.

use std::process::{Command, Output};

#[test]
fn chaos_rejects_wrong_arguments_with_status_2() {
    for (line, text) in [
        ("--frob", "unexpected argument '--frob'"),
        ("--runs x", "invalid value 'x' for '--runs"),
        ("--scenario nosuch", "invalid value 'nosuch' for '--scenario"),
        ("--tick 500 --timeout 100", "use 1000 to 10000"),
        ("--judge /nonexistent", "cannot read /nonexistent: "),
        ("--judge /", "cannot read /: "),
        ("--judge /proc/self/comm", "/proc/self/comm is not a history: "),
    ] {
        assert_rejected(&chaos(line).output().unwrap(), text);
    }
}

#[test]
fn chaos_rejects_wrong_zookeeper_home_with_status_2() {
    let mut command = chaos("--scenario follower-stop");
    let output = command.env("ZOOKEEPER_HOME", "/nonexistent").output().unwrap();
    assert_rejected(&output, "ZOOKEEPER_HOME is /nonexistent");
}

fn chaos(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chaos"));
    command.args(line.split_whitespace());
    command
}

fn assert_rejected(output: &Output, text: &str) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    let told_by = ["chaos: ", "error: "];
    assert!(
        told_by.iter().any(|start| error.starts_with(start)) && error.contains(text),
        "{error}"
    );
}
