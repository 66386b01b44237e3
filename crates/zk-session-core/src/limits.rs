//! Every bound of this crate, in one place, each with its reason.

use std::time::Duration;

/// Requests a session may have waiting or in flight. Beyond it a request is
/// refused at once, so that a dead ensemble cannot fill the memory of a service.
pub const REQUESTS_MAX: usize = 65_536;

/// Bytes of requests waiting for a connection, or for it to take them, for the
/// same reason.
pub const QUEUED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Watches a session may hold, of all kinds together.
pub const WATCHES_MAX: usize = 1 << 20;

/// How long the server keeps a watch that nobody wants any more. Most watches are
/// dropped because their node is about to go, as in the hand-off of a lock, and it
/// takes the watch along: then no request is needed.
pub const REMOVAL_DELAY: Duration = Duration::from_millis(100);

/// Watches on one path among which each that is dropped is looked for at once. Among more
/// all that were dropped are looked for together, [a moment later](REMOVAL_DELAY): one by
/// one, the time would grow with the square of their number.
pub const PRUNED_AT_ONCE: usize = 64;

/// Watched paths that the server is made to forget in one go, so that dropping
/// very many watches does not get in the way of requests.
pub const REMOVALS_AT_ONCE: usize = 1_000;

/// Clean-up tasks that may be pending: one for every request there could be. Further ones wait in a
/// backlog, and no caller gets their answers; see
/// [`SessionEvent::CleanUpBacklog`](crate::SessionEvent::CleanUpBacklog).
pub const CHORES_MAX: usize = REQUESTS_MAX;

/// Bytes of memory of the backlog of clean-up tasks: about 500,000 lock nodes. A session that exceeds
/// it is closed, which deletes its ephemeral nodes. If it stayed alive, its nodes would block locks
/// that nobody holds.
pub const BACKLOG_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Credentials of one session, each of which is sent on every connection.
pub const CREDENTIALS_MAX: usize = 64;

/// Bytes of paths in one `setWatches` frame, unless it is for a single longer
/// path. Java's figure, well below the server's frame limit (ZOOKEEPER-706).
pub const REARM_CHUNK_BYTES: usize = 128 * 1024;

/// Bytes of requests that are given to the connection at a time, and one request more:
/// what is behind them can be overtaken by a sign of life. On a line so slow that these
/// take a second, a ping comes a second late.
pub const HANDED_OVER_BYTES: usize = 128 * 1024;

/// Bytes of requests that are on their way to the server or wait there, and one request
/// more, but for what a connection begins with: when those in front are answered more are
/// sent. Pings and heartbeats go past the rest. A socket takes megabytes by itself; on a
/// line, or at a server, that takes 200 kB a second a lease of 4.5 s was lost behind them
/// with everything well.
pub const UNANSWERED_BYTES: usize = 256 * 1024;

/// The shortest time one server gets to accept and to answer the handshake.
/// Java divides the session timeout by the number of hosts, which with nine
/// hosts leaves no time for a slow name lookup.
pub const CONNECT_TIMEOUT_MIN: Duration = Duration::from_secs(1);

/// The longest time it gets for either, however long the session timeout: a resolver
/// whose first name server is dead takes five seconds, and who waits for a first
/// connection, ten by default, must see a second server within it.
pub const CONNECT_TIMEOUT_MAX: Duration = Duration::from_secs(6);

/// The longest answer to a handshake, in bytes. It has 37, but for what a later release
/// may add behind; what a server would have us keep as password is presented to it again
/// and must never be more than it takes.
pub const HANDSHAKE_LEN_MAX: usize = 1024;

/// The first step of the reconnect back-off. It doubles at each failure in a
/// row; the pause is drawn uniformly below the step.
pub const BACKOFF_STEP: Duration = Duration::from_millis(20);

/// The largest back-off step: a lock holder must be back well within its lease.
pub const BACKOFF_MAX: Duration = Duration::from_secs(1);

/// How long a server is passed over that took the connection and not the session,
/// because it is behind what the session has seen, or not serving: long enough for
/// it to catch up, and short against any lease.
pub const BEHIND_SKIP: Duration = Duration::from_secs(1);

/// The first pause of the search for a read-write server, while connected to a
/// read-only one; it doubles, as in the Java client.
pub const PROBE_PAUSE_MIN: Duration = Duration::from_millis(100);

/// The longest such pause: reads still work meanwhile, and each probe is a connection.
pub const PROBE_PAUSE_MAX: Duration = Duration::from_secs(60);

/// How long a server has to say whether it takes writes.
pub const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// The longest silence from our side on a connection, however long the session
/// timeout, so that dead connections are noticed and middle boxes kept awake.
pub const PING_INTERVAL_MAX: Duration = Duration::from_secs(10);

/// The longest session timeout by which it is judged whether a server is still there: a
/// server may grant one of weeks, and pings go out every [ten seconds](PING_INTERVAL_MAX).
pub const PATIENCE_MAX: Duration = Duration::from_secs(60);

/// How late a session's turn comes when its process is said to have been paused: a runtime under
/// load is late by hundredths of a second, and no lease outlives many times this.
pub const PAUSE_NOTICED: Duration = Duration::from_millis(500);

/// Pings without an answer whose times are kept: more than one there are only while a
/// reply comes that takes longer than a third of the session timeout.
pub const PINGS_MAX: usize = 64;

/// Answered packets in a session timeout whose times the lease keeps as evidence. Closer ones prove
/// next to nothing more.
pub const TOUCHES_PER_TIMEOUT: u32 = 64;

/// How long `Client::close` tries to tell the server.
pub const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The shortest time for it, however impatient the caller: until the driver has had its
/// turn and the request to close is with the server, or else the server keeps the
/// session, and its locks, for as long as the session timeout.
pub const CLOSE_TIMEOUT_MIN: Duration = Duration::from_millis(50);
