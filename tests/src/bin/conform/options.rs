//! The command line.

use clap::Parser;
use zk_testing::Version;

/// Plays scripts at the server of zk-testing and at a real one, and compares the answers.
///
/// The first scripts are those of the files in crates/zk-testing/tests/conformance/scripts, the others
/// random. A script with different answers is shortened and printed, and the exit status is 1. Without a
/// real server nothing is compared, unless CI=true.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask conform")]
pub(crate) struct Options {
    /// Number of random scripts
    #[arg(long, value_name = "N", default_value_t = 300)]
    pub(crate) scripts: u64,
    /// Seed of the first random script; those of the others follow
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Version to imitate, 3.8 or 3.9; by default that of the real server
    #[arg(long, value_parser = version)]
    pub(crate) version: Option<Version>,
    /// Renew the recorded answers of the real server's release
    #[arg(long)]
    pub(crate) record: bool,
}

fn version(text: &str) -> Result<Version, &'static str> {
    match text {
        "3.8" => Ok(Version::V3_8),
        "3.9" => Ok(Version::V3_9),
        _ => Err("use 3.8 or 3.9"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_have_defaults() {
        let parse = |line: &str| Options::try_parse_from(line.split_whitespace());
        let default = parse("conform").unwrap();
        assert_eq!((default.scripts, default.seed, default.version), (300, 1, None));
        assert!(!default.record);
        let all = parse("conform --version 3.9 --record --scripts 5 --seed 9").unwrap();
        assert_eq!((all.scripts, all.seed, all.version), (5, 9, Some(Version::V3_9)));
        assert!(all.record);
        let unknown = parse("conform --version 3.4").unwrap_err();
        assert_eq!(unknown.exit_code(), 2);
        assert!(unknown.to_string().contains("use 3.8 or 3.9"), "{unknown}");
    }
}
