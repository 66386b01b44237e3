//! Errors of a session: the cause, the party at fault, and whether the request was applied.

mod display;
#[cfg(test)]
mod tests;

use std::time::Duration;

use proto::{DecodeError, ErrorCode, OpCode, PathError};

use crate::disconnect_reason::DisconnectReason;
use crate::outcome::{Outcome, RetryOn};
use crate::session_end::SessionEnd;
use crate::{LeaseImpossible, Limit, Operation, SaslFailure, TlsFailure};

/// Cause of a failed request, and whether the request was applied.
pub type Failure = (ErrorKind, Outcome);

/// Party at fault for a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorOrigin {
    /// The server understood the request and rejected it, for example because the node does not
    /// exist.
    Server,
    /// The connection or the ensemble was not available.
    Network,
    /// The session is over, and its client cannot do anything more.
    Session,
    /// The caller requested something that cannot be done.
    Caller,
    /// The peer violated the protocol.
    Peer,
}

/// Cause of an [`Error`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The server rejected the request with this code.
    Server(ErrorCode),
    /// The servers lack this operation, and nothing can stand in for it. Nothing was sent: some servers close
    /// the connection over it. The [code](Error::code) is `Unimplemented`.
    Unsupported(OpCode),
    /// The server rejected one operation of a `multi`, and so applied none of them.
    RolledBack {
        /// Index of the rejected operation, counted from 0.
        index: usize,
        /// The operation: [`OpCode::Create`] for every request that creates a node,
        /// [`OpCode::SetData`], [`OpCode::Delete`] or [`OpCode::Check`].
        operation: OpCode,
        /// Path of the operation's node, as the caller gave it.
        path: String,
        /// Error code of the operation.
        code: ErrorCode,
    },
    /// The connection ended before the reply arrived. The session may still be alive.
    /// [`Error::outcome`] shows whether the request may have been applied.
    ConnectionLost(DisconnectReason),
    /// The session is over.
    SessionEnded(SessionEnd),
    /// No session was established in the time given to `Config::connect`.
    NoSession(DisconnectReason),
    /// The reply did not arrive within the time limit of `Config::request_timeout` or
    /// `Client::with_timeout`. A request that still waited for a connection is cancelled. A request that
    /// was sent may still be applied.
    TimedOut,
    /// The connection is to a read-only server, which `Config::allow_read_only` permits. Such a
    /// server rejects writes and `sync`. The client keeps searching for a read-write server.
    NotReadOnly,
    /// The request is larger than this client sends (`Config::max_request_len`).
    TooLarge {
        /// Length of the request's frame in bytes.
        len: usize,
        /// Maximum in bytes.
        max: usize,
    },
    /// The reply is larger than this client accepts (`Config::max_frame_len`), and the client
    /// closed the connection because of it. The same request would fail again.
    ReplyTooLarge {
        /// Length of the reply's frame in bytes.
        len: usize,
        /// Maximum in bytes.
        max: usize,
    },
    /// A limit of the session is reached.
    LimitReached(Limit),
    /// The session timeout and [`LeaseAssumptions`](crate::LeaseAssumptions) leave no room for a
    /// lease that is both safe and valid.
    LeaseImpossible(LeaseImpossible),
    /// The `SessionManager` stopped for this reason and opens no other session.
    ManagerStopped(Error),
    /// The operating system could not start a thread to drive the session.
    NoThread(std::io::ErrorKind),
    /// ZooKeeper does not accept the path.
    InvalidPath(PathError),
    /// No server accepts this time to live of a node; see [`TTL_MAX`](crate::limits::TTL_MAX).
    InvalidTtl(Duration),
    /// The connect string is invalid. The text names the position and the reason.
    InvalidConnectString(String),
    /// The server's reply could not be decoded.
    InvalidReply(DecodeError),
    /// The server's reply was decoded, but does not fit the request.
    UnfitReply,
}

/// Error of a failed request: the cause, the operation, and whether the request was applied.
///
/// `Debug` prints the same line as `Display`, so that `main` can return the error. `{:#?}` prints
/// the parts.
#[derive(Clone, PartialEq, Eq)]
pub struct Error {
    inner: Box<Inner>,
}

#[derive(Clone, PartialEq, Eq)]
struct Inner {
    kind: ErrorKind,
    outcome: Outcome,
    context: Option<(Operation, String)>,
}

impl Error {
    /// Creates an error from its cause and outcome, for a client that drives a session.
    #[must_use]
    pub fn new(kind: ErrorKind, outcome: Outcome) -> Self {
        Self { inner: Box::new(Inner { kind, outcome, context: None }) }
    }

    /// Creates an error for a failure that happened before anything was sent.
    #[must_use]
    pub fn not_applied(kind: ErrorKind) -> Self {
        Self::new(kind, Outcome::NotApplied)
    }

    /// Creates the error for a thread that could not be started to drive the session.
    #[must_use]
    pub fn no_thread(error: std::io::Error) -> Self {
        Self::not_applied(ErrorKind::NoThread(error.kind()))
    }

    /// Replaces the outcome, for an error that covers more than the one failed request.
    #[must_use]
    pub fn with_outcome(mut self, outcome: Outcome) -> Self {
        self.inner.outcome = outcome;
        self
    }

    /// Adds the operation and the path to the message.
    #[must_use]
    pub fn on(mut self, operation: impl Into<Operation>, path: impl Into<String>) -> Self {
        self.inner.context = Some((operation.into(), path.into()));
        self
    }

    /// Returns the cause.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.inner.kind
    }

    /// Returns the operation that failed, if the error is of one.
    #[must_use]
    pub fn operation(&self) -> Option<Operation> {
        self.inner.context.as_ref().map(|(operation, _)| *operation)
    }

    /// Returns what the operation failed on, as the message prints it after the operation: for most
    /// operations, the path that the caller gave.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        self.inner.context.as_ref().map(|(_, path)| path.as_str())
    }

    /// Returns whether the request changed anything on the server.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.inner.outcome
    }

    /// Returns the server's error code, if the server rejected the request. For a transaction, this
    /// is the code of the operation that failed.
    #[must_use]
    pub fn code(&self) -> Option<ErrorCode> {
        match self.kind() {
            ErrorKind::Server(code) | ErrorKind::RolledBack { code, .. } => Some(*code),
            ErrorKind::Unsupported(_) => Some(ErrorCode::UNIMPLEMENTED),
            _ => None,
        }
    }

    /// Returns true if the server rejected the request because the node does not exist, or the parent of
    /// a node to create.
    #[must_use]
    pub fn is_no_node(&self) -> bool {
        self.code() == Some(ErrorCode::NO_NODE)
    }

    /// Returns true if the server rejected the request because the node to create exists.
    #[must_use]
    pub fn is_node_exists(&self) -> bool {
        self.code() == Some(ErrorCode::NODE_EXISTS)
    }

    /// Returns true if the server rejected the request because the node has another version than the
    /// required one.
    #[must_use]
    pub fn is_bad_version(&self) -> bool {
        self.code() == Some(ErrorCode::BAD_VERSION)
    }

    /// Returns true if the server rejected the request because the node to delete has children.
    #[must_use]
    pub fn is_not_empty(&self) -> bool {
        self.code() == Some(ErrorCode::NOT_EMPTY)
    }

    /// Returns true if the server rejected the request because an access control list does not permit it.
    #[must_use]
    pub fn is_no_auth(&self) -> bool {
        self.code() == Some(ErrorCode::NO_AUTH)
    }

    /// Returns the party at fault.
    #[must_use]
    pub fn origin(&self) -> ErrorOrigin {
        match self.kind() {
            ErrorKind::Server(_) | ErrorKind::Unsupported(_) | ErrorKind::RolledBack { .. } => {
                ErrorOrigin::Server
            }
            ErrorKind::ConnectionLost(cause) | ErrorKind::NoSession(cause) => match cause {
                DisconnectReason::FrameTooLarge
                | DisconnectReason::ProtocolError(_)
                | DisconnectReason::NotZooKeeper(_)
                | DisconnectReason::UnknownXid(_)
                | DisconnectReason::OutOfOrder(_)
                | DisconnectReason::NoSessionId => ErrorOrigin::Peer,
                DisconnectReason::Tls(failure) => match failure {
                    TlsFailure::NotConfigured
                    | TlsFailure::FileUnreadable(_)
                    | TlsFailure::FileUnfit(_)
                    | TlsFailure::NoServerName(_)
                    | TlsFailure::CertificateRequired
                    | TlsFailure::CertificateRefused => ErrorOrigin::Caller,
                    TlsFailure::ClosedByServer => ErrorOrigin::Network,
                    _ => ErrorOrigin::Peer,
                },
                DisconnectReason::Sasl(failure) => match failure {
                    SaslFailure::NotOffered
                    | SaslFailure::MechanismRefused
                    | SaslFailure::Refused(_)
                    | SaslFailure::ClosedByServer => ErrorOrigin::Server,
                    SaslFailure::ClosedBeforeProof => ErrorOrigin::Network,
                    SaslFailure::NotPrepared(_) if !cause.is_lasting() => ErrorOrigin::Network,
                    SaslFailure::NotPrepared(_) | SaslFailure::Mechanism(_) => ErrorOrigin::Caller,
                    _ => ErrorOrigin::Peer,
                },
                _ => ErrorOrigin::Network,
            },
            ErrorKind::TimedOut | ErrorKind::NotReadOnly => ErrorOrigin::Network,
            ErrorKind::SessionEnded(_) | ErrorKind::ManagerStopped(_) => ErrorOrigin::Session,
            ErrorKind::InvalidReply(_) | ErrorKind::UnfitReply => ErrorOrigin::Peer,
            ErrorKind::TooLarge { .. }
            | ErrorKind::ReplyTooLarge { .. }
            | ErrorKind::LimitReached(_)
            | ErrorKind::LeaseImpossible(_)
            | ErrorKind::NoThread(_)
            | ErrorKind::InvalidPath(_)
            | ErrorKind::InvalidTtl(_)
            | ErrorKind::InvalidConnectString(_) => ErrorOrigin::Caller,
        }
    }

    /// Returns where the caller can repeat the request, with a chance to succeed and without the risk
    /// that it is applied twice.
    #[must_use]
    pub fn retry_on(&self) -> RetryOn {
        if self.outcome() != Outcome::NotApplied {
            return RetryOn::Never;
        }
        match self.kind() {
            ErrorKind::Server(code) | ErrorKind::RolledBack { code, .. }
                if TRANSIENT_CODES.contains(code) =>
            {
                RetryOn::SameSession
            }
            ErrorKind::ConnectionLost(_) | ErrorKind::TimedOut | ErrorKind::NotReadOnly => {
                RetryOn::SameSession
            }
            // A session keeps its credentials until it ends, so this limit stays reached.
            ErrorKind::LimitReached(limit) if *limit != Limit::Credentials => RetryOn::SameSession,
            // Another server may accept them: if all had rejected them, the session would have ended.
            ErrorKind::NoSession(DisconnectReason::Sasl(SaslFailure::Rejected)) => {
                RetryOn::NewSession
            }
            ErrorKind::NoSession(cause) if cause.is_lasting() => RetryOn::Never,
            ErrorKind::NoSession(_) => RetryOn::NewSession,
            ErrorKind::SessionEnded(end) => end.retry_on(),
            _ => RetryOn::Never,
        }
    }
}

/// Error codes of a temporary condition. The server is throttling, has no quorum, or no longer owns
/// the session; or the ensemble is being reconfigured.
pub const TRANSIENT_CODES: [ErrorCode; 5] = [
    ErrorCode::THROTTLED_OP,
    ErrorCode::NOT_READ_ONLY,
    ErrorCode::SESSION_MOVED,
    ErrorCode::RECONFIG_IN_PROGRESS,
    ErrorCode::NEW_CONFIG_NO_QUORUM,
];

impl From<PathError> for Error {
    fn from(error: PathError) -> Self {
        Self::not_applied(ErrorKind::InvalidPath(error))
    }
}

/// The error of every request from the end of the session on.
impl From<SessionEnd> for Error {
    fn from(end: SessionEnd) -> Self {
        Self::not_applied(ErrorKind::SessionEnded(end))
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self.kind() {
            ErrorKind::InvalidPath(error) => Some(error),
            ErrorKind::InvalidReply(error) => Some(error),
            _ => None,
        }
    }
}
