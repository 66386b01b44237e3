//! Errors of a command, and their exit statuses.

use std::ffi::OsStr;
use std::path::Path;
use std::{fmt, io};

use serde_json::{Value, json};
use zk_recipes::session::{
    DisconnectReason, Error, ErrorCode, ErrorKind, Outcome, PathError, SaslFailure, SessionEnd,
};
use zk_recipes::{LockError, LossReason};

use crate::identity::Identity;
use crate::text::one_line;

/// The command line cannot be understood (`EX_USAGE`).
pub(crate) const USAGE: u8 = 64;
/// The ensemble cannot be reached (`EX_UNAVAILABLE`).
pub(crate) const UNREACHABLE: u8 = 69;
/// The lock was lost while the command ran (`EX_IOERR`).
const LOST: u8 = 74;
/// The lock was not acquired, the node not created, or the barrier not removed, in time
/// (`EX_TEMPFAIL`).
const NOT_IN_TIME: u8 = 75;
/// Another recipe uses the path (`EX_CONFIG`).
pub(crate) const FOREIGN_NODE: u8 = 78;
/// The reader of standard output has closed the pipe: 128 and SIGPIPE, as a shell reports it for
/// programs that the signal ends.
pub(crate) const PIPE_CLOSED: u8 = 128 + 13;
/// A command cannot be run, as a shell reports it.
const NOT_EXECUTABLE: u8 = 126;
/// There is no such command, as a shell reports it.
const NOT_FOUND: u8 = 127;
/// Any other error.
pub(crate) const OTHER: u8 = 1;

/// A result whose error ends the command, unless another one is named.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// An error that ends the command: an exit status and a one-line message.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    message: String,
    /// Whether the session has ended and the last request was not applied.
    pub(crate) starts_over: bool,
    /// Whether an access control list, or the server, rejected what the client presented.
    is_denied: bool,
    /// The error code of the server, if it rejected a request.
    rejection: Option<ErrorCode>,
    /// Whether the command may have changed anything.
    may_be_applied: bool,
}

impl Failure {
    pub(crate) fn other(message: impl Into<String>) -> Self {
        Self::new(OTHER, message.into())
    }

    /// Returns the failure for an access control list that denies what the command needs.
    pub(crate) fn denied(message: String) -> Self {
        Self { is_denied: true, ..Self::other(message) }
    }

    /// Returns the failure for a lost lock. Without a connection, `cause` says why there is none.
    pub(crate) fn lost(path: &str, reason: LossReason, cause: Option<DisconnectReason>) -> Self {
        let cause = cause.map(|cause| for_users(&format!(" (not connected: {cause})")));
        let cause = cause.unwrap_or_default();
        Self::new(LOST, format!("{path}: the lock was lost: {reason}{cause}"))
    }

    pub(crate) fn is_loss(&self) -> bool {
        self.code == LOST
    }

    pub(crate) fn is_no_node(&self) -> bool {
        self.rejection == Some(ErrorCode::NO_NODE)
    }

    /// Returns the failure for a text of a server that no server may send.
    pub(crate) fn not_permitted(what: &str, text: &str) -> Self {
        let what = format!("the server sent the {what} \"{text}\"");
        Self::other(what + ", which ZooKeeper does not permit")
    }

    pub(crate) fn is_no_auth(&self) -> bool {
        self.rejection == Some(ErrorCode::NO_AUTH)
    }

    pub(crate) fn is_rejection(&self) -> bool {
        self.rejection.is_some()
    }

    pub(crate) fn revoked(path: &str) -> Self {
        Self::new(LOST, format!("{path}: the lock was released on a revocation request"))
    }

    /// Returns the failure of a wait for something that did not happen in time.
    pub(crate) fn not_in_time(message: String) -> Self {
        Self::new(NOT_IN_TIME, message)
    }

    pub(crate) fn still_set(path: &str) -> Self {
        Self::new(NOT_IN_TIME, format!("{path}: the barrier is still set"))
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(USAGE, message.into())
    }

    /// Returns the failure for an ensemble that does not serve this client in time.
    pub(crate) fn unreachable(servers: &str, why: &str) -> Self {
        Self::new(UNREACHABLE, format!("{servers}: {why}"))
    }

    /// Adds what the failure is about.
    pub(crate) fn about(mut self, what: &str) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }

    /// Adds a text behind the message.
    fn and(mut self, text: &str) -> Self {
        self.message.push_str(text);
        self
    }

    /// Adds that a write in flight may have been applied.
    pub(crate) fn of_write(mut self) -> Self {
        self.may_be_applied = true;
        self.and(" (the request may have been applied)")
    }

    /// Returns the failure for standard output that cannot be written. Nothing is printed if its
    /// reader has gone, as `head` does.
    pub(crate) fn of_output(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::new(PIPE_CLOSED, String::new()),
            _ => Self::other(format!("standard output: {error}")),
        }
    }

    /// Adds what to do, if the server rejected the request with this code.
    pub(crate) fn with_hint(self, code: ErrorCode, hint: &str) -> Self {
        if self.rejection == Some(code) { self.and(&format!("; {hint}")) } else { self }
    }

    /// Returns the failure of a request with so many bytes of data. A server that does not take them closes
    /// the connection without an answer.
    pub(crate) fn of_data(error: Error, len: usize) -> Self {
        let is_lost = matches!(error.kind(), ErrorKind::ConnectionLost(_));
        let failure = Self::from(error);
        if is_lost && len > DEFAULT_JUTE_MAXBUFFER {
            return failure.and(&format!("; do the servers take {len} bytes (jute.maxbuffer)?"));
        }
        failure
    }

    /// Adds to a rejection what was presented, and the advice if the identities are insufficient. All
    /// commands pass here, so this also explains a rejected access control list.
    pub(crate) fn with_presented(self, identity: &Identity) -> Self {
        let presented = &identity.presented;
        // Servers that reject the credentials answer nothing, `zk whoami` included.
        let advice = if self.is_no_auth() { identity.advice } else { "" };
        if self.is_denied {
            return self.and(&format!(" ({presented}{advice})"));
        }
        if self.rejection == Some(ErrorCode::INVALID_ACL) {
            let why =
                "auth:: without credentials, or a scheme or an id that the server does not know";
            return self.and(&format!(" ({why}; {presented})"));
        }
        self
    }

    /// Adds the line of the input. The lines before it were applied.
    pub(crate) fn with_line(mut self, line: usize) -> Self {
        self.may_be_applied |= line > 1;
        self.about(&format!("line {line}"))
    }

    pub(crate) fn with_message(mut self, message: String) -> Self {
        self.message = message;
        self
    }

    /// Keeps the command from starting over: it has printed or read something.
    pub(crate) fn of_stream(mut self) -> Self {
        self.starts_over = false;
        self
    }

    /// Adds the number of nodes that were changed before the failure.
    pub(crate) fn with_done(mut self, nodes: usize, all: usize) -> Self {
        self.may_be_applied |= nodes > 0;
        self.and(&format!("; {nodes} of {all} nodes were changed")).of_stream()
    }

    /// Adds a text about nodes that were changed before the failure, if there are any.
    pub(crate) fn applied_to(mut self, nodes: usize, text: &str) -> Self {
        if nodes == 0 {
            return self;
        }
        self.may_be_applied = true;
        self.and(text)
    }

    /// Returns the failure of a command that cannot be started.
    pub(crate) fn not_started(program: &OsStr, error: &io::Error) -> Self {
        let code = match error.kind() {
            io::ErrorKind::NotFound => NOT_FOUND,
            _ => NOT_EXECUTABLE,
        };
        let program = Path::new(program).display().to_string();
        Self::new(code, format!("cannot start {program:?}: {error}"))
    }

    /// Returns the failure for a signal that arrived before the command was started. The exit
    /// status is the one that a shell reports for a command killed by the signal.
    pub(crate) fn interrupted(signal: u8) -> Self {
        Self::new(128 + signal, "interrupted".to_owned())
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({
            "error": one_line(&self.message),
            "status": self.code,
            "code": self.rejection.and_then(|code| code.name()),
            "may_be_applied": self.may_be_applied,
        })
    }

    fn new(code: u8, message: String) -> Self {
        let (starts_over, is_denied, may_be_applied) = (false, false, false);
        Self { code, message, starts_over, is_denied, rejection: None, may_be_applied }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&one_line(&self.message))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        if let ErrorKind::ManagerStopped(why) = error.kind() {
            return why.clone().into();
        }
        let code = match error.kind() {
            ErrorKind::NoSession(_)
            | ErrorKind::ConnectionLost(_)
            | ErrorKind::TimedOut
            | ErrorKind::NotReadOnly
            | ErrorKind::SessionEnded(SessionEnd::ExpiredLocally { .. }) => UNREACHABLE,
            ErrorKind::InvalidPath(_) | ErrorKind::InvalidConnectString(_) => USAGE,
            _ => OTHER,
        };
        let starts_over = is_end(&error) && error.outcome() == Outcome::NotApplied;
        let is_unknown = matches!(
            error.kind(),
            ErrorKind::SessionEnded(SessionEnd::AuthFailed | SessionEnd::AuthRequired)
                | ErrorKind::NoSession(DisconnectReason::Sasl(SaslFailure::Rejected))
        );
        let is_denied = is_unknown || error.is_no_auth();
        let message = for_users(&error.to_string());
        let rejection = error.code();
        let may_be_applied = error.outcome() != Outcome::NotApplied;
        Self { code, message, starts_over, is_denied, rejection, may_be_applied }
    }
}

/// Requests that servers take by default, with room for the rest of a request.
const DEFAULT_JUTE_MAXBUFFER: usize = 1_000_000;

/// Replaces advice that is meant for programs.
pub(crate) fn for_users(message: &str) -> String {
    message
        .replace("; open a new client", "")
        .replace("the chroot does not exist; Config::create_chroot creates it", NO_CHROOT)
        .replace("use a connector of the crate zk-tls", "use --cacert FILE")
        .replace("may have no majority", "may have no majority; see zk doctor")
        .replace("or allow foreign nodes", "or --allow-foreign-nodes")
        .replace("(max_request_len)", "(--max-request-len)")
        .replace("(max_frame_len)", "(--max-frame-len)")
        .replace("; wait for SessionEvent::Connected", ", for it has lost the majority")
}

/// Advice if the path of the connect string does not exist.
pub(crate) const NO_CHROOT: &str =
    "the chroot of --connect does not exist; --create-chroot creates it";

/// Returns true for the end of a session after which another one may be opened.
pub(crate) fn is_end(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::SessionEnded(end) if end.is_loss())
}

impl From<PathError> for Failure {
    fn from(error: PathError) -> Self {
        Self::new(USAGE, error.to_string())
    }
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Client(error) => error.into(),
            LockError::Lost(_) => Self::new(LOST, error.to_string()),
            LockError::RevocationRequested { node } => Self::revoked(&node),
            LockError::PermitsOutOfRange { .. } => Self::usage(error.to_string()),
            LockError::ForeignNode { .. } => Self::new(FOREIGN_NODE, for_users(&error.to_string())),
            error => Self::other(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use zk_recipes::session::{PeerProtocol, TlsFailure};

    use super::*;

    #[test]
    fn advice_names_the_options_of_the_command() {
        for cause in [
            DisconnectReason::NotZooKeeper(PeerProtocol::Tls),
            DisconnectReason::Tls(TlsFailure::NotConfigured),
        ] {
            let message = for_users(&cause.to_string());
            assert!(message.contains("use --cacert FILE"), "{message}");
            assert!(!message.contains("crate"), "{message}");
        }
    }

    #[test]
    fn whoami_is_advised_only_where_it_works() {
        let message = |kind: ErrorKind| {
            let failure = Failure::from(Error::not_applied(kind));
            let presented = "presented: sasl as alice".to_owned();
            let identity = Identity { presented, advice: "; zk whoami", ..Identity::default() };
            failure.with_presented(&identity).message
        };
        let denied = message(ErrorKind::Server(ErrorCode::NO_AUTH));
        assert!(denied.ends_with("(presented: sasl as alice; zk whoami)"), "{denied}");
        let rejected = message(ErrorKind::SessionEnded(SessionEnd::AuthFailed));
        assert!(rejected.ends_with("(presented: sasl as alice)"), "{rejected}");
    }
}
