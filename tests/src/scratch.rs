//! A folder for the files of one test.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, process};

/// An empty folder. Dropping it removes the folder and its contents.
#[derive(Debug)]
pub struct Scratch {
    folder: PathBuf,
}

impl Scratch {
    /// Creates a folder that no other process uses.
    #[allow(clippy::new_without_default, reason = "it makes something outside of the process")]
    pub fn new() -> Self {
        Self::inside(&env::temp_dir())
    }

    /// Creates a folder below `parent` that no other process uses.
    pub(crate) fn inside(parent: &Path) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let folder = parent.join(format!("zk-test-{}-{count}", process::id()));
            match fs::create_dir(&folder) {
                Ok(()) => return Self { folder },
                // An earlier process with the same id left it behind.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => panic!("making {}: {error}", folder.display()),
            }
        }
    }

    /// Returns the path of a file in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Returns the contents of a file in the folder, or an empty string if the file does not exist.
    pub fn read(&self, name: &str) -> String {
        read(&self.path(name))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A failed removal is no concern of the test.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

pub(crate) fn read(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}
