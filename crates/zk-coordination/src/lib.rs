//! Apache Curator's recipes beside the locks, on the same nodes.
//!
//! | Curator | here |
//! |---|---|
//! | `CuratorCache`, `TreeCache` | [`Cache::tree`] |
//! | `PathChildrenCache` | [`Cache::children`] |
//! | `NodeCache` | [`Cache::node`]; [`watch_value`] for a value |
//! | `PersistentNode`, `PersistentTtlNode` | [`PersistentNode`] |
//! | `GroupMember` | [`GroupMember`] to join, [`Group`] to read the members |
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
mod background;
mod barrier;
mod cache;
mod create_acl;
mod group;
mod persistent_node;
mod requests;

pub use atomic::{AtomicError, AtomicInteger, AtomicLong, AtomicNumber, AtomicValue, Number};
pub use barrier::{Barrier, BarrierError, DoubleBarrier, Entered};
pub use cache::{
    Cache, CacheBuilder, CacheError, CacheStatus, CachedNode, Change, Changes, Snapshot,
    watch_value,
};
pub use group::{Group, GroupError, GroupMember, Member, Members};
pub use persistent_node::{
    NodeMode, NodeState, PersistentNode, PersistentNodeBuilder, PersistentNodeError,
};

/// The session layer, with the client that every recipe needs.
pub use zk_recipes::session;

/// Compiles the example of the crate's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
