//! Compares the server of `zk-testing` with a real one.
//!
//! ```text
//! cargo xtask conform [--scripts N] [--seed S] [--version 3.8|3.9] [--record]
//! ```
//!
//! Both servers play the same scripts: those of the files in `crates/zk-testing/tests/conformance/scripts`,
//! then random ones. The program compares what the connections hear, after [`player`] has replaced
//! sessions, zxids and times by comparable names. A script that differs is shortened as far as
//! possible and printed, with the seed that reproduces it. With `--record` the real server's answers
//! replace those in the files, which the tests of `zk-testing` compare without a real server.
//!
//! Some requests end or confuse a real server, and are left out. They are createTTL with other
//! flags and a time of -1, createSession, deleteContainer, a null token, and on 3.8 a check outside
//! of a multi.

extern crate zk_proto as proto;

mod compare;
mod options;
#[path = "../../../../crates/zk-testing/tests/conformance/player/mod.rs"]
mod player;
mod real;
mod record;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use compare::Pair;
use options::Options;
use player::recorded::Recorded;
use player::script::Step;
use player::{Outcome, random, super_digest};
use zk_testing::Version;
use zk_tests::{Settings, now, or_skip};

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("conform: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns an error if the servers behave differently.
fn run(options: &Options) -> Outcome<()> {
    let super_digest = super_digest();
    let settings = Settings::default()
        .keep_containers()
        .jvm_flag("-Dzookeeper.enforceQuota=true")
        .jvm_flag(format!("-Dzookeeper.DigestAuthenticationProvider.superDigest={super_digest}"));
    let Some(server) = or_skip(settings.start()) else { return Ok(()) };
    let Some(status) = server.status()? else {
        return Err("the real server does not serve".into());
    };
    let (release, text) = (status.release(), status.version);
    let own = match release {
        (3, 4) => Version::V3_4,
        (3, 5) => Version::V3_5,
        (3, 6) => Version::V3_6,
        (3, 7 | 8) => Version::V3_8,
        _ => Version::V3_9,
    };
    let version = options.version.unwrap_or(own);
    println!("a real server of {text} against {version:?} in process");

    let mut own_settings = zk_testing::Settings::new().version(version);
    // This feature was added in a patch of a release.
    if ["3.9.0", "3.9.1", "3.9.2", "3.9.3"].iter().any(|patch| text.starts_with(patch)) {
        if options.record {
            return Err("the answers are those of 3.9.4 or later".into());
        }
        own_settings = own_settings.without_ipv6_acls();
    }
    let mut pair = Pair::start(server.address(), own_settings)?;
    let (start, mut told) = (now(), now());
    if options.record {
        let release = text.split('-').next().unwrap_or_default();
        record_files(&mut pair, version, release)?;
    } else {
        for file in files()? {
            let mut steps = steps(&file)?;
            if version < Version::V3_8 {
                steps = steps
                    .iter()
                    .filter_map(|step| Step::parse(step.line.trim_end_matches(" ...")))
                    .collect();
            }
            pair.compare(&steps)?;
        }
    }
    for script in 0..options.scripts {
        let seed = options.seed.wrapping_add(script);
        let replay =
            |error| format!("{error}\nreplay: cargo xtask conform --scripts 1 --seed {seed}");
        pair.compare(&random::script(seed, version)).map_err(replay)?;
        if told.elapsed() > Duration::from_secs(10) {
            told = now();
            println!("{} of {} scripts", script + 1, options.scripts);
        }
    }
    println!("{} scripts alike on both sides; {:.1} s", pair.played, start.elapsed().as_secs_f64());
    Ok(())
}

/// Replaces the answers in the files.
fn record_files(pair: &mut Pair, version: Version, release: &str) -> Outcome<()> {
    for mut file in files()? {
        let heard = pair.compare(&steps(&file)?)?.heard;
        record::renew(&mut file, version, release, &heard)?;
    }
    let mut file = Recorded::read(folder().join("random.txt"))?;
    let digest = |line| random::digest(line, version, |steps| pair.compare(&steps));
    let digests: Outcome<Vec<Vec<String>>> =
        file.requests().map(digest).map(|digest| Ok(vec![digest?])).collect();
    Ok(record::renew(&mut file, version, release, &digests?)?)
}

/// Returns the files with scripts.
fn files() -> Outcome<Vec<Recorded>> {
    let mut files = Recorded::read_all(&folder())?;
    files.retain(|file| file.name() != "random");
    Ok(files)
}

fn steps(file: &Recorded) -> Outcome<Vec<Step>> {
    let step = |line| Step::parse(line).ok_or_else(|| format!("{}: {line}", file.name()).into());
    file.requests().map(step).collect()
}

fn folder() -> PathBuf {
    let folder = "../crates/zk-testing/tests/conformance/scripts";
    Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)
}
