//! Servers that somebody else runs, for `cargo xtask test --connect`.

use std::env;

/// Variable with the connect string of the only server that the tests of a run may use.
pub(crate) const EXISTING_SERVER_VARIABLE: &str = "XTASK_TEST_CONNECT";

/// Returns the connect string of the only server that the tests of this run may use, if there is one. Tests
/// start no server then.
pub fn existing_server() -> Option<String> {
    env::var(EXISTING_SERVER_VARIABLE).ok()
}
