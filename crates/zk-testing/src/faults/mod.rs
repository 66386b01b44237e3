//! Fault injection with calls that read like sentences.
//!
//! A fault on requests has a target, an optional condition, and an action:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! use zk_testing::{Cut, Op, SessionId, TestServer};
//!
//! let server = TestServer::in_memory();
//! server.on(Op::Create).nth(2).apply_then_drop_reply();
//! server.on(Op::Delete).session(SessionId(0x123)).by(Cut::Rst).drop_before_applying();
//! server.next_reply_to(Op::Create2).cut_after(5, Cut::Fin);
//! let pings = server.on(Op::Ping).always().with_probability(0.1).drop_before_applying();
//! assert_eq!(pings.count(), 0);
//! # }
//! ```
//!
//! [`FaultProxy`] breaks the byte stream in front of any server, including a real one.

mod fault_builder;
mod proxy;
mod servers;

pub use fault_builder::{Fault, FaultBuilder};
pub use proxy::{Direction, FaultProxy};
pub use servers::Connections;
