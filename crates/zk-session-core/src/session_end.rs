//! Reasons for which a session ended.

use std::fmt;
use std::time::Duration;

use crate::outcome::RetryOn;
use crate::pauses::NotRunning;

/// Reason for which a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SessionEnd {
    /// The server reported that the session had expired.
    Expired,
    /// No server answered for so long that every server must have expired the session. The client
    /// decides this by its own clock, without waiting for a server that may never return.
    ExpiredLocally {
        /// Time for which this process did not run, if that explains the missing answers. The
        /// process was stopped, its machine was suspended, or a task blocked its runtime.
        paused: Option<Duration>,
    },
    /// The connection was lost, and the servers do not resume sessions
    /// ([`ServerKind::Keeper`](crate::ServerKind::Keeper)); or a server has opened another session in place
    /// of this one. The servers keep the ephemeral nodes until the session timeout has passed.
    NotResumed,
    /// The server rejected the credentials: those of `Config::auth`, or those of `Config::sasl`. Those
    /// of SASL count as rejected when every server that can be reached has rejected them.
    /// [`SASL_CLOSES_MAX`](crate::limits::SASL_CLOSES_MAX) closes in a row at every server, after the
    /// client's SASL proof, count as a rejection.
    AuthFailed,
    /// The server requires an authentication scheme that this client did not use. See
    /// ZooKeeper's settings `sessionRequireClientSASLAuth` and `enforce.auth.schemes`.
    AuthRequired,
    /// The client was closed.
    Closed,
    /// `Client::detach` detached the client from the session. The session stays alive.
    Detached,
    /// The backlog of nodes to delete exceeded
    /// [`BACKLOG_BYTES_MAX`](crate::limits::BACKLOG_BYTES_MAX). The client closed the session,
    /// which deletes its ephemeral nodes.
    CleanUpOverflow,
    /// Code of the application that the driver of the session runs has panicked: a connector, its
    /// stream, or a SASL mechanism. The servers keep the session until it expires.
    DriverPanicked,
    /// No session has been opened yet. It is the end of the client that a `SessionManager` has until its
    /// first session is open.
    NotOpened,
}

impl SessionEnd {
    /// Returns true if the session ended unintentionally and another session can succeed. A
    /// `SessionManager` then opens the next one.
    #[must_use]
    pub fn is_loss(self) -> bool {
        matches!(
            self,
            Self::Expired
                | Self::ExpiredLocally { .. }
                | Self::NotResumed
                | Self::CleanUpOverflow
                | Self::DriverPanicked
                | Self::NotOpened
        )
    }

    /// Returns true if the servers may keep the session's ephemeral nodes for a while: no server has told
    /// that it has ended.
    pub(crate) fn leaves_nodes(self) -> bool {
        matches!(self, Self::NotResumed | Self::ExpiredLocally { .. })
    }

    /// Returns on which session a call may succeed that failed because of this end: on the next one,
    /// unless the servers reject the credentials.
    #[must_use]
    pub fn retry_on(self) -> RetryOn {
        match self {
            Self::AuthFailed | Self::AuthRequired => RetryOn::Never,
            _ => RetryOn::NewSession,
        }
    }
}

impl fmt::Display for SessionEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "the session expired",
            Self::ExpiredLocally { paused: Some(paused) } => {
                return write!(f, "{}, and the session expired meanwhile", NotRunning(*paused));
            }
            Self::ExpiredLocally { paused: None } => {
                "no server answered within the session timeout, so the session expired"
            }
            Self::NotResumed => {
                "the server does not resume sessions, so the session ended with its connection"
            }
            Self::AuthFailed => {
                "the server rejected the credentials, or has no key for its own Kerberos principal"
            }
            Self::AuthRequired => {
                "the server requires authentication of a kind that the client did not present \
                 (SASL, or the schemes in the server's enforce.auth.schemes)"
            }
            Self::Closed => "the client was closed",
            Self::Detached => "the client was detached from its session",
            Self::CleanUpOverflow => {
                "too many nodes waited to be deleted, so the client closed the session"
            }
            Self::DriverPanicked => {
                "the connector, its stream or the SASL mechanism of the session has panicked; the servers \
                 keep the session until it expires"
            }
            Self::NotOpened => "no session is open yet; SessionManager::open_client waits for the first one",
        })
    }
}

impl std::error::Error for SessionEnd {}
