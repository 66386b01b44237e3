//! Limits of the client and its driver, each with its reason, together with those of the session.

use std::time::Duration;

pub use zk_session_core::limits::*;

/// Events kept for a persistent watch whose owner does not read. If there are more, a marker with
/// their number replaces them.
pub const STREAM_EVENTS_KEPT: usize = 4_096;

/// Bytes of paths in those events, because a path may be long.
pub const STREAM_BYTES_KEPT: usize = 1024 * 1024;

/// Limit on the attempts to create one node when the connection is lost or the parent is missing.
/// Each attempt needs a reconnect, or a client that deletes the parent at the same time. An
/// operation that fails so often in a row would fail forever.
pub const CREATE_ATTEMPTS_MAX: u32 = 16;

/// Maximum number of rounds in which [`Client::delete_recursive`](crate::Client::delete_recursive) deletes
/// the nodes that others create meanwhile.
pub const DELETE_ROUNDS_MAX: u32 = 16;

/// Requests for different nodes that one call has under way. With it, a round trip of 30 ms costs 0.3 ms for
/// a node. A server that has 1,000 requests of its clients in hand reads no others
/// (`globalOutstandingLimit`).
pub const NODES_AT_ONCE: usize = 100;

/// Shortest pause before a request is retried, even if the policy allows a shorter one. A loop
/// without a pause would occupy its thread while a server refuses at once.
pub const RETRY_PAUSE_MIN: Duration = Duration::from_millis(1);

/// Pause before a retry of a request that an overloaded server has dropped: long against a round
/// trip, short against a session timeout.
pub const THROTTLED_PAUSE: Duration = Duration::from_millis(100);

/// How often in a row a request may time out on a working connection before the operation fails.
/// The pauses between the attempts add up to about a session timeout. The session replaces a
/// connection that does not answer within that time. If requests still time out then, the handle's
/// [`request_timeout`](crate::Config::request_timeout) or
/// [timeout](crate::Client::with_timeout) is too short for the ensemble.
pub const TIMED_OUT_MAX: u32 = 16;

/// The first pause after a request that timed out. It doubles each time, up to an eighth of the
/// session timeout: a slow ensemble must not receive the same request again without a pause.
pub const TIMED_OUT_PAUSE: Duration = Duration::from_millis(20);

/// The longest such pause, as a part of the session timeout. [`TIMED_OUT_MAX`] pauses then add up to
/// about a session timeout.
pub(crate) const TIMED_OUT_PAUSE_PART: Fraction = Fraction::new(1, 8);

/// Time between two checks of a term that a caller waits for, as a part of the session timeout. A
/// reconnect to a server that grants a shorter timeout ends the term earlier. The margin is a twelfth of
/// the shortest timeout, and that may be half of the one in force.
pub(crate) const TERM_CHECK_PART: Fraction = Fraction::new(1, 32);

/// Maximum number of host names that a process looks up at once. Each has a thread for as long as the
/// resolver of the operating system takes.
pub const LOOKUPS_MAX: usize = 64;

/// How long the answer of a lookup is kept for the next attempt, if it came after the last one. A lap of
/// attempts over a few silent servers takes no longer.
pub const LOOKUP_KEPT: Duration = Duration::from_secs(30);

/// Head start of one address of a server over the next address. RFC 8305 recommends 250 ms. Even
/// the shortest attempt then tries several addresses.
pub const HAPPY_EYEBALLS_DELAY: Duration = Duration::from_millis(250);

/// Shortest pause between two attempts to renew a lease, however short the session timeout.
pub const RENEWAL_PAUSE_MIN: Duration = Duration::from_millis(1);

/// How long dropping the last handle waits until a session with a [dedicated
/// thread](crate::Config::dedicated_thread) is closed. It is enough for some round trips, so a
/// program that ends right afterwards leaves no lock behind. Without a connection, the drop does
/// not wait.
pub const CLOSE_ON_DROP_WAIT: Duration = Duration::from_millis(100);

/// First pause between two attempts of a [`SessionManager`](crate::SessionManager) to open the next
/// session. The pause doubles after each attempt.
pub const NEXT_SESSION_PAUSE: Duration = Duration::from_millis(100);

/// Longest pause between two such attempts. Each attempt tries all servers, for up to
/// [`Config::connect_timeout`](crate::Config::connect_timeout).
pub const NEXT_SESSION_PAUSE_MAX: Duration = Duration::from_secs(10);

/// Time limit of one question to a [`ServerList`](crate::ServerList). It is enough for a resolver that tries
/// each of three silent name servers once. [`Config::connect`](crate::Config::connect) waits for the answer
/// for at most half of its own time limit, so that the servers of the connect string get a turn.
pub const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(5);

/// Time without a server after which a [`ServerList`](crate::ServerList) is asked again, as a part of the
/// session timeout. The known servers come first, and a new one must be found before the session expires.
pub const DISCOVERY_AFTER_PART: Fraction = Fraction::new(1, 4);

/// Shortest such time.
pub const DISCOVERY_PAUSE_MIN: Duration = Duration::from_secs(1);

/// Longest pause between two questions to a list, which doubles while no server is found. An outage of an
/// ensemble must not become one of the name servers.
pub const DISCOVERY_PAUSE_MAX: Duration = Duration::from_secs(30);

/// Pause before the ensemble's configuration is read again after a passing failure, with
/// [`Config::follow_members`](crate::Config::follow_members).
pub const FOLLOW_PAUSE: Duration = Duration::from_secs(1);

/// Reads of the password that may be under way at once for one
/// [`DigestMd5::reading`](crate::DigestMd5::reading). A read that hangs, as on a network drive,
/// outlives its attempt to connect. Without a limit, each attempt would leave a thread behind.
pub const PASSWORD_READS_MAX: usize = 4;

/// Time after which a request counts as slow. With the feature `tracing`, it is reported.
pub const SLOW_REQUEST: Duration = Duration::from_secs(1);

/// Session events kept for a subscriber that does not read. If there are more, a marker with the
/// number of missed events replaces the older ones.
pub const EVENTS_KEPT: usize = 64;

/// Bytes that one read requests from the transport.
pub const READ_CHUNK: usize = 16 * 1024;

/// Node data of at most this many bytes is copied. A slice would keep the whole [chunk](READ_CHUNK)
/// in memory for as long as the caller keeps the data.
pub const DATA_COPIED_MAX: usize = READ_CHUNK / 4;

/// Bytes of write buffer that a connection keeps between writes. A larger buffer, left by a burst
/// or a large node, is freed, because a process may have many idle sessions.
pub const WRITE_BUFFER_KEPT: usize = 4 * 1024;

/// Outputs of the core for which a session keeps space between two turns. A burst of events needs
/// more, which is freed.
pub const OUTPUTS_KEPT: usize = 32;

/// Reads and writes in one poll of the driver, before it yields to other tasks.
pub const WORK_PER_POLL: usize = 32;
