//! The messages from a worker to the process that started it: one line of text each.

use std::fmt;
use std::str::FromStr;

use crate::token::Token;

/// Sent once to each worker, when all workers are ready.
pub(crate) const GO: &str = "go";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// The worker has started and waits for [`GO`].
    Ready,
    /// A buyer has been served.
    Served(Visit),
    /// The worker has failed.
    Failed(String),
}

/// The result for one buyer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Visit {
    pub(crate) answer: Answer,
    /// The time of the answer.
    pub(crate) answered_ns: u64,
    /// `None` in the round without the lock.
    pub(crate) holding: Option<Holding>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Bought,
    SoldOut,
}

/// The time in which one buyer held the lock, as the buyer measured it: from the return of
/// `acquire` to the call of `release`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holding {
    pub(crate) token: Token,
    pub(crate) granted_ns: u64,
    pub(crate) release_called_ns: u64,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => f.write_str("ready"),
            Self::Failed(why) => write!(f, "failed {}", why.replace('\n', " ")),
            Self::Served(visit) => {
                let answer = match visit.answer {
                    Answer::Bought => "bought",
                    Answer::SoldOut => "sold-out",
                };
                write!(f, "{answer} {}", visit.answered_ns)?;
                match &visit.holding {
                    Some(Holding { token, granted_ns, release_called_ns }) => {
                        write!(f, " {token} {granted_ns} {release_called_ns}")
                    }
                    None => Ok(()),
                }
            }
        }
    }
}

/// The line is not a message of a worker.
#[derive(Debug)]
pub(crate) struct NotALine;

impl FromStr for Line {
    type Err = NotALine;

    fn from_str(text: &str) -> Result<Self, NotALine> {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        let answer = match word {
            "ready" => return Ok(Self::Ready),
            "failed" => return Ok(Self::Failed(rest.to_owned())),
            "bought" => Answer::Bought,
            "sold-out" => Answer::SoldOut,
            _ => return Err(NotALine),
        };
        let numbers: Vec<&str> = rest.split(' ').collect();
        let (answered_ns, holding) = match numbers[..] {
            [answered] => (answered, None),
            [answered, token, granted, released] => {
                let holding = Holding {
                    token: token.parse().map_err(|_| NotALine)?,
                    granted_ns: granted.parse().map_err(|_| NotALine)?,
                    release_called_ns: released.parse().map_err(|_| NotALine)?,
                };
                (answered, Some(holding))
            }
            _ => return Err(NotALine),
        };
        Ok(Self::Served(Visit {
            answer,
            answered_ns: answered_ns.parse().map_err(|_| NotALine)?,
            holding,
        }))
    }
}
