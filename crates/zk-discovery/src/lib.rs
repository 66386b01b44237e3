//! Service discovery on ZooKeeper, on the nodes and the JSON of Apache Curator's `ServiceDiscovery`.
//! Services in Java and in Rust find each other.
//!
//! | Curator | here |
//! |---|---|
//! | `ServiceInstance`, `UriSpec`, `ServiceType` | [`ServiceInstance`], [`UriSpec`], [`ServiceType`] |
//! | `ServiceDiscovery` | [`Discovery`]; [`Registration`] for one registered instance |
//! | `ServiceCache` | [`ServiceCache`] |
//! | `ServiceProvider` | [`Provider`] |
//! | `RoundRobinStrategy`, `RandomStrategy`, `StickyStrategy` | [`RoundRobin`], [`Random`], [`Sticky`] |
//!
//! It is a crate of its own because of its JSON parser: the locks and the other recipes do without.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod limits;

mod discovery;
mod error;
mod instance;
mod paths;
mod provider;
mod registration;
mod service_cache;

pub use discovery::Discovery;
pub use error::DiscoveryError;
pub use instance::{InstanceError, ServiceInstance, ServiceType, UriPart, UriSpec};
pub use provider::{Provider, ProviderStrategy, Random, RoundRobin, Sticky};
pub use registration::Registration;
pub use service_cache::{Instances, Rejection, ServiceCache};

/// Values of a payload.
pub use serde_json::Value;

// Types of the other recipes that appear here.
pub use zk_coordination::{
    Cache, CacheError, CacheStatus, NodeState, PersistentNodeBuilder, session,
};

/// Compiles the example of the crate's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
