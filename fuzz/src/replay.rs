//! Replays files through a target, without a fuzzer.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::{TARGETS, Target};

/// The `main` of a replayer of one target: runs the files, and all files in the folders, that
/// `arguments` name, or the target's corpus if they name none. Panics where the target does, right
/// after the name of the file was printed.
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
        match run(target, &path, |file| println!("{name}: {}", file.display())) {
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

/// Runs one file, or all files in a folder in the order of their names, and counts them. `before` is
/// told each of them before it runs.
///
/// # Errors
///
/// What reading says.
pub fn run(target: &Target, path: &Path, before: impl Fn(&Path)) -> io::Result<usize> {
    let mut files = if path.is_dir() {
        let entries = fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.path()));
        entries.collect::<io::Result<Vec<PathBuf>>>()?
    } else {
        vec![path.to_owned()]
    };
    files.sort();
    for file in &files {
        let data = fs::read(file)?;
        before(file);
        (target.run)(&data);
    }
    Ok(files.len())
}
