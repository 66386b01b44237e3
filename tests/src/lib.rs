//! Shared helpers of the tests against real ZooKeeper servers.
//!
//! ```no_run
//! #[test]
//! fn a_behaviour() {
//!     let Some(zk) = zk_tests::zookeeper() else { return };
//!     // ... connect to zk.connect_string()
//! }
//! ```
//!
//! Each helper starts servers for the calling test only. On a machine that cannot run them it
//! prints the reason to standard error and returns `None`. With `CI=true` a missing ZooKeeper is a
//! failure. A server that was found but does not start is a failure everywhere.
//!
//! To wait for a condition, use [`poll`], or await [`eventually`]: tests never sleep for a fixed
//! time. [`Zk`] runs the `zk` command, which is built on first use.

#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "the helpers of tests, whose way to fail is to panic"
)]

pub mod chaos;
mod clock;
mod command;
mod curator;
#[cfg(doctest)]
mod guide;
pub mod java;
mod journal;
mod lock_runs;
pub mod raw;
mod scratch;
mod servers;
mod sessions;

pub use clock::{eventually, monotonic_us, now, pass};
pub use command::{Ended, Running, Zk, example, signal};
pub use curator::Curator;
pub use journal::{Entry, Journal};
pub use lock_runs::{HOLD, append_grant, contender_id, contenders};
pub use scratch::Scratch;
pub use servers::{
    SharedServer, ensemble, ensemble_in_namespaces, own_shared_zookeeper, shared_zookeeper,
    zookeeper, zookeeper_with,
};
pub use sessions::{connect, is_listed, open};
pub use xtask::poll::poll;
pub use xtask::zookeeper::{
    Distribution, Ensemble, Error, ErrorKind, Mode, Server, Settings, Standalone, Status,
    four_letter, or_skip,
};

/// Compiles the examples of the repository's README.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
