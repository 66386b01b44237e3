//! Tests of the servers behind their transports, with the client of this workspace, and of the client
//! with these servers.
//!
//! Tests of locks are in `zk-recipes`. Tests of the client's driver, with a peer that a script
//! controls byte by byte, are in `crates/zk-session/tests/driver`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

mod create_builder;
mod each_fault;
mod in_memory;
mod life;

mod cancellation;
mod chroots;
mod clean_up;
mod elections;
mod fault_proxy;
mod memory_streams;
mod multis;
mod operations;
mod paused_clock;
mod read_only;
mod request_log;
mod retries;
mod sasl;
mod server_features;
mod tcp;
mod unread_answers;
mod watches;
