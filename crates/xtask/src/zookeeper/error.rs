//! What can go wrong with a real server.

use std::fmt;
use std::io;

/// Why a server could not be had, or did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

/// The classes of [`Error`], by what the caller can do about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// ZooKeeper or Java is not on this machine and could not be installed.
    Missing,
    /// This machine cannot do what was asked, for want of rights or of a kernel feature.
    Unsupported,
    /// A server or a tool was there and did not do what it should.
    Failed,
}

impl Error {
    pub(crate) fn missing(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Missing, message: message.into() }
    }

    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Unsupported, message: message.into() }
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Failed, message: message.into() }
    }

    /// Says what was being done when an operating system call failed; made for `map_err`.
    pub(crate) fn io(doing: impl fmt::Display) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::failed(format!("{doing}: {error}"))
    }

    /// Returns the class of this error.
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
