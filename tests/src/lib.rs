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
pub mod lock_spec;
pub mod raw;
mod scratch;
mod sessions;

use std::process;
use std::sync::OnceLock;

pub use clock::{LIMIT, eventually, monotonic_us, now, pass, until};
pub use command::{Ended, Running, Words, Zk, example, program, signal};
pub use curator::Curator;
pub use journal::{Entry, Journal};
pub use lock_runs::{HOLD, contenders};
pub use scratch::Scratch;
pub use sessions::{WHO_AM_I, connect, identities, is_listed, open};
pub use xtask::poll::poll;
pub use xtask::zookeeper::{
    Distribution, Ensemble, Error, ErrorKind, Mode, Server, Settings, Standalone, Status,
    existing_server, four_letter, or_skip, skip,
};

/// Starts a standalone server with the defaults of [`Settings`].
pub fn zookeeper() -> Option<Standalone> {
    or_skip(Standalone::start())
}

/// Starts a standalone server with `settings`.
pub fn zookeeper_with(settings: &Settings) -> Option<Standalone> {
    or_skip(settings.start())
}

/// Starts a standalone server that the tests of this process share, with the defaults of
/// [`Settings`], except that it never deletes empty containers. A test that uses it must not break the
/// server, and must stay below its own paths.
///
/// `cargo xtask test --connect` runs these tests on a server that others use as well. That one may have
/// ZooKeeper's default settings; see [`own_shared_zookeeper`].
pub fn shared_zookeeper() -> Option<&'static Standalone> {
    // Never dropped: the server ends with the process. Tests list locks that have just become empty, which
    // the server would delete once a minute.
    static SHARED: OnceLock<Result<Standalone, Error>> = OnceLock::new();
    let start = || match existing_server() {
        None => Settings::default().keep_containers().start(),
        Some(connect_string) => below_own_path(&connect_string),
    };
    or_skip(SHARED.get_or_init(start).as_ref().map_err(Clone::clone))
}

/// Returns the shared server if tests have started it. It is for tests that need the settings of this
/// harness, such as all four-letter words, or that create nodes that nobody may delete.
pub fn own_shared_zookeeper() -> Option<&'static Standalone> {
    or_skip(Distribution::shared())?;
    shared_zookeeper()
}

/// Creates a chroot for this process on a server that somebody else has started.
fn below_own_path(connect_string: &str) -> Result<Standalone, Error> {
    let chroot = format!("/{}", process::id());
    raw::create_with_null_data(&*Standalone::existing(connect_string)?, &chroot);
    Standalone::existing(&format!("{connect_string}{chroot}"))
}

/// Returns the release of a server, for example `(3, 8)`, which decides what it can do.
pub fn release(server: &Server) -> (u32, u32) {
    server.status().unwrap().expect("the server serves").release()
}

/// Starts an ensemble of three servers on loopback, which can be killed, paused and restarted.
pub fn ensemble(tick_ms: u32) -> Option<Ensemble> {
    or_skip(Ensemble::start(3, tick_ms))
}

/// Starts an ensemble of three servers in network namespaces, in which links can be cut as well.
pub fn ensemble_in_namespaces(tick_ms: u32) -> Option<Ensemble> {
    or_skip(Ensemble::in_namespaces(tick_ms))
}

/// Compiles the examples of the repository's README.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
