//! Links between the servers of an ensemble.

use std::time::Instant;

/// Link of a follower to the leader, or of an isolated leader to its followers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Up,
    /// The link transfers nothing. The server notices at `until`.
    Cut {
        until: Instant,
    },
    /// The server has noticed that it is cut off, and serves no clients.
    Down,
}
