//! The fencing token of a held lock.

use std::fmt;

/// A number that grows from each holder of a lock to the next, over the whole life of the ensemble.
/// It is the czxid of the holder's node.
///
/// Pass it along with every write to the resource that the lock protects. The resource must reject
/// a number below the largest it has seen. No other measure helps against a holder that was paused,
/// for example by its virtual machine, between checking the lock and writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(i64);

impl FencingToken {
    pub(crate) fn new(czxid: i64) -> Self {
        Self(czxid)
    }

    /// Returns the number.
    #[must_use]
    pub fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
