//! File that keeps the session of `zk register` from one run to the next.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use zk_recipes::session::SessionId;

use crate::failure::Failure;

/// The file, which this process has locked. Otherwise a program that is started twice would take the
/// node of its other process for that of its last run.
pub(crate) struct StateFile {
    path: PathBuf,
    file: Flock<File>,
    stored: Option<SessionId>,
}

impl StateFile {
    /// Opens the file, and creates it if it is missing.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let opened =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let file = opened.map_err(|error| failure(path, &error))?;
        let mut file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(file) => file,
            Err((_, Errno::EWOULDBLOCK)) => {
                let text = format!("{}: another zk register uses the file", path.display());
                return Err(Failure::other(text));
            }
            Err((_, error)) => return Err(failure(path, &error.into())),
        };
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(|error| failure(path, &error))?;
        let stored = match text.trim() {
            "" => None,
            session => Some(session.parse().map_err(|_| {
                Failure::other(format!(
                    "{}: the file has no session of zk register",
                    path.display()
                ))
            })?),
        };
        Ok(Self { path: path.to_owned(), file, stored })
    }

    /// Returns the session of the last run, if that has not deleted its node.
    pub(crate) fn session(&self) -> Option<SessionId> {
        self.stored
    }

    /// Stores the session that owns the node.
    pub(crate) fn store(&mut self, session: SessionId) -> Result<(), Failure> {
        if self.stored == Some(session) {
            return Ok(());
        }
        // All sessions have the same length, so a program that is killed here leaves one of them.
        let written = self.file.write_all_at(format!("{session:#018x}\n").as_bytes(), 0);
        written.map_err(|error| failure(&self.path, &error))?;
        self.stored = Some(session);
        Ok(())
    }

    /// Forgets the session, because its node is deleted.
    pub(crate) fn clear(&self) -> Result<(), Failure> {
        self.file.set_len(0).map_err(|error| failure(&self.path, &error))
    }
}

fn failure(path: &Path, error: &io::Error) -> Failure {
    Failure::other(format!("{}: {error}", path.display()))
}
