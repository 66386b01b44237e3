//! A ZooKeeper client on tokio, built to hold distributed locks.
//!
//! * [`Client`] is a handle to one session, with typed operations and watches. Each operation sends
//!   its request when it is called.
//! * [`Config`] configures a session and opens it.
//! * [`SessionManager`] opens the next session when one has expired.
//! * [`SessionEvent`] reports a change in the life of a session. [`Error`] reports the failure,
//!   which side is at fault, and whether the request was applied.
//! * The crate `zk-session-core` is the session itself, as a state machine without IO and without a
//!   clock. The driver behind [`Client`] runs it on tokio; tests run it on virtual time.
//!
//! Other clients do not have the **lease** ([`SessionLease`]): the time until which no leader can
//! have removed the session's ephemeral nodes. An open connection does not prove that the nodes
//! exist, and the absence of an event does not prove it either. [`LeaseAssumptions`] lists the
//! assumptions behind the lease.
//!
//! # Example
//!
//! ```no_run
//! # async fn example() -> Result<(), zk_session::Error> {
//! use zk_session::{Client, CreateMode};
//!
//! let client = Client::connect("127.0.0.1:2181").await?;
//!
//! // Both requests leave in one go; the answers come in order.
//! let created = client.create("/jobs/job-", b"", CreateMode::EphemeralSequential);
//! let listed = client.get_children("/jobs");
//! println!("{} is one of {}", created.await?.path, listed.await?.names.len());
//!
//! let (node, changed) = client.get_data_and_watch("/config").await?;
//! println!("{:?}, until {:?}", node.data, changed.await?.event_type);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod limits;

mod client;
mod clock;
mod driver;
mod entropy;
mod prometheus;
mod trace;

pub use client::{
    Attempts, Batch, Children, Client, Config, CreateBuilder, Created, EnsembleConfig,
    EnsembleMember, LeaseLoss, LeaseTerm, Multi, MultiOutcome, MultiRead, NodeAcl, NodeData,
    ParentMode, Pending, PendingStream, PendingWatch, ReadOutcome, Repeat, Reservation, Retry,
    RetryPolicy, ServerList, ServerListing, SessionChange, SessionChanges, SessionEvents,
    SessionLease, SessionManager, SessionTotals, Watch, WatchStream, validate_ttl,
};
pub use driver::{
    Connector, DedicatedThread, DelayedStart, DigestMd5, Runtime, Sasl, SaslPreparation, Tcp,
};
pub use prometheus::{Prometheus, PrometheusPage};
#[doc(inline)]
pub use zk_session_core::{
    ConnectString, DisconnectReason, Error, ErrorKind, ErrorOrigin, Histogram, HistogramSnapshot,
    Host, InvalidCredentials, IoFailure, LeaseAssumptions, LeaseImpossible, LeaseSetting,
    LeaseStats, LeaseTimes, Limit, Operation, Outcome, PeerProtocol, RetryOn, SaslFailure,
    SaslMechanism, SaslStep, ServerKind, SessionCredentials, SessionEnd, SessionEvent, Stats,
    TlsFailure, Transport, WatchEvent, WatchKind, WatchStreamItem,
};

/// Parts of node paths, and the names that Curator's protection gives to nodes.
pub mod path {
    pub use crate::client::{random_short_id, random_uuid};
    pub use proto::path::{PROTECTION, child, file_name, parent, protection_prefix};
}

// Types of the protocol that appear in the client's operations.
pub use proto::{
    Abbreviated, Acl, ChildList, ClientInfo, CreateMode, DecodeError, ErrorCode, EventType,
    OPEN_ACL_UNSAFE, OpCode, PathError, PathErrorKind, Perms, SessionId, Stat, Zxid, validate_path,
};

/// Compiles the example of the crate's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
