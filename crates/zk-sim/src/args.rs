//! The command line of `sim`.

use crate::suite::Suite;

/// A parsed command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Prints the help page.
    Help,
    /// Runs `count` seeds, starting at `first`.
    Seeds {
        /// The recipes.
        suite: Suite,
        /// The first seed.
        first: u64,
        /// The number of seeds.
        count: u64,
    },
    /// Runs one seed and prints its trace.
    Replay {
        /// The recipes.
        suite: Suite,
        /// The seed.
        seed: u64,
    },
}

/// The text of `--help`.
pub const HELP: &str = "\
Simulates clients, sessions and locks against in-memory servers with faults, deterministically.

Usage: cargo xtask sim [--coordination] [--seeds N] [--first S]
       cargo xtask sim [--coordination] --seed S

--seeds N       runs N seeds, 1000 unless told, and checks the invariants after every event; some
                seeds are run twice, to see that they take the same course
--first S       the first of them, 0 unless told
--seed S        runs one seed and prints all that happens, with times
--coordination  simulates counters, registrations, caches, barriers and service discovery instead of
                sessions and locks

Exit status:
  0  every invariant held
  1  an invariant was broken
  2  the command line is wrong
";

impl Request {
    /// Parses a command line without the program name.
    ///
    /// # Errors
    ///
    /// Returns a message if an argument is unknown, invalid, or contradicts another one.
    pub fn parse(words: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut words = words.into_iter().peekable();
        let (mut suite, mut first, mut count, mut seed) = (Suite::Locks, None, None, None);
        while let Some(word) = words.next() {
            let (name, mut value) = match word.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => (word, None),
            };
            if value.is_none() {
                value = words.next_if(|next| !next.starts_with('-'));
            }
            match name.as_str() {
                "-h" | "--help" => return Ok(Self::Help),
                "--coordination" if value.is_none() => suite = Suite::Coordination,
                "--seeds" => count = Some(number(&name, value)?),
                "--first" => first = Some(number(&name, value)?),
                "--seed" => seed = Some(number(&name, value)?),
                _ => return Err(format!("`{name}` is not understood; see --help")),
            }
        }
        if count == Some(0) {
            return Err("--seeds needs a number from 1 on".to_owned());
        }
        match seed {
            Some(_) if first.or(count).is_some() => {
                Err("--seed runs one seed, --seeds and --first are for many".to_owned())
            }
            Some(seed) => Ok(Self::Replay { suite, seed }),
            None => {
                let (first, count) = (first.unwrap_or(0), count.unwrap_or(1_000));
                Ok(Self::Seeds { suite, first, count })
            }
        }
    }
}

fn number(name: &str, value: Option<String>) -> Result<u64, String> {
    let value = value.ok_or_else(|| format!("{name} needs a number"))?;
    value.parse().map_err(|_| format!("{name} needs a number, not `{value}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Request, String> {
        Request::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn valid_command_lines_are_parsed() {
        let seeds = |suite, first, count| Ok(Request::Seeds { suite, first, count });
        assert_eq!(parse(""), seeds(Suite::Locks, 0, 1_000));
        assert_eq!(parse("--seeds 5 --first=7"), seeds(Suite::Locks, 7, 5));
        assert_eq!(parse("--coordination --seeds 5"), seeds(Suite::Coordination, 0, 5));
        assert_eq!(parse("--seed 3"), Ok(Request::Replay { suite: Suite::Locks, seed: 3 }));
        assert_eq!(parse("-h"), Ok(Request::Help));
    }

    #[test]
    fn invalid_command_lines_are_rejected() {
        for line in
            ["x", "--seeds", "--seeds x", "--seeds 0", "--seed 1 --seeds 2", "--coordination 5"]
        {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
