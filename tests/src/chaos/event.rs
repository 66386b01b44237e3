//! Timed events of contenders, and the text form in which processes exchange and keep them.

use std::fmt;
use std::str::FromStr;

/// An event of one contender of one lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// `CLOCK_MONOTONIC`, in microseconds.
    pub at_us: u64,
    /// Number of the contender.
    pub contender: u32,
    /// Path of the lock; `-` for an event that concerns no lock.
    pub lock: String,
    /// Kind of the event.
    pub what: What,
}

/// Kind of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Acquiring the lock returned a guard.
    Granted {
        /// Access that the guard gives.
        access: Access,
        /// The fencing token.
        token: i64,
    },
    /// `token()` of the guard was `Ok` at this time.
    Valid,
    /// `lost()` of the guard returned.
    Lost {
        /// The reason that it gave.
        reason: String,
    },
    /// The contender is about to release the guard.
    Releasing,
    /// The process of the contender is about to be stopped.
    Stopped,
    /// The process of the contender has been continued.
    Continued,
    /// The process of the contender has been killed.
    Killed,
    /// Anything else, for the reader of a history and for the engine. The checker ignores it.
    Note(String),
}

/// Access that a guard gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A mutex, or the write side of a read-write lock.
    Exclusive,
    /// The read side of a read-write lock.
    Shared,
    /// Permits of a semaphore.
    Permits {
        /// Permits of this guard.
        taken: u32,
        /// Permits of the semaphore.
        of: u32,
    },
}

impl Event {
    /// Creates a note that concerns no lock.
    pub fn note(at_us: u64, contender: u32, text: impl Into<String>) -> Self {
        Self { at_us, contender, lock: NO_LOCK.to_owned(), what: What::Note(text.into()) }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} ", self.at_us, self.contender, self.lock)?;
        match &self.what {
            What::Granted { access, token } => match access {
                Access::Exclusive => write!(f, "granted exclusive {token}"),
                Access::Shared => write!(f, "granted shared {token}"),
                Access::Permits { taken, of } => write!(f, "granted {taken}/{of} {token}"),
            },
            What::Valid => f.write_str("valid"),
            What::Lost { reason } => write!(f, "lost {reason}"),
            What::Releasing => f.write_str("releasing"),
            What::Stopped => f.write_str("stopped"),
            What::Continued => f.write_str("continued"),
            What::Killed => f.write_str("killed"),
            What::Note(text) => write!(f, "note {text}"),
        }
    }
}

impl FromStr for Event {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let wrong = || format!("not an event: {line:?}");
        let mut words = line.splitn(5, ' ');
        let mut word = || words.next().ok_or_else(wrong);
        let at_us = word()?.parse().map_err(|_| wrong())?;
        let contender = word()?.parse().map_err(|_| wrong())?;
        let lock = word()?.to_owned();
        let kind = word()?;
        let rest = words.next().unwrap_or_default();
        let what = match kind {
            "granted" => {
                let (access, token) = rest.split_once(' ').ok_or_else(wrong)?;
                let access = parse_access(access).ok_or_else(wrong)?;
                What::Granted { access, token: token.parse().map_err(|_| wrong())? }
            }
            "valid" => What::Valid,
            "lost" => What::Lost { reason: rest.to_owned() },
            "releasing" => What::Releasing,
            "stopped" => What::Stopped,
            "continued" => What::Continued,
            "killed" => What::Killed,
            "note" => What::Note(rest.to_owned()),
            _ => return Err(wrong()),
        };
        Ok(Self { at_us, contender, lock, what })
    }
}

fn parse_access(text: &str) -> Option<Access> {
    match text {
        "exclusive" => Some(Access::Exclusive),
        "shared" => Some(Access::Shared),
        permits => {
            let (taken, of) = permits.split_once('/')?;
            Some(Access::Permits { taken: taken.parse().ok()?, of: of.parse().ok()? })
        }
    }
}

/// Lock path of an event that concerns no lock.
const NO_LOCK: &str = "-";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_survives_its_text_form() {
        for line in [
            "12 3 /locks/a granted exclusive 4294967297",
            "12 3 /locks/a granted shared 7",
            "12 3 /locks/a granted 2/5 7",
            "12 3 /locks/a valid",
            "12 3 /locks/a lost the ensemble did not answer within the lease",
            "12 3 /locks/a releasing",
            "12 3 - stopped",
            "12 3 - continued",
            "12 3 - killed",
            "12 3 - note connected to 127.0.0.1:2181",
        ] {
            assert_eq!(line.parse::<Event>().unwrap().to_string(), line);
        }
    }

    #[test]
    fn damaged_line_is_rejected() {
        for line in ["", "12", "12 3 /a", "12 3 /a granted 7", "x 3 /a valid", "12 3 /a eaten"] {
            assert!(line.parse::<Event>().is_err(), "{line:?}");
        }
    }
}
