//! What happens to a session over its life.

use std::time::Duration;

use proto::ErrorCode;

use crate::{Host, LossCause, SessionEnd};

/// A change in the life of a session, in the order in which it happened.
///
/// `Connected` comes once, first, or after `ReadOnly`. `Suspended` and `Reconnected` alternate after
/// it. One of `Expired`, `AuthFailed`, `Closed` and `Detached` comes last, once; nothing
/// follows it. `Closed` without `Connected` is what a client sees that was
/// closed before it ever had a session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionEvent {
    /// The session was made.
    Connected {
        /// The session's id.
        session_id: i64,
        /// The session timeout the server decided on.
        timeout: Duration,
        /// The server that answered.
        host: Host,
    },
    /// There is a connection, to a server without a quorum: reads are answered, out of
    /// what it knew last, writes are refused, and no lock can be held. It comes only if
    /// [`Config::allow_read_only`](crate::Config::allow_read_only) says so, and only
    /// before `Connected`, which tells that the session was made after all. `Suspended`
    /// with session id 0 follows it.
    ReadOnly {
        /// The id that this server has given, which means nothing to others.
        session_id: i64,
        /// The session timeout the server decided on.
        timeout: Duration,
        /// The server that answered.
        host: Host,
    },
    /// The connection is gone. The session may live on: whoever holds a lock
    /// should look at its guard, not at this event.
    Suspended {
        /// The session's id.
        session_id: i64,
        /// Why the connection ended.
        cause: LossCause,
    },
    /// The same session is connected again, with its nodes and its watches.
    Reconnected {
        /// The session's id, unchanged.
        session_id: i64,
        /// The session timeout the server decided on this time.
        timeout: Duration,
        /// The server that answered.
        host: Host,
    },
    /// The session is over, and its ephemeral nodes are gone or about to go.
    Expired {
        /// The id of the session that is over; 0 if there never was one.
        session_id: i64,
        /// [`SessionEnd::Expired`] or [`SessionEnd::ExpiredLocally`].
        cause: SessionEnd,
    },
    /// The server did not accept the credentials; the client is of no more use.
    AuthFailed {
        /// The session's id.
        session_id: i64,
    },
    /// The client was closed.
    Closed {
        /// The session's id; 0 if there never was one.
        session_id: i64,
    },
    /// This client has let go of the session, which lives on for whoever resumes it.
    Detached {
        /// The session's id; 0 if there never was one.
        session_id: i64,
    },
    /// A node that was to be removed for certain could not be: the server
    /// declined with this code, and nobody waits for the answer any more.
    CleanUpFailed {
        /// The path of the node, as the server knows it.
        path: String,
        /// What the server said; `MarshallingError` if its answer was larger than this
        /// client accepts.
        code: ErrorCode,
    },
    /// So many events were not read in time and are lost to this subscriber.
    Missed(u64),
}
