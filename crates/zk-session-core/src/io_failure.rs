//! Errors of the operating system and of libraries, in a form that can be kept.

use std::sync::Arc;
use std::{fmt, io};

/// An [`io::Error`] in a form that can be cloned and compared: its kind and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoFailure {
    kind: io::ErrorKind,
    text: Arc<str>,
}

impl IoFailure {
    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> io::ErrorKind {
        self.kind
    }

    /// Returns true if another attempt may succeed: a server could not be reached in time, or at
    /// all.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(
            self.kind,
            io::ErrorKind::TimedOut
                | io::ErrorKind::HostUnreachable
                | io::ErrorKind::NetworkUnreachable
                | io::ErrorKind::ConnectionRefused
        )
    }
}

impl From<io::Error> for IoFailure {
    fn from(error: io::Error) -> Self {
        Self { kind: error.kind(), text: error.to_string().into() }
    }
}

impl From<io::ErrorKind> for IoFailure {
    fn from(kind: io::ErrorKind) -> Self {
        io::Error::from(kind).into()
    }
}

/// Prints the text.
impl fmt::Display for IoFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for IoFailure {}
