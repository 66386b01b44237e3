//! The printed model, docs/model/Lock.tla and docs/model/Lease.tla, as an acceptor: each event of a run
//! must be a step that `Next` allows. Steps and variables have the names of the modules.

pub(crate) mod lease;
pub(crate) mod lock;

pub(crate) use lease::{Lease, Packet};
pub(crate) use lock::Lock;

/// Returns the text of an event that is no step of the model.
fn refused<T>(action: &str, reason: impl std::fmt::Display) -> Result<T, String> {
    Err(format!("{action} is not allowed: {reason}"))
}
