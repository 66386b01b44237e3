//! What the exit status says.

use std::process::ExitCode;

use zk_recipes::session::{Error, ErrorKind, PathError, SessionEnd};
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
/// Everything else.
const OTHER: u8 = 1;

/// Why the command ends otherwise than well: an exit status and a line to read.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    pub(crate) fn other(message: String) -> Self {
        Self { code: OTHER, message }
    }

    pub(crate) fn lost(reason: LossReason) -> Self {
        Self { code: LOST, message: format!("the lock was lost: {reason}") }
    }

    pub(crate) fn not_in_time(wanted: &Wanted) -> Self {
        Self { code: NOT_IN_TIME, message: wanted.not_in_time() }
    }

    pub(crate) fn usage(message: String) -> Self {
        Self { code: USAGE, message }
    }

    /// Interrupted before there was a command to pass the signal on to; the status
    /// is the one a shell gives to a command that died of the signal.
    pub(crate) fn interrupted(signal: u8) -> Self {
        Self { code: 128 + signal, message: "interrupted".to_owned() }
    }

    pub(crate) fn report(self) -> ExitCode {
        eprintln!("zk: {}", self.message);
        ExitCode::from(self.code)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match error.kind() {
            ErrorKind::NoSession(_)
            | ErrorKind::ConnectionLost(_)
            | ErrorKind::SessionEnded(SessionEnd::ExpiredLocally) => UNREACHABLE,
            ErrorKind::InvalidPath(_) | ErrorKind::InvalidConnectString(_) => USAGE,
            _ => OTHER,
        };
        Self { code, message: error.to_string() }
    }
}

impl From<PathError> for Failure {
    fn from(error: PathError) -> Self {
        Self { code: USAGE, message: error.to_string() }
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        let code = refused.errors.into_iter().next().map_or(USAGE, |it| Self::from(it).code);
        Self { code, message: refused.message }
    }
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Client(error) => error.into(),
            LockError::Lost(reason) => Self::lost(reason),
            LockError::PermitsOutOfRange { .. } => Self::usage(error.to_string()),
            error => Self::other(error.to_string()),
        }
    }
}
