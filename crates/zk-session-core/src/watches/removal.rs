//! Watches that the server still has and no caller uses.
//!
//! They are removed a moment later, not at once. Most watches are dropped because their node is
//! about to be deleted, and the deletion removes them without a request. Watches of a lost
//! connection need no removal either.

use std::sync::Arc;
use std::time::Instant;

use proto::{ErrorCode, WatcherType};

use super::path_watches::PathWatches;
use super::{Armed, Watches};
use crate::Handle;
use crate::limits::{PRUNED_AT_ONCE, REMOVAL_DELAY, REMOVALS_AT_ONCE};

/// Support of servers for removeWatches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Removal {
    Unsupported,
    /// Of all persistent modes on a path at once, before 3.9.0.
    AllModes,
    /// Also of one persistent mode.
    OneMode,
}

/// Step of the removal of unused watches from the server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Set the one-shot watches on a path that a persistent watch has covered.
    ArmOneShots,
    /// Set the persistent watches on a path that a recursive one has covered.
    ArmPersistent,
    /// Send removeWatches with this type, which removes these modes.
    Remove(WatcherType, Armed),
}

impl<W: Handle, S: Handle + Clone> Watches<W, S> {
    /// Drops the abandoned watches on a path.
    pub(crate) fn prune(&mut self, path: &str) {
        // Each search visits all watches on the path. When very many are dropped one after the
        // other, one later search finds all of them.
        let is_long =
            |watches: &PathWatches<W, S>| watches.counts().iter().sum::<usize>() > PRUNED_AT_ONCE;
        let long = self.paths.get_key_value(path).filter(|(_, watches)| is_long(watches));
        if let Some((path, _)) = long {
            self.stale.insert(Arc::clone(path));
            return;
        }
        self.prune_now(path);
        self.note_stale(path);
    }

    fn prune_now(&mut self, path: &str) {
        self.on(path, PathWatches::prune);
    }

    /// Marks the path if the server has more modes set there than callers use.
    pub(super) fn note_stale(&mut self, path: &str) {
        let Some((path, watches)) = self.paths.get_key_value(path) else { return };
        // An unanswered request may need the unused mode. Its reply repeats this check.
        let is_stale = watches.armed.without(watches.wanted()) != Armed::NOTHING;
        let is_stale = is_stale && watches.unanswered == 0 && self.removal != Removal::Unsupported;
        if is_stale {
            self.stale.insert(Arc::clone(path));
        }
    }

    /// Schedules the removal of watches that no caller uses, if there are any. Returns true if it
    /// was not scheduled before.
    pub(crate) fn schedule_removal(&mut self, now: Instant) -> bool {
        let is_new = !self.stale.is_empty() && self.removal_at.is_none();
        if is_new {
            self.removal_at = Some(now + REMOVAL_DELAY);
        }
        is_new
    }

    /// Returns when watches that no caller uses are removed from the server.
    pub(crate) fn removal_due(&self) -> Option<Instant> {
        self.removal_at
    }

    /// Returns the next paths on which the server has watches to remove, and the steps to do so: a
    /// part of them, and the rest a moment later. Their removal matters little, and other requests
    /// wait for the connection.
    pub(crate) fn next_removals(&mut self, now: Instant) -> Vec<(Arc<str>, Vec<Step>)> {
        let removals = std::iter::from_fn(|| self.next_stale()).take(REMOVALS_AT_ONCE).collect();
        self.removal_at = None;
        self.schedule_removal(now);
        removals
    }

    /// Returns the next path on which the server has watches to remove, and the steps to do so. The
    /// steps count as done: the server executes requests in order, so whatever is set from now on
    /// stays.
    fn next_stale(&mut self) -> Option<(Arc<str>, Vec<Step>)> {
        while let Some(path) = self.stale.pop_first() {
            self.prune_now(&path);
            let mut steps = Vec::new();
            let removal = self.removal;
            self.on(&path, |watches| {
                let is_settled = watches.unanswered == 0 && removal != Removal::Unsupported;
                if is_settled && watches.armed != watches.wanted() {
                    steps = plan(watches.wanted(), watches.armed, removal);
                    for step in &steps {
                        watches.armed = after(watches.armed, watches.wanted(), step);
                    }
                }
            });
            if !steps.is_empty() {
                return Some((path, steps));
            }
        }
        None
    }

    /// Notes that the servers cannot remove watches.
    pub(crate) fn cannot_remove(&mut self) {
        self.removal = Removal::Unsupported;
    }

    /// Handles the reply to a removal. A watch that the server does not have counts as removed.
    pub(crate) fn removal_answered(&mut self, path: &str, kind: WatcherType, code: ErrorCode) {
        self.on(path, |watches| watches.armed = watches.armed.without(Armed::REPLACED));
        match code {
            // Before 3.9.0 a mode cannot be named. It stays until all modes on its path may be
            // removed.
            ErrorCode::MARSHALLING_ERROR if names_a_mode(kind) => {
                self.removal = self.removal.min(Removal::AllModes);
                // The watches for which the path was kept may be gone by now.
                let watches = self.paths.entry(path.into()).or_default();
                watches.armed = watches.armed.with(Armed::LEFTOVER);
                self.note_stale(path);
            }
            // The server also closes the connection over it, so no removal may be sent again.
            ErrorCode::UNIMPLEMENTED | ErrorCode::MARSHALLING_ERROR => {
                self.removal = Removal::Unsupported;
            }
            _ => {}
        }
    }
}

fn names_a_mode(kind: WatcherType) -> bool {
    matches!(kind, WatcherType::Persistent | WatcherType::PersistentRecursive)
}

fn plan(wanted: Armed, armed: Armed, removal: Removal) -> Vec<Step> {
    let armed = armed.without(Armed::REPLACED);
    if armed == Armed::NOTHING {
        return Vec::new();
    }
    if wanted == Armed::NOTHING {
        return vec![Step::Remove(armed.watcher_type(), armed)];
    }
    let stale = armed.without(wanted).without(Armed::LEFTOVER);
    let mut steps = Vec::new();
    if stale.has(Armed::STREAMS) && removal == Removal::OneMode {
        if stale.has(Armed::RECURSIVE) && wanted.has(Armed::PERSISTENT) {
            steps.push(Step::ArmPersistent);
        } else if !wanted.has(Armed::STREAMS) {
            steps.push(Step::ArmOneShots);
        }
        let types = [
            (Armed::PERSISTENT, WatcherType::Persistent),
            (Armed::RECURSIVE, WatcherType::PersistentRecursive),
        ];
        let stale = types.into_iter().filter(|(mode, _)| stale.has(*mode));
        steps.extend(stale.map(|(mode, kind)| Step::Remove(kind, mode)));
    } else if !armed.has(Armed::STREAMS) && stale != Armed::NOTHING {
        steps.push(Step::Remove(stale.watcher_type(), stale));
    }
    // A one-shot watch next to a persistent one is left to fire: before 3.9.0 its removal also
    // removes the persistent one.
    steps
}

fn after(armed: Armed, wanted: Armed, step: &Step) -> Armed {
    match step {
        Step::ArmOneShots => armed.with(wanted),
        // Until the server has executed the request, it sends the events of a recursive watch.
        Step::ArmPersistent => armed.with(Armed::PERSISTENT).with(Armed::REPLACED),
        Step::Remove(_, modes) => armed.without(*modes),
    }
}
