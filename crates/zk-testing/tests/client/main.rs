//! Tests of the servers behind their transports, with the client of this workspace.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

mod in_memory;
mod life;

mod cancellation;
mod chroots;
mod clean_up;
mod elections;
mod fault_proxy;
mod faults_a_client_meets;
mod memory_streams;
mod multis;
mod new_nodes;
mod one_sentence_each;
mod operations;
mod paused_clock;
mod retries;
mod tcp;
mod unread_answers;
mod watches;
