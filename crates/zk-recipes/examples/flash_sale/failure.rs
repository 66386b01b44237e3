//! The failures of a sale, with one line of text and an exit code each.

use std::fmt;
use std::process::ExitCode;

#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line is not valid.
    Usage(String),
    /// The ensemble cannot be reached.
    Unavailable(String),
    /// The sale failed because of an unexpected error.
    Broken(String),
    /// The sale finished, but the lock or the shop has broken a promise.
    PromiseBroken,
    /// A user pressed Ctrl-C.
    Stopped,
}

impl Failure {
    /// Returns the exit code, from `sysexits.h` where it defines one.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Usage(_) => 64,
            Self::Unavailable(_) => 69,
            Self::Broken(_) | Self::PromiseBroken => 1,
            Self::Stopped => 130,
        })
    }

    /// Creates the failure of an action; `what` describes the action.
    pub(crate) fn broken(what: impl fmt::Display, why: impl fmt::Display) -> Self {
        Self::Broken(format!("{what}: {why}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(why) => write!(f, "{why} (--help tells more)"),
            Self::Unavailable(why) | Self::Broken(why) => f.write_str(why),
            Self::PromiseBroken => f.write_str("a check failed, see above"),
            Self::Stopped => f.write_str("stopped"),
        }
    }
}
