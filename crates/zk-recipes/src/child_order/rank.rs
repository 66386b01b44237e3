//! Position of one contender, found in one pass over the list and without allocation.

use std::cmp::Ordering;

use zk_session::ChildList;

use super::{SequenceKey, SequenceOrder};

/// Position of a contender among the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rank<'a> {
    /// Number of contenders ahead; 0 for the holder of a mutex.
    pub position: usize,
    /// The nearest contender ahead.
    pub predecessor: Option<&'a [u8]>,
    /// The second nearest contender ahead.
    pub second: Option<&'a [u8]>,
    /// True if a name in the list does not end in a lock name of the rule and a number. It may also
    /// be true for a name in which two lock names overlap.
    pub has_others: bool,
}

impl Rank<'_> {
    /// Returns whether `predecessor` and `second` are all contenders ahead. In that case no request
    /// is needed after both are deleted.
    #[must_use]
    pub fn at_most_two_ahead(&self) -> bool {
        self.position <= 2
    }
}

impl SequenceOrder<'_> {
    /// Returns the position of `own` in a list, or `None` if it is not in the list. Names that no
    /// contender can have are skipped; see [`is_contender`](Self::is_contender).
    ///
    /// Of children with equal keys, the first in the server's list is ahead, as in Curator.
    #[must_use]
    pub fn rank<'l>(self, list: &'l ChildList, own: &[u8]) -> Option<Rank<'l>> {
        let own_key = self.key(own);
        // Nearly every name ends in a number, and nearly none is among the two nearest. Such a name
        // costs only two comparisons of numbers.
        let own_number = match own_key {
            SequenceKey::Number(number) => number,
            SequenceKey::Text(_) => 0,
        };
        let mut ahead = Ahead::default();
        let mut present = false;
        for name in list {
            let number = self.number(name);
            if let Some(number) = number {
                if number != own_number && matches!(own_key, SequenceKey::Number(_)) {
                    ahead.count += usize::from(number < own_number);
                    // True if floor <= number < own_number, as one branch that is nearly never taken.
                    // In an unordered list, a branch on `number < own_number` is mispredicted half the
                    // time, which costs more than the rest of the loop.
                    if number.wrapping_sub(ahead.floor) < own_number.wrapping_sub(ahead.floor) {
                        ahead.note(SequenceKey::Number(number), name);
                    }
                    continue;
                }
            }
            ahead.has_others |= number.is_none();
            let key = self.key(name);
            match key.cmp(&own_key) {
                Ordering::Greater => {}
                Ordering::Equal if name == own => present = true,
                Ordering::Equal if present => {}
                _ if number.is_some() || self.is_contender(name) => {
                    ahead.count += 1;
                    ahead.note(key, name);
                }
                _ => {}
            }
        }
        present.then_some(Rank {
            position: ahead.count,
            predecessor: ahead.nearest.map(|(_, name)| name),
            second: ahead.second.map(|(_, name)| name),
            has_others: ahead.has_others,
        })
    }
}

/// Contenders ahead: their number, and the two nearest.
#[derive(Default)]
struct Ahead<'a> {
    count: usize,
    nearest: Option<(SequenceKey<'a>, &'a [u8])>,
    second: Option<(SequenceKey<'a>, &'a [u8])>,
    /// Lower bound for the numbers of the two nearest.
    floor: u32,
    /// Whether a name has no number.
    has_others: bool,
}

impl<'a> Ahead<'a> {
    fn note(&mut self, key: SequenceKey<'a>, name: &'a [u8]) {
        if self.nearest.is_none_or(|(nearest, _)| key >= nearest) {
            self.second = self.nearest.replace((key, name));
        } else if self.second.is_none_or(|(second, _)| key >= second) {
            self.second = Some((key, name));
        }
        if let Some((SequenceKey::Number(number), _)) = self.second {
            self.floor = number;
        }
    }
}
