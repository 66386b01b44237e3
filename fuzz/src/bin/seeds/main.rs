//! Writes the seed corpora: `cargo run --bin seeds`.
//!
//! Seeds are derived from the recordings of real peers (`crates/zk-proto/tests/golden`). The program replaces
//! the files that begin with `seed-`, which it wrote before, and keeps all others.

mod recorded;
#[allow(dead_code, reason = "seeds need no titles")]
#[path = "../../../../crates/zk-proto/tests/support/recording.rs"]
mod recording;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;

use zk_fuzz::{TARGETS, replay};

fn main() -> Result<(), Box<dyn Error>> {
    let mut seeds = Seeds::default();
    recorded::add(&mut seeds)?;
    for target in TARGETS {
        let folder = replay::corpus(target.name);
        fs::create_dir_all(&folder)?;
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with("seed-") {
                fs::remove_file(entry.path())?;
            }
        }
        let files = seeds.files.remove(target.name).unwrap_or_default();
        println!("{}: {} seeds", target.name, files.len());
        for (name, bytes) in files {
            (target.run)(&bytes);
            fs::write(folder.join(name), bytes)?;
        }
    }
    assert!(seeds.files.is_empty(), "seeds for no target: {:?}", seeds.files.keys());
    Ok(())
}

/// Seeds by target and name, without duplicates.
#[derive(Default)]
struct Seeds {
    files: BTreeMap<&'static str, BTreeMap<String, Vec<u8>>>,
    known: BTreeSet<(&'static str, Vec<u8>)>,
}

impl Seeds {
    fn add(&mut self, target: &'static str, name: &str, bytes: impl Into<Vec<u8>>) {
        let bytes = bytes.into();
        if !self.known.insert((target, bytes.clone())) {
            return;
        }
        let files = self.files.entry(target).or_default();
        let number = (1..).find(|number| !files.contains_key(&file_name(name, *number)));
        files.insert(file_name(name, number.unwrap_or(0)), bytes);
    }

    /// Returns the number of seeds with a name.
    fn count(&self, target: &str, name: &str) -> usize {
        let prefix = format!("seed-{name}-");
        let files = self.files.get(target).into_iter().flatten();
        files.filter(|(file, _)| file.starts_with(&prefix)).count()
    }
}

fn file_name(name: &str, number: u32) -> String {
    format!("seed-{name}-{number:02}")
}
