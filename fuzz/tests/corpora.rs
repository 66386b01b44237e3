//! The committed corpora, and simple inputs that every target must pass, without a fuzzer.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use zk_fuzz::{TARGETS, Target, replay};

#[test]
fn all_seeds_pass() {
    for target in TARGETS {
        let folder = replay::corpus(target.name);
        let count = replay::run(target, &folder)
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        assert!(count >= SEEDS_MIN, "{}: only {count} seeds", target.name);
    }
}

#[test]
fn seed_prefixes_pass() {
    for target in TARGETS {
        for entry in fs::read_dir(replay::corpus(target.name)).unwrap() {
            let data = fs::read(entry.unwrap().path()).unwrap();
            let step = data.len() / 16 + 1;
            for len in (0..data.len()).step_by(step) {
                passes(target, &data[..len]);
            }
        }
    }
}

#[test]
fn repeated_bytes_pass() {
    for target in TARGETS {
        for byte in 0..=u8::MAX {
            for len in [1, 2, 9, 16, 17, 40, 300] {
                passes(target, &vec![byte; len]);
            }
        }
    }
}

#[test]
fn corpora_are_small_and_have_a_target() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let mut total = 0;
    for folder in fs::read_dir(root).unwrap().map(Result::unwrap) {
        let name = folder.file_name();
        assert!(TARGETS.iter().any(|target| name == target.name), "whose corpus is {name:?}?");
        for file in fs::read_dir(folder.path()).unwrap().map(Result::unwrap) {
            total += file.metadata().unwrap().len();
        }
    }
    assert!(total < CORPORA_BYTES_MAX, "{total} bytes; `cargo fuzz cmin` makes corpora smaller");
}

fn passes(target: &Target, data: &[u8]) {
    if catch_unwind(AssertUnwindSafe(|| (target.run)(data))).is_err() {
        panic!("{} does not survive {data:?}", target.name);
    }
}

const SEEDS_MIN: usize = 10;
const CORPORA_BYTES_MAX: u64 = 1 << 20;
