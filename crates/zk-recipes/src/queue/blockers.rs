//! The contenders ahead that block a waiter.

use super::admission::Admission;
use super::spec::QueueSpec;
use crate::child_order::Rank;

/// The nearest contenders ahead that block a waiter, as far as they have not left.
#[derive(Debug)]
pub(super) struct Blockers {
    /// Path of the nearest one; `None` once it has left and no other blocks the waiter.
    pub(super) nearest: Option<String>,
    /// Path of the second-nearest one, if no contender can be placed ahead of the waiter.
    pub(super) second: Option<String>,
    /// No other contender is ahead, and none can be placed ahead.
    pub(super) at_most_two_ahead: bool,
}

impl Blockers {
    /// Returns the contenders that block a waiter of this rank.
    pub(super) fn of(spec: &QueueSpec, rank: &Rank<'_>) -> Self {
        let is_order_final = spec.admission == Admission::FirstInFinalOrder;
        Self {
            nearest: rank.predecessor.map(|name| spec.node(name)),
            second: rank.second.filter(|_| is_order_final).map(|name| spec.node(name)),
            at_most_two_ahead: is_order_final && rank.position <= 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use zk_session::ChildList;

    use super::*;

    #[test]
    fn admission_selects_nearest_blockers_by_kind() {
        let names = ["a__WRIT__0000000001", "b__READ__0000000002", "c__READ__0000000003"];
        let list = ChildList::from_names(names);
        let reader = QueueSpec::reader("/lock".to_owned());
        let nearest = |admission| {
            let mut spec = reader.clone();
            spec.admission = admission;
            let rank = spec.rank(&list, names[2]).unwrap();
            let blockers = Blockers::of(&spec, &rank);
            ([blockers.nearest, blockers.second], rank.position, blockers.at_most_two_ahead)
        };
        let [first, second] = [0, 1].map(|at: usize| Some(format!("/lock/{}", names[at])));
        assert_eq!(nearest(Admission::First), ([second.clone(), None], 2, false));
        assert_eq!(nearest(Admission::FirstInFinalOrder), ([second, first.clone()], 2, true));
        assert_eq!(nearest(Admission::Behind("__WRIT__")), ([first, None], 1, false));
        assert!(reader.rank(&list, "d__READ__0000000004").is_none());

        let mutex = QueueSpec::mutex("/lock".to_owned());
        let names = [1, 2, 3, 4].map(|number| format!("lock-{number:010}"));
        let list = ChildList::from_names(&names);
        let at_most_two_ahead =
            |own: &String| Blockers::of(&mutex, &mutex.rank(&list, own).unwrap()).at_most_two_ahead;
        assert_eq!(names.each_ref().map(at_most_two_ahead), [true, true, true, false]);
    }
}
