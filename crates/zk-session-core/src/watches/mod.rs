//! The watches this session holds, by path: who waits, and what the server was
//! made to watch for them.
//!
//! * [`path_watches`]: one path's watches, [`armed`] at the server or not.
//! * [`fire`]: who hears of an event.
//! * [`rearm`]: a new connection, whose server knows of no watch.
//! * [`removal`]: what the server has and nobody wants any more.
//!
//! Before 3.9.0 a server remembers one mode of watch per path and connection, and
//! a one-shot watch replaces a persistent one (ZOOKEEPER-4466). Since there is no
//! telling the version, no one-shot watch is set at the server where a stream is
//! that makes it send the same events: it is [covered](Watches::asks).

mod armed;
mod fire;
mod path_watches;
mod rearm;
mod removal;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proto::AddWatchMode;

pub(super) use self::armed::Armed;
pub(super) use self::fire::Fired;
pub(super) use self::rearm::{Rearm, rearm_len};
pub(super) use self::removal::Step;

use self::path_watches::{List, PathWatches, is_recursive};
use super::handles::{Handle, WatchKind};

#[derive(Debug)]
pub(super) struct Watches<W, S> {
    paths: BTreeMap<Arc<str>, PathWatches<W, S>>,
    /// Where the server may have something to forget.
    stale: BTreeSet<Arc<str>>,
    one_shots: usize,
    recursive: usize,
    persistent: usize,
    /// Whether servers know removeWatches, as far as is known; and whether they know
    /// its types for one mode.
    knows_removal: bool,
    knows_removal_by_mode: bool,
}

/// A watch that will be registered when its request is answered.
#[derive(Debug)]
pub(super) struct PendingWatch<W, S> {
    pub(super) path: Arc<str>,
    pub(super) watcher: Watcher<W, S>,
    /// Nobody waits for the answer any more, so nobody is to be told of events.
    pub(super) is_given_up: bool,
    /// The server was not asked to set it.
    pub(super) is_covered: bool,
}

/// Who wants to watch.
#[derive(Debug)]
pub(super) enum Watcher<W, S> {
    OneShot(WatchKind, W),
    Stream(AddWatchMode, S),
}

impl<W, S> PendingWatch<W, S> {
    /// What the server watches once it has done as it was asked.
    fn armed(&self) -> Armed {
        match self.watcher {
            Watcher::OneShot(_, _) if self.is_covered => Armed::NOTHING,
            Watcher::OneShot(kind, _) => Armed::by_one_shot(kind),
            Watcher::Stream(_, _) if self.is_covered => Armed::RECURSIVE,
            Watcher::Stream(mode, _) => Armed::by(mode),
        }
    }

    /// The last byte of the covered request: no watch, or the recursive mode.
    pub(super) fn covered_byte(&self) -> u8 {
        match self.watcher {
            Watcher::OneShot(_, _) => 0,
            Watcher::Stream(_, _) => 1,
        }
    }
}

/// What the answer to a request says about its watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is set, on a node that was there.
    Found,
    /// It is set, on a node that was not there.
    Absent,
    /// It is not set.
    Refused,
}

impl<W: Handle, S: Handle + Clone> Watches<W, S> {
    pub(super) fn new() -> Self {
        Self {
            paths: BTreeMap::new(),
            stale: BTreeSet::new(),
            one_shots: 0,
            recursive: 0,
            persistent: 0,
            knows_removal: true,
            knows_removal_by_mode: true,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.one_shots + self.recursive + self.persistent
    }

    /// How many there are: one-shot, recursive, persistent.
    pub(super) fn counts(&self) -> [usize; 3] {
        [self.one_shots, self.recursive, self.persistent]
    }

    pub(super) fn has_stale(&self) -> bool {
        !self.stale.is_empty()
    }

    /// A request that sets a watch is being sent. It is covered, and the server must
    /// not be asked to set it, if a stream on the path, or one that is about to be
    /// there, makes it send the same events; for a stream next to a recursive one, it
    /// must be asked for the recursive one again.
    pub(super) fn asks(&mut self, watch: &mut PendingWatch<W, S>) {
        let watches = self.paths.entry(Arc::clone(&watch.path)).or_default();
        watches.unanswered += 1;
        let streams = watches.armed.with(watches.asked);
        match watch.watcher {
            Watcher::OneShot(kind, _) => watch.is_covered = streams.has(Armed::covering(kind)),
            Watcher::Stream(mode, _) => {
                watch.is_covered = !is_recursive(mode) && streams.has(Armed::RECURSIVE);
                watches.asked = watches.asked.with(watch.armed());
            }
        }
    }

    /// The server has answered a request that was told to [`asks`](Self::asks).
    /// Nobody registers a watch that nobody waits for. True if what covers it has
    /// gone meanwhile, so that it must be armed after all.
    pub(super) fn answered(&mut self, watch: PendingWatch<W, S>, verdict: Verdict) -> bool {
        let armed = watch.armed();
        let PendingWatch { path, watcher, is_given_up, is_covered } = watch;
        let mut is_bare = false;
        let added = self.on(&path, |watches| {
            watches.unanswered = watches.unanswered.saturating_sub(1);
            if watches.unanswered == 0 {
                watches.asked = Armed::NOTHING;
            }
            match (verdict, watcher) {
                (Verdict::Refused, _) => [0; 3],
                (_, Watcher::OneShot(kind, handle)) => {
                    let is_wanted = !is_given_up && !handle.is_abandoned();
                    watches.armed = watches.armed.with(armed);
                    is_bare = is_wanted && is_covered && !watches.armed.has(Armed::covering(kind));
                    if is_wanted {
                        watches.add(List::of(kind, verdict == Verdict::Found), handle);
                    }
                    [usize::from(is_wanted), 0, 0]
                }
                (_, Watcher::Stream(mode, stream)) => {
                    watches.armed = watches.armed.with(armed);
                    if is_given_up || stream.is_abandoned() {
                        return [0; 3];
                    }
                    watches.add_stream(mode, stream);
                    if is_recursive(mode) { [0, 1, 0] } else { [0, 0, 1] }
                }
            }
        });
        let [one_shots, recursive, persistent] = added.unwrap_or_default();
        self.one_shots += one_shots;
        self.recursive += recursive;
        self.persistent += persistent;
        self.note_stale(&path);
        is_bare
    }

    /// Takes out everybody, for the end of the session.
    pub(super) fn drain(&mut self) -> (Vec<W>, Vec<S>) {
        let (mut one_shots, mut streams) = (Vec::new(), Vec::new());
        for watches in std::mem::replace(self, Self::new()).paths.into_values() {
            watches.drain(&mut one_shots, &mut streams);
        }
        (one_shots, streams)
    }

    /// Looks at what is on a path, and forgets the path if nothing is left there.
    fn on<T>(&mut self, path: &str, look: impl FnOnce(&mut PathWatches<W, S>) -> T) -> Option<T> {
        let watches = self.paths.get_mut(path)?;
        let seen = look(watches);
        if watches.is_over() {
            self.paths.remove(path);
        }
        Some(seen)
    }

    /// Counts those out who are gone: one-shot watches, recursive and other streams.
    fn forget(&mut self, [one_shots, recursive, persistent]: [usize; 3]) {
        self.one_shots -= one_shots;
        self.recursive -= recursive;
        self.persistent -= persistent;
    }
}
