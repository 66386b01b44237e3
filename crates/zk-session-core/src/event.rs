//! Events in the life of a session.

use std::fmt;
use std::time::Duration;

use proto::{Abbreviated, ErrorCode, SessionId};

use crate::{DisconnectReason, Host, SessionEnd};

/// Change in the life of a session. Events are sent in the order in which they happened.
///
/// * `Connected` is sent once, as the first event or after `ReadOnly`.
/// * `Suspended` and `Reconnected` alternate after it.
/// * One of `Expired`, `AuthFailed`, `Closed` and `Detached` is sent once. No event follows it.
///
/// A client that is closed before it had a session receives `Closed` without `Connected`.
///
/// `Display` prints a line for logs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionEvent {
    /// The session is established: the server created it, or accepted a resumed one.
    Connected {
        /// Id of the session.
        session_id: SessionId,
        /// Session timeout granted by the server.
        timeout: Duration,
        /// Server that accepted the connection.
        host: Host,
    },
    /// The client is connected to a server without a quorum. The server answers reads from its last
    /// known state and rejects writes. No lock can be held.
    ///
    /// This event requires `Config::allow_read_only` and is only sent before `Connected`.
    /// `Suspended` with [`SessionId::NONE`] follows it. `Connected` then reports the session of a
    /// read-write server.
    ReadOnly {
        /// Id assigned by this server. It means nothing to other servers.
        session_id: SessionId,
        /// Session timeout granted by the server.
        timeout: Duration,
        /// Server that accepted the connection.
        host: Host,
    },
    /// The connection ended. The session may still be alive. A lock holder should check its guard,
    /// not this event.
    Suspended {
        /// Id of the session.
        session_id: SessionId,
        /// Reason why the connection ended.
        cause: DisconnectReason,
    },
    /// The same session is connected again, with its nodes and its watches.
    Reconnected {
        /// Id of the session, unchanged.
        session_id: SessionId,
        /// Session timeout granted by the server this time.
        timeout: Duration,
        /// Server that accepted the connection.
        host: Host,
    },
    /// A server has granted the session another timeout than the server before. It follows
    /// `Reconnected`, or `Connected` if the session was resumed. Servers of one ensemble should have the
    /// same `minSessionTimeout` and `maxSessionTimeout`: the lease counts with the shortest timeout from
    /// then on.
    TimeoutChanged {
        /// Id of the session.
        session_id: SessionId,
        /// Session timeout granted before; of a session that was resumed, the shortest one.
        before: Duration,
        /// Session timeout granted now.
        timeout: Duration,
    },
    /// The session is over, and the application did not end it. Its ephemeral nodes are deleted, or
    /// will be deleted soon.
    Expired {
        /// Id of the session that is over; [`SessionId::NONE`] if there never was one.
        session_id: SessionId,
        /// [`SessionEnd::Expired`]; [`SessionEnd::ExpiredLocally`], which reports whether this
        /// process was paused; or [`SessionEnd::CleanUpOverflow`].
        cause: SessionEnd,
    },
    /// The server rejected the credentials, or requires some. The client cannot be used any more.
    AuthFailed {
        /// Id of the session.
        session_id: SessionId,
        /// [`SessionEnd::AuthFailed`] or [`SessionEnd::AuthRequired`].
        cause: SessionEnd,
    },
    /// The client was closed.
    Closed {
        /// Id of the session; [`SessionId::NONE`] if there never was one.
        session_id: SessionId,
    },
    /// The client detached from the session. The session stays alive, and another client can resume
    /// it.
    Detached {
        /// Id of the session; [`SessionId::NONE`] if there never was one.
        session_id: SessionId,
    },
    /// A guaranteed delete failed: the server rejected it with this code, and no caller waits for
    /// the reply.
    CleanUpFailed {
        /// Full path of the node on the server.
        path: String,
        /// Error code of the server; `MarshallingError` if its reply was larger than this client
        /// accepts.
        code: ErrorCode,
    },
    /// Nodes wait to be deleted, because [`CLEAN_UPS_MAX`](crate::limits::CLEAN_UPS_MAX) deletions, or
    /// [`QUEUED_BYTES_MAX`](crate::limits::QUEUED_BYTES_MAX) bytes of their paths, are pending. The
    /// session deletes them when earlier deletions complete.
    ///
    /// The event is sent when the first node has to wait, and at the beginning of a connection. It
    /// is sent at most once on each connection and once between two connections.
    CleanUpBacklog {
        /// Number of nodes that wait.
        nodes: usize,
    },
    /// The subscriber did not read in time and lost this many events.
    Missed(u64),
}

impl fmt::Display for SessionEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected { session_id, timeout, host } => {
                write!(f, "session {session_id} connected to {host}, session timeout {timeout:?}")
            }
            Self::ReadOnly { host, .. } => {
                write!(f, "connected to {host}, which is read-only, without a session")
            }
            Self::Suspended { session_id, cause } => {
                write!(f, "session {session_id} disconnected: {cause}")
            }
            Self::Reconnected { session_id, timeout, host } => {
                write!(f, "session {session_id} reconnected to {host}, session timeout {timeout:?}")
            }
            Self::TimeoutChanged { session_id, before, timeout } => write!(
                f,
                "session {session_id}: the session timeout is {timeout:?} at this server, and was \
                 {before:?}; servers differ in minSessionTimeout or maxSessionTimeout"
            ),
            Self::Expired { session_id, cause } | Self::AuthFailed { session_id, cause } => {
                write!(f, "session {session_id} ended: {cause}")
            }
            Self::Closed { session_id } => {
                write!(f, "session {session_id} ended: {}", SessionEnd::Closed)
            }
            Self::Detached { session_id } => {
                write!(f, "session {session_id} ended: {}", SessionEnd::Detached)
            }
            Self::CleanUpFailed { path, code } => {
                write!(f, "cannot remove {}: {code}", Abbreviated(path))
            }
            Self::CleanUpBacklog { nodes } => {
                write!(f, "{nodes} nodes wait to be deleted behind pending deletions")
            }
            Self::Missed(events) => write!(f, "{events} session events were not read in time"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DisconnectReason;

    #[test]
    fn events_print_names_and_hexadecimal_ids() {
        let host = Host::new("zk1", 2181);
        let timeout = Duration::from_secs(6);
        let connected =
            SessionEvent::Connected { session_id: SessionId(0x10_0000_0001), timeout, host };
        assert_eq!(
            format!("{connected:?}"),
            "Connected { session_id: 0x1000000001, timeout: 6s, host: zk1:2181 }"
        );
        assert_eq!(
            connected.to_string(),
            "session 0x1000000001 connected to zk1:2181, session timeout 6s"
        );
        let cause = DisconnectReason::Refused(ErrorCode::NO_AUTH);
        let suspended = SessionEvent::Suspended { session_id: SessionId(16), cause };
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
        for (end, text) in [
            (SessionEvent::Closed { session_id: SessionId(16) }, "Closed { session_id: 0x10 }"),
            (
                SessionEvent::Expired { session_id: SessionId(16), cause: SessionEnd::Expired },
                "Expired { session_id: 0x10, cause: Expired }",
            ),
            (
                SessionEvent::AuthFailed {
                    session_id: SessionId(16),
                    cause: SessionEnd::AuthFailed,
                },
                "AuthFailed { session_id: 0x10, cause: AuthFailed }",
            ),
        ] {
            assert_eq!(format!("{end:?}"), text);
        }
    }

    #[test]
    fn expired_event_reports_a_pause_of_the_process() {
        let cause = SessionEnd::ExpiredLocally { paused: Some(Duration::from_millis(12_340)) };
        let expired = SessionEvent::Expired { session_id: SessionId(1), cause };
        assert_eq!(
            expired.to_string(),
            "session 0x1 ended: this process did not run for 12.3 s (stopped, suspended or blocked), \
             and the session expired meanwhile"
        );
    }
}
