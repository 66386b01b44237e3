//! How a sale can fail, in one line each, and with which exit code.

use std::fmt;
use std::process::ExitCode;

#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line makes no sense.
    Usage(String),
    /// The ensemble cannot be reached.
    Unavailable(String),
    /// Something broke on the way.
    Broken(String),
    /// The sale went through, but the lock or the shop did not keep its promise.
    PromiseBroken,
    /// Somebody pressed Ctrl-C.
    Stopped,
}

impl Failure {
    /// As in `sysexits.h`, where it has a code for it.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Usage(_) => 64,
            Self::Unavailable(_) => 69,
            Self::Broken(_) | Self::PromiseBroken => 1,
            Self::Stopped => 130,
        })
    }

    /// Something broke: `what` says what was being done.
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
