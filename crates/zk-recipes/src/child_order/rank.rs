//! Position of one contender, found in one pass over the list and without allocation.

use std::cmp::Ordering;

use zk_session::ChildList;

use super::{SequenceKey, SequenceOrder};

/// Position of a contender among the others.
// Closed: tests and fuzz targets compare whole ranks.
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

impl SequenceOrder<'_> {
    /// Returns the position of `own` in a list, or `None` if it is not in the list. Names that no
    /// contender can have are skipped; see [`is_contender`](Self::is_contender).
    ///
    /// Of children with equal keys, the first in the server's list is ahead, as in Curator.
    #[must_use]
    pub fn rank<'l>(self, list: &'l ChildList, own: &[u8]) -> Option<Rank<'l>> {
        self.rank_among(list, own, |_| true)
    }

    /// As [`rank`](Self::rank), but counts only the contenders for which `is_counted` returns true. A
    /// reader counts the writers, because it waits for no others.
    pub(crate) fn rank_among<'l>(
        self,
        list: &'l ChildList,
        own: &[u8],
        is_counted: impl Fn(&[u8]) -> bool,
    ) -> Option<Rank<'l>> {
        let own_key = self.key(own);
        // Nearly every name ends in a number, and nearly none is among the two nearest. Such a name
        // costs only two comparisons of numbers.
        let own_number = match own_key {
            SequenceKey::Number(number) => number,
            SequenceKey::Text(_) => 0,
        };
        let mut ahead = Ahead::default();
        let mut present = false;
        for name in list.iter() {
            let number = self.number(name);
            if let Some(number) = number {
                if number != own_number && matches!(own_key, SequenceKey::Number(_)) {
                    let is_ahead = number < own_number && is_counted(name);
                    ahead.count += usize::from(is_ahead);
                    // `&` makes one branch that is nearly never taken. In an unordered list, a branch
                    // on `number < own_number` is mispredicted half the time, which costs more than
                    // the rest of the loop.
                    if is_ahead & (number >= ahead.floor) {
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
                _ if (number.is_some() || self.is_contender(name)) && is_counted(name) => {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RULE: SequenceOrder<'static> = SequenceOrder::new(&["__READ__", "__WRIT__"]);

    fn is_writer(name: &[u8]) -> bool {
        name.windows(8).any(|part| part == b"__WRIT__")
    }

    /// Returns the position among the writers, and the nearest of them.
    fn rank<'a>(names: &[&'a str], own: &str) -> Option<(usize, Option<&'a str>)> {
        let list = ChildList::from_names(names);
        let rank = RULE.rank_among(&list, own.as_bytes(), is_writer)?;
        let nearest = names.iter().find(|name| Some(name.as_bytes()) == rank.predecessor);
        Some((rank.position, nearest.copied()))
    }

    #[test]
    fn reader_waits_for_the_nearest_writer() {
        let names = [
            "d__READ__0000000005",
            "c__WRIT__0000000004",
            "a__WRIT__0000000001",
            "b__READ__0000000002",
        ];
        assert_eq!(rank(&names, names[0]), Some((2, Some(names[1]))));
        assert_eq!(rank(&names, names[3]), Some((1, Some(names[2]))));
        assert_eq!(rank(&names, names[2]), Some((0, None)));
        assert_eq!(rank(&names, "e__READ__0000000006"), None);
        assert_eq!(rank(&["a__READ__0000000001"], "a__READ__0000000001"), Some((0, None)));
    }

    #[test]
    fn writer_behind_a_reader_is_ignored() {
        let names = ["a__READ__0000000001", "b__WRIT__0000000002"];
        assert_eq!(rank(&names, names[0]), Some((0, None)));
    }

    #[test]
    fn equal_keys_are_ordered_by_list_position() {
        let (read, write) = ("a__READ__0000000001", "b__WRIT__0000000001");
        assert_eq!(rank(&[write, read], read), Some((1, Some(write))));
        assert_eq!(rank(&[read, write], read), Some((0, None)));
    }

    #[test]
    fn later_of_two_equal_names_is_the_second_nearest() {
        let names = ["c__WRIT__0000000002", "a__WRIT__0000000001", "b__WRIT__0000000001"];
        let own = "d__WRIT__0000000003";
        let list = ChildList::from_names(names.iter().chain([&own]));
        let rank = RULE.rank(&list, own.as_bytes()).unwrap();
        assert_eq!(rank.predecessor, Some(names[0].as_bytes()));
        assert_eq!(rank.second, Some(names[2].as_bytes()));
    }

    fn a_name() -> impl Strategy<Value = String> {
        let front = "(_c_)?[ab]{0,1}-?(__READ__|__WRIT__){0,2}";
        let number =
            prop_oneof![3 => (0_u32..9).prop_map(|n| format!("{n:010}")), 1 => "-?[0-9]{0,2}"];
        (front, number).prop_map(|(front, number)| front + &number)
    }

    proptest! {
        #[test]
        fn rank_among_writers_agrees_with_sorting(
            names in prop::collection::btree_set(a_name(), 1..30).prop_map(Vec::from_iter).prop_shuffle(),
        ) {
            let list = ChildList::from_names(&names);
            let sorted: Vec<&[u8]> = RULE.sort(&list).iter().collect();
            for own in &names {
                let at = sorted.iter().position(|name| *name == own.as_bytes()).unwrap();
                let writers: Vec<&[u8]> =
                    sorted[..at].iter().copied().filter(|name| is_writer(name)).collect();
                let rank = RULE.rank_among(&list, own.as_bytes(), is_writer).unwrap();
                prop_assert_eq!(rank.position, writers.len());
                prop_assert_eq!(rank.predecessor, writers.last().copied());
                prop_assert_eq!(rank.second, writers.iter().copied().nth_back(1));
            }
        }
    }
}
