//! A ZooKeeper session that a lock can be trusted to.
//!
//! * [`Client`] is what applications use: typed operations and watches,
//!   each sending its request when it is called.
//! * [`Config`] says how a session is made.
//! * [`SessionEvent`] tells of its life, [`Error`] of what went wrong, whose fault
//!   it is, and whether the request was applied.
//! * The crate `zk-session-core` is the session itself, as a state machine without IO or clock. The
//!   driver behind [`Client`] runs it on tokio, and a test runs it on virtual time.
//!
//! What sets it apart from other clients is the **lease** ([`LeaseClaim`]): until when no leader
//! can have removed the session's ephemeral nodes. That is neither "while the session is
//! connected" nor "until an event arrives". [`LeaseAssumptions`] lists what it rests on.
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
mod driver;

pub use client::{
    Batch, Belief, Children, Client, Config, Created, EnsembleConfig, LeaseClaim, LeaseLoss,
    Member, Multi, MultiOutcome, MultiRead, NewNode, NodeAcl, NodeData, Parents, Pending,
    PendingStream, PendingWatch, ReadOutcome, Retry, RetryPolicy, SessionChange, SessionChanges,
    SessionEvents, SessionManager, Watch, WatchNews, WatchStream, WatchedEvent,
};
pub use driver::{Connector, DedicatedThread, Tcp};
#[doc(inline)]
pub use zk_session_core::{
    ConnectString, Error, ErrorKind, Fault, Host, LeaseAssumptions, LeaseImpossible, LeaseStats,
    LeaseTimes, LossCause, Outcome, PeerProtocol, RetryOn, SessionCredentials, SessionEnd,
    SessionEvent, Stats,
};

// The vocabulary of the protocol that the client's operations speak.
pub use proto::{
    Acl, ChildList, ClientInfo, CreateMode, DecodeError, ErrorCode, EventType, Key, KeyRule,
    OPEN_ACL, PathError, PathErrorKind, Perms, Rank, Shown, SortedChildren, Stat, is_lock_name,
    validate_path,
};
