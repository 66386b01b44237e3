//! Checks of a counter: an addition counts once if it is reported as applied, never if it is reported
//! as not applied, and at most once otherwise.
//!
//! The checks use the transactions of the leader. An addition with an id is recognised by its marker.
//! Other additions are recognised by the number that they add. If all of them add 1, those of a session
//! are counted.

use std::collections::{BTreeMap, BTreeSet};

use zk_coordination::session::{SessionId, Zxid};
use zk_testing::server::{Commit, Effect, Tree};

use super::Oracle;
use crate::ensure::ensure;

/// Path of the counter.
pub(crate) const COUNTER_PATH: &str = "/counters/orders";
/// Beginning of the path of an operation's marker.
const MARKER: &str = "/counters/orders/operation-";

/// The history of the counter.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// All numbers of the counter. Additions are positive, so they grow.
    numbers: Vec<i64>,
    /// Additions without an id, by number. `None` stands for the additions of 1.
    plain: BTreeMap<(SessionId, Option<i64>), Additions>,
    /// Additions with an id.
    once: BTreeMap<String, Operation>,
    /// The transaction that has created the marker of this operation, until the number is written.
    marked: Option<(Zxid, String)>,
    /// Operations with an unknown outcome, to be repeated by any client.
    unresolved: BTreeSet<String>,
}

/// Additions of one session that are not told apart.
#[derive(Debug, Default)]
struct Additions {
    in_flight: u64,
    unknown: u64,
    applied: u64,
    /// Numbers that these additions have led to, and that were not returned to the caller.
    numbers: Vec<i64>,
    /// The number of transactions of these additions.
    counted: u64,
}

#[derive(Debug)]
struct Operation {
    delta: i64,
    /// Calls that run, or have ended with an unknown outcome.
    calls: u64,
    /// The number after the operation was applied, and the session that has applied it.
    applied: Option<(i64, SessionId)>,
}

/// Identity of an addition.
#[derive(Clone, Debug)]
pub(crate) enum Addition {
    Plain { session: SessionId, delta: i64, is_unique: bool },
    Once { session: SessionId, id: String, was_applied: bool },
}

/// Result of an addition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Added {
    Applied(i64),
    NotApplied,
    Unknown,
}

impl Counters {
    pub(super) fn committed(&mut self, tree: &Tree, commit: Commit<'_>) -> Result<(), String> {
        let Commit { zxid, session_id: session, effect, .. } = commit;
        if let Some((at, id)) = self.marked.take_if(|(at, _)| *at != zxid) {
            return Err(format!("{id} has a marker since {at}, and was not added"));
        }
        let number = || {
            let data = tree.node(COUNTER_PATH).and_then(|node| node.data());
            data.and_then(|data| data.try_into().ok()).map(i64::from_be_bytes)
        };
        match effect {
            Effect::Created(COUNTER_PATH) => match (number(), self.numbers.is_empty()) {
                (Some(0), true) => self.numbers.push(0),
                (number, _) => return Err(format!("the counter was created with {number:?}")),
            },
            Effect::Created(path) if path.starts_with(MARKER) => {
                self.marked = Some((zxid, path[MARKER.len()..].to_owned()));
            }
            Effect::Changed(COUNTER_PATH) => {
                let number = number().ok_or("the counter has no number")?;
                let last = self.numbers.last().copied().unwrap_or(0);
                self.numbers.push(number);
                return match self.marked.take() {
                    Some((_, id)) => self.added_once(&id, number - last, (number, session)),
                    None => self.added(session, number - last, number),
                };
            }
            Effect::Deleted(path) if path.starts_with(COUNTER_PATH) => {
                return Err(format!("{path} was deleted"));
            }
            _ => {}
        }
        Ok(())
    }

    fn added(&mut self, session: SessionId, delta: i64, number: i64) -> Result<(), String> {
        let additions = match self.plain.get_mut(&(session, Some(delta))) {
            Some(additions) => additions,
            None if delta == 1 => self.plain.entry((session, None)).or_default(),
            None => return Err(format!("{session} added {delta}, which nobody asked for")),
        };
        additions.counted += 1;
        additions.numbers.push(number);
        additions.check(session, delta)
    }

    fn added_once(
        &mut self,
        id: &str,
        delta: i64,
        applied: (i64, SessionId),
    ) -> Result<(), String> {
        let Some(operation) = self.once.get_mut(id) else { return Err(format!("unknown id {id}")) };
        ensure(operation.delta == delta && operation.calls != 0, || {
            format!("{id} added {delta}: {operation:?}")
        })?;
        match operation.applied.replace(applied) {
            Some(before) => Err(format!("{id} was added again: {before:?}, {applied:?}")),
            None => Ok(()),
        }
    }

    /// Records the begin of an addition without an id.
    pub(crate) fn begin(&mut self, session: SessionId, delta: i64, is_unique: bool) -> Addition {
        let key = (session, is_unique.then_some(delta));
        self.plain.entry(key).or_default().in_flight += 1;
        Addition::Plain { session, delta, is_unique }
    }

    /// Records the begin of an addition with an id.
    pub(crate) fn begin_once(&mut self, session: SessionId, id: &str, delta: i64) -> Addition {
        let new = Operation { delta, calls: 0, applied: None };
        let operation = self.once.entry(id.to_owned()).or_insert(new);
        operation.calls += 1;
        let was_applied = operation.applied.is_some();
        Addition::Once { session, id: id.to_owned(), was_applied }
    }

    /// Checks the reported result of an addition.
    fn end(&mut self, addition: &Addition, added: Added) -> Result<(), String> {
        match addition {
            &Addition::Plain { session, delta, is_unique } => {
                let key = (session, is_unique.then_some(delta));
                let additions = self.plain.entry(key).or_default();
                additions.in_flight -= 1;
                match added {
                    Added::Applied(number) => {
                        additions.applied += 1;
                        let at = additions.numbers.iter().position(|added| *added == number);
                        let at = at.ok_or_else(|| format!("{session} never added to {number}"))?;
                        additions.numbers.remove(at);
                    }
                    Added::NotApplied => {}
                    Added::Unknown => additions.unknown += 1,
                }
                additions.check(session, delta)
            }
            Addition::Once { session, id, was_applied } => {
                let Some(operation) = self.once.get_mut(id) else { return Ok(()) };
                match added {
                    Added::Unknown => {
                        self.unresolved.insert(id.clone());
                        return Ok(());
                    }
                    Added::NotApplied => operation.calls -= 1,
                    Added::Applied(_) => {
                        self.unresolved.remove(id);
                    }
                }
                let by_this = operation.applied.is_some_and(|(_, by)| by == *session);
                match (added, operation.applied) {
                    (Added::Applied(number), Some((at, _))) if number == at => Ok(()),
                    (Added::NotApplied, _) if *was_applied || !by_this => Ok(()),
                    // An earlier call of this session may have been applied late.
                    (Added::NotApplied, _) if operation.calls > 0 => Ok(()),
                    _ => Err(format!("{id} is {added:?}: {operation:?}")),
                }
            }
        }
    }

    /// Returns an operation with an unknown outcome, to repeat it.
    pub(crate) fn unresolved(&self) -> Option<(String, i64)> {
        let id = self.unresolved.first()?.clone();
        let delta = self.once.get(&id)?.delta;
        Some((id, delta))
    }

    /// Checks that a compare-and-set changed nothing because the counter had another number. The numbers
    /// grow, so the last one still shows that. A lagging server may show no node, which is the number 0.
    fn differed(&self, expected: i64) -> Result<(), String> {
        ensure(expected == 0 || self.numbers.last() != Some(&expected), || {
            format!("{expected} was not replaced, and the counter has it")
        })
    }

    fn read(&self, number: i64) -> Result<(), String> {
        ensure(number == 0 || self.numbers.contains(&number), || {
            format!("{number} was read, and was never there")
        })
    }
}

impl Additions {
    fn check(&self, session: SessionId, delta: i64) -> Result<(), String> {
        let (low, high) = (self.applied, self.applied + self.unknown + self.in_flight);
        ensure((low..=high).contains(&self.counted), || {
            format!("{session} added {delta} {} times: {self:?}", self.counted)
        })
    }
}

impl Oracle {
    pub(crate) fn addition_ends(&mut self, addition: &Addition, added: Added) {
        self.log(format_args!("{addition:?}: {added:?}"));
        let ended = self.counters.end(addition, added);
        self.must("I18", ended);
    }

    pub(crate) fn number_read(&mut self, number: i64) {
        self.must("I18", self.counters.read(number));
    }

    /// Checks a compare-and-set that found another number than the expected one.
    pub(crate) fn number_differed(&mut self, expected: i64) {
        self.must("I18", self.counters.differed(expected));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addition_must_count_as_reported() {
        let mut counters = Counters::default();
        let first = counters.begin(SessionId(7), 1, false);
        assert!(counters.end(&first, Added::Unknown).is_ok());
        assert!(counters.added(SessionId(7), 1, 1).is_ok());
        let second = counters.begin(SessionId(7), 1, false);
        assert!(counters.end(&second, Added::NotApplied).is_ok());
        assert!(
            counters.added(SessionId(7), 1, 2).is_err(),
            "one unknown addition counts at most once"
        );
        let third = counters.begin(SessionId(8), 1, false);
        assert!(counters.end(&third, Added::Applied(3)).is_err());
        let fourth = counters.begin(SessionId(9), 5, true);
        assert!(counters.added(SessionId(9), 5, 7).is_ok());
        assert!(counters.end(&fourth, Added::NotApplied).is_err());
        assert!(counters.added(SessionId(9), 6, 13).is_err(), "nobody adds 6");
    }

    #[test]
    fn unchanged_number_must_differ_from_the_expected_one() {
        let counters = Counters { numbers: vec![0, 5, 7], ..Counters::default() };
        assert!(counters.differed(5).is_ok());
        assert!(counters.differed(7).is_err());
    }

    #[test]
    fn operation_must_count_once() {
        let mut counters = Counters::default();
        let first = counters.begin_once(SessionId(7), "a", 5);
        assert!(counters.end(&first, Added::Unknown).is_ok());
        assert_eq!(counters.unresolved.first().map(String::as_str), Some("a"));
        let second = counters.begin_once(SessionId(8), "a", 5);
        assert!(counters.added_once("a", 5, (5, SessionId(7))).is_ok());
        assert!(counters.end(&second, Added::Applied(5)).is_ok());
        assert!(counters.unresolved.is_empty());
        assert!(counters.added_once("a", 5, (10, SessionId(8))).is_err());
        let third = counters.begin_once(SessionId(8), "b", 1);
        assert!(counters.added_once("b", 1, (6, SessionId(8))).is_ok());
        assert!(counters.end(&third, Added::NotApplied).is_err());
    }
}
