//! Who is next: decisions about a list of children, without copying a name.

use std::cmp::Ordering;

use zk_session::ChildList;

use super::name::{is_contender, order_key};

/// Where a contender stands in its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place<'a> {
    /// Nobody is ahead.
    First,
    /// Somebody is ahead; the nearest of them is who to wait for.
    Behind { predecessor: &'a [u8] },
    /// The contender is not in the list.
    Absent,
}

/// Finds the place of `own` in one pass over the children, which come in no
/// particular order.
pub(crate) fn place<'a>(children: &'a ChildList, own: &[u8], lock_name: &str) -> Place<'a> {
    let mut present = false;
    let mut nearest: Option<&[u8]> = None;
    for name in children.iter() {
        if name == own {
            present = true;
        } else if is_contender(name, lock_name)
            && compare(name, own, lock_name).is_lt()
            && nearest.is_none_or(|other| compare(name, other, lock_name).is_gt())
        {
            nearest = Some(name);
        }
    }
    match (present, nearest) {
        (false, _) => Place::Absent,
        (true, None) => Place::First,
        (true, Some(predecessor)) => Place::Behind { predecessor },
    }
}

/// Curator's order: the text after the lock name, as text. Sequence numbers have
/// ten digits, so that is their order too. Nodes with the same number, which only
/// a downgraded write lock makes on purpose, are told apart by their whole name.
pub(crate) fn compare(a: &[u8], b: &[u8], lock_name: &str) -> Ordering {
    order_key(a, lock_name).cmp(order_key(b, lock_name)).then_with(|| a.cmp(b))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(uuid: u32, sequence: u32) -> String {
        format!("_c_{uuid:08x}-3cc2-4b57-9c3e-5c3ae2f1c0de-lock-{sequence:010}")
    }

    fn list<S: AsRef<[u8]>>(names: &[S]) -> ChildList {
        ChildList::from_names(names)
    }

    #[test]
    fn the_nearest_ahead_is_the_predecessor() {
        let (a, b, c) = (name(9, 3), name(1, 7), name(5, 12));
        let children = list(&[&c, &a, &b]);
        assert_eq!(place(&children, a.as_bytes(), "lock-"), Place::First);
        let behind = |name: &'static str| Place::Behind { predecessor: name.as_bytes() };
        let leak = |name: &str| -> &'static str { name.to_owned().leak() };
        assert_eq!(place(&children, b.as_bytes(), "lock-"), behind(leak(&a)));
        assert_eq!(place(&children, c.as_bytes(), "lock-"), behind(leak(&b)));
        assert_eq!(place(&children, b"_c_other", "lock-"), Place::Absent);
    }

    #[test]
    fn foreign_children_are_no_contenders() {
        let own = name(1, 5);
        let children = list(&["0", &own, "zzz", "latch-0000000000"]);
        assert_eq!(place(&children, own.as_bytes(), "lock-"), Place::First);
    }

    #[test]
    fn other_clients_names_with_the_same_lock_name_count() {
        let own = name(1, 5);
        let children = list(&[own.as_str(), "lock-0000000004"]);
        let predecessor = b"lock-0000000004";
        assert_eq!(place(&children, own.as_bytes(), "lock-"), Place::Behind { predecessor });
    }

    proptest! {
        /// Against the obvious way of doing it: sort all, look at the one before.
        #[test]
        fn agrees_with_sorting(
            sequences in prop::collection::btree_set(0_u32..10_000, 1..40),
            order in any::<u64>(),
            foreign in prop::collection::vec("[a-z0-9]{1,4}", 0..4),
        ) {
            let mut names: Vec<String> =
                sequences.iter().map(|s| name(s ^ 0x5a5a, *s)).collect();
            let sorted = names.clone();
            names.extend(foreign.into_iter().filter(|name| !name.contains("lock-")));
            names.sort_by_key(|name| name.bytes().fold(order, |h, b| {
                h.rotate_left(5).wrapping_mul(31).wrapping_add(u64::from(b))
            }));
            let children = list(&names);
            for (index, own) in sorted.iter().enumerate() {
                let expected = match index.checked_sub(1) {
                    None => Place::First,
                    Some(before) => Place::Behind { predecessor: sorted[before].as_bytes() },
                };
                prop_assert_eq!(place(&children, own.as_bytes(), "lock-"), expected);
            }
        }
    }
}
