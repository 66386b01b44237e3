//! What the tests against real ZooKeeper servers share.
//!
//! ```no_run
//! #[test]
//! fn a_behaviour() {
//!     let Some(zk) = zk_tests::zookeeper() else { return };
//!     // ... connect to zk.connect_string()
//! }
//! ```
//!
//! Each helper starts servers of the test's own, and returns `None`, after saying why on standard
//! error, on a machine that cannot run them. With `CI=true` a missing ZooKeeper is a failure.
//! A server that was found but does not start is a failure everywhere.
//!
//! To wait for something, [`poll`] for it: tests never sleep for a fixed time.

#![forbid(unsafe_code)]

pub use xtask::poll::poll;
pub use xtask::zookeeper::{
    Distribution, Ensemble, Error, ErrorKind, Mode, Server, Settings, Standalone, Status,
    four_letter, or_skip,
};

/// Starts a standalone server with the defaults of [`Settings`].
pub fn zookeeper() -> Option<Standalone> {
    or_skip(Standalone::start())
}

/// Starts a standalone server as `settings` say.
pub fn zookeeper_with(settings: &Settings) -> Option<Standalone> {
    or_skip(settings.start())
}

/// Starts an ensemble of three on loopback, whose servers can be killed, paused and restarted.
pub fn ensemble(tick_ms: u32) -> Option<Ensemble> {
    or_skip(Ensemble::start(3, tick_ms))
}

/// Starts an ensemble of three in network namespaces, whose links can be cut as well.
pub fn ensemble_in_namespaces(tick_ms: u32) -> Option<Ensemble> {
    or_skip(Ensemble::in_namespaces(tick_ms))
}
