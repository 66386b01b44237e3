//! Apache Curator's recipes beside the locks, on the same nodes.
//!
//! | Curator | here |
//! |---|---|
//! | `CuratorCache`, `TreeCache` | [`Cache::tree`] |
//! | `PathChildrenCache` | [`Cache::children`] |
//! | `NodeCache` | [`Cache::node`]; [`watch_value`] for a value |
//! | `PersistentNode`, `PersistentTtlNode` | [`PersistentNode`] |
//! | `GroupMember` | [`GroupMember`] to join, [`Group`] to read the members |

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod limits;

mod cache;

pub use cache::{
    Cache, CacheBuilder, CacheError, CacheStatus, CachedNode, Change, Changes, Snapshot,
    watch_value,
};
mod backoff;
mod group;
mod persistent_node;

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
