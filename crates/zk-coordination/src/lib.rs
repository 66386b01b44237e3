//! Apache Curator's recipes beside the locks, on the same nodes.
//!
//! | Curator | here |
//! |---|---|
//! | `DistributedAtomicLong`, `DistributedAtomicInteger` | [`AtomicLong`], [`AtomicInteger`] |
//! | `DistributedAtomicValue` | [`AtomicValue`] |
//! | `PromotedToLock` | [`AtomicNumber::promote_to_lock`] |
//! | none | [`AtomicNumber::add_once`], exactly once by the id of an operation |
//! | `DistributedBarrier` | [`Barrier`] |
//! | `DistributedDoubleBarrier` | [`DoubleBarrier`] |

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod limits;

mod atomic;
mod barrier;
mod requests;

pub use atomic::{AtomicError, AtomicInteger, AtomicLong, AtomicNumber, AtomicValue, Number};
pub use barrier::{Barrier, BarrierError, DoubleBarrier, Entered};

/// The session layer, with the client that every recipe needs.
pub use zk_recipes::session;

/// Compiles the example of the crate's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
