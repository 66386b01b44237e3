//! Apache Curator's recipes beside the locks, on the same nodes.
//!
//! | Curator | here |
//! |---|---|
//! | `PersistentNode`, `PersistentTtlNode` | [`PersistentNode`] |
//! | `GroupMember` | [`GroupMember`] to join, [`Group`] to read the members |

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod limits;

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
