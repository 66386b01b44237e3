//! Every limit of the crate, with the reason.

use std::time::Duration;

/// Containers and TTL nodes that one pass of the reaper deletes: the server's
/// `znode.container.maxPerMinute`.
pub const REAPED_PER_PASS_MAX: usize = 10_000;

/// A connection that has not sent its connect request is closed at the next multiple of this, so
/// after at least this long: the server's `NIOServerCnxnFactory` with its sessionless timeout.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// What a TCP connection is read with, at most, in one go.
pub const READ_LEN: usize = 64 * 1024;

/// Bytes sent to a client that it has not read. With this many unread, the server answers no further
/// request of the connection until the client reads. The last answer may exceed it, and so may watch
/// events, which no server holds back: those of persistent watches have no bound. Answers to writes
/// that a follower has sent to its leader may exceed it, too. The largest send buffer that Linux gives
/// a socket by default (`net.ipv4.tcp_wmem`) is as large.
pub const UNREAD_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A transport tells the server what a client has read in steps of this, so that small answers cost
/// no call each. Well below [`UNREAD_BYTES_MAX`]: a client that has read everything always has room.
pub const READ_REPORT_LEN: usize = UNREAD_BYTES_MAX / 4;

/// Requests of one connection that the server has taken and not answered, such as those that wait
/// for a leader. The server takes no more until it has answered one: the default of
/// `zookeeper.globalOutstandingLimit`, which a real server applies to all its connections together.
pub const OUTSTANDING_REQUESTS_MAX: usize = 1_000;

/// Bytes received on a connection and not taken as requests. With this many, a write on a
/// [`MemoryStream`](crate::MemoryStream) waits, and a TCP connection is not read from: the socket
/// buffers of a real connection are full at about this size. Larger than the longest request.
pub const RECEIVED_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Rules for faults that can be in force at a time. A test has a handful; a loop that adds rules
/// and forgets them should hear of it.
pub const FAULT_RULES_MAX: usize = 10_000;

/// The most servers an ensemble can have: a session id has one byte for the server's number.
pub const SERVERS_MAX: usize = 254;

/// How long a listener rests after a connection that could not be taken: when descriptors have run
/// out it must not spin until there are some.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(10);
