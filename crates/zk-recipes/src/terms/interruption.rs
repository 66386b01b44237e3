//! Interruptions of the work that runs whenever a lock is held.

use std::fmt;

use crate::error::{LockError, LossReason};
use crate::fencing_token::FencingToken;

/// The reason why the work was dropped or could not begin, or why its lock was not released.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Interruption {
    /// The lock was lost.
    Lost {
        /// The token of the holder that lost it; `None` if it was lost before the work began.
        token: Option<FencingToken>,
        /// The reason of the loss.
        reason: LossReason,
    },
    /// The lock could not be acquired. Another attempt follows.
    NotAcquired(LockError),
    /// The work has ended, and the server has not confirmed the release. If it has rejected the release,
    /// for example with `NoAuth`, the node of the lock stays until the session ends, and nobody else
    /// can hold the lock before.
    NotReleased(LockError),
}

impl fmt::Display for Interruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost { token: Some(token), reason } => {
                write!(f, "the lock with token {token} was lost: {reason}")
            }
            Self::Lost { token: None, reason } => write!(f, "the lock was lost: {reason}"),
            Self::NotAcquired(error) => write!(f, "the lock was not acquired: {error}"),
            Self::NotReleased(error) => write!(f, "the lock was not released: {error}"),
        }
    }
}

impl std::error::Error for Interruption {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Lost { .. } => None,
            Self::NotAcquired(error) | Self::NotReleased(error) => Some(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use zk_session::Zxid;

    use super::*;

    #[test]
    fn interruption_prints_what_happened_and_why() {
        let (reason, token) = (LossReason::NodeDeleted, Some(FencingToken::new(Zxid(7))));
        let error = LockError::NotConnected { path: "/lock".to_owned() };
        for (interruption, what, is_lost) in [
            (Interruption::Lost { token, reason }, "the lock with token 7 was lost", true),
            (Interruption::Lost { token: None, reason }, "the lock was lost", true),
            (Interruption::NotAcquired(error.clone()), "the lock was not acquired", false),
            (Interruption::NotReleased(error.clone()), "the lock was not released", false),
        ] {
            let why = if is_lost { reason.to_string() } else { error.to_string() };
            assert_eq!(interruption.to_string(), format!("{what}: {why}"));
            let source = interruption.source().map(ToString::to_string);
            assert_eq!(source, (!is_lost).then_some(why));
        }
    }
}
