//! All children in order, as one number each.

use super::{Key, KeyRule};
use crate::child_list::ChildList;

/// The children of a list in Curator's order.
///
/// Two allocations at most, whatever the length of the list: eight bytes for every name with a
/// sequence number, and the same for the others if there are any. Every name is searched for the
/// lock names once, while sorting: iterating looks at no more than ten bytes of a key.
#[derive(Debug, Clone)]
pub struct SortedChildren<'a> {
    list: &'a ChildList,
    /// The sequence number above the place in the list: sorting the words sorts the children, and
    /// leaves those with the same number in the server's order.
    numbered: Vec<u64>,
    /// The others, in order.
    others: Vec<Other>,
}

/// A child whose key is no number. The key is remembered, and not looked for again in each
/// comparison: anybody may put a name of megabytes between thousands of contenders.
#[derive(Debug, Clone, Copy)]
struct Other {
    place: u32,
    /// Where in the name the key begins, which goes on to its end.
    key_start: u32,
}

impl Other {
    fn key(self, list: &ChildList) -> &[u8] {
        let start = usize::try_from(self.key_start).unwrap_or(usize::MAX);
        list.name_at(self.place).get(start..).unwrap_or_default()
    }
}

impl ChildList {
    /// Sorts all children, foreign ones included, as Curator does.
    #[must_use]
    pub fn sorted<'a>(&'a self, rule: KeyRule<'a>) -> SortedChildren<'a> {
        let mut numbered = Vec::with_capacity(self.len());
        let mut others = Vec::new();
        for (place, name) in self.places() {
            match rule.find(name) {
                (Key::Number(number), _) => {
                    numbered.push(u64::from(number) << 32 | u64::from(place));
                }
                (Key::Text(_), start) => {
                    if others.is_empty() {
                        others.reserve_exact(self.len() - numbered.len());
                    }
                    // It fits, as every place does: a frame's length is an i32.
                    others.push(Other { place, key_start: u32::try_from(start).unwrap_or(0) });
                }
            }
        }
        numbered.sort_unstable();
        others.sort_unstable_by(|a, b| a.key(self).cmp(b.key(self)).then(a.place.cmp(&b.place)));
        SortedChildren { list: self, numbered, others }
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
        let Self { list, numbered, others } = self;
        let list = *list;
        let (mut numbered, mut others) = (numbered.iter().peekable(), others.iter().peekable());
        std::iter::from_fn(move || {
            let place = match (numbered.peek(), others.peek()) {
                (Some(word), Some(other)) if number(**word) > Key::Text(other.key(list)) => {
                    others.next().map(|other| other.place)
                }
                (None, _) => others.next().map(|other| other.place),
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
