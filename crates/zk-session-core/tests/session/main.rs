//! Tests of the session core on virtual time, without a runtime, a real server or sleeps. Each
//! file covers one behaviour.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod harness;
mod server;
mod server_watches;

mod auth;
mod backoff;
mod clean_up;
mod close;
mod cut_everywhere;
mod deadlines;
mod detach;
mod disconnect;
mod expiry;
mod handshake;
mod hostile;
mod lease;
mod limits;
mod other_servers;
mod pauses;
mod ping;
mod random_sequences;
mod read_only;
mod rearming;
mod refusals;
mod removal;
mod replies;
mod resumption;
mod stats;
mod streams;
mod under_way;
mod watch_sequences;
