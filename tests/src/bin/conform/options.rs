//! The command line.

use zk_testing::Version;

/// The parsed command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) scripts: u64,
    pub(crate) seed: u64,
    /// Version to imitate. The default is that of the real server.
    pub(crate) version: Option<Version>,
    /// Whether the answers in the files are renewed.
    pub(crate) record: bool,
}

impl Options {
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self { scripts: 300, seed: 1, version: None, record: false };
        let mut words = words;
        while let Some(word) = words.next() {
            if word == "--record" {
                options.record = true;
                continue;
            }
            let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
            let number = || value.parse().map_err(|_| format!("`{value}` is no number"));
            match (word.as_str(), value.as_str()) {
                ("--scripts", _) => options.scripts = number()?,
                ("--seed", _) => options.seed = number()?,
                ("--version", "3.8") => options.version = Some(Version::V3_8),
                ("--version", "3.9") => options.version = Some(Version::V3_9),
                ("--version", _) => return Err(format!("there is no version `{value}` here")),
                _ => return Err(format!("there is no option `{word}`")),
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options_have_defaults() {
        assert_eq!(parse(""), Ok(Options { scripts: 300, seed: 1, version: None, record: false }));
        let all = Options { scripts: 5, seed: 9, version: Some(Version::V3_9), record: true };
        assert_eq!(parse("--version 3.9 --record --scripts 5 --seed 9"), Ok(all));
        for line in ["--seed", "--seed x", "--version 3.4", "--jobs 2"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
