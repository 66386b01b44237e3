//! The servers answer to scripts as real servers did, by the files in `scripts`.
//!
//! `cargo xtask conform` compares them with a real server that it starts, and `--record` renews the
//! files.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

mod player;

use std::path::Path;
use std::time::Instant;

use player::play::{administrator, play};
use player::random;
use player::recorded::{Entry, Recorded, index, is_request};
use player::script::Step;
use player::side::Ours;
use zk_testing::{Settings, Version};

#[test]
fn scripts_hear_what_real_servers_answered() {
    compare(
        |file| file.name() != "random",
        |file, version| {
            let steps: Vec<Step> = file.requests().map(|line| step(file, line)).collect();
            let (mut ours, administrator) = server(version);
            play(&mut ours, administrator, &steps).unwrap().heard
        },
    );
}

#[test]
fn random_scripts_hear_what_real_servers_answered() {
    compare(
        |file| file.name() == "random",
        |file, version| {
            let digest = |line| {
                random::digest(line, version, |steps| {
                    let (mut ours, administrator) = server(version);
                    play(&mut ours, administrator, &steps)
                })
            };
            file.requests().map(|line| vec![digest(line).unwrap()]).collect()
        },
    );
}

fn compare(
    is_chosen: fn(&Recorded) -> bool,
    heard: impl Fn(&Recorded, Version) -> Vec<Vec<String>>,
) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/scripts");
    let files = Recorded::read_all(&folder).unwrap();
    let versions = [Version::V3_8, Version::V3_9];
    let differences: Vec<String> = files
        .iter()
        .filter(|file| is_chosen(file))
        .flat_map(|file| versions.map(|version| difference(file, version, &heard(file, version))))
        .flatten()
        .collect();
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
}

/// Returns a report if a server of this release answers otherwise.
fn difference(file: &Recorded, version: Version, heard: &[Vec<String>]) -> Option<String> {
    let entries = file.entries.iter().filter(|entry| is_request(&entry.line));
    let recorded = |entry: &Entry| entry.answers[index(version)].clone();
    let (entry, heard) = entries.zip(heard).find(|(entry, heard)| recorded(entry) != **heard)?;
    let (name, line, recorded) = (file.name(), &entry.line, recorded(entry));
    Some(format!("{name}, {version:?}: {line}\nrecorded {recorded:#?}\nheard {heard:#?}"))
}

fn step(file: &Recorded, line: &str) -> Step {
    Step::parse(line).unwrap_or_else(|| panic!("{}: {line}", file.name()))
}

#[allow(clippy::disallowed_methods, reason = "one instant to count from")]
fn server(version: Version) -> (Ours, usize) {
    let mut ours = Ours::new(Settings::new().version(version), Instant::now());
    let administrator = administrator(&mut ours).unwrap();
    (ours, administrator)
}
