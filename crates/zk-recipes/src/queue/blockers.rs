//! The contenders ahead that block a waiter.

use zk_session::ChildList;

use super::admission::Admission;
use super::kind::Kind;
use super::name::contains;
use crate::child_order::Rank;

/// The nearest contenders ahead that block a waiter, as far as they have not left.
#[derive(Debug, Default)]
pub(super) struct Blockers {
    /// Path of the nearest one; `None` for the first contender.
    pub(super) nearest: Option<String>,
    /// Path of the second-nearest one, if no contender can be placed ahead of the waiter.
    pub(super) second: Option<String>,
    /// No other contender is ahead, and none can be placed ahead.
    pub(super) at_most_two_ahead: bool,
    /// The waiter is first once the nearest contender leaves, unless another one is placed ahead.
    pub(super) is_next: bool,
    /// The list may contain names of other recipes.
    pub(super) may_have_others: bool,
}

impl Blockers {
    /// Returns the contenders that block `own`, or `None` if `own` is not in the list.
    pub(super) fn of(kind: &Kind, names: &ChildList, own: &str) -> Option<Self> {
        let (rule, own) = (kind.rule(), own.as_bytes());
        let rank = || rule.rank(names, own);
        Some(match kind.admission {
            Admission::FirstForGood => Self::all(kind, &rank()?),
            Admission::First => Self::nearest(kind, &rank()?),
            Admission::Behind(text) => Self::named(kind, names, own, text)?,
            Admission::Counted => rank().map(|_| Self::one(kind, None))?,
        })
    }

    /// The two nearest contenders.
    fn all(kind: &Kind, rank: &Rank<'_>) -> Self {
        Self {
            nearest: rank.predecessor.map(|name| kind.node(name)),
            second: rank.second.map(|name| kind.node(name)),
            at_most_two_ahead: rank.at_most_two_ahead(),
            is_next: rank.position == 1,
            may_have_others: rank.has_others,
        }
    }

    /// The nearest contender.
    fn nearest(kind: &Kind, rank: &Rank<'_>) -> Self {
        Self {
            is_next: rank.position == 1,
            may_have_others: rank.has_others,
            ..Self::one(kind, rank.predecessor)
        }
    }

    /// The nearest contender with a name that contains `text`.
    fn named(kind: &Kind, names: &ChildList, own: &[u8], text: &str) -> Option<Self> {
        let rule = kind.rule();
        let nearest = rule.nearest_ahead(names, own, |name| contains(name, text))?;
        let is_next = nearest.is_some() && {
            let is_other = |name: &[u8]| contains(name, text) && Some(name) != nearest;
            rule.nearest_ahead(names, own, is_other)?.is_none()
        };
        Some(Self { is_next, ..Self::one(kind, nearest) })
    }

    fn one(kind: &Kind, name: Option<&[u8]>) -> Self {
        let nearest = name.map(|name| kind.node(name));
        Self { nearest, may_have_others: true, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admission_selects_nearest_blockers_by_kind() {
        let names = ["a__WRIT__0000000001", "b__READ__0000000002", "c__READ__0000000003"];
        let list = ChildList::from_names(names);
        let reader = Kind::reader("/lock".to_owned());
        let kind = |admission| {
            let mut kind = reader.clone();
            kind.admission = admission;
            kind
        };
        let nearest = |admission| {
            let blockers = Blockers::of(&kind(admission), &list, names[2]).unwrap();
            ([blockers.nearest, blockers.second], blockers.at_most_two_ahead)
        };
        let [first, second] = [0, 1].map(|at: usize| Some(format!("/lock/{}", names[at])));
        assert_eq!(nearest(Admission::First), ([second.clone(), None], false));
        assert_eq!(nearest(Admission::FirstForGood), ([second, first.clone()], true));
        assert_eq!(nearest(Admission::Behind("__WRIT__")), ([first, None], false));
        assert!(Blockers::of(&kind(Admission::First), &list, "d__READ__0000000004").is_none());
    }
}
