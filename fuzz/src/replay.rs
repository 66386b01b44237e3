//! Replay of files through a target, without a fuzzer.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::{TARGETS, Target};

/// Runs a target on files: the `main` of a replayer.
///
/// `arguments` name files, and folders of files. Without arguments it runs the target's corpus. It panics if
/// the target does.
pub fn main(name: &str, arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let Some(target) = TARGETS.iter().find(|target| target.name == name) else {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        eprintln!("no target `{name}`; there are {}", names.join(", "));
        return ExitCode::from(2);
    };
    let mut paths: Vec<PathBuf> = arguments.into_iter().map(PathBuf::from).collect();
    if paths.is_empty() {
        paths.push(corpus(name));
    }
    for path in paths {
        match run(target, &path) {
            Ok(0) => {
                eprintln!("no files in {}", path.display());
                return ExitCode::from(1);
            }
            Ok(count) => println!("{name}: {count} passed in {}", path.display()),
            Err(error) => {
                eprintln!("{}: {error}", path.display());
                return ExitCode::from(1);
            }
        }
    }
    ExitCode::SUCCESS
}

/// Returns the folder of a target's seeds.
#[must_use]
pub fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name)
}

/// Runs one file, or all files in a folder ordered by name, and returns their number. If the target panics,
/// prints the name of the file.
///
/// # Errors
///
/// Returns the error if a file or folder cannot be read.
pub fn run(target: &Target, path: &Path) -> io::Result<usize> {
    let mut files = if path.is_dir() {
        let entries = fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.path()));
        entries.collect::<io::Result<Vec<PathBuf>>>()?
    } else {
        vec![path.to_owned()]
    };
    files.sort();
    for file in &files {
        let data = fs::read(file)?;
        let _culprit = Culprit(target, file);
        (target.run)(&data);
    }
    Ok(files.len())
}

/// Guard that prints the name of the file if a target panics.
struct Culprit<'a>(&'a Target, &'a Path);

impl Drop for Culprit<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{} does not survive {}", self.0.name, self.1.display());
        }
    }
}
