//! Errors of real servers.

use std::fmt;
use std::io;

/// Failure to find, start or control a real server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

/// Kinds of [`Error`], by the caller's possible reaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// ZooKeeper or Java is missing and cannot be installed.
    Missing,
    /// This machine lacks the rights or the kernel feature for the call.
    Unsupported,
    /// A server or a tool exists and failed.
    Failed,
}

impl Error {
    pub(crate) fn missing(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Missing, message: message.into() }
    }

    /// Creates an error of the kind [`ErrorKind::Unsupported`].
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Unsupported, message: message.into() }
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Failed, message: message.into() }
    }

    /// Returns a function that converts an operating system error, for `map_err`. `doing` describes the
    /// failed action.
    pub(crate) fn io(doing: impl fmt::Display) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::failed(format!("{doing}: {error}"))
    }

    /// Returns the kind of this error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
