//! All limits of this crate, each with its reason.

use std::time::Duration;

/// How often a request is repeated, as far as a repetition does no harm. A request without a
/// connection waits, so each failure is a lost connection, a timeout or a throttled request. With
/// the pauses, this many take half a minute.
pub const REPEATS_MAX: u32 = 64;

/// The first pause before a request is repeated. It doubles each time, up to [`REPEAT_PAUSE_MAX`].
pub const REPEAT_PAUSE: Duration = Duration::from_millis(10);

/// The longest pause before a request is repeated: short against a session timeout.
pub const REPEAT_PAUSE_MAX: Duration = Duration::from_secs(1);

/// How often a change of an atomic value is repeated because another client changed the value
/// first. Sixty-four clients that change a value without a pause need some ten repetitions each.
pub const CONFLICTS_MAX: u32 = 128;

/// The first pause after a conflict, about a round trip to an ensemble nearby. It doubles each time,
/// up to [`CONFLICT_PAUSE_MAX`].
pub const CONFLICT_PAUSE: Duration = Duration::from_millis(2);

/// The longest pause after a conflict: 64 clients, each with a change of four milliseconds, then get
/// their turns.
pub const CONFLICT_PAUSE_MAX: Duration = Duration::from_millis(256);

/// Number of requests sent at once to read the state of many nodes, well below
/// [`REQUESTS_MAX`](zk_recipes::session::limits::REQUESTS_MAX).
pub const READS_CHUNK: usize = 256;

/// Maximum number of members of a double barrier. One transaction checks that all of them exist, and
/// must not be larger than a server accepts, with paths of up to 900 bytes.
pub const MEMBERS_MAX: usize = 1_024;

/// How often a member of a double barrier creates its node again after other clients deleted it.
pub const RESTARTS_MAX: u32 = 16;

/// How long a member of a double barrier that has timed out waits for the answer whether the barrier
/// opened meanwhile. It is long against two round trips, also on a busy ensemble.
pub const WITHDRAWAL_TIME: Duration = Duration::from_secs(1);
