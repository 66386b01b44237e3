//! Distributed locks on ZooKeeper, on the same nodes as Apache Curator's.
//!
//! | Curator | here |
//! |---|---|
//! | `InterProcessMutex` | [`Mutex`], re-entrant for an [`Owner`] |
//! | `getParticipantNodes` | [`Mutex::participants`] |
//! | none | [`Ticket`], a position in a lock's queue |
//! | none | [`Mutex::with_local_queue`], one node for all tasks of a process |
//! | `SharedCount`, `SharedValue` | [`SharedCount`], [`SharedValue`] |
//! | `InterProcessReadWriteLock` | [`RwLock`] |
//! | `InterProcessSemaphoreV2` | [`Semaphore`], [`SemaphoreGuard`] |
//! | `InterProcessSemaphoreMutex` | [`SemaphoreMutex`] |
//! | `InterProcessMultiLock` | [`MultiLock`] |
//! | `Revoker`, `Revocable` | [`revoke`], [`Guard::revocation_requested`] |
//! | `LeaderLatch` | [`Election::new`], [`Election::stand`] |
//! | `LeaderSelector` | [`Election::selector`], [`Election::lead`] |
//!
//! # What a lock promises, and what not
//!
//! * At most one [`Guard`] of a path is valid at any moment. A [`RwLock`] has one valid write
//!   guard, or any number of valid read guards.
//! * A guard becomes invalid *before* any leader can expire its session. The guard relies on the
//!   times that the leader provably counted, not on an open connection. The underlying
//!   [assumptions](zk_session::LeaseAssumptions) are configurable.
//! * If an operator deletes the node of a guard, the guard becomes invalid when the watch event
//!   arrives.
//! * Each holder of an exclusive lock has a [`FencingToken`] larger than the tokens of all earlier
//!   holders.
//! * No lock can stop a holder that was paused and acts without checking its guard again. Only a
//!   resource that checks the token is safe from such a holder.
//! * No node is left behind: not by a dropped future, not by a lost reply, not by a release on a
//!   broken connection.
//!
//! # Traces
//!
//! With the feature `tracing`, off by default, the library has these spans and events of the crate
//! [`tracing`](https://docs.rs/tracing), with targets that begin with `zk_`. They contain no
//! credentials.
//!
//! | span | level | from, until | fields |
//! |---|---|---|---|
//! | `zk.connect` | INFO | an attempt to open a session | `servers` |
//! | `zk.acquire` | INFO | the wait for a lock, until it is acquired or given up | `path`, `node`, `token` |
//! | `zk.hold` | INFO | a hold | `path`, `node`, `token`, `session`; `waited_ms` if it has queued |
//! | `zk.request` | DEBUG | a request, until its caller has the reply | `operation`, `path`, `error` |
//!
//! | event | level | fields |
//! |---|---|---|
//! | `connected`, `reconnected`, `session closed` | INFO | `session`, `host`, `timeout_ms` |
//! | `disconnected` | WARN | `session`, `cause` |
//! | `lease ended`: all locks of the session are lost | WARN | `session`, `paused_ms` |
//! | `session expired`, `authentication failed` | ERROR | `session`, `cause` |
//! | `lock acquired`, `acquisition given up` | DEBUG | `waited_ms` |
//! | `lock released` | DEBUG | `held_ms`; `left_ms`, for which the lease would have lasted |
//! | `lock lost: its node was deleted` | WARN | `node`, `session` |
//! | `a lost lock was given up` | WARN | `held_ms`, `left_ms`, `reason` |
//! | `slow request`, of a second or more | WARN | `operation`, `path`, `took_ms` |
//! | `the server throttles requests` | WARN | `operation`, `path` |
//! | nodes that wait to be deleted, or cannot be | WARN | `nodes`; `path`, `code` |
//!
//! The time of a request ends when its caller takes the reply. So a reply that is taken late, or a
//! request that has waited for a connection, is slow as well.
//!
//! Subscribers run where something happens, also on the driver of the session: a subscriber that
//! blocks delays heartbeats, and can cost locks.
//!
//! A service can leave INFO on: acquisitions and releases emit no event at INFO.
//!
//! # Example
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use zk_recipes::Mutex;
//! use zk_recipes::session::Client;
//!
//! let client = Client::connect("zk1:2181,zk2:2181,zk3:2181").await?;
//! let lock = Mutex::new(&client, "/locks/stock")?;
//!
//! let guard = lock.acquire().await?;
//! let token = guard.token()?; // give it along with every write
//! println!("{} holds the lock, token {token}", guard.node());
//! guard.release().await?;
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

// Layers, from the bottom; a module may use those above it in this list.
//   child_order limits retry sealed
//   contender_info recipe fencing_token
//   error
//   deadline revocation shared_value
//   observe shared_count
//   queue
//   hold participants
//   semaphore
//   owner local_queue
//   ticket
//   mutex rwlock
//   lock
//   multi_lock terms
//   election blocking other_names

pub mod blocking;
pub mod child_order;
pub mod limits;

mod contender_info;
mod deadline;
mod election;
mod error;
mod fencing_token;
mod hold;
mod local_queue;
mod lock;
mod multi_lock;
mod mutex;
mod observe;
mod other_names;
mod owner;
mod participants;
mod queue;
mod recipe;
mod retry;
mod revocation;
mod rwlock;
mod semaphore;
mod shared_count;
mod shared_value;
mod terms;
mod ticket;

pub use contender_info::ContenderInfo;
pub use election::{Candidacy, Candidate, Election, Leadership};
pub use error::{LockError, LockFailure, LossReason, MultiLockError};
pub use fencing_token::FencingToken;
pub use hold::{Guard, Held, LockGuard};
pub use local_queue::LocalQueueLimits;
pub use lock::{Lock, LockKind};
pub use multi_lock::{MultiGuard, MultiLock};
pub use mutex::Mutex;
pub use observe::{HistogramSnapshot, LockMetrics, LockMetricsSnapshot};
pub use owner::Owner;
pub use participants::Participant;
pub use recipe::Recipe;
pub use revocation::{revocation_requested, revoke};
pub use rwlock::{ReadLock, RwLock, WriteGuard, WriteLock};
pub use semaphore::{Semaphore, SemaphoreGuard, SemaphoreMutex};
pub use shared_count::{SharedCount, VersionedCount};
pub use shared_value::{SharedValue, VersionedValue};
pub use terms::{HeldLock, Interruption, run_whenever_held};
pub use ticket::{QueuePosition, Ticket};

/// Keeps traits from being implemented outside of this crate, so that they can grow.
mod sealed {
    #[allow(unnameable_types, reason = "no other crate may name it")]
    pub trait Sealed {}
}

/// The future that the methods of [`Lock`] and [`LockGuard`] return.
pub use futures::future::BoxFuture;

/// The session layer, with the client that every lock needs.
pub use zk_session as session;

/// Compiles the example of the crate's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
