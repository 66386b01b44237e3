//! In-process ZooKeeper server for tests, with fault injection.
//!
//! * [`TestServer`] is the handle of a test: one server or an ensemble, reachable in memory and
//!   over TCP. Its faults read like sentences ([`FaultBuilder`]).
//! * [`FaultProxy`] applies byte-stream faults in front of any server, including a real one.
//! * [`server`] is ZooKeeper itself as a state machine without I/O or clock, for simulations that
//!   control every event.
//!
//! A server starts in about a millisecond and behaves like ZooKeeper 3.4 to 3.9, ClickHouse Keeper
//! or RaftKeeper ([`Version`]). It reproduces the precedence of errors, the fields of a Stat and the order of
//! children. It also reproduces the behaviour of a follower that is cut off from its leader.
//!
//! The command `cargo xtask conform` runs the same random scripts against it and against a real
//! server and compares the answers. At least 20,000 scripts have run against each of 3.8.0 and
//! 3.9.3 and 3,500 against each of 3.4.14 and 3.6.3. Every difference found was fixed. What 3.8.0
//! and 3.9.5 answered to some of them is recorded, and compared by a test without a real server.
//!
//! The in-memory transport serves several hundred thousand requests a second with 2,000 sessions
//! and 100,000 nodes (`examples/throughput.rs`), so a test rarely waits for it.
//!
//! **Not for production**: the server stores nothing on disk and replicates nothing to other
//! processes. It drops all its data with its last handle.
//!
//! # Sessions in an ensemble
//!
//! Only the leader expires sessions. A packet to the leader resets the session's clock at once. A
//! packet to a follower is recorded in the follower's touch table, which reaches the leader every
//! half tick. A forwarded write or `sync` resets no clock. A reconnect resets the clock at once,
//! with the timeout that the new server grants; this can move the expiry to an earlier time. A new
//! leader restarts the clock of every session, with the timeout granted when the session was
//! created. A client that derives its lease from anything else may use a session that has already
//! expired:
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
//! Each item simplifies the behaviour of ZooKeeper 3.9.5:
//!
//! * **Elections** happen when a test requests one, take no time and need no majority. A leader
//!   does not step down when it loses its followers, and a stopped leader is not replaced
//!   automatically. A server that has lost its leader joins the new one only when it is healed.
//! * **Commits** need no majority and take no time: no server syncs to a disk, no follower
//!   acknowledges, and no proposal stays uncommitted. A write to an isolated leader is lost; a real
//!   one may still be committed if that server leads again.
//! * **A minority** around an old leader consists of that leader alone, without followers.
//! * **Expiry** takes effect at the instant it is due. On a real server it is a transaction like
//!   any other; it may happen later, but never earlier. A leader needs no time for the sessions that
//!   expire at the same tick, unless a test [sets one](TestServer::slow_expiry).
//! * **Connect requests of clients that have gone** are processed late only by a server that was
//!   stopped. On a real ensemble a revalidation may also wait on its way to a stopped leader.
//! * **Two clients of one session** that write through different servers get the answers to their own
//!   writes. A real server takes a commit for its own client's write if session and request number are the
//!   same (`CommitProcessor`), and so may answer a write that it has not applied.
//! * **Rounding**: ticks count from the same instant on all servers, and all clocks run at the same
//!   rate. Each real server counts from its own origin.
//! * **Touch tables**: `LearnerSessionTracker.touchSession` may put a touch into a map that
//!   `Learner.ping` has already sent; that touch is lost. The test server loses none. A flush is
//!   not delayed on its way to the leader, and neither are the requests behind it.
//! * **A leader that resumes** pings its followers before it processes the requests that have
//!   queued up. A real leader does both in different threads, in any order.
//! * **A lagging follower** is never dropped by its leader (`LearnerHandler.SyncLimitCheck`). A
//!   stopped follower is dropped after the sync limit.
//! * **An isolated leader** closes the connection of a session that it considers overdue. A real
//!   one answers that the session has expired, even if the new leader still holds it.
//! * **Observers** are followers. A real `ObserverMaster` first collects the touch tables of its
//!   observers in its own table, so two flushes lie between an observer and the leader.
//! * **Local sessions** exist on read-only servers only, are never upgraded, and never expire.
//! * **A standalone server** can be made read-only. A real one never is.
//! * **The reaper** deletes the nodes of a pass at the same instant. A real `ContainerManager`
//!   collects the nodes of a pass first, and pauses 6 ms after each deletion. Then it checks only
//!   that the next node has no children. It also deletes a node whose data has changed since, and a
//!   container that was deleted and created again.
//! * **A client that does not read** its answers is served up to
//!   [`UNREAD_BYTES_MAX`](limits::UNREAD_BYTES_MAX). Its further requests, pings included, then
//!   wait until it reads. A real server continues and keeps all answers in memory. Both servers
//!   send watch events without a limit.
//! * **Unanswered requests** are limited per connection
//!   ([`OUTSTANDING_REQUESTS_MAX`](limits::OUTSTANDING_REQUESTS_MAX)). A real server limits those
//!   of all its connections together.
//! * **TLS** only on ports of their own, with the feature `tls`. The identity of a certificate is
//!   configured and not read from it, and the id of an `x509` entry is hardly checked.
//! * **SASL** only with DIGEST-MD5. Names of users go through no `KerberosName` rules.
//! * **Throttling** of requests and connections (`RequestThrottler`, `BlueThrottle`), quorum
//!   reconfiguration, snapshots and the admin server are not implemented.
//!
//! # Servers modelled from their sources
//!
//! **ClickHouse Keeper and RaftKeeper** are made from their sources and from reports of their users.
//! Nobody has compared them with real ones here. Neither has anybody run ZooKeeper 3.5. What Keeper
//! and RaftKeeper do otherwise than ZooKeeper, and what the model leaves out:
//!
//! * **Operations** have the outcomes in `tests/server/operations.txt`. An unknown one closes the
//!   connection to Keeper. RaftKeeper never answers it, and continues with the next request. Their
//!   own operations (500 to 507) are unknown here.
//! * **Sessions** outlive their connections and end by their timeouts, which are looked at every
//!   500 ms. Keeper resumes none: a reconnect gets a new session. A read at a follower of Keeper
//!   keeps no session alive, and a ping does.
//! * **Numbers** of sequential nodes have 64 bits at Keeper 26.6. Zxids have no epoch. At Keeper a
//!   delete leaves the parent's pzxid, and setData of a child counts in the cversion. A ping, an
//!   auth or a sync takes no zxid here, as it does at Keeper.
//! * **Watches**: events carry the zxid -1. Each table sends its own event, so a deleted node may
//!   send two. The event of a sequential node has the path of the request. The event of a recursive
//!   watch of Keeper has the path of the watch. RaftKeeper keeps the watches of a session that
//!   reconnects to the same server; here they end with their connection.
//! * **ACLs** of Keeper lose the entries for `world`, and then permit all. Identities belong to the
//!   connection here, and to the session at RaftKeeper.
//! * **A multi of reads** knows only getData and getChildren. Keeper 25.8 fails on an empty multi,
//!   here it answers.
//! * **Settings** are the default ones: no containers, no nodes with a time to live, no
//!   reconfiguration, no password, no reads through the log. The compressed protocol and the one
//!   with long xids do not exist.
//!
//! # Example
//!
//! `docs/testing-your-service.md` in the repository contains a complete test of a service: its session
//! expires while it holds a lock. This example loses the reply to a create, although the node exists:
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
//! assert!(server.with(|ensemble| ensemble.tree().contains("/a")));
//! # Ok(())
//! # }
//! ```
//!
//! # Clients in memory
//!
//! A [`TestServer`] is a [`Connector`](zk_session::Connector). Clients in the same process need no
//! socket, and the tests can pause tokio's clock. The hosts are `server-0`, `server-1`, …:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use zk_session::Config;
//! use zk_testing::TestServer;
//!
//! let server = TestServer::ensemble(3);
//! let config = Config::new("server-0:1,server-1:1,server-2:1")?;
//! let client = config.connector(server.clone()).connect().await?;
//! server.expire(client.session_id());
//! client.wait_for_end().await;
//! # Ok(())
//! # }
//! ```
//!
//! A test without async needs a runtime only for the servers. The session runs on its own thread:
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use zk_session::{Config, CreateMode};
//! use zk_testing::TestServer;
//!
//! let runtime = tokio::runtime::Runtime::new()?;
//! let server = runtime.block_on(async { TestServer::in_memory() });
//! let config = Config::new("server-0:1")?.connector(server.clone());
//! let (client, thread) = config.connect_blocking()?;
//! thread.block_on(client.create("/a", b"", CreateMode::Persistent))?;
//! assert!(server.with(|ensemble| ensemble.tree().contains("/a")));
//! # Ok(())
//! # }
//! ```
//!
//! Other clients can use the byte stream that [`TestServer::stream`] returns.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod faults;
pub mod limits;
mod rng;
pub mod server;
mod transport;

pub use faults::{Connections, Direction, Fault, FaultBuilder, FaultProxy};
/// Operation code of a request.
pub use proto::OpCode as Op;
pub use proto::{ErrorCode, SessionId, Stat, Zxid};
/// For the tests and tools of this repository; no part of the API.
#[doc(hidden)]
pub use rng::Rng;
pub use server::connection_id::ConnectionId;
pub use server::control::Switch;
pub use server::faults::Cut;
pub use server::request_log::RequestLog;
pub use server::settings::{SaslFault, Settings};
pub use server::version::Version;
pub use transport::{MemoryStream, TestServer};
#[cfg(feature = "tls")]
pub use transport::{TlsPort, TlsSettings};

/// Compiles the example of the crate's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
