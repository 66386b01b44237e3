//! Broken promises in a history.

use std::fmt;

use super::event::Event;

/// A promise that a history breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A guard was granted while another one was valid.
    TwoValidGuards {
        /// The two guards.
        pair: Pair,
        /// For how long both were valid, in microseconds.
        by_us: u64,
    },
    /// `lost()` of a guard returned after the next guard was granted.
    LateLoss {
        /// The two guards.
        pair: Pair,
        /// How late, in microseconds.
        by_us: u64,
    },
    /// A guard has no larger token than the guard before it.
    TokenWentBack {
        /// The two guards.
        pair: Pair,
    },
    /// More permits were held than the semaphore has.
    TooManyPermits {
        /// Path of the semaphore.
        lock: String,
        /// Time of the violation.
        at_us: u64,
        /// Permits that were held at that time.
        taken: u32,
        /// Permits of the semaphore.
        of: u32,
    },
    /// `token()` was `Ok` after `lost()` had returned.
    ValidAfterLoss {
        /// The event.
        event: Box<Event>,
    },
    /// An event of a guard that was not granted, or that had ended.
    NotGranted {
        /// The event.
        event: Box<Event>,
    },
    /// A grant to a contender that already holds the lock.
    GrantedTwice {
        /// The event.
        event: Box<Event>,
    },
}

/// Two guards of one lock, in the order in which they were granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Path of the lock.
    pub lock: String,
    /// Contenders.
    pub contenders: [u32; 2],
    /// Fencing tokens.
    pub tokens: [i64; 2],
    /// When the second one was granted.
    pub at_us: u64,
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([one, two], [first, second]) = (self.contenders, self.tokens);
        let (lock, at) = (&self.lock, self.at_us);
        write!(f, "{lock}: contender {one} (token {first}) and {two} (token {second}) at {at}")
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TwoValidGuards { pair, by_us } => {
                write!(f, "two valid guards for {} ms; {pair}", ms(*by_us))
            }
            Self::LateLoss { pair, by_us } => {
                write!(f, "lost() returned {} ms after the next grant; {pair}", ms(*by_us))
            }
            Self::TokenWentBack { pair } => write!(f, "the token did not grow; {pair}"),
            Self::TooManyPermits { lock, at_us, taken, of } => {
                write!(f, "{taken} of {of} permits were held; {lock} at {at_us}")
            }
            Self::ValidAfterLoss { event } => {
                write!(f, "token() was Ok after lost() had returned; {event}")
            }
            Self::NotGranted { event } => write!(f, "the guard was not granted; {event}"),
            Self::GrantedTwice { event } => {
                write!(f, "the contender already holds the lock; {event}")
            }
        }
    }
}

fn ms(us: u64) -> String {
    format!("{}.{:03}", us / 1_000, us % 1_000)
}
