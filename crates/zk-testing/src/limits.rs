//! All limits of the crate, with their reasons.

use std::time::Duration;

/// Most containers and TTL nodes that the reaper deletes in one pass, all at once. A real server
/// has no such limit. It pauses after each deletion, so that a minute has at most
/// `znode.container.maxPerMinute` of them, by default as many as this.
pub const REAPED_PER_PASS_MAX: usize = 10_000;

/// Time for a connection to send its connect request, as in the server's `NIOServerCnxnFactory`
/// with its sessionless timeout. The server closes the connection at the first multiple of this
/// interval after that time.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Most bytes that one read takes from a TCP connection.
pub const READ_LEN: usize = 64 * 1024;

/// Most bytes sent to a client and not read by it. At this many, the server answers no further
/// request of the connection until the client reads. The last answer may exceed the limit. Watch
/// events may exceed it too, because no server delays them; events of persistent watches have no
/// limit. Answers to writes that a follower has sent to its leader may exceed it as well. The
/// largest send buffer that Linux gives a socket by default (`net.ipv4.tcp_wmem`) has this size.
pub const UNREAD_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Number of bytes read by a client after which the transport reports them to the server. A report
/// per answer would cost a call for each small answer. The value is well below
/// [`UNREAD_BYTES_MAX`], so a client that has read everything always has room.
pub const READ_REPORT_LEN: usize = UNREAD_BYTES_MAX / 4;

/// Most requests of one connection that the server has accepted and not answered; they wait for the
/// leader, for example. At this many, the server accepts the next one only after it has answered
/// one. The value is the default of `zookeeper.globalOutstandingLimit`, which a real server applies
/// to all its connections together.
pub const OUTSTANDING_REQUESTS_MAX: usize = 1_000;

/// Most bytes received on a connection and not yet parsed into requests. At this many, a write on a
/// [`MemoryStream`](crate::MemoryStream) waits and a TCP connection is not read. The socket buffers
/// of a real connection are full at about this size. The longest request is shorter.
pub const RECEIVED_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Most fault rules in force at a time; adding one more removes the oldest. A test needs a handful,
/// so only a loop that never removes its rules reaches the limit.
pub const FAULT_RULES_MAX: usize = 10_000;

/// Most requests of a [`RequestLog`](crate::RequestLog) between two calls of `take`. A test compares fewer;
/// at this many, a log that nobody reads has a few megabytes.
pub const REQUESTS_LOGGED_MAX: usize = 1_000_000;

/// Most servers in an ensemble: a session id has one byte for the server's number.
pub const SERVERS_MAX: usize = 254;

/// Pause of a listener after a failed accept. When the process has no file descriptors left, this
/// keeps the listener from spinning.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(10);
