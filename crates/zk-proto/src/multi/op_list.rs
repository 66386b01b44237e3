//! The operations of a multi, borrowed or owned.

use std::{fmt, ops::Deref};

/// Operations of a multi: borrowed in a request to send, owned in a decoded one.
///
/// It dereferences to a slice. (A `Cow` is not possible, as its lifetime cannot be shortened.)
#[derive(Clone)]
pub enum OpList<'a, T> {
    /// Operations borrowed from the sender, so that a request allocates nothing.
    Borrowed(&'a [T]),
    /// Operations decoded from a frame.
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

/// Prints the operations as a list, whether borrowed or owned.
impl<T: fmt::Debug> fmt::Debug for OpList<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Compares the operations only: a borrowed and an owned list can be equal.
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
