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

/// Rules for faults that can be in force at a time. A test has a handful; a loop that adds rules
/// and forgets them should hear of it.
pub const FAULT_RULES_MAX: usize = 10_000;

/// The most servers an ensemble can have: a session id has one byte for the server's number.
pub const SERVERS_MAX: usize = 254;

/// How long a listener rests after a connection that could not be taken: when descriptors have run
/// out it must not spin until there are some.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(10);
