//! Files of what real servers answer: each request, and below it what the clients hear.
//!
//! A line that concerns only one release begins with its number. A line that begins with `#` is a remark.

use std::path::{Path, PathBuf};
use std::{fs, io};

use zk_testing::Version;

/// A file of requests, and what servers of both releases answered to them.
pub(crate) struct Recorded {
    pub(crate) path: PathBuf,
    pub(crate) entries: Vec<Entry>,
}

/// A line of a file, and the answers below it.
pub(crate) struct Entry {
    pub(crate) line: String,
    pub(crate) answers: [Vec<String>; 2],
}

/// Names of the releases in the files.
pub(crate) const RELEASES: [&str; 2] = ["3.8", "3.9"];

pub(crate) fn index(version: Version) -> usize {
    usize::from(version != Version::V3_8)
}

impl Recorded {
    /// Reads all files of a folder, in the order of their names.
    pub(crate) fn read_all(folder: &Path) -> io::Result<Vec<Self>> {
        let mut paths = Vec::new();
        for entry in fs::read_dir(folder)? {
            paths.push(entry?.path());
        }
        paths.sort();
        paths.into_iter().map(Self::read).collect()
    }

    /// Reads a file.
    pub(crate) fn read(path: PathBuf) -> io::Result<Self> {
        let mut entries: Vec<Entry> = Vec::new();
        for line in fs::read_to_string(&path)?.lines() {
            let Some(answer) = line.strip_prefix("  ") else {
                entries.push(Entry { line: line.to_owned(), answers: Default::default() });
                continue;
            };
            let Some(entry) = entries.last_mut() else { continue };
            for (answers, release) in entry.answers.iter_mut().zip(RELEASES) {
                match answer.split_once(' ') {
                    Some((word, answer)) if word == release => answers.push(answer.to_owned()),
                    Some((word, _)) if RELEASES.contains(&word) => {}
                    _ => answers.push(answer.to_owned()),
                }
            }
        }
        Ok(Self { path, entries })
    }

    pub(crate) fn name(&self) -> String {
        self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Returns the lines that are neither remarks nor answers.
    pub(crate) fn requests(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| &*entry.line).filter(|line| is_request(line))
    }
}

pub(crate) fn is_request(line: &str) -> bool {
    !line.is_empty() && !line.starts_with('#')
}
