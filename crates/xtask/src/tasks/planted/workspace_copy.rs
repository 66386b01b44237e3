//! Copy of the workspace, with a target folder of its own, in which faults are planted.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::unreadable;
use crate::tasks::{Failure, cargo};

/// Copy of the workspace.
pub(super) struct WorkspaceCopy {
    original: PathBuf,
    folder: PathBuf,
    target: PathBuf,
}

impl WorkspaceCopy {
    /// Makes the copy, or brings it up to date. Files that are equal keep their times, so that cargo does not
    /// build them again. Faults that an interrupted run has left disappear.
    pub(super) fn update(root: &Path) -> Result<Self, Failure> {
        let folder = root.join("target/planted/workspace");
        mirror(root, &folder).map_err(|error| unreadable(&folder, &error))?;
        Ok(Self { original: root.to_owned(), folder, target: root.join("target/planted/build") })
    }

    /// Returns the folder of the workspace that was copied.
    pub(super) fn original(&self) -> &Path {
        &self.original
    }

    /// Writes files, by their path in the workspace.
    pub(super) fn write(&self, files: &BTreeMap<&str, String>) -> Result<(), Failure> {
        for (path, text) in files {
            let path = self.folder.join(path);
            fs::write(&path, text).map_err(|error| unreadable(&path, &error))?;
        }
        Ok(())
    }

    /// Restores files to those of the workspace.
    pub(super) fn restore<'a>(&self, paths: impl Iterator<Item = &'a str>) -> Result<(), Failure> {
        for path in paths {
            let (from, to) = (self.original.join(path), self.folder.join(path));
            mirror_file(&from, &to).map_err(|error| unreadable(&to, &error))?;
        }
        Ok(())
    }

    /// Returns a `cargo` command for the copy.
    pub(super) fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = cargo(arguments);
        self.enter(&mut command);
        command
    }

    /// Returns a command that runs `program` in the copy, and ends it and its children after some seconds.
    pub(super) fn limited(&self, program: &OsStr, seconds: u32) -> Command {
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", &seconds.to_string()]).arg(program);
        self.enter(&mut command);
        command
    }

    /// Returns a command that builds the simulation.
    pub(super) fn build_of_sim(&self) -> Command {
        self.cargo(&["build", "--package", "zk-sim", "--profile", SIM_PROFILE])
    }

    /// Returns the path of the simulation.
    pub(super) fn sim_program(&self) -> PathBuf {
        self.target.join(SIM_PROFILE).join("sim")
    }

    fn enter(&self, command: &mut Command) {
        command.current_dir(&self.folder).env("CARGO_TARGET_DIR", &self.target);
        // Each build changes a few functions, even if the environment is that of `ci`, which builds once.
        command.env("CARGO_INCREMENTAL", "1").env("CARGO_PROFILE_DEV_DEBUG", "0");
    }
}

/// Makes the folder `to` equal to the folder `from`. Only files that differ are written.
fn mirror(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    let wanted = names(from)?;
    for name in names(to)?.difference(&wanted) {
        let path = to.join(name);
        if path.is_dir() { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
    }
    for name in wanted {
        let (from, to) = (from.join(&name), to.join(&name));
        if from.is_dir() { mirror(&from, &to)? } else { mirror_file(&from, &to)? }
    }
    Ok(())
}

fn mirror_file(from: &Path, to: &Path) -> io::Result<()> {
    let text = fs::read(from)?;
    if fs::read(to).is_ok_and(|present| present == text) { Ok(()) } else { fs::write(to, text) }
}

/// Returns the names in a folder, without build results and the history.
fn names(folder: &Path) -> io::Result<BTreeSet<OsString>> {
    let names = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.file_name()));
    names.filter(|name| name.as_ref().map_or(true, |name| !is_left_out(name))).collect()
}

fn is_left_out(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b"target") || LEFT_OUT.iter().any(|folder| name == *folder)
}

/// Profile for the simulation. With that of the tests, a seed takes ten times as long. With this one, the
/// tests take ten times as long to build.
const SIM_PROFILE: &str = "planted";

const LEFT_OUT: [&str; 5] = [".git", ".zookeeper", "artifacts", "coverage", "corpus-grown"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirror_writes_changed_files_and_removes_surplus_ones() {
        let root = std::env::temp_dir().join(format!("xtask-mirror-{}", std::process::id()));
        let (from, to) = (root.join("from"), root.join("to"));
        for (path, text) in [("from/a", "1"), ("from/b/c", "2"), ("from/target/d", "3")] {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        mirror(&from, &to).unwrap();
        let unchanged = fs::metadata(to.join("a")).unwrap().modified().unwrap();
        fs::write(to.join("b/c"), "fault").unwrap();
        fs::write(to.join("surplus"), "").unwrap();
        mirror(&from, &to).unwrap();
        assert_eq!(fs::metadata(to.join("a")).unwrap().modified().unwrap(), unchanged);
        assert_eq!(fs::read_to_string(to.join("b/c")).unwrap(), "2");
        assert!(!to.join("surplus").exists() && !to.join("target").exists());
        fs::remove_dir_all(root).unwrap();
    }
}
