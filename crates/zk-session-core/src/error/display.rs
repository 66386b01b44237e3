//! The text of an error: the operation, the cause, and the outcome.

use std::fmt;

use proto::{Abbreviated, OpCode};

use super::{Error, ErrorKind, ErrorOrigin, Outcome, SessionEnd};
use crate::disconnect_reason::DisconnectReason;
use crate::{Limit, Operation};

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_cause(f)?;
        f.write_str(self.outcome_note())
    }
}

impl Error {
    /// Writes the operation and the cause, without the outcome.
    fn write_cause(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_operation(f)?;
        match self.kind() {
            ErrorKind::Server(code) if self.is_below_nothing() => {
                write!(f, "{code}; the chroot does not exist; Config::create_chroot creates it")
            }
            ErrorKind::Server(code) => write!(f, "{code}"),
            ErrorKind::Unsupported(op) => write!(f, "the servers do not know the operation {op}"),
            ErrorKind::RolledBack { index, operation, path, code } => {
                let path = Abbreviated(path);
                write!(f, "operation [{index}], {operation} {path}: {code}; nothing was applied")
            }
            ErrorKind::ConnectionLost(cause) => write!(f, "connection lost: {cause}"),
            // A new client with the same credentials would fail as well.
            ErrorKind::SessionEnded(end @ (SessionEnd::AuthFailed | SessionEnd::AuthRequired)) => {
                write!(f, "{end}")
            }
            ErrorKind::SessionEnded(end) => write!(f, "{end}; open a new client"),
            ErrorKind::NoSession(cause) => write_no_session(cause, f),
            ErrorKind::TimedOut => f.write_str("no answer within the timeout"),
            ErrorKind::NotReadOnly => {
                f.write_str("the server is read-only; wait for SessionEvent::Connected")
            }
            ErrorKind::TooLarge { len, max } => {
                write!(
                    f,
                    "a request of {len} bytes; this client sends at most {max} (max_request_len), and a \
                     server accepts at most its jute.maxbuffer"
                )
            }
            ErrorKind::ReplyTooLarge { len, max } => {
                write!(
                    f,
                    "an answer of {len} bytes; this client takes at most {max} (max_frame_len), whatever \
                     the jute.maxbuffer of the servers"
                )
            }
            ErrorKind::LimitReached(limit) => write_limit(*limit, f),
            ErrorKind::LeaseImpossible(why) => write!(f, "{why}"),
            ErrorKind::ManagerStopped(why) if *why.kind() == CLOSED => {
                f.write_str("the session manager is closed")
            }
            ErrorKind::ManagerStopped(why) => {
                f.write_str("no next session: ")?;
                why.write_cause(f)
            }
            ErrorKind::NoThread(kind) => write!(f, "no thread for the session: {kind}"),
            ErrorKind::InvalidPath(error) => write!(f, "{error}"),
            ErrorKind::InvalidTtl(ttl) => {
                write!(f, "a time to live of {ttl:?}; servers take 1 ms to 34 years (2^40 - 1 ms)")
            }
            ErrorKind::InvalidConnectString(why) => write!(f, "connect string: {why}"),
            ErrorKind::InvalidReply(error) => {
                write!(f, "cannot decode the server's answer: {error}")
            }
            ErrorKind::UnfitReply => f.write_str("the server's answer does not fit the request"),
        }
    }

    fn write_operation(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.inner.context, self.kind()) {
            // The path error contains the path.
            (Some((operation, _)), ErrorKind::InvalidPath(_)) => write!(f, "{operation}: "),
            // The number of operations stands in place of a path.
            (Some((Operation::Request(op @ (OpCode::Multi | OpCode::MultiRead)), count)), _) => {
                write!(f, "{op} of {count}: ")
            }
            (Some((operation, path)), _) => write!(f, "{operation} {}: ", Abbreviated(path)),
            (None, _) => Ok(()),
        }
    }

    /// Returns true if only the chroot can be missing: the root always exists, and it is the parent of
    /// a top-level node.
    fn is_below_nothing(&self) -> bool {
        let at_the_top = |path: &str| path.rfind('/') == Some(0);
        let is_root_missing = |(operation, path): &(Operation, String)| {
            path == "/" || *operation == OpCode::Create.into() && at_the_top(path)
        };
        self.is_no_node() && self.inner.context.as_ref().is_some_and(is_root_missing)
    }

    fn outcome_note(&self) -> &'static str {
        match (self.origin(), self.outcome()) {
            // The cause promises the deletion.
            _ if matches!(
                self.kind(),
                ErrorKind::LimitReached(Limit::CleanUps | Limit::CleanUpBytes)
            ) =>
            {
                ""
            }
            (ErrorOrigin::Server | ErrorOrigin::Caller, Outcome::Unknown) => {
                " (an earlier attempt may have been applied)"
            }
            (ErrorOrigin::Server | ErrorOrigin::Caller, _) => "",
            _ if matches!(self.kind(), ErrorKind::NoSession(_)) => "",
            (_, Outcome::Applied) => " (the request was applied)",
            (_, Outcome::NotApplied) => " (the request was not applied)",
            (_, Outcome::Unknown) => " (the request may have been applied)",
        }
    }
}

const CLOSED: ErrorKind = ErrorKind::SessionEnded(SessionEnd::Closed);

fn write_no_session(cause: &DisconnectReason, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match cause {
        // The first write fails if the server was faster.
        cause if cause.is_close() => f.write_str(
            "no session: the server closed the connection before it gave one; is this its client port, \
             without TLS, and below its limit for one address (maxClientCnxns)?",
        ),
        DisconnectReason::IdleTimeout => f.write_str(
            "no session: no server answered in time; is this the client port of a ZooKeeper that \
             serves?",
        ),
        cause => write!(f, "no session: {cause}"),
    }
}

fn write_limit(limit: Limit, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match limit {
        Limit::Requests | Limit::QueuedBytes => {
            write!(f, "too many requests wait for the ensemble ({limit}); slow down")
        }
        Limit::Watches => write!(f, "too many watches on one session ({limit})"),
        Limit::Credentials => write!(f, "too many credentials on one session ({limit})"),
        Limit::CleanUps | Limit::CleanUpBytes => {
            write!(f, "too many nodes wait to be deleted ({limit}); this one is deleted after them")
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !f.alternate() {
            return fmt::Display::fmt(self, f);
        }
        f.debug_struct("Error")
            .field("kind", self.kind())
            .field("outcome", &self.outcome())
            .field("context", &self.inner.context)
            .finish()
    }
}
