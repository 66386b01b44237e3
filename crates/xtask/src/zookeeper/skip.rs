//! Rule for skipping tests against real servers.

use std::env;
use std::fmt::Display;
use std::io::{self, Write};

use super::{Error, ErrorKind};

/// Unwraps the result of starting servers; returns `None` if the test should be skipped.
///
/// The test is skipped, with a printed line, on a machine without ZooKeeper or without a feature that the
/// test needs. Any other error is a failure.
///
/// # Panics
/// If a server was found but failed. Also if ZooKeeper is missing while `CI=true`, so that a successful run
/// there includes these tests.
pub fn or_skip<T>(started: Result<T, Error>) -> Option<T> {
    let error = match started {
        Ok(servers) => return Some(servers),
        Err(error) => error,
    };
    let in_ci = env::var("CI").is_ok_and(|ci| ci == "true");
    match error.kind() {
        ErrorKind::Missing if in_ci => panic!("CI=true needs a real ZooKeeper: {error}"),
        ErrorKind::Missing | ErrorKind::Unsupported => {
            skip(error);
            None
        }
        ErrorKind::Failed => panic!("{error}"),
    }
}

/// Prints the line that says why the calling test is skipped.
pub fn skip(reason: impl Display) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    // Written to `stderr` directly, because the test runner hides the captured output of a passing test. A
    // skip must be visible.
    let _ = writeln!(io::stderr(), "{SKIPPED} {test}: {reason}");
}

/// First word of the line for a skipped test. `cargo xtask test` counts these lines.
pub(crate) const SKIPPED: &str = "SKIPPED";
