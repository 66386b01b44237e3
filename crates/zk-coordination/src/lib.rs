//! Apache Curator's recipes beside the locks, on the same nodes.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

/// The session layer, with the client that every recipe needs.
pub use zk_recipes::session;

/// Compiles the example of the crate's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
