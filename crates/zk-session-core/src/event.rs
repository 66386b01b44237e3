//! What happens to a session over its life.

use std::fmt;
use std::time::Duration;

use proto::{ErrorCode, Shown};

use crate::{Host, LossCause, SessionEnd};

/// A change in the life of a session, in the order in which it happened.
///
/// `Connected` comes once, first, or after `ReadOnly`. `Suspended` and `Reconnected` alternate after
/// it. One of `Expired`, `AuthFailed`, `Closed` and `Detached` comes last, once; nothing
/// follows it. `Closed` without `Connected` is what a client sees that was
/// closed before it ever had a session.
///
/// `Display` is a line for logs; `Debug` prints session ids in hexadecimal.
#[derive(Clone, PartialEq, Eq)]
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
    /// `Config::allow_read_only` says so, and only
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
    /// The session is over, though nobody ended it, and its ephemeral nodes are gone or about to go.
    Expired {
        /// The id of the session that is over; 0 if there never was one.
        session_id: i64,
        /// [`SessionEnd::Expired`]; [`SessionEnd::ExpiredLocally`], which tells of a process that
        /// did not run; or [`SessionEnd::CleanUpOverflow`].
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
    /// A guaranteed delete failed: the server
    /// declined with this code, and nobody waits for the answer any more.
    CleanUpFailed {
        /// The path of the node, as the server knows it.
        path: String,
        /// What the server said; `MarshallingError` if its answer was larger than this
        /// client accepts.
        code: ErrorCode,
    },
    /// Nodes wait to be deleted because [`CHORES_MAX`](crate::limits::CHORES_MAX) deletions are
    /// pending. The session deletes them in their turn. It sends this event at most once on each
    /// connection and once between two of them: when the first node has to wait, and at the beginning of
    /// a connection.
    CleanUpBacklog {
        /// How many nodes wait.
        nodes: usize,
    },
    /// So many events were not read in time and are lost to this subscriber.
    Missed(u64),
}

impl fmt::Debug for SessionEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, session_id) = match self {
            Self::Connected { session_id, .. } => ("Connected", session_id),
            Self::ReadOnly { session_id, .. } => ("ReadOnly", session_id),
            Self::Suspended { session_id, .. } => ("Suspended", session_id),
            Self::Reconnected { session_id, .. } => ("Reconnected", session_id),
            Self::Expired { session_id, .. } => ("Expired", session_id),
            Self::AuthFailed { session_id } => ("AuthFailed", session_id),
            Self::Closed { session_id } => ("Closed", session_id),
            Self::Detached { session_id } => ("Detached", session_id),
            Self::CleanUpFailed { path, code } => {
                let mut shown = f.debug_struct("CleanUpFailed");
                return shown.field("path", path).field("code", code).finish();
            }
            Self::CleanUpBacklog { nodes } => {
                return f.debug_struct("CleanUpBacklog").field("nodes", nodes).finish();
            }
            Self::Missed(events) => return f.debug_tuple("Missed").field(events).finish(),
        };
        let mut shown = f.debug_struct(name);
        shown.field("session_id", &format_args!("{session_id:#x}"));
        match self {
            Self::Connected { timeout, host, .. }
            | Self::ReadOnly { timeout, host, .. }
            | Self::Reconnected { timeout, host, .. } => {
                shown.field("timeout", timeout).field("host", &format_args!("{host}"));
            }
            Self::Suspended { cause, .. } => drop(shown.field("cause", cause)),
            Self::Expired { cause, .. } => drop(shown.field("cause", cause)),
            _ => {}
        }
        shown.finish()
    }
}

impl fmt::Display for SessionEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected { session_id, timeout, host } => {
                write!(
                    f,
                    "session {session_id:#x} connected to {host}, session timeout {timeout:?}"
                )
            }
            Self::ReadOnly { host, .. } => {
                write!(f, "connected to {host}, which is read-only, without a session")
            }
            Self::Suspended { session_id, cause } => {
                write!(f, "session {session_id:#x} disconnected: {cause}")
            }
            Self::Reconnected { session_id, timeout, host } => write!(
                f,
                "session {session_id:#x} reconnected to {host}, session timeout {timeout:?}"
            ),
            Self::Expired { session_id, cause } => {
                write!(f, "session {session_id:#x} ended: {cause}")
            }
            Self::AuthFailed { session_id } => {
                write!(f, "session {session_id:#x} ended: {}", SessionEnd::AuthFailed)
            }
            Self::Closed { session_id } => {
                write!(f, "session {session_id:#x} ended: {}", SessionEnd::Closed)
            }
            Self::Detached { session_id } => {
                write!(f, "session {session_id:#x} ended: {}", SessionEnd::Detached)
            }
            Self::CleanUpFailed { path, code } => {
                write!(f, "cannot remove {}: {code}", Shown(path))
            }
            Self::CleanUpBacklog { nodes } => {
                write!(f, "{nodes} nodes wait to be deleted, behind the deletions that are pending")
            }
            Self::Missed(events) => write!(f, "{events} session events were not read in time"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LossCause;

    #[test]
    fn events_print_names_and_hexadecimal_ids() {
        let host = Host::new("zk1", 2181);
        let timeout = Duration::from_secs(6);
        let connected = SessionEvent::Connected { session_id: 0x10_0000_0001, timeout, host };
        assert_eq!(
            format!("{connected:?}"),
            "Connected { session_id: 0x1000000001, timeout: 6s, host: zk1:2181 }"
        );
        assert_eq!(
            connected.to_string(),
            "session 0x1000000001 connected to zk1:2181, session timeout 6s"
        );
        let cause = LossCause::Refused(ErrorCode::NO_AUTH);
        let suspended = SessionEvent::Suspended { session_id: 16, cause };
        assert_eq!(
            format!("{suspended:?}"),
            "Suspended { session_id: 0x10, cause: Refused(NoAuth) }"
        );
        let failed = SessionEvent::CleanUpFailed { path: "/a".into(), code: ErrorCode::NOT_EMPTY };
        assert_eq!(
            format!("{failed} {failed:?}"),
            r#"cannot remove /a: NotEmpty (-111) CleanUpFailed { path: "/a", code: NotEmpty }"#
        );
        assert_eq!(format!("{:?}", SessionEvent::Missed(3)), "Missed(3)");
    }

    #[test]
    fn expiry_after_a_pause_says_that_the_process_did_not_run() {
        let cause = SessionEnd::ExpiredLocally { paused: Some(Duration::from_millis(12_340)) };
        let expired = SessionEvent::Expired { session_id: 1, cause };
        assert_eq!(
            expired.to_string(),
            "session 0x1 ended: this process did not run for 12.3 s (stopped, suspended or blocked), \
             and the session expired meanwhile"
        );
    }
}
