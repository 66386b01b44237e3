//! What the exit status says.

use std::process::ExitCode;

use zk_recipes::session::{Error, ErrorKind, Outcome, PathError, SessionEnd};
use zk_recipes::{LockError, LossReason};

use crate::grip::{Refused, Wanted};

/// The command line cannot be understood (`EX_USAGE`).
pub(crate) const USAGE: u8 = 64;
/// The ensemble cannot be reached (`EX_UNAVAILABLE`).
const UNREACHABLE: u8 = 69;
/// The lock was lost while the command ran (`EX_IOERR`).
const LOST: u8 = 74;
/// The lock was not acquired in time (`EX_TEMPFAIL`).
const NOT_IN_TIME: u8 = 75;
/// Another recipe uses the path (`EX_CONFIG`).
const FOREIGN_NODE: u8 = 78;
/// Everything else.
const OTHER: u8 = 1;

/// Why the command ends otherwise than well: an exit status and a line to read.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    message: String,
    /// The session has ended, and what was asked for last was not done.
    starts_over: bool,
}

impl Failure {
    pub(crate) fn other(message: String) -> Self {
        Self::new(OTHER, message)
    }

    pub(crate) fn lost(reason: LossReason) -> Self {
        Self::new(LOST, format!("the lock was lost: {reason}"))
    }

    pub(crate) fn revoked() -> Self {
        let message = "the lock was given up, because somebody asked for it".to_owned();
        Self::new(LOST, message)
    }

    pub(crate) fn not_in_time(wanted: &Wanted) -> Self {
        Self::new(NOT_IN_TIME, wanted.not_in_time())
    }

    pub(crate) fn usage(message: String) -> Self {
        Self::new(USAGE, message)
    }

    /// There is a session, and nothing else.
    pub(crate) fn silent(servers: &str) -> Self {
        let message = format!("{servers}: there is a session, but no request is carried out");
        Self::new(UNREACHABLE, message)
    }

    /// A session has ended, and no server gave the next one in time.
    pub(crate) fn no_session(servers: &str) -> Self {
        Self::new(UNREACHABLE, format!("connect to {servers}: no new session in time"))
    }

    /// About a write that was under way.
    pub(crate) fn of_write(mut self) -> Self {
        self.message.push_str(" (the request may have been applied)");
        self
    }

    /// With so many nodes deleted before, below the one that was to be deleted.
    pub(crate) fn with_deleted(mut self, nodes: usize) -> Self {
        if nodes > 0 {
            self.message.push_str(&format!("; of what is below, {nodes} deleted"));
        }
        self
    }

    /// Interrupted before there was a command to pass the signal on to; the status
    /// is the one a shell gives to a command that died of the signal.
    pub(crate) fn interrupted(signal: u8) -> Self {
        Self::new(128 + signal, "interrupted".to_owned())
    }

    /// True if the same may be asked for again, in another session, as nothing was applied.
    pub(crate) fn starts_over(&self) -> bool {
        self.starts_over
    }

    pub(crate) fn report(self) -> ExitCode {
        eprintln!("zk: {}", one_line(&self.message));
        ExitCode::from(self.code)
    }

    fn new(code: u8, message: String) -> Self {
        Self { code, message, starts_over: false }
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
            | ErrorKind::SessionEnded(SessionEnd::ExpiredLocally { .. }) => UNREACHABLE,
            ErrorKind::InvalidPath(_) | ErrorKind::InvalidConnectString(_) => USAGE,
            _ => OTHER,
        };
        let starts_over = is_end(&error) && error.outcome() == Outcome::NotApplied;
        // It is meant for programs.
        let message = error.to_string().replace("; open a new client", "");
        Self { code, message, starts_over }
    }
}

/// True for the end of a session after which there may be another one.
pub(crate) fn is_end(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::SessionEnded(end) if end.is_loss())
}

impl From<PathError> for Failure {
    fn from(error: PathError) -> Self {
        Self::new(USAGE, error.to_string())
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        let code = refused.errors.into_iter().next().map_or(USAGE, |it| Self::from(it).code);
        Self::new(code, refused.message)
    }
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Client(error) => error.into(),
            LockError::Lost(reason) => Self::lost(reason),
            LockError::RevocationRequested { .. } => Self::revoked(),
            LockError::PermitsOutOfRange { .. } => Self::usage(error.to_string()),
            LockError::ForeignNode { .. } => Self::new(FOREIGN_NODE, error.to_string()),
            error => Self::other(error.to_string()),
        }
    }
}

/// A message as one line of a bearable length, whatever servers have put into it.
fn one_line(message: &str) -> String {
    let escaped = |char: char| {
        let control = char.is_control().then(|| char.escape_default());
        let plain = (!char.is_control()).then_some(char);
        control.into_iter().flatten().chain(plain)
    };
    let mut line: String = message.chars().flat_map(escaped).take(LINE_MAX + 1).collect();
    if let Some((end, _)) = line.char_indices().nth(LINE_MAX) {
        line.truncate(end);
        line.push('…');
    }
    line
}

/// Paths may be as long as a frame, and a line is to be read.
const LINE_MAX: usize = 2000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_whatever_is_in_it() {
        assert_eq!(one_line("/ä: NoNode"), "/ä: NoNode");
        assert_eq!(one_line("/a\nb\u{1b}[2J"), "/a\\nb\\u{1b}[2J");
        let long = one_line(&"ä".repeat(1_000_000));
        assert_eq!(long.chars().count(), LINE_MAX + 1);
        assert!(long.ends_with("ä…"));
    }
}
