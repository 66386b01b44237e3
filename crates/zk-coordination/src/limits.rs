//! All limits of this crate, each with its reason.

use std::time::Duration;

use zk_recipes::session::limits::Fraction;

/// Default limit on the nodes of a cache. A larger tree is possible, but its first load takes
/// minutes, and a service should say that it expects it.
pub const CACHE_NODES_MAX: usize = 1_000_000;

/// Default limit on the memory of a cache's nodes in bytes, with [`NODE_BYTES`] for each node. It
/// leaves a service with a gigabyte room for other things.
pub const CACHE_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Memory of a cached node apart from its path and its data, in bytes: a Stat, two reference
/// counts, pointers, and the overhead of the allocator.
pub const NODE_BYTES: usize = 256;

/// Reads of one recipe in flight at once, and the default of a cache. More do not make a load faster, and
/// delay the other requests of the session.
pub const READS_IN_FLIGHT: usize = 256;

/// Reads in one request. A quarter of [`READS_IN_FLIGHT`] keeps the server busy while a reply is on
/// its way. Larger requests would delay the requests of other sessions at the server.
pub const READS_PER_REQUEST: usize = 64;

/// Names in a list of children that count as much as one node against [`READS_PER_REQUEST`].
pub const NAMES_PER_READ: usize = 16;

/// Cached data above this size is not read again after a gap before the Stat of the node shows that
/// it has changed. Below it, data costs less than a request of its own.
pub const RECHECKED_DATA_MAX: usize = 1024;

/// Pause between two checks of readable nodes of a cache, and of a group. A thousand caches of small nodes
/// cost a hundred requests a second, each of at most [`READS_PER_REQUEST`] nodes.
pub const CHECK_PAUSE: Duration = BACKOFF_MAX;

/// Nodes in a check that take a request each: members of a group, and nodes of a cache with more data than
/// [`RECHECKED_DATA_MAX`]. A thousand groups cost nine hundred requests a second.
pub const CHECKED_ALONE: usize = 8;

/// Default limit on the changes that wait for a subscriber of a cache. After a gap, changes arrive in
/// parts of at most [`READS_PER_REQUEST`], except for the deletion of a whole subtree.
pub const CHANGES_KEPT: usize = 1_024;

/// Largest number of changes that wait for a subscriber of a cache. The nodes that they keep count
/// separately. Without these, this many use some twenty megabytes.
pub const CHANGES_KEPT_MAX: usize = 262_144;

/// Changes that wait for the task of a watched value. It needs only the newest.
pub const VALUE_CHANGES_KEPT: usize = 16;

/// Nodes in one chunk of a snapshot. A change while a snapshot is in use copies one chunk, and a
/// pointer for each other chunk. With 100,000 nodes both take about a microsecond.
pub const CHUNK_LEN_MAX: usize = 256;

/// First pause of a background task after a failed attempt. It doubles with each further failure.
/// It is long against a round trip, and short against a session timeout.
pub const BACKOFF_FIRST: Duration = Duration::from_millis(50);

/// Longest pause of a background task between two attempts. An operator who corrects an access
/// control list waits at most this long. A thousand rejected nodes cost a hundred requests a second.
pub const BACKOFF_MAX: Duration = Duration::from_secs(10);

/// Rounds of one attempt to bring a node into its wanted state. Other clients that change the node
/// in between cause further rounds. After this many, the next round follows a pause.
pub const ROUNDS_AT_ONCE: u32 = 4;

/// Rounds to delete the node of a closed handle, while other clients change it in between. With the
/// pauses, this many take 0.8 to 1.6 s. The close then fails with `BadVersion`.
pub const REMOVAL_ROUNDS: u32 = 6;

/// Pause before [`keep_data`](crate::PersistentNodeBuilder::keep_data) restores overwritten data.
/// Two processes that both restore their own data change the node ten times a second.
pub const RESTORE_PAUSE: Duration = Duration::from_millis(100);

/// Part of the time to live after which a node is refreshed. The other half is left for attempts that
/// fail.
pub const TTL_REFRESH_PART: u32 = 2;

/// Part of the pause between two refreshes after which a failed one is repeated. Three attempts then fit into
/// the rest of the time to live.
pub const TTL_RETRY_PART: u32 = 4;

/// Shortest pause between two refreshes of a node with a time to live. A shorter time to live than
/// twice this pause lets the node expire.
pub const TTL_REFRESH_MIN: Duration = Duration::from_millis(10);

/// Earlier sessions whose node a persistent node replaces. One session is the normal case. There
/// are more if several sessions in a row ended before the server answered.
pub const EARLIER_SESSIONS_MAX: usize = 16;

/// How often a request is repeated, as far as a repetition does no harm. A request without a
/// connection waits, so each failure is a lost connection, a timeout or a throttled request. With
/// the pauses, this many take half a minute.
pub const REPEATS_MAX: u32 = 64;

/// The first pause before a request is repeated, also by a cache. It doubles each time, up to
/// [`REPEAT_PAUSE_MAX`].
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

/// Maximum number of members of a double barrier. One transaction checks that all of them exist, and
/// must not be larger than a server accepts, with paths of up to 900 bytes.
pub const MEMBERS_MAX: u32 = 1_024;

/// Time for which a member of a double barrier leaves the opening to a newer one: a few round trips to
/// an ensemble nearby.
pub const OPENING_PAUSE: Duration = Duration::from_millis(20);

/// Added to [`OPENING_PAUSE`] for each member, because the newest one reads all of them. A busy server
/// answers a thousand reads in less than a second.
pub const OPENING_PAUSE_PER_MEMBER: Duration = Duration::from_millis(1);

/// How often a member of a double barrier creates its node again after other clients deleted it.
pub const RESTARTS_MAX: u32 = 16;

/// How long a member of a double barrier that has timed out waits for the answer whether the barrier
/// opened meanwhile; a third of the session timeout, if that is more. It takes three round trips, also on
/// a busy ensemble. A session whose round trips take longer would hardly keep its locks.
pub const WITHDRAWAL_TIME: Duration = Duration::from_secs(1);

/// The least such time, as a part of the session timeout.
pub(crate) const WITHDRAWAL_PART: Fraction = Fraction::new(1, 3);
