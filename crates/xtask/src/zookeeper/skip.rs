//! When a test against real servers may be skipped.

use std::env;
use std::io::{self, Write};

use super::{Error, ErrorKind};

/// Unwraps the result of starting servers; `None` means: skip this test.
///
/// A machine without ZooKeeper, or one that cannot do what the test needs, skips with a printed
/// line. Anything else that went wrong is a failure.
///
/// # Panics
/// If a server was found but failed, and also if ZooKeeper is missing while `CI=true`: a green run
/// there must mean that these tests ran.
pub fn or_skip<T>(started: Result<T, Error>) -> Option<T> {
    let error = match started {
        Ok(servers) => return Some(servers),
        Err(error) => error,
    };
    let in_ci = env::var("CI").is_ok_and(|ci| ci == "true");
    match error.kind() {
        ErrorKind::Missing if in_ci => panic!("CI=true needs a real ZooKeeper: {error}"),
        ErrorKind::Missing | ErrorKind::Unsupported => {
            let test = std::thread::current().name().unwrap_or("a test").to_owned();
            // Past the capture of the test runner, which would swallow the line of a test that
            // passes, and a skip must not go unseen.
            let _ = writeln!(io::stderr(), "SKIPPED {test}: {error}");
            None
        }
        ErrorKind::Failed => panic!("{error}"),
    }
}
