//! Search for the nearest contender of a certain kind ahead of another, in one pass and without
//! allocation.

use std::cmp::Ordering;

use zk_session::ChildList;

use super::{SequenceKey, SequenceOrder};

impl SequenceOrder<'_> {
    /// Returns the nearest child ahead of `own` that is `wanted`, or `Some(None)` if there is none.
    /// Returns `None` if `own` is not in the list.
    ///
    /// A reader uses it to find the nearest writer ahead, the only contender it has to wait for.
    ///
    /// The order is that of [`rank`](Self::rank), except that `wanted` alone decides which names
    /// count.
    ///
    /// ```
    /// use zk_recipes::child_order::SequenceOrder;
    /// use zk_recipes::session::ChildList;
    ///
    /// let rule = SequenceOrder::new(&["__READ__", "__WRIT__"]);
    /// let names = ["a__WRIT__0000000001", "b__READ__0000000002", "c__READ__0000000003"];
    /// let list = ChildList::from_names(names);
    /// let writer = |name: &[u8]| name.windows(8).any(|part| part == b"__WRIT__");
    /// let nearest = rule.nearest_ahead(&list, b"c__READ__0000000003", writer);
    /// assert_eq!(nearest, Some(Some(&b"a__WRIT__0000000001"[..])));
    /// assert_eq!(rule.nearest_ahead(&list, b"gone", writer), None);
    /// ```
    #[must_use]
    pub fn nearest_ahead<'l>(
        self,
        list: &'l ChildList,
        own: &[u8],
        wanted: impl Fn(&[u8]) -> bool,
    ) -> Option<Option<&'l [u8]>> {
        let own_key = self.key(own);
        // As in `rank`, nearly every name costs only two comparisons of numbers.
        let own_number = match own_key {
            SequenceKey::Number(number) => number,
            SequenceKey::Text(_) => 0,
        };
        let mut nearest: Option<(SequenceKey<'_>, &[u8])> = None;
        let mut floor = 0; // the nearest number is at least this one
        let mut present = false;
        for name in list {
            let number = self.number(name);
            if let Some(number) = number {
                if number != own_number && matches!(own_key, SequenceKey::Number(_)) {
                    // True if floor <= number < own_number, as one branch.
                    let is_nearer = number.wrapping_sub(floor) < own_number.wrapping_sub(floor);
                    let key = SequenceKey::Number(number);
                    if is_nearer && nearest.is_none_or(|(other, _)| key >= other) && wanted(name) {
                        (nearest, floor) = (Some((key, name)), number);
                    }
                    continue;
                }
            }
            let key = self.key(name);
            let ahead = match key.cmp(&own_key) {
                Ordering::Equal if name == own => {
                    present = true;
                    false
                }
                // Of equal keys, the first in the list is ahead.
                Ordering::Equal => !present,
                order => order == Ordering::Less,
            };
            if ahead && nearest.is_none_or(|(other, _)| key >= other) && wanted(name) {
                nearest = Some((key, name));
            }
        }
        present.then_some(nearest.map(|(_, name)| name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: SequenceOrder<'static> = SequenceOrder::new(&["__READ__", "__WRIT__"]);

    fn is_writer(name: &[u8]) -> bool {
        name.windows(8).any(|part| part == b"__WRIT__")
    }

    fn nearest<'a>(names: &[&'a str], own: &str) -> Option<Option<&'a str>> {
        let list = ChildList::from_names(names);
        let found = RULE.nearest_ahead(&list, own.as_bytes(), is_writer)?;
        let found = found.map(|found| String::from_utf8(found.to_vec()).unwrap());
        Some(found.map(|found| *names.iter().find(|name| **name == found).unwrap()))
    }

    #[test]
    fn reader_waits_for_the_nearest_writer() {
        let names = [
            "d__READ__0000000005",
            "c__WRIT__0000000004",
            "a__WRIT__0000000001",
            "b__READ__0000000002",
        ];
        assert_eq!(nearest(&names, names[0]), Some(Some(names[1])));
        assert_eq!(nearest(&names, names[3]), Some(Some(names[2])));
        assert_eq!(nearest(&names, names[2]), Some(None));
        assert_eq!(nearest(&names, "e__READ__0000000006"), None);
        assert_eq!(nearest(&["a__READ__0000000001"], "a__READ__0000000001"), Some(None));
    }

    #[test]
    fn writer_behind_a_reader_is_ignored() {
        let names = ["a__READ__0000000001", "b__WRIT__0000000002"];
        assert_eq!(nearest(&names, names[0]), Some(None));
    }

    #[test]
    fn equal_keys_are_ordered_by_list_position() {
        let (read, write) = ("a__READ__0000000001", "b__WRIT__0000000001");
        assert_eq!(nearest(&[write, read], read), Some(Some(write)));
        assert_eq!(nearest(&[read, write], read), Some(None));
    }
}
