//! Who of those ahead is in a contender's way.

use zk_session::{ChildList, KeyRule};

use super::name::contains;
use crate::planted::Planted;

/// What a kind of contender waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// To be the first of all, where whoever is first stays so: mutexes.
    FirstForGood,
    /// To be the first of all: writers.
    First,
    /// For those ahead whose names contain this to be gone: readers, for writers.
    /// Curator looks for the text anywhere in the name, and so does this.
    Behind(&'static str),
    /// For nobody by name: the leases of a semaphore are counted.
    Counted,
}

impl Admission {
    /// True if nobody can come in ahead of a contender any more, so that it may count
    /// those who go. Not with readers: a writer may put a read node in ahead of others
    /// (CURATOR-621), and of writers too.
    pub(crate) fn looks_ahead(self) -> bool {
        self == Self::FirstForGood || Planted::WriterLooksAhead.is_on() && self == Self::First
    }

    /// True of those who are in the way if they are ahead.
    pub(crate) fn counts(self, name: &[u8], rule: KeyRule<'_>) -> bool {
        match self {
            Self::FirstForGood | Self::First => rule.is_contender(name),
            Self::Behind(text) => contains(name, text),
            Self::Counted => false,
        }
    }

    /// Who is in the way, `None` if `own` is not in the list.
    pub(crate) fn in_the_way<'a>(
        self,
        names: &'a ChildList,
        own: &[u8],
        rule: KeyRule<'_>,
    ) -> Option<InTheWay<'a>> {
        match self {
            Self::FirstForGood => names.rank(own, rule).map(|rank| InTheWay {
                nearest: [rank.predecessor, rank.second],
                all_named: rank.all_named(),
                is_next: rank.position == 1,
                may_have_others: rank.has_others,
            }),
            Self::Behind(_) if Planted::ReaderIgnoresWriters.is_on() => {
                names.rank(own, rule).map(|_| InTheWay::one(None, false))
            }
            Self::First if Planted::WriterIgnoresReaders.is_on() => {
                Self::Behind("__WRIT__").in_the_way(names, own, rule)
            }
            Self::First if Planted::WriterLooksAhead.is_on() => {
                Self::FirstForGood.in_the_way(names, own, rule)
            }
            Self::Counted => names.rank(own, rule).map(|_| InTheWay::one(None, false)),
            Self::First => names.rank(own, rule).map(|rank| InTheWay {
                may_have_others: rank.has_others,
                ..InTheWay::one(rank.predecessor, rank.position == 1)
            }),
            Self::Behind(text) => {
                let nearest = names.nearest_ahead(own, rule, |name| contains(name, text))?;
                if nearest.is_none() {
                    return Some(InTheWay::one(None, false));
                }
                let is_other = |name: &[u8]| contains(name, text) && Some(name) != nearest;
                let other = names.nearest_ahead(own, rule, is_other)?;
                Some(InTheWay::one(nearest, other.is_none()))
            }
        }
    }
}

/// The nearest ahead of a contender that are in its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InTheWay<'a> {
    /// The nearest first.
    pub(crate) nearest: [Option<&'a [u8]>; 2],
    /// There are no others, nor will there be.
    pub(crate) all_named: bool,
    /// When the nearest goes, the contender is first, unless somebody comes in ahead.
    pub(crate) is_next: bool,
    /// There may be names in the list that are not of this recipe.
    pub(crate) may_have_others: bool,
}

impl<'a> InTheWay<'a> {
    fn one(nearest: Option<&'a [u8]>, is_next: bool) -> Self {
        Self { nearest: [nearest, None], all_named: false, is_next, may_have_others: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: KeyRule<'static> = KeyRule::new(&["__READ__", "__WRIT__"]);

    #[test]
    fn a_writer_waits_for_all_and_a_reader_for_writers() {
        let names = ["a__WRIT__0000000001", "b__READ__0000000002", "c__READ__0000000003"];
        let list = ChildList::from_names(names);
        let own = names[2].as_bytes();
        let nearest = |admission: Admission| {
            let in_the_way = admission.in_the_way(&list, own, RULE).unwrap();
            (in_the_way.nearest, in_the_way.all_named)
        };
        let [first, second] = [Some(names[0].as_bytes()), Some(names[1].as_bytes())];
        assert_eq!(nearest(Admission::First), ([second, None], false));
        assert_eq!(nearest(Admission::FirstForGood), ([second, first], true));
        assert_eq!(nearest(Admission::Behind("__WRIT__")), ([first, None], false));
        assert_eq!(Admission::First.in_the_way(&list, b"d__READ__0000000004", RULE), None);
    }
}
