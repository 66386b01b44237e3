//! Every bound of this crate, in one place, each with its reason.

use std::time::Duration;

/// How often the parents of a lock node are made again because the server
/// removed them, as empty containers, before the node could be put in. Losing
/// that race once is normal, losing it this often in a row is not.
pub const PARENT_ATTEMPTS_MAX: usize = 16;

/// How often a contender starts over because somebody deleted its node.
pub const RESTARTS_MAX: usize = 16;

/// From this sequence number on a lock is refused. The number is the low end of
/// what a server counts in 31 bits; at the end it either repeats the last number
/// or goes on with negative ones, and both put two holders into one lock. Some
/// room is left because contenders arrive at the same time.
pub const SEQUENCE_END: u32 = (1 << 31) - 1_000_000;

/// How long a request waits before it is made again that a server has dropped for
/// its load: long against a round trip, short against a session timeout.
pub const THROTTLED_PAUSE: Duration = Duration::from_millis(100);

/// How often a guard looks for its node that cannot watch it, as its session is at a limit: a deletion
/// is noticed later than with a watch, and a thousand such guards cost a thousand reads a second.
pub const UNWATCHED_PAUSE: Duration = Duration::from_secs(1);

/// How often in a row a request may time out on a working connection before the operation fails.
/// The pauses in between add up to about a session timeout, within which the session replaces a
/// connection that does not answer. If requests still time out then, the handle's
/// [`request_timeout`](zk_session::Config::request_timeout) or
/// [`within`](zk_session::Client::within) is too short for the ensemble.
pub const TIMED_OUT_MAX: u32 = 16;

/// The first pause after a request that timed out. It doubles each time, up to an eighth of the
/// session timeout: a slow ensemble must not be sent the same request without a pause.
pub const TIMED_OUT_PAUSE: Duration = Duration::from_millis(20);

/// How long the one attempt of an acquisition with a timeout of zero may take, but for the precision
/// of timers: enough for the round trips to an ensemble nearby, and little for a caller who asked not
/// to wait. On an ensemble further away, or one that is busy, it never succeeds: `try_acquire` waits
/// for the answers.
pub const ATTEMPT_TIME: Duration = Duration::from_millis(15);

/// Requests made at once when the data of many contenders is read.
pub const PARTICIPANTS_CHUNK: usize = 256;

/// Bytes of data, plus four times the path, that always fit into a downgrade: half of a server's
/// frame limit. Beyond it the transaction is measured before a writer queues.
pub const DOWNGRADE_FITS: usize = 512 * 1024;

/// Permits that one call may take: each is a node, and a request at either end of its
/// life, and all of them wait for the same turn.
pub const PERMITS_AT_ONCE_MAX: u32 = 4_096;

/// Leases that are put in at once when several permits are taken, well below
/// [`REQUESTS_MAX`](zk_session::limits::REQUESTS_MAX).
pub const PERMITS_CHUNK: usize = 256;

/// How long a lock is held before the guard watches its own node, unless it waited with a watch
/// already; a sixteenth of the session timeout, if that is less. A watch costs a request and an
/// event, half as much again as taking and giving up a free lock, and most locks are
/// given up sooner.
pub const NODE_WATCH_DELAY: Duration = Duration::from_millis(100);

/// Pause of [`run_whenever_held`](crate::run_whenever_held) between a failed acquisition and the next on
/// the same session. A server that rejects requests at once must not get them in a tight loop.
pub const REQUEUE_PAUSE: Duration = Duration::from_millis(100);
