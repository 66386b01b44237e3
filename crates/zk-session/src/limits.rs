//! The limits of the client and its driver, each with its reason, beside those of the session.

use std::time::Duration;

pub use zk_session_core::limits::*;

/// Events kept for a persistent watch whose owner does not read. When there are
/// more they are replaced by a marker that says how many were lost.
pub const STREAM_EVENTS_KEPT: usize = 4_096;

/// Bytes of paths in those events, since a path may be long.
pub const STREAM_BYTES_KEPT: usize = 1024 * 1024;

/// How often the creation of one node goes on after the connection was lost or its
/// parent was missing. Each takes a reconnect, or somebody who removes the parent just
/// then; what meets so many in a row meets them for ever.
pub const CREATE_ATTEMPTS_MAX: u32 = 16;

/// The shortest pause before a request is repeated, however the policy is set: a loop
/// without a pause would hold its thread while a server refuses at once.
pub const RETRY_PAUSE_MIN: Duration = Duration::from_millis(1);

/// The head start of one address of a server over the next one (RFC 8305 says
/// 250 ms): even in the shortest attempt several get their chance.
pub const ADDRESS_HEAD_START: Duration = Duration::from_millis(250);

/// Addresses of one name that are tried in one attempt; which, is drawn.
pub const ADDRESSES_MAX: usize = 8;

/// The shortest pause between two attempts to renew a lease, however short the session timeout.
pub const RENEWAL_PAUSE_MIN: Duration = Duration::from_millis(1);

/// How long dropping the last handle waits until a session with a
/// [dedicated thread](crate::Config::dedicated_thread) is closed. It is enough for some round trips, so a
/// program that ends right afterwards leaves no lock behind. Without a connection there is no wait.
pub const CLOSE_ON_DROP_WAIT: Duration = Duration::from_millis(100);

/// The first pause between two attempts of a [`SessionManager`](crate::SessionManager) to open the
/// next session. It doubles.
pub const NEXT_SESSION_PAUSE: Duration = Duration::from_millis(100);

/// The longest such pause: each attempt goes around to all servers, for as long as
/// [`Config::connect_timeout`](crate::Config::connect_timeout).
pub const NEXT_SESSION_PAUSE_MAX: Duration = Duration::from_secs(10);

/// Session events kept for a subscriber that does not read; older ones are
/// replaced by a marker that says how many were missed.
pub const EVENTS_KEPT: usize = 64;

/// Bytes asked of the transport in one read.
pub const READ_CHUNK: usize = 16 * 1024;

/// Bytes of a node's data that are copied for whoever asked: as a slice they would keep
/// the [chunk](READ_CHUNK) alive that they were read in, for as long as they are kept.
pub const DATA_COPIED_MAX: usize = READ_CHUNK / 4;

/// Bytes of buffer that a connection keeps for what it writes next. More, as a burst or
/// a large node takes, is given back: idle sessions may be many.
pub const WRITE_BUFFER_KEPT: usize = 4 * 1024;

/// Reads and writes in one poll of the driver, before other tasks get a turn.
pub const WORK_PER_POLL: usize = 32;
