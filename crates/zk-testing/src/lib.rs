//! ZooKeeper in process, for tests: started in a millisecond, broken on purpose.
//!
//! * [`TestServer`] is what a test holds: a server, or an ensemble, reachable in memory and over
//!   TCP, whose faults read like sentences ([`faults`]).
//! * [`FaultProxy`] puts the faults of a byte stream in front of any server, a real one above all.
//! * [`server`] is ZooKeeper itself, as a state machine without IO or clock, for simulations that
//!   want every event in their own hands.
//!
//! It speaks the protocol of ZooKeeper 3.8 or 3.9 ([`Version`]), down to the order in which errors
//! win over each other, the fields of a Stat, the order of children, and what a follower does that
//! is cut off from its leader. `cargo xtask conform` plays random scripts at it and at a real server
//! side by side, 20,000 and more with 3.8.0 and with 3.9.3 each; what differed was mended. (IPv6
//! addresses in ACLs came with 3.9.4: that part is by its source.)
//!
//! It is fast enough not to be what a test waits for: several hundred thousand requests a second in
//! memory, with 2,000 sessions and 100,000 nodes (`examples/throughput.rs`).
//!
//! **Not for production**: it keeps nothing on disk, and replicates nothing to other processes.
//! When the last handle goes, so does everything in it.
//!
//! # Sessions in an ensemble
//!
//! Only the leader expires sessions. A packet to the leader sets the session's clock at once. A
//! packet to a follower goes into the follower's touch table, which reaches the leader every half
//! tick; a forwarded write or `sync` sets no clock. A reconnect sets the clock at once, with the
//! timeout that the new server grants, which may move the expiry to an earlier time. A new leader
//! starts all clocks anew, with the timeouts that the sessions were created with. A client that
//! counts its lease from anything else may believe in a session that has expired:
//!
//! ```
//! use std::time::Duration;
//! use zk_testing::{Settings, TestServer};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let settings = Settings::new().servers(3).max_session_timeout_of(2, Duration::from_secs(5));
//! let server = TestServer::in_memory_with(settings);
//! server.lag_flushes(1, Duration::from_millis(300)); // its touch table arrives late
//! server.kill(1); // its touch table is lost
//! assert!(server.elect(2)); // all clocks start anew
//! assert!(server.isolate_leader(0)); // 2 goes on alone, and does not know that 0 leads
//! server.restart(1);
//! server.heal(2);
//! # }
//! ```
//!
//! # Differences from real servers
//!
//! Each of these is a simplification of what ZooKeeper 3.9.5 does:
//!
//! * **Elections** happen when a test asks for one, take no time, and need no majority. A leader
//!   does not step down when its followers are gone, and a stopped leader is not replaced by
//!   itself. A server that has given up its leader does not look for another until it is healed.
//! * **Commits** need no majority and take no time: nothing is synced to a disk, no follower
//!   acknowledges anything, and a proposal is never left over. A write to an isolated leader is
//!   lost; a real one may still be committed if that server leads again.
//! * **A minority** that goes on with an old leader is that leader alone, without followers.
//! * **Expiry** takes effect in the instant in which it is due. A real one is a transaction like any
//!   other, and may be later, but never earlier.
//! * **Rounding**: ticks count from the same instant on all servers, and all clocks run at the same
//!   rate. Real servers each count from an origin of their own.
//! * **Touch tables**: `LearnerSessionTracker.touchSession` may put a touch into a map that
//!   `Learner.ping` has already sent; such a touch is lost. Here none is. A flush is not delayed on
//!   its way to the leader, and neither are the requests behind it.
//! * **A leader that resumes** pings its followers before it processes requests that have waited.
//!   A real one does both in different threads, in any order.
//! * **A follower that lags** is never dropped by its leader (`LearnerHandler.SyncLimitCheck`); one
//!   that is stopped is, after the sync limit.
//! * **An isolated leader** closes the connection of a session that it takes for overdue. A real one
//!   answers that the session has expired, whatever the new leader says.
//! * **Observers** are followers here. An `ObserverMaster` collects the touch tables of its observers
//!   in its own, so that two flushes lie between an observer and the leader.
//! * **Local sessions** exist on read-only servers only, and are never upgraded.
//! * **A client that does not read** its answers is served up to
//!   [`UNREAD_BYTES_MAX`](limits::UNREAD_BYTES_MAX), then its requests (pings, too) wait until it
//!   reads. A real server goes on, and keeps all answers in memory. Events are sent to it by both.
//! * **Requests without an answer** are bounded for each connection
//!   ([`OUTSTANDING_REQUESTS_MAX`](limits::OUTSTANDING_REQUESTS_MAX)). A real server bounds those of
//!   all its connections together.
//! * **Throttling** of requests and connections (`RequestThrottler`, `BlueThrottle`), TLS, SASL,
//!   quorum reconfiguration, snapshots and the admin server are left out.
//!
//! # Example
//!
//! A complete test of a service, whose session expires while it holds a lock, is in the README of
//! the repository and in `tests/your_own_service.rs`. Here the reply to a create gets lost, though
//! the node is there:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use zk_testing::{Op, TestServer};
//!
//! let server = TestServer::start().await?;
//! server.on(Op::Create2).apply_then_drop_reply();
//!
//! let client = zk_session::Client::connect(&server.connect_string()).await?;
//! let error = client.create("/a", b"", zk_session::CreateMode::Persistent).await.unwrap_err();
//! assert_eq!(error.outcome(), zk_session::Outcome::Unknown);
//! assert!(server.with(|truth| truth.tree().contains("/a")));
//! # Ok(())
//! # }
//! ```
//!
//! # Clients in memory
//!
//! [`TestServer::stream`] gives the client's end of a connection without a socket, which works
//! under a stopped clock. What hands it to a client is glue of a few lines, here for `zk-session`:
//!
//! ```
//! use std::future::{Future, ready};
//! use std::io;
//! use zk_session::{Connector, Host};
//! use zk_testing::{MemoryStream, TestServer};
//!
//! /// Connects to `server-0:1`, `server-1:1`, …
//! struct InMemory(TestServer);
//!
//! impl Connector for InMemory {
//!     type Stream = MemoryStream;
//!
//!     fn connect(
//!         &self,
//!         host: &Host,
//!     ) -> impl Future<Output = io::Result<MemoryStream>> + Send + 'static {
//!         let number = host.name().strip_prefix("server-").and_then(|it| it.parse().ok());
//!         ready(self.0.stream(number.unwrap_or(0)))
//!     }
//! }
//! # let _ = InMemory;
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod faults;
pub mod limits;
pub mod server;
mod transport;

pub use faults::{Connections, Direction, Fault, FaultProxy, Sentence};
/// An operation, by its name.
pub use proto::OpCode as Op;
pub use proto::{ErrorCode, Stat};
pub use server::{ConnectionId, Cut, Settings, Switch, Version};
pub use transport::{MemoryStream, TestServer};
