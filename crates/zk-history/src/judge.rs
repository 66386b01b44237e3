//! The verdict on a history.

use std::collections::{BTreeMap, HashMap};

use crate::model::State;
use crate::own_past;
use crate::record::{Ended, Entry, Kind, Level, Moment, Node, Write};
use crate::search::{Found, Interval, Model, search};

/// Verdict on a history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Number of operations.
    pub operations: usize,
    /// Number of writes with an unknown outcome.
    pub unknown: usize,
    /// Broken rules.
    pub violations: Vec<String>,
    /// Groups with a read that was stale in spite of its `sync`.
    pub stale_syncs: Vec<String>,
    /// Groups whose search took too many steps.
    pub undecided: Vec<String>,
}

/// Judges a history.
///
/// Nodes whose paths differ in the last character only are judged together, because a transaction may
/// change several of them. Other nodes are judged one by one.
pub fn judge(mut entries: Vec<Entry>) -> Verdict {
    entries.sort_by_key(|entry| entry.invoked);
    let is_unknown =
        |entry: &&Entry| matches!(entry.kind, Kind::Write(_)) && *entry.ended() == Ended::Unknown;
    let mut verdict = Verdict {
        operations: entries.len(),
        unknown: entries.iter().filter(is_unknown).count(),
        violations: own_past::violations(&entries),
        ..Verdict::default()
    };
    let observed = observed(&entries);
    let mut groups: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| is_judged(entry)) {
        let path = entry.seen().first().map_or("", |(path, _)| *path);
        let group = path.char_indices().next_back().map_or("", |(last, _)| &path[..last]);
        groups.entry(group).or_default().push(entry);
    }
    for (group, entries) in groups {
        let is_sync = |entry: &&Entry| matches!(entry.kind, Kind::Read { level: Level::Sync, .. });
        let others: Vec<&Entry> = entries.iter().copied().filter(|entry| !is_sync(entry)).collect();
        match explain(group, &entries, &observed) {
            Explained::Yes => {}
            Explained::Undecided(text) => verdict.undecided.push(text),
            Explained::No(text) => match explain(group, &others, &observed) {
                Explained::Yes => verdict.stale_syncs.push(text),
                Explained::Undecided(text) => verdict.undecided.push(text),
                Explained::No(text) => verdict.violations.push(text),
            },
        }
    }
    verdict
}

/// Returns whether the operation must be explained: any but plain reads and those without an effect.
fn is_judged(entry: &Entry) -> bool {
    match (&entry.kind, entry.ended()) {
        (_, Ended::NotApplied) | (Kind::Read { level: Level::Plain, .. }, _) => false,
        (Kind::Read { .. }, ended) => *ended != Ended::Unknown,
        (Kind::Write(_), _) => true,
    }
}

/// Returns the writes that a read shows, by their data, with the first return of such a read.
fn observed(entries: &[Entry]) -> HashMap<u64, (Moment, Node)> {
    let mut observed = HashMap::new();
    for entry in entries {
        let Some((moment, Ended::Read(Some(node)))) = entry.returned else { continue };
        let Some(data) = node.data else { continue };
        let first = observed.entry(data).or_insert((moment, node));
        first.0 = moment.min(first.0);
    }
    observed
}

/// Returns the operation as reads show it: data that was read proves that its write was applied, although the
/// outcome is unknown.
fn settled(entry: &Entry, observed: &HashMap<u64, (Moment, Node)>) -> Entry {
    let mut settled = entry.clone();
    if let (Kind::Write(writes), Ended::Unknown) = (&entry.kind, entry.ended()) {
        let seen = |write: &Write| observed.get(&write.change.data()?).copied();
        let seen: Vec<Option<(Moment, Node)>> = writes.iter().map(seen).collect();
        let first = seen.iter().flatten().map(|(moment, _)| *moment).min();
        let nodes = seen.iter().map(|seen| seen.map(|(_, node)| node)).collect();
        settled.returned = first.map(|moment| (moment, Ended::Applied(nodes)));
    }
    settled
}

enum Explained {
    Yes,
    No(String),
    Undecided(String),
}

/// Searches an order of the operations of a group.
fn explain(group: &str, entries: &[&Entry], observed: &HashMap<u64, (Moment, Node)>) -> Explained {
    let entries: Vec<Entry> = entries.iter().map(|entry| settled(entry, observed)).collect();
    let interval = |entry: &Entry| Interval {
        invoked: entry.invoked.order,
        returned: entry.returned.as_ref().map(|(moment, _)| moment.order),
    };
    let intervals: Vec<Interval> = entries.iter().map(interval).collect();
    let text = |next: usize, state| {
        format!("{group}*: no order explains {}; before it: {state:?}", entries[next])
    };
    match search(&Group(&entries), &intervals, &State::default(), STEPS_MAX) {
        Found::Order => Explained::Yes,
        Found::Nothing(next, state) => Explained::No(text(next, state)),
        Found::GaveUp(next, state) => {
            Explained::Undecided(format!("{STEPS_MAX} steps, {}", text(next, state)))
        }
    }
}

/// Operations of the nodes of a group.
struct Group<'a>(&'a [Entry]);

impl Model for Group<'_> {
    type State = State;

    fn after(&self, index: usize, state: &State) -> Option<State> {
        state.after(&self.0[index])
    }

    fn has_passed(&self, index: usize, state: &State) -> bool {
        state.has_passed(&self.0[index])
    }

    fn is_near(&self, open: usize, other: usize) -> bool {
        let others = self.0[other].seen();
        self.0[open].seen().iter().any(|(path, _)| others.iter().any(|(other, _)| other == path))
    }
}

/// A search that succeeds takes about one step for each operation.
const STEPS_MAX: usize = 2_000_000;
