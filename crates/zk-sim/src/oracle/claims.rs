//! Rules for concurrent holders and their tokens, the same for all locks.

use crate::ensure::ensure;
use crate::holding::Token;

/// The part of a lock that a guard holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    /// Identifies the lock.
    pub(crate) lock: String,
    pub(crate) node: String,
    pub(crate) share: Share,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// Exclusive, except for a reader of the same attempt.
    Alone,
    /// A reader's part, shared with other readers.
    Read,
    /// One permit of a semaphore.
    Permit,
}

impl Claim {
    pub(crate) fn new(lock: &str, node: &str, share: Share) -> Self {
        Self { lock: lock.to_owned(), node: node.to_owned(), share }
    }
}

/// Finds two attempts that hold parts of a lock that exclude each other.
pub(super) fn conflict(valid: &[(u64, &Claim)]) -> Option<String> {
    for (index, (attempt, claim)) in valid.iter().enumerate() {
        let (before, share) = (&valid[..index], claim.share);
        let rival = before.iter().find(|(other, beside)| {
            let shared = share == beside.share && share != Share::Alone;
            claim.lock == beside.lock && attempt != other && !shared
        });
        if let Some((other, beside)) = rival {
            let (one, two) = (beside.share, share);
            return Some(format!("#{other} ({one:?}) and #{attempt} ({two:?}) are both held"));
        }
    }
    None
}

/// The tokens of one lock, in the order of its grants.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    largest: Token,
    /// Token and attempt of the last writer. The attempt may continue as a reader.
    writer: (Token, u64),
    /// The largest token written to the resource that the lock protects.
    register: Token,
}

impl Tokens {
    pub(super) fn granted(
        &mut self,
        attempt: u64,
        share: Share,
        token: Token,
    ) -> Result<(), String> {
        let (of_writer, writer) = self.writer;
        let (floor, is_fine) = match share {
            Share::Alone => (self.largest, token > self.largest),
            Share::Read if attempt == writer => (of_writer, token == of_writer),
            Share::Read => (of_writer, token > of_writer),
            // Permits are held concurrently, and their grants arrive at the oracle in any order.
            Share::Permit => return Ok(()),
        };
        self.largest = self.largest.max(token);
        if share == Share::Alone {
            self.writer = (token, attempt);
        }
        ensure(is_fine, || format!("#{attempt} got token {token:?} after {floor:?}"))
    }

    /// Records a write by a holder that has just checked its guard.
    pub(super) fn written(&mut self, token: Token) -> Result<(), Token> {
        let register = self.register;
        self.register = register.max(token);
        if token < register { Err(register) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(one: Share, two: Share) -> bool {
        let (one, two) = (Claim::new("/l", "/l/1", one), Claim::new("/l", "/l/2", two));
        conflict(&[(1, &one), (2, &two)]).is_none()
    }

    #[test]
    fn only_readers_and_permits_may_share_a_lock() {
        assert!(both(Share::Read, Share::Read));
        assert!(both(Share::Permit, Share::Permit));
        for other in [Share::Alone, Share::Read] {
            assert!(!both(Share::Alone, other));
            assert!(!both(other, Share::Alone));
        }
    }

    #[test]
    fn writer_does_not_conflict_with_own_reader_or_other_lock() {
        let [one, two] = [Share::Alone, Share::Read].map(|share| Claim::new("/l", "/l/1", share));
        let elsewhere = Claim::new("/m", "/m/1", Share::Alone);
        assert_eq!(conflict(&[(1, &one), (1, &two), (2, &elsewhere)]), None);
    }

    #[test]
    fn writer_tokens_must_grow_and_reader_tokens_exceed_last_writer() {
        let mut tokens = Tokens::default();
        assert!(tokens.granted(1, Share::Alone, (5, 0)).is_ok());
        assert!(tokens.granted(1, Share::Read, (5, 0)).is_ok());
        assert!(tokens.granted(2, Share::Read, (9, 0)).is_ok());
        assert!(tokens.granted(3, Share::Read, (7, 0)).is_ok());
        assert!(tokens.granted(4, Share::Read, (4, 0)).is_err());
        assert!(tokens.granted(5, Share::Alone, (8, 0)).is_err());
        assert!(tokens.granted(6, Share::Alone, (9, 1)).is_ok());
        assert!(tokens.granted(7, Share::Alone, (9, 1)).is_err());
        assert!(tokens.written((3, 1)).is_ok());
        assert_eq!(tokens.written((3, 0)), Err((3, 1)));
    }
}
