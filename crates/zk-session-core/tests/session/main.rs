//! Tests of the session core on virtual time, without a runtime, a real server or sleeps. Each
//! file covers one behaviour. Tests that need a server that behaves are in
//! `crates/zk-testing/tests/core`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "shared with zk-testing's tests of the core")]
mod harness;
#[allow(dead_code, reason = "shared with zk-session's tests of the driver")]
mod script;

mod addresses;
mod auth;
mod backoff;
mod clean_up;
mod close;
mod deadlines;
mod detach;
mod disconnect;
mod expiry;
mod handshake;
mod hostile;
mod lease;
mod lease_timeouts;
mod limits;
mod marked_delete;
mod other_servers;
mod pauses;
mod ping;
mod read_only;
mod rearming;
mod refusals;
mod removal;
mod replies;
mod resumption;
mod sasl;
mod stats;
mod streams;
mod under_way;
mod vocabulary;
