//! Development tasks, and the harness that runs real ZooKeeper servers in tests.
//!
//! * [`cli`] is the `cargo xtask` command line.
//! * [`zookeeper`] finds, starts, breaks and stops Apache ZooKeeper servers. Tests use it as a
//!   library; nothing in it needs more than the standard library, `sh` and Linux's `/proc`.
//! * [`poll`] waits for a condition with a deadline.

#![forbid(unsafe_code)]

pub mod cli;
pub mod poll;
pub mod zookeeper;

mod process;
mod tasks;
