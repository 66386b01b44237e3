//! Tests of the servers as a state machine: requests in, replies out, no runtime.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

mod world;

mod connects;
mod followers;
mod four_letter_words;
mod keepers;
mod leaders;
mod nodes;
mod old_releases;
mod point_faults;
mod sessions;
mod touch_tables;
mod unread_answers;
mod versions;
