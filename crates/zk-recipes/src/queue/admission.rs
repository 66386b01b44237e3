//! Who of those ahead is in a contender's way.

use zk_session::{ChildList, KeyRule};

/// What a kind of contender waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// To be the first of all: mutexes and writers.
    First,
    #[cfg_attr(not(test), expect(dead_code, reason = "the read-write lock is to come"))]
    /// For those ahead whose names contain this to be gone: readers, for writers.
    /// Curator looks for the text anywhere in the name, and so does this.
    Behind(&'static str),
}

impl Admission {
    /// The nearest contender in the way; `None` in it if there is none, `None` at all
    /// if `own` is not in the list.
    pub(crate) fn in_the_way<'a>(
        self,
        names: &'a ChildList,
        own: &[u8],
        rule: KeyRule<'_>,
    ) -> Option<Option<&'a [u8]>> {
        match self {
            Self::First => names.rank(own, rule).map(|rank| rank.predecessor),
            Self::Behind(text) => names.nearest_ahead(own, rule, |name| contains(name, text)),
        }
    }
}

fn contains(name: &[u8], text: &str) -> bool {
    name.windows(text.len()).any(|part| part == text.as_bytes())
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
        let nearest = |admission: Admission| admission.in_the_way(&list, own, RULE).unwrap();
        assert_eq!(nearest(Admission::First), Some(names[1].as_bytes()));
        assert_eq!(nearest(Admission::Behind("__WRIT__")), Some(names[0].as_bytes()));
        assert_eq!(Admission::First.in_the_way(&list, b"d__READ__0000000004", RULE), None);
    }
}
