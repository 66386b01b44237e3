//! Which contenders ahead block a waiter.

use zk_session::ChildList;

use super::name::contains;
use crate::child_order::SequenceOrder;
use crate::planted::Planted;

/// The condition on which a kind of contender is granted the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It is the first of all contenders, and stays first: mutexes.
    FirstForGood,
    /// It is the first of all contenders: writers.
    First,
    /// No contender ahead has a name that contains this text: readers, which wait for writers. Like
    /// Curator, this matches the text anywhere in the name.
    Behind(&'static str),
    /// No names ahead matter, because the leases are counted: semaphores.
    Counted,
}

impl Admission {
    /// Returns true if no contender can be placed ahead of a waiter any more, so that the waiter
    /// may count the contenders that leave. This is false for readers and writers: a downgrade may
    /// place a read node ahead of others (CURATOR-621).
    pub(crate) fn looks_ahead(self) -> bool {
        self == Self::FirstForGood || Planted::WriterLooksAhead.is_on() && self == Self::First
    }

    /// Returns true if a contender of this name, when it is ahead, blocks the waiter.
    pub(crate) fn counts(self, name: &[u8], rule: SequenceOrder<'_>) -> bool {
        match self {
            Self::FirstForGood | Self::First => rule.is_contender(name),
            Self::Behind(text) => contains(name, text),
            Self::Counted => false,
        }
    }

    /// Returns the contenders that block `own`, or `None` if `own` is not in the list.
    pub(crate) fn in_the_way<'a>(
        self,
        names: &'a ChildList,
        own: &[u8],
        rule: SequenceOrder<'_>,
    ) -> Option<InTheWay<'a>> {
        match self {
            Self::FirstForGood => rule.rank(names, own).map(|rank| InTheWay {
                nearest: [rank.predecessor, rank.second],
                at_most_two_ahead: rank.at_most_two_ahead(),
                is_next: rank.position == 1,
                may_have_others: rank.has_others,
            }),
            Self::Behind(_) if Planted::ReaderIgnoresWriters.is_on() => {
                rule.rank(names, own).map(|_| InTheWay::one(None, false))
            }
            Self::First if Planted::WriterIgnoresReaders.is_on() => {
                Self::Behind("__WRIT__").in_the_way(names, own, rule)
            }
            Self::First if Planted::WriterLooksAhead.is_on() => {
                Self::FirstForGood.in_the_way(names, own, rule)
            }
            Self::Counted => rule.rank(names, own).map(|_| InTheWay::one(None, false)),
            Self::First => rule.rank(names, own).map(|rank| InTheWay {
                may_have_others: rank.has_others,
                ..InTheWay::one(rank.predecessor, rank.position == 1)
            }),
            Self::Behind(text) => {
                let nearest = rule.nearest_ahead(names, own, |name| contains(name, text))?;
                if nearest.is_none() {
                    return Some(InTheWay::one(None, false));
                }
                let is_other = |name: &[u8]| contains(name, text) && Some(name) != nearest;
                let other = rule.nearest_ahead(names, own, is_other)?;
                Some(InTheWay::one(nearest, other.is_none()))
            }
        }
    }
}

/// The nearest contenders ahead that block a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InTheWay<'a> {
    /// The names, nearest first.
    pub(crate) nearest: [Option<&'a [u8]>; 2],
    /// `nearest` is complete, and no contender can be placed ahead of the waiter.
    pub(crate) at_most_two_ahead: bool,
    /// The waiter is first once the nearest contender leaves, unless another one is placed ahead.
    pub(crate) is_next: bool,
    /// The list may contain names of other recipes.
    pub(crate) may_have_others: bool,
}

impl<'a> InTheWay<'a> {
    fn one(nearest: Option<&'a [u8]>, is_next: bool) -> Self {
        Self { nearest: [nearest, None], at_most_two_ahead: false, is_next, may_have_others: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: SequenceOrder<'static> = SequenceOrder::new(&["__READ__", "__WRIT__"]);

    #[test]
    fn admission_selects_nearest_blockers_by_kind() {
        let names = ["a__WRIT__0000000001", "b__READ__0000000002", "c__READ__0000000003"];
        let list = ChildList::from_names(names);
        let own = names[2].as_bytes();
        let nearest = |admission: Admission| {
            let in_the_way = admission.in_the_way(&list, own, RULE).unwrap();
            (in_the_way.nearest, in_the_way.at_most_two_ahead)
        };
        let [first, second] = [Some(names[0].as_bytes()), Some(names[1].as_bytes())];
        assert_eq!(nearest(Admission::First), ([second, None], false));
        assert_eq!(nearest(Admission::FirstForGood), ([second, first], true));
        assert_eq!(nearest(Admission::Behind("__WRIT__")), ([first, None], false));
        assert_eq!(Admission::First.in_the_way(&list, b"d__READ__0000000004", RULE), None);
    }
}
