//! Histories of a client's operations, and the rules that judge them.
//!
//! A [`Worker`] sends random operations to a few nodes, and a [`Recorder`] notes when each operation was
//! invoked, when it returned, and with which outcome. [`judge`] applies two rules to the whole history:
//!
//! * **Linearizable**: one order of all writes and strong reads explains every result, and no operation
//!   takes effect before its invocation or after its return. A write with an unknown outcome may take
//!   effect at any time after its invocation, or never. A write that was reported as not applied has no
//!   effect. Rejections count: a node that exists, that does not exist, or that has another version.
//! * **Own past**: a plain read may be old, but is never older than what its client has seen before.
//!
//! [`write_edn`] writes a history for Jepsen's checkers. The simulation and `cargo xtask chaos` share all of
//! this.

#![forbid(unsafe_code)]

mod edn;
mod judge;
mod model;
mod own_past;
mod record;
mod search;
mod shared_session;
#[cfg(test)]
mod tests;
mod worker;

pub use edn::write_edn;
pub use judge::{Verdict, judge};
pub use record::{Entry, Recorder};
pub use shared_session::{Role, SharedSession};
pub use worker::Worker;
