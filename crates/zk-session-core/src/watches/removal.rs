//! Watches that the server still has and nobody wants any more.
//!
//! They are not removed at once but a moment later: the commonest reason for a
//! watch to be dropped is that its node is about to go, which removes it for
//! nothing. What goes with a connection needs no removal either.

use std::sync::Arc;

use proto::{ErrorCode, WatcherType};

use super::path_watches::PathWatches;
use super::{Armed, Watches};
use crate::handles::Handle;
use crate::limits::PRUNED_AT_ONCE;

/// A step to make the server forget what nobody wants.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Arm what a stream saw for the one-shot watches on its path.
    ArmOneShots,
    /// Arm what a recursive stream saw for the other streams on its path.
    ArmPersistent,
    /// removeWatches with this type, which takes these modes away.
    Remove(WatcherType, Armed),
}

impl<W: Handle, S: Handle + Clone> Watches<W, S> {
    /// Drops the watches on a path behind which nobody waits any more; true if
    /// the server should come to know.
    pub(crate) fn prune(&mut self, path: &str) -> bool {
        // Each look goes through all on the path: when very many are dropped one after the
        // other there is one look for all of them, later.
        let long = self.paths.get_key_value(path).filter(|(_, it)| it.len() > PRUNED_AT_ONCE);
        if let Some((path, _)) = long {
            return self.stale.insert(Arc::clone(path));
        }
        self.prune_now(path);
        self.note_stale(path)
    }

    fn prune_now(&mut self, path: &str) {
        let gone = self.on(path, PathWatches::prune);
        self.forget(gone.unwrap_or_default());
    }

    /// Remembers the path if the server watches more there than anybody wants.
    pub(super) fn note_stale(&mut self, path: &str) -> bool {
        let Some((path, watches)) = self.paths.get_key_value(path) else {
            return false;
        };
        // A request on its way may be for what is stale; its answer looks again.
        let is_stale = watches.armed.without(watches.wanted()) != Armed::NOTHING;
        let is_stale = is_stale && watches.unanswered == 0 && self.knows_removal;
        if is_stale {
            self.stale.insert(Arc::clone(path));
        }
        is_stale
    }

    /// The next path at which the server has something to forget, and the steps
    /// there. They count as done: the server takes requests in their order, so
    /// whatever is armed from now on stays.
    pub(crate) fn next_stale(&mut self) -> Option<(Arc<str>, Vec<Step>)> {
        while let Some(path) = self.stale.pop_first() {
            self.prune_now(&path);
            let mut steps = Vec::new();
            let (knows_any, knows_types) = (self.knows_removal, self.knows_removal_by_mode);
            self.on(&path, |watches| {
                let is_settled = watches.unanswered == 0 && knows_any;
                if is_settled && watches.armed != watches.wanted() {
                    steps = plan(watches.wanted(), watches.armed, knows_types);
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

    /// The server has answered a removal. There being no such watch is as good.
    pub(crate) fn removal_answered(&mut self, path: &str, kind: WatcherType, code: ErrorCode) {
        self.on(path, |watches| watches.armed = watches.armed.without(Armed::GOING));
        match code {
            // Before 3.9.0 a mode cannot be named: it stays until all on its path may go.
            ErrorCode::MARSHALLING_ERROR if names_a_mode(kind) => {
                self.knows_removal_by_mode = false;
                // Whom it was kept for may have gone meanwhile.
                let watches = self.paths.entry(path.into()).or_default();
                watches.armed = watches.armed.with(Armed::LEFTOVER);
                self.note_stale(path);
            }
            // It closes the connection over it, too, so this must not come again.
            ErrorCode::UNIMPLEMENTED | ErrorCode::MARSHALLING_ERROR => self.knows_removal = false,
            _ => {}
        }
    }
}

fn names_a_mode(kind: WatcherType) -> bool {
    matches!(kind, WatcherType::Persistent | WatcherType::PersistentRecursive)
}

fn plan(wanted: Armed, armed: Armed, knows_types: bool) -> Vec<Step> {
    let armed = armed.without(Armed::GOING);
    if armed == Armed::NOTHING {
        return Vec::new();
    }
    if wanted == Armed::NOTHING {
        return vec![Step::Remove(armed.watcher_type(), armed)];
    }
    let stale = armed.without(wanted).without(Armed::LEFTOVER);
    let mut steps = Vec::new();
    if stale.has(Armed::STREAMS) && knows_types {
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
    // Next to a stream a one-shot watch is left to fire: before 3.9.0 its removal
    // takes the stream's watch along.
    steps
}

fn after(armed: Armed, wanted: Armed, step: &Step) -> Armed {
    match step {
        Step::ArmOneShots => armed.with(wanted),
        // Until the server has done it, it sends what a recursive watch is for.
        Step::ArmPersistent => armed.with(Armed::PERSISTENT).with(Armed::GOING),
        Step::Remove(_, modes) => armed.without(*modes),
    }
}
