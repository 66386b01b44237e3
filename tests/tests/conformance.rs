//! A comparison of the server of `zk-testing` with a real one, as `cargo xtask conform` makes it.

use std::process::Command;

#[test]
fn server_in_process_answers_like_a_real_one() {
    let output = Command::new(env!("CARGO_BIN_EXE_conform")).output().unwrap();
    let (said, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{errors}");
    if let Some((_, reason)) = errors.split_once("SKIPPED ") {
        zk_tests::skip(reason.trim());
    }
    print!("{said}");
    eprint!("{errors}");
}
