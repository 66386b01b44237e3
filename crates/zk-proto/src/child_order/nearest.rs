//! The nearest contender ahead of a certain kind, in one pass and without an allocation.

use std::cmp::Ordering;

use super::{Key, KeyRule};
use crate::child_list::ChildList;

impl ChildList {
    /// The last of those children ahead of `own` that are `wanted`, or `None` in it if there is
    /// none: whom a reader waits for, where only writers are in its way. `None` at all if `own` is
    /// not in the list.
    ///
    /// What is ahead is decided as by [`rank`](Self::rank), except that it is left to `wanted` which
    /// names count.
    ///
    /// ```
    /// use zk_proto::{ChildList, KeyRule};
    ///
    /// let rule = KeyRule::new(&["__READ__", "__WRIT__"]);
    /// let names = ["a__WRIT__0000000001", "b__READ__0000000002", "c__READ__0000000003"];
    /// let list = ChildList::from_names(names);
    /// let writer = |name: &[u8]| name.windows(8).any(|part| part == b"__WRIT__");
    /// let nearest = list.nearest_ahead(b"c__READ__0000000003", rule, writer);
    /// assert_eq!(nearest, Some(Some(&b"a__WRIT__0000000001"[..])));
    /// assert_eq!(list.nearest_ahead(b"gone", rule, writer), None);
    /// ```
    #[must_use]
    pub fn nearest_ahead(
        &self,
        own: &[u8],
        rule: KeyRule<'_>,
        wanted: impl Fn(&[u8]) -> bool,
    ) -> Option<Option<&[u8]>> {
        let own_key = rule.key(own);
        // As in `rank`: for nearly every name it comes down to two comparisons of numbers.
        let own_number = match own_key {
            Key::Number(number) => number,
            Key::Text(_) => 0,
        };
        let mut nearest: Option<(Key<'_>, &[u8])> = None;
        let mut floor = 0; // no number below this one is the nearest
        let mut present = false;
        for name in self {
            let number = rule.number(name);
            if let Some(number) = number
                && number != own_number
                && matches!(own_key, Key::Number(_))
            {
                // Whether floor <= number < own_number, as one branch.
                let is_nearer = number.wrapping_sub(floor) < own_number.wrapping_sub(floor);
                let key = Key::Number(number);
                if is_nearer && nearest.is_none_or(|(other, _)| key >= other) && wanted(name) {
                    (nearest, floor) = (Some((key, name)), number);
                }
                continue;
            }
            let key = rule.key(name);
            let ahead = match key.cmp(&own_key) {
                Ordering::Equal if name == own => {
                    present = true;
                    false
                }
                // Of equal keys the one that is listed first is ahead.
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

    const RULE: KeyRule<'static> = KeyRule::new(&["__READ__", "__WRIT__"]);

    fn is_writer(name: &[u8]) -> bool {
        name.windows(8).any(|part| part == b"__WRIT__")
    }

    fn nearest<'a>(names: &[&'a str], own: &str) -> Option<Option<&'a str>> {
        let list = ChildList::from_names(names);
        let found = list.nearest_ahead(own.as_bytes(), RULE, is_writer)?;
        let found = found.map(|found| String::from_utf8(found.to_vec()).unwrap());
        Some(found.map(|found| *names.iter().find(|name| **name == found).unwrap()))
    }

    #[test]
    fn a_reader_is_behind_the_nearest_writer_only() {
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
    fn what_is_behind_is_not_in_the_way() {
        let names = ["a__READ__0000000001", "b__WRIT__0000000002"];
        assert_eq!(nearest(&names, names[0]), Some(None));
    }

    #[test]
    fn of_equal_keys_the_first_listed_is_ahead() {
        let (read, write) = ("a__READ__0000000001", "b__WRIT__0000000001");
        assert_eq!(nearest(&[write, read], read), Some(Some(write)));
        assert_eq!(nearest(&[read, write], read), Some(None));
    }
}
