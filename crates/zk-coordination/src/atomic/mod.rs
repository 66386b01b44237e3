//! Atomic values and counters: Curator's `DistributedAtomicValue`, `DistributedAtomicLong` and
//! `DistributedAtomicInteger`, on the same nodes.

mod contention;
mod error;
mod node;
mod number;
mod once;
mod value;

pub use error::AtomicError;
pub use number::{AtomicInteger, AtomicLong, AtomicNumber, Number};
pub use value::AtomicValue;
