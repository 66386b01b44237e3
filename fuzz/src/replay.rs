//! Replays files through a target, without a fuzzer.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::{TARGETS, Target};

/// The `main` of a replayer of one target: runs the files, and all files in the folders, that
/// `arguments` name, or the target's corpus if they name none. Panics where the target does.
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

/// The folder of a target's seeds.
#[must_use]
pub fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name)
}

/// Runs one file, or all files in a folder in the order of their names, and counts them. If the
/// target panics, the file is named.
///
/// # Errors
///
/// What reading says.
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

/// Says which file it was when a target panics.
struct Culprit<'a>(&'a Target, &'a Path);

impl Drop for Culprit<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{} does not survive {}", self.0.name, self.1.display());
        }
    }
}
