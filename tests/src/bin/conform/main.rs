//! Compares the server of `zk-testing` with a real one.
//!
//! ```text
//! cargo xtask conform [--scripts N] [--seed S] [--version 3.8|3.9]
//! ```
//!
//! Both servers play the same scripts: a few [`fixed`] ones, then random ones. In a random script a
//! few sessions perform every operation of the protocol, valid and invalid, on few nodes. The
//! program compares the frames of each connection line by line, after [`normal`] has replaced
//! sessions, zxids and times by comparable names. A script that differs is shortened as far as
//! possible and printed, with the seed that reproduces it.
//!
//! Some requests end or confuse a real server, and are left out. They are createTTL with other
//! flags and a time of -1, createSession, deleteContainer, a null token, and on 3.8 a check outside
//! of a multi.

mod arguments;
mod compare;
mod fixed;
mod message;
mod normal;
mod operations;
mod options;
mod play;
mod script;
mod side;
mod tally;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use compare::{Pair, Source};
use options::Options;
use tally::Tally;
use zk_proto::digest_id;
use zk_testing::Version;
use zk_tests::{Settings, now, or_skip, skip};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Password of the user `super`. This user has all permissions at both servers.
pub(crate) const SUPER_PASSWORD: &str = "everything";

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("conform: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the digest by which both servers recognise the administrator's password.
pub(crate) fn super_digest() -> String {
    digest_id("super", SUPER_PASSWORD)
}

/// Returns whether both servers behaved alike.
fn run(options: &Options) -> Outcome<bool> {
    let super_digest = super_digest();
    let settings = Settings::default()
        .keep_containers()
        .jvm_flag("-Dzookeeper.enforceQuota=true")
        .jvm_flag(format!("-Dzookeeper.DigestAuthenticationProvider.superDigest={super_digest}"));
    let Some(server) = or_skip(settings.start()) else { return Ok(true) };
    let Some(status) = server.status()? else {
        return Err("the real server does not serve".into());
    };
    let (release, text) = (status.release(), status.version);
    if release < (3, 8) {
        skip(format!("zk-testing has servers of 3.8 and 3.9, and the real one is {text}"));
        return Ok(true);
    }
    let own = if release == (3, 8) { Version::V3_8 } else { Version::V3_9 };
    let version = options.version.unwrap_or(own);
    println!("a real server of {text} against {version:?} in process");

    let mut own_settings = zk_testing::Settings::new().version(version);
    // This feature was added in a patch of a release.
    if ["3.9.0", "3.9.1", "3.9.2", "3.9.3"].iter().any(|patch| text.starts_with(patch)) {
        own_settings = own_settings.without_ipv6_acls();
    }
    let mut pair = Pair::start(server.address(), version, own_settings)?;
    let mut tally = Tally::default();
    let (start, mut told) = (now(), now());
    for (name, make) in fixed::SCRIPTS {
        if let Some(difference) = pair.compare(Source::Fixed(name, make), &mut tally)? {
            println!("{difference}\nreplay: cargo xtask conform --scripts 0");
            return Ok(false);
        }
    }
    for script in 0..options.scripts {
        let seed = options.seed.wrapping_add(script);
        if let Some(difference) = pair.compare(Source::Seed(seed), &mut tally)? {
            println!("{difference}\nreplay: cargo xtask conform --scripts 1 --seed {seed}");
            return Ok(false);
        }
        if told.elapsed() > Duration::from_secs(10) {
            told = now();
            println!("{} of {} scripts", script + 1, options.scripts);
        }
    }
    println!("{}", tally.summary(start.elapsed()));
    Ok(true)
}
