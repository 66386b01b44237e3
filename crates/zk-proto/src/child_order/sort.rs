//! All children in order, as one number each.

use super::{Key, KeyRule};
use crate::child_list::ChildList;

/// The children of a list in Curator's order.
///
/// Two allocations at most, whatever the length of the list: eight bytes for every name with a
/// sequence number, and the same for the others if there are any.
#[derive(Debug, Clone)]
pub struct SortedChildren<'a> {
    list: &'a ChildList,
    rule: KeyRule<'a>,
    /// The sequence number above the place in the list: sorting the words sorts the children, and
    /// leaves those with the same number in the server's order.
    numbered: Vec<u64>,
    /// The places of the others, in order.
    others: Vec<u32>,
}

impl ChildList {
    /// Sorts all children, foreign ones included, as Curator does.
    #[must_use]
    pub fn sorted<'a>(&'a self, rule: KeyRule<'a>) -> SortedChildren<'a> {
        let mut numbered = Vec::with_capacity(self.len());
        let mut others = Vec::new();
        for (place, name) in self.places() {
            match rule.key(name) {
                Key::Number(number) => numbered.push(u64::from(number) << 32 | u64::from(place)),
                Key::Text(_) => {
                    if others.is_empty() {
                        others.reserve_exact(self.len() - numbered.len());
                    }
                    others.push(place);
                }
            }
        }
        numbered.sort_unstable();
        let key = |place: u32| rule.key(self.name_at(place));
        others.sort_unstable_by(|a, b| key(*a).cmp(&key(*b)).then(a.cmp(b)));
        SortedChildren { list: self, rule, numbered, others }
    }
}

impl<'a> SortedChildren<'a> {
    /// The number of children.
    #[must_use]
    pub fn len(&self) -> usize {
        self.numbered.len() + self.others.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The raw names, in order.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + Clone {
        let Self { list, rule, numbered, others } = self;
        let (list, rule) = (*list, *rule);
        let (mut numbered, mut others) = (numbered.iter().peekable(), others.iter().peekable());
        std::iter::from_fn(move || {
            let place = match (numbered.peek(), others.peek()) {
                (Some(word), Some(other)) if number(**word) > rule.key(list.name_at(**other)) => {
                    others.next().copied()
                }
                (None, _) => others.next().copied(),
                _ => numbered.next().map(|word| low(*word)),
            };
            place.map(|place| list.name_at(place))
        })
    }
}

fn number(word: u64) -> Key<'static> {
    Key::Number(low(word >> 32))
}

fn low(word: u64) -> u32 {
    u32::try_from(word & u64::from(u32::MAX)).unwrap_or(u32::MAX)
}
