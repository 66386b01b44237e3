//! All limits of this crate, each with its reason.

use std::time::Duration;

/// First pause after a failed attempt. It doubles with each further failure. It is long against a
/// round trip, and short against a session timeout.
pub const BACKOFF_FIRST: Duration = Duration::from_millis(50);

/// Longest pause between two attempts. An operator who corrects an access control list waits at
/// most this long. A thousand rejected nodes cost a hundred requests a second.
pub const BACKOFF_MAX: Duration = Duration::from_secs(10);

/// Rounds of one attempt to bring a node into its wanted state. Other clients that change the node
/// in between cause further rounds. After this many, the next round follows a pause.
pub const ROUNDS_AT_ONCE: u32 = 4;

/// Pause before [`keep_data`](crate::PersistentNodeBuilder::keep_data) restores overwritten data.
/// Two processes that both restore their own data change the node ten times a second.
pub const RESTORE_PAUSE: Duration = Duration::from_millis(100);

/// How often a node is read if it cannot be watched because the session has too many watches. A
/// thousand such nodes cost a thousand reads a second.
pub const UNWATCHED_PAUSE: Duration = Duration::from_secs(1);

/// Shortest pause between two refreshes of a node with a time to live. A shorter time to live than
/// twice this pause lets the node expire.
pub const TTL_REFRESH_MIN: Duration = Duration::from_millis(10);

/// Earlier sessions whose node a persistent node replaces. One session is the normal case. There
/// are more if several sessions in a row ended before the server answered.
pub const EARLIER_SESSIONS_MAX: usize = 16;

/// Reads of members in flight at once. They hide the round trip, and another request of the same
/// session waits behind at most this many.
pub const MEMBER_READS_MAX: usize = 256;
