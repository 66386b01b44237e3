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
//! **Not for production**: it keeps nothing on disk, holds no elections, and replicates nothing
//! to other processes. When the last handle goes, so does everything in it.
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
