//! ZooKeeper session as a state machine without IO, clock or source of randomness.
//!
//! The driver passes in the time, received bytes and requests. The session returns bytes to send,
//! replies, events and the next deadline. The driver owns the socket and the clock.
//!
//! **The contract**: after every call that changes the session, drain
//! [`poll_output`](Session::poll_output) until it is empty, send the bytes from
//! [`poll_transmit`](Session::poll_transmit), and sleep no longer than
//! [`poll_timeout`](Session::poll_timeout). `now` never goes back.
//!
//! 0. A turn of the driver begins: call [`handle_turn`](Session::handle_turn). It detects that this
//!    process did not run for a while.
//! 1. [`Output::Connect`]: if the host has no addresses yet, and its name can be resolved, call
//!    [`handle_resolved`](Session::handle_resolved), after which another one has addresses. Open a
//!    connection, call [`handle_accepted`](Session::handle_accepted) if its address is known, then call
//!    [`handle_connected`](Session::handle_connected), or
//!    [`handle_disconnected`](Session::handle_disconnected) if it failed.
//!    To authenticate the connection with SASL, call
//!    [`handle_connected_with`](Session::handle_connected_with).
//! 2. Bytes arrive: call [`handle_received`](Session::handle_received).
//! 3. Bytes from [`poll_transmit`](Session::poll_transmit) were written: call
//!    [`handle_written`](Session::handle_written). If there are more bytes, call `poll_transmit`
//!    again.
//! 4. The connection ends: call [`handle_disconnected`](Session::handle_disconnected).
//! 5. [`Output::Probe`]: test on a separate connection whether the server accepts writes, then call
//!    [`handle_probed`](Session::handle_probed).
//! 6. [`Output::ProbeTls`]: test on a separate connection whether the server's port is for TLS
//!    only, then call [`handle_tls_probed`](Session::handle_tls_probed).
//! 7. The deadline passes: call [`handle_timeout`](Session::handle_timeout).
//!
//! **States of the connection**: a session has at most one connection, or attempt at one.
//!
//! ```text
//!                  back-off over:            handle_connected:
//!                  Output::Connect           the connect request is sent
//!   new ──▶ Waiting ─────────▶ Connecting ─────────▶ Handshaking ─────────▶ Up
//!              ▲                   │                      │   accepted       │
//!              │                   │ failed, too late     │ refused,         │ ClosedByServer, IdleTimeout,
//!              │                   │                      │ closed, too late │ RequestTimeout, Rebalanced
//!              └───────────────────┴──────────────────────┴──────────────────┘
//!
//!   Handshaking ──▶ Authenticating ──▶ Up, with SASL: closed and too late like Handshaking
//!   Handshaking ──▶ Asking ──▶ Up, with a Keeper, which tells its features
//!
//!   any state ──▶ Ended: expired, closed, detached, credentials rejected
//! ```
//!
//! The reasons are those of [`DisconnectReason`].
//!
//! ```
//! use std::time::{Duration, Instant};
//! use zk_session_core::{Handle, Handles, Host, Output, Session, Settings};
//!
//! #[derive(Clone, Debug)]
//! struct RequestId(u32);
//! impl Handle for RequestId {}
//! struct Tickets;
//! impl Handles for Tickets {
//!     type Reply = RequestId;
//!     type Watch = RequestId;
//!     type Stream = RequestId;
//! }
//!
//! let now = Instant::now();
//! let settings = Settings::new(vec![Host::new("127.0.0.1", 2181)], Duration::from_secs(10));
//! let mut session = Session::<Tickets>::new(settings, now);
//! session.handle_timeout(now); // nothing is due but the first attempt
//! assert!(matches!(session.poll_output(), Some(Output::Connect(_))));
//! session.handle_connected(now);
//! let mut bytes = bytes::BytesMut::new();
//! session.poll_transmit(&mut bytes);
//! assert_eq!(bytes.len(), 4 + 45, "the connect request");
//! assert!(session.poll_timeout().is_some());
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod limits;

mod clean_up;
mod connect_string;
mod connection;
mod credentials;
mod disconnect_reason;
mod error;
mod error_limit;
mod event;
mod io_failure;
mod lease;
mod lease_assumptions;
mod operation;
mod outcome;
mod output;
mod pauses;
mod requests;
mod rng;
mod sasl;
mod session;
mod session_credentials;
mod session_end;
mod settings;
mod stats;
mod tls_failure;
mod vocabulary;
mod watches;

pub use self::connect_string::{ConnectString, Host, Transport};
pub use self::disconnect_reason::{DisconnectReason, PeerProtocol};
pub use self::error::{Error, ErrorKind, ErrorOrigin, Failure, TRANSIENT_CODES};
pub use self::error_limit::Limit;
pub use self::event::SessionEvent;
pub use self::io_failure::IoFailure;
pub use self::lease_assumptions::{LeaseAssumptions, LeaseImpossible, LeaseSetting, LeaseTimes};
pub use self::operation::Operation;
pub use self::outcome::{Outcome, RetryOn};
pub use self::output::{
    Forgotten, Handle, Handles, LeaseState, Output, ProbeAnswer, Reply, ReplyTo, TlsProbeAnswer,
    WatchEvent, WatchKind, WatchStreamItem,
};
pub use self::pauses::NotRunning;
pub use self::requests::RequestId;
pub use self::sasl::{SaslFailure, SaslMechanism, SaslStep, digest_md5};
pub use self::session::{LeftBehind, Session};
pub use self::session_credentials::{InvalidCredentials, SessionCredentials};
pub use self::session_end::SessionEnd;
pub use self::settings::Settings;
pub use self::stats::{Histogram, HistogramSnapshot, LeaseStats, Stats};
pub use self::tls_failure::TlsFailure;
pub use self::vocabulary::ServerKind;
