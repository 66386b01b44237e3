//! Compares the server of `zk-testing` with a real one.
//!
//! ```text
//! cargo xtask conform [--scripts N] [--seed S] [--version 3.8|3.9]
//! ```
//!
//! Random scripts are played at both: a few sessions that do everything the protocol has, rightly
//! and wrongly, on few nodes. What their connections hear is compared line by line, once sessions,
//! zxids and times are written alike ([`normal`]). A script that differs is made as short as it can
//! be and printed, with the seed that makes it again.
//!
//! Left out is what ends a real server or confuses it: createTTL with other flags and a time of -1,
//! createSession, deleteContainer, a null token, and on 3.8 a check outside of a multi.

mod arguments;
mod compare;
mod message;
mod normal;
mod operations;
mod options;
mod play;
mod random;
mod script;
mod side;
mod tally;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use compare::Pair;
use options::Options;
use tally::Tally;
use zk_proto::digest_id;
use zk_testing::Version;
use zk_tests::{Settings, now, or_skip};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Of the user `super`, who may do everything at both servers.
pub(crate) const SUPER_PASSWORD: &str = "everything";

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("conform: {message}");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("conform: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What tells the administrator's password at both servers.
pub(crate) fn super_digest() -> String {
    digest_id("super", SUPER_PASSWORD)
}

/// Whether both servers behaved alike.
fn run(options: &Options) -> Outcome<bool> {
    let super_digest = super_digest();
    let settings = Settings::default()
        .container_check_ms(2_000_000_000)
        .jvm_flag("-Dzookeeper.enforceQuota=true")
        .jvm_flag(format!("-Dzookeeper.DigestAuthenticationProvider.superDigest={super_digest}"));
    let Some(server) = or_skip(settings.start()) else { return Ok(true) };
    let text = server.status()?.map(|status| status.version).unwrap_or_default();
    let own = if text.starts_with("3.8") { Version::V3_8 } else { Version::V3_9 };
    let version = options.version.unwrap_or(own);
    println!("a real server of {text} against {version:?} in process");

    let mut own_settings = zk_testing::Settings::new().version(version);
    // What came with a patch of a release.
    if ["3.9.0", "3.9.1", "3.9.2", "3.9.3"].iter().any(|patch| text.starts_with(patch)) {
        own_settings = own_settings.without_ipv6_acls();
    }
    let mut pair = Pair::start(server.address(), version, own_settings)?;
    let mut tally = Tally::default();
    let (start, mut told) = (now(), now());
    for script in 0..options.scripts {
        let seed = options.seed.wrapping_add(script);
        if let Some(difference) = pair.compare(seed, &mut tally)? {
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
