//! Sorting of all children, as one number each.

use zk_session::ChildList;

use super::{SequenceKey, SequenceOrder};

/// Children of a list in Curator's order.
///
/// Sorting allocates at most twice, whatever the length of the list. One allocation takes eight
/// bytes for each name. The other takes the same for each name from the first one without a
/// sequence number on. Sorting searches every name for the lock names once. Iterating compares at
/// most ten bytes of a key.
#[derive(Debug, Clone)]
pub struct SortedChildren<'a> {
    list: &'a ChildList,
    /// The sequence number above the name's offset in the list. Sorting these words sorts the
    /// children and keeps the server's order among equal numbers.
    numbered: Vec<u64>,
    /// The children with text keys, in order.
    others: Vec<Other>,
}

/// Child with a text key.
///
/// The key's offset is stored, so that comparisons need not search for it again. Any client may
/// create a name of megabytes among thousands of contenders.
#[derive(Debug, Clone, Copy)]
struct Other {
    place: u32,
    /// Offset of the key in the name. The key extends to the end of the name.
    key_start: u32,
}

impl Other {
    fn key(self, list: &ChildList) -> &[u8] {
        let start = usize::try_from(self.key_start).unwrap_or(usize::MAX);
        list.name_at(self.place).get(start..).unwrap_or_default()
    }
}

impl SequenceOrder<'_> {
    /// Sorts all children of a list as Curator does, including foreign ones.
    #[must_use]
    pub fn sort<'l>(self, list: &'l ChildList) -> SortedChildren<'l> {
        let mut numbered = Vec::with_capacity(list.len());
        let mut others = Vec::new();
        for (place, name) in list.places() {
            match self.find(name) {
                (SequenceKey::Number(number), _) => {
                    numbered.push(u64::from(number) << 32 | u64::from(place));
                }
                (SequenceKey::Text(_), start) => {
                    if others.is_empty() {
                        others.reserve_exact(list.len() - numbered.len());
                    }
                    // The offset fits, because a frame's length is an i32.
                    others.push(Other { place, key_start: u32::try_from(start).unwrap_or(0) });
                }
            }
        }
        numbered.sort_unstable();
        others.sort_unstable_by(|a, b| a.key(list).cmp(b.key(list)).then(a.place.cmp(&b.place)));
        SortedChildren { list, numbered, others }
    }
}

impl<'a> SortedChildren<'a> {
    /// Returns the number of children.
    #[must_use]
    pub fn len(&self) -> usize {
        self.numbered.len() + self.others.len()
    }

    /// Returns whether there are no children.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Iterates over the raw names, in order.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + Clone {
        let Self { list, numbered, others } = self;
        let list = *list;
        let (mut numbered, mut others) = (numbered.iter().peekable(), others.iter().peekable());
        std::iter::from_fn(move || {
            let place = match (numbered.peek(), others.peek()) {
                (Some(word), Some(other))
                    if number(**word) > SequenceKey::Text(other.key(list)) =>
                {
                    others.next().map(|other| other.place)
                }
                (None, _) => others.next().map(|other| other.place),
                _ => numbered.next().map(|word| low(*word)),
            };
            place.map(|place| list.name_at(place))
        })
    }
}

fn number(word: u64) -> SequenceKey<'static> {
    SequenceKey::Number(low(word >> 32))
}

fn low(word: u64) -> u32 {
    u32::try_from(word & u64::from(u32::MAX)).unwrap_or(u32::MAX)
}
