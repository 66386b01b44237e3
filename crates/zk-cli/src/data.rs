//! Data on the command line, from standard input or from a file.

use crate::prelude::{ClapArgs, Failure, Result};
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The new data of a node.
#[derive(Debug, ClapArgs)]
pub(crate) struct NewData {
    /// The data; - reads it from standard input, as it is.
    data: Option<String>,

    /// Read the data from a file, as it is.
    #[arg(long, value_name = "FILE", conflicts_with = "data")]
    file: Option<PathBuf>,

    /// Accept empty data from standard input or from the file.
    ///
    /// Without this option empty input is an error: the command before the pipe may have failed. The
    /// argument '' is empty data, too.
    #[arg(long)]
    allow_empty: bool,

    /// The data. Standard input can be read only once, and a request may be repeated.
    #[arg(skip)]
    read: OnceLock<Vec<u8>>,
}

impl NewData {
    /// Returns the data.
    ///
    /// # Errors
    /// The command line has none, it cannot be read, or the input is empty without --allow-empty.
    pub(crate) fn required(&self) -> Result<&[u8]> {
        let wanted = "say the data, or - for standard input, or --file FILE; see --help";
        self.bytes()?.ok_or_else(|| Failure::usage(wanted))
    }

    /// Returns the data; none is empty.
    pub(crate) fn or_empty(&self) -> Result<&[u8]> {
        Ok(self.bytes()?.unwrap_or_default())
    }

    fn bytes(&self) -> Result<Option<&[u8]>> {
        if let Some(read) = self.read.get() {
            return Ok(Some(read));
        }
        let (name, read) = match (self.data.as_deref(), &self.file) {
            (Some("-"), _) => (STDIN.to_owned(), all_of(io::stdin().lock(), STDIN)?),
            (Some(data), _) => return Ok(Some(data.as_bytes())),
            (None, Some(path)) => (path.display().to_string(), read_file(path)?),
            (None, None) => return Ok(None),
        };
        if read.is_empty() && !self.allow_empty {
            return Err(Failure::other(format!("{name} is empty; --allow-empty accepts that")));
        }
        Ok(Some(self.read.get_or_init(|| read)))
    }
}

const STDIN: &str = "standard input";

/// Reads all of `source`, up to [`INPUT_MAX`] bytes.
pub(crate) fn all_of(source: impl Read, name: &str) -> Result<Vec<u8>> {
    let mut data = Vec::new();
    let limited = source.take(INPUT_MAX + 1).read_to_end(&mut data);
    limited.map_err(|error| unreadable(name, &error))?;
    match u64::try_from(data.len()) {
        Ok(len) if len <= INPUT_MAX => Ok(data),
        _ => {
            Err(Failure::other(format!("{name}: more than {INPUT_MAX} bytes, too much to be used")))
        }
    }
}

/// Reads all of a file.
pub(crate) fn read_file(path: &Path) -> Result<Vec<u8>> {
    let file = File::open(path).map_err(|error| unreadable(path.display(), &error))?;
    all_of(file, &path.display().to_string())
}

pub(crate) fn unreadable(name: impl Display, error: &io::Error) -> Failure {
    Failure::other(format!("cannot read {name}: {error}"))
}

/// Bytes that are read at most. Servers accept about a megabyte unless `jute.maxbuffer` says more.
pub(crate) const INPUT_MAX: u64 = 64 * 1024 * 1024;
