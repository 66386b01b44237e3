//! Development tasks, and the harness that runs real ZooKeeper servers in tests.
//!
//! * [`cli`] is the `cargo xtask` command line.
//! * [`zookeeper`] finds, starts, disturbs and stops Apache ZooKeeper servers. Tests use it as a library. It
//!   needs only the standard library, `sh` and Linux's `/proc`.
//! * [`cargo_env`] cleans the environment of nested cargo commands.
//! * [`poll`] waits for a condition with a deadline.

#![forbid(unsafe_code)]

pub mod cargo_env;
pub mod cli;
pub mod poll;
pub mod zookeeper;

mod process;
mod tasks;
