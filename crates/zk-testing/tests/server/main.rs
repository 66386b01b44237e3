//! Tests of the servers as a state machine: requests in, replies out, no runtime.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

mod world;

mod acls;
mod connects;
mod containers_and_ttls;
mod error_precedence;
mod followers;
mod four_letter_words;
mod leaders;
mod multis;
mod point_faults;
mod quotas;
mod rearming;
mod sequences;
mod sessions;
mod stats;
mod touch_tables;
mod unread_answers;
mod watches;
