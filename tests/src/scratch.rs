//! A folder for the files of one test.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, process};

/// An empty folder. Dropping it removes it with all that is in it.
#[derive(Debug)]
pub struct Scratch {
    folder: PathBuf,
}

impl Scratch {
    /// Makes a folder that nobody else uses.
    #[allow(clippy::new_without_default, reason = "it makes something outside of the process")]
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let folder = env::temp_dir().join(format!("zk-test-{}-{count}", process::id()));
            match fs::create_dir(&folder) {
                Ok(()) => return Self { folder },
                // Left behind by an earlier process of this id.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => panic!("making {}: {error}", folder.display()),
            }
        }
    }

    /// The path of a file in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// What is in a file of the folder; nothing if there is no such file.
    pub fn read(&self, name: &str) -> String {
        read(&self.path(name))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is no test's concern.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

pub(crate) fn read(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}
