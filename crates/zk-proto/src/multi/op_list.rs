//! The operations of a multi, borrowed or owned.

use std::{fmt, ops::Deref};

/// The operations of a multi: borrowed by who sends them, owned by who has decoded them.
///
/// It is used as the slice that it is. (A `Cow` would not do: it cannot be shortened in lifetime.)
#[derive(Clone)]
pub enum OpList<'a, T> {
    /// A slice of the sender's, so that nothing is allocated for a request.
    Borrowed(&'a [T]),
    /// What came out of a frame.
    Owned(Vec<T>),
}

impl<T> Deref for OpList<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Self::Borrowed(ops) => ops,
            Self::Owned(ops) => ops,
        }
    }
}

/// Shows the operations, whoever owns them.
impl<T: fmt::Debug> fmt::Debug for OpList<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The same operations are the same list, whoever owns them.
impl<T: PartialEq> PartialEq for OpList<'_, T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Eq> Eq for OpList<'_, T> {}

impl<'a, T> From<&'a [T]> for OpList<'a, T> {
    fn from(ops: &'a [T]) -> Self {
        Self::Borrowed(ops)
    }
}

impl<T> From<Vec<T>> for OpList<'_, T> {
    fn from(ops: Vec<T>) -> Self {
        Self::Owned(ops)
    }
}
