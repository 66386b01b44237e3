//! Tests of the session core with servers that behave: both are state machines, which exchange
//! bytes on virtual time.
//!
//! Tests of the core with scripted replies are in `crates/zk-session-core/tests/session`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "shared with the tests in zk-session-core")]
#[path = "../../../zk-session-core/tests/session/harness/mod.rs"]
mod harness;
#[allow(dead_code, reason = "shared with the tests in zk-session-core")]
#[path = "../../../zk-session-core/tests/session/script.rs"]
mod script;
mod server;

mod clean_up;
mod cut_everywhere;
mod random_sequences;
mod rearming;
mod removal;
mod streams;
mod watch_sequences;
