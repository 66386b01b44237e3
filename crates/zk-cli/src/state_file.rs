//! File that keeps the session of `zk register` from one run to the next.
//!
//! The node matters more than the file: after an error, the registration goes on without the file.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::prelude::{Failure, Output, Result};
use nix::fcntl::{Flock, FlockArg};
use zk_recipes::session::SessionId;

/// The file, which this process has locked. Otherwise a program that is started twice would take the
/// node of its other process for that of its last run.
pub(crate) struct StateFile {
    path: PathBuf,
    file: Flock<File>,
    /// The session of the last run, if that has not deleted its node, or that of this one.
    pub(crate) session: Option<SessionId>,
    output: Output,
}

impl StateFile {
    /// Opens the file, and creates it if it is missing. Returns `None` with a note if it cannot be used.
    ///
    /// Fails if the path is a folder, or if another process has locked the file.
    pub(crate) fn open(path: &Path, output: Output) -> Result<Option<Self>> {
        let about = |why: &str| Err(Failure::other(format!("{}: {why}", path.display())));
        let (file, content) = match lock_and_read(path) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
                return about(&error.to_string());
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return about("another zk register uses the file");
            }
            Err(error) => {
                note(path, &error.to_string(), output);
                return Ok(None);
            }
        };
        let session = match content {
            Content::Session(session) => session,
            Content::Damaged => {
                note(path, "no session of zk register", output);
                None
            }
        };
        Ok(Some(Self { path: path.to_owned(), file, session, output }))
    }

    /// Stores the session that owns the node. Prints a note if the file cannot be written.
    pub(crate) fn store(&mut self, session: SessionId) {
        if self.session == Some(session) {
            return;
        }
        // One write of a record that lies in one sector: a crash leaves the old record or the new one.
        // If the power fails, a file that was empty may have zeros, which are `Content::Damaged`.
        match self.file.write_all_at(record(session).as_bytes(), 0) {
            Ok(()) => self.session = Some(session),
            Err(error) => note(&self.path, &error.to_string(), self.output),
        }
    }

    /// Forgets the session, because its node is deleted. If the file cannot be written, the session
    /// remains: the next run finds no node of it.
    pub(crate) fn clear(&self) {
        if let Err(error) = self.file.set_len(0) {
            self.output.note(&format!("{}: {error}", self.path.display()));
        }
    }
}

fn lock_and_read(path: &Path) -> io::Result<(Flock<File>, Content)> {
    let file = Flock::lock(open_or_create(path)?, FlockArg::LockExclusiveNonblock);
    let file = file.map_err(|(_, error)| error)?;
    let content = read(&file)?;
    Ok((file, content))
}

/// Opens the file, or creates it for this user alone. A link to nowhere, which another user may have put
/// there, is not followed.
fn open_or_create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            options.create_new(true).mode(0o600).open(path)
        }
        opened => opened,
    }
}

/// Prints the reason for which the file is of no use, and its consequence.
fn note(path: &Path, why: &str, output: Output) {
    let path = path.display();
    output.note(&format!(
        "{path}: {why}; a restarted registration may wait for its old node until that session expires"
    ));
}

enum Content {
    /// The session; `None` if the file is empty.
    Session(Option<SessionId>),
    /// A record after a crash, cut short or with zeros. The next record replaces all of it.
    Damaged,
}

/// Returns an error for data of another program, which must not be lost.
fn read(file: &File) -> io::Result<Content> {
    let mut bytes = [0; RECORD_LEN + 1];
    let len = file.read_at(&mut bytes, 0)?;
    let bytes = &bytes[..len];
    // Part of a record would parse, too, as the id of another session.
    let session = std::str::from_utf8(bytes).ok().and_then(|text| text.trim_end().parse().ok());
    let is_of_record = |byte: &u8| matches!(byte, 0 | b'x' | b'\n') || byte.is_ascii_hexdigit();
    Ok(match session {
        _ if bytes.is_empty() => Content::Session(None),
        Some(id) if record(id).as_bytes() == bytes => Content::Session(session),
        _ if len <= RECORD_LEN && bytes.iter().all(is_of_record) => Content::Damaged,
        _ => return Err(io::Error::other("not a file of zk register, and not changed")),
    })
}

/// Returns the content of the file. All sessions have the same length.
fn record(session: SessionId) -> String {
    format!("{session:#018x}\n")
}

/// Bytes of a record: `0x`, 16 digits and a newline.
const RECORD_LEN: usize = 19;
