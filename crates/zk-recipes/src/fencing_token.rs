//! The fencing token of a held lock.

use std::fmt;

use zk_session::Zxid;

/// A number that grows from each holder of a lock to the next, over the whole life of the ensemble.
///
/// It is the czxid of the holder's node. The holders of a lock with a [local
/// queue](crate::Mutex::with_local_queue) share nodes, so their tokens have a second number, which
/// counts the holders of one node. Tokens are compared by the czxid first. All other locks have
/// tokens whose second number is zero, and the czxid alone grows.
///
/// Pass it along with every write to the resource that the lock protects. The resource must reject
/// a token below the largest it has seen. No other measure helps against a holder that was paused,
/// for example by its virtual machine, between checking the lock and writing.
///
/// A database keeps the token in two columns of 64 bits, beside the data, and compares both:
///
/// ```sql
/// UPDATE stock SET amount = $1, czxid = $2, pass = $3
/// WHERE book = $4 AND (czxid, pass) <= ($2, $3)
/// ```
///
/// If no row was changed, another holder has written with a larger token. Without a local queue, the column
/// `czxid` is enough. [`as_i128`](Self::as_i128) is for a resource with numbers of 128 bits.
///
/// It prints as the czxid in decimal, followed by a colon and the second number if that is not zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken {
    // In the order of comparison.
    czxid: Zxid,
    pass: u32,
}

impl FencingToken {
    pub(crate) fn new(czxid: Zxid) -> Self {
        Self { czxid, pass: 0 }
    }

    /// Returns the token of the next holder of the same node.
    pub(crate) fn next(self) -> Self {
        Self { pass: self.pass + 1, ..self }
    }

    /// Returns the czxid of the holder's node. With a local queue, several holders in succession have the
    /// same number: compare the [`pass`](Self::pass), too.
    #[must_use]
    #[doc(alias = "get")]
    pub fn czxid(self) -> i64 {
        self.czxid.0
    }

    /// Returns how often the lock has passed from one local waiter to the next since the ensemble
    /// granted it; zero without a local queue.
    #[must_use]
    pub fn pass(self) -> u32 {
        self.pass
    }

    /// Returns both numbers as one, which grows with every holder: the czxid in the upper 64 bits,
    /// the pass in the lower ones.
    #[must_use]
    pub fn as_i128(self) -> i128 {
        (i128::from(self.czxid.0) << 64) | i128::from(self.pass)
    }
}

impl From<FencingToken> for i128 {
    fn from(token: FencingToken) -> Self {
        token.as_i128()
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pass {
            0 => self.czxid.0.fmt(f),
            pass => write!(f, "{}:{pass}", self.czxid.0),
        }
    }
}
