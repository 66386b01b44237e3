//! Clean-up as state: what must be removed from the server, whatever happens to
//! connections in the meantime.
//!
//! A chore is done when the server says so, or when the session is over and took
//! its ephemeral nodes with it. It is sent again on every new connection until
//! then, so no lost reply can leave a node behind (CURATOR-42, CURATOR-678).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Chore {
    /// Delete this node, whatever its version.
    Delete { path: String },
    /// Delete every child of `parent` whose name starts with `prefix`: the nodes
    /// of a create whose answer nobody has seen.
    Sweep { parent: String, prefix: String },
}

#[derive(Debug)]
pub(super) struct Task<R> {
    pub(super) chore: Chore,
    pub(super) waiter: Option<R>,
    /// An answer was lost, so the server may have done it before.
    pub(super) repeated: bool,
}

/// The chores of one session, in the order in which they were given.
#[derive(Debug)]
pub(super) struct Chores<R> {
    tasks: BTreeMap<u64, Task<R>>,
    unsent: BTreeSet<u64>,
    next: u64,
    retry_at: Option<Instant>,
}

impl<R> Chores<R> {
    pub(super) fn new() -> Self {
        Self { tasks: BTreeMap::new(), unsent: BTreeSet::new(), next: 0, retry_at: None }
    }

    pub(super) fn len(&self) -> usize {
        self.tasks.len()
    }

    pub(super) fn add(&mut self, chore: Chore, waiter: Option<R>) {
        self.tasks.insert(self.next, Task { chore, waiter, repeated: false });
        self.unsent.insert(self.next);
        self.next += 1;
    }

    /// The oldest chore that is not on its way, marked as being so.
    pub(super) fn start_next(&mut self) -> Option<(u64, Chore)> {
        let number = self.unsent.pop_first()?;
        Some((number, self.tasks.get(&number)?.chore.clone()))
    }

    /// The chore is over; what it was.
    pub(super) fn finish(&mut self, number: u64) -> Option<Task<R>> {
        self.unsent.remove(&number);
        self.tasks.remove(&number)
    }

    /// The answer was lost with the connection.
    pub(super) fn unsend(&mut self, number: u64) {
        if let Some(task) = self.tasks.get_mut(&number) {
            task.repeated = true;
            self.unsent.insert(number);
        }
    }

    /// The server was too busy: try again at `when`.
    pub(super) fn postpone(&mut self, number: u64, when: Instant) {
        if self.tasks.contains_key(&number) {
            self.unsent.insert(number);
        }
        self.retry_at = Some(self.retry_at.map_or(when, |at| at.min(when)));
    }

    pub(super) fn retry_at(&self) -> Option<Instant> {
        self.retry_at
    }

    pub(super) fn retry_started(&mut self) {
        self.retry_at = None;
    }

    /// Takes out everybody who waits, for the end of the session.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = R> + use<R> {
        self.unsent.clear();
        std::mem::take(&mut self.tasks).into_values().filter_map(|task| task.waiter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chore_is_sent_once_per_connection_until_it_is_done() {
        let mut chores = Chores::new();
        let delete = |path: &str| Chore::Delete { path: path.into() };
        chores.add(delete("/a"), Some('a'));
        chores.add(delete("/b"), None);
        let (first, chore) = chores.start_next().unwrap();
        assert_eq!(chore, delete("/a"));
        let (second, _) = chores.start_next().unwrap();
        assert!(chores.start_next().is_none());
        chores.unsend(first);
        chores.finish(second);
        assert_eq!(chores.start_next(), Some((first, delete("/a"))));
        let task = chores.finish(first).unwrap();
        assert_eq!((task.chore, task.waiter, task.repeated), (delete("/a"), Some('a'), true));
        assert!(chores.finish(first).is_none());
        assert_eq!(chores.len(), 0);
    }
}
