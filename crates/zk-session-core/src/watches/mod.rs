//! Watches of this session by path: their recipients, and the modes set at the server.
//!
//! * [`path_watches`]: watches on one path, the modes in which they are [`armed`], and whether the
//!   server has them [`at_server`] yet.
//! * [`fire`]: recipients of an event.
//! * [`rearm`]: re-registration on a new connection, on which the server has no watch.
//! * [`removal`]: removal of watches that the server has and no caller uses.
//!
//! Before 3.9.0 a server remembers one mode of watch per path and connection, and a one-shot watch
//! replaces a persistent one (ZOOKEEPER-4466). The client cannot detect the version. So no one-shot
//! watch is set at the server if a persistent watch makes it send the same events. The one-shot
//! watch is then [covered](Watches::request_sent).

mod armed;
mod at_server;
mod fire;
mod path_watches;
mod rearm;
mod removal;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use proto::AddWatchMode;

pub(crate) use self::armed::Armed;
pub(crate) use self::fire::Fired;
pub(crate) use self::rearm::{Rearm, rearm_len};
pub(crate) use self::removal::Step;

use self::path_watches::{PathWatches, is_recursive, kept_as};
use self::removal::Removal;
use crate::{Handle, WatchKind};

#[derive(Debug)]
pub(crate) struct Watches<W, S> {
    paths: BTreeMap<Arc<str>, PathWatches<W, S>>,
    /// Paths on which the server may have watches to remove.
    stale: BTreeSet<Arc<str>>,
    /// Time at which these are removed.
    removal_at: Option<Instant>,
    /// Numbers of one-shot, recursive and persistent watches.
    counts: [usize; 3],
    /// Bytes of paths in one request that sets many watches.
    rearm_chunk_bytes: usize,
    /// Support of the servers for removeWatches, until a server shows otherwise.
    removal: Removal,
}

/// Watch that is registered when its request is answered.
#[derive(Debug)]
pub(crate) struct PendingWatch<W, S> {
    pub(crate) path: Arc<str>,
    pub(crate) watcher: Watcher<W, S>,
    /// True if no caller waits for the reply any more, so that no event has a recipient.
    pub(crate) is_given_up: bool,
    /// True if the server is not requested to set this watch, because another one covers it.
    pub(crate) is_covered: bool,
}

/// Recipient of a watch, with its kind or mode.
#[derive(Debug)]
pub(crate) enum Watcher<W, S> {
    OneShot(WatchKind, W),
    Stream(AddWatchMode, S),
}

impl<W, S> PendingWatch<W, S> {
    pub(crate) fn new(path: &str, watcher: Watcher<W, S>) -> Self {
        Self { path: path.into(), watcher, is_given_up: false, is_covered: false }
    }

    /// Returns the mode that the server sets once it has executed the request.
    fn armed(&self) -> Armed {
        match self.watcher {
            Watcher::OneShot(_, _) if self.is_covered => Armed::NOTHING,
            Watcher::OneShot(kind, _) => Armed::by_one_shot(kind),
            Watcher::Stream(_, _) if self.is_covered => Armed::RECURSIVE,
            Watcher::Stream(mode, _) => Armed::by(mode),
        }
    }

    /// Returns the last byte of the covered request: no watch, or the recursive mode.
    pub(crate) fn covered_byte(&self) -> u8 {
        match self.watcher {
            Watcher::OneShot(_, _) => 0,
            Watcher::Stream(_, _) => 1,
        }
    }
}

/// Result of a request for its watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchReply {
    /// The watch is set, on an existing node.
    Found,
    /// The watch is set, on a missing node.
    Absent,
    /// The watch is not set.
    Refused,
}

impl<W: Handle, S: Handle + Clone> Watches<W, S> {
    pub(crate) fn new(rearm_chunk_bytes: usize) -> Self {
        Self {
            rearm_chunk_bytes,
            paths: BTreeMap::new(),
            stale: BTreeSet::new(),
            removal_at: None,
            counts: [0; 3],
            removal: Removal::OneMode,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.counts.iter().sum()
    }

    /// Returns the numbers of one-shot, recursive and persistent watches.
    pub(crate) fn counts(&self) -> [usize; 3] {
        self.counts
    }

    /// Notes that a request that sets a watch is sent, and decides whether the watch is covered.
    ///
    /// It is covered if a persistent watch on the path, or one that is being set, makes the server
    /// send the same events. The request must then not set the watch at the server. A persistent
    /// watch next to a recursive one is covered too, and its request sets the recursive one again.
    pub(crate) fn request_sent(&mut self, watch: &mut PendingWatch<W, S>) {
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

    /// Registers a watch whose request was passed to [`request_sent`](Self::request_sent) and is
    /// answered. A watch without a recipient is not registered. Returns true if the watch that covered
    /// it is gone, so that the server must set it after all.
    pub(crate) fn answered(&mut self, watch: PendingWatch<W, S>, reply: WatchReply) -> bool {
        let armed = watch.armed();
        let PendingWatch { path, watcher, is_given_up, is_covered } = watch;
        let mut is_bare = false;
        self.on(&path, |watches| {
            watches.unanswered = watches.unanswered.saturating_sub(1);
            if watches.unanswered == 0 {
                watches.asked = Armed::NOTHING;
            }
            if reply == WatchReply::Refused {
                return;
            }
            watches.armed = watches.armed.with(armed);
            match watcher {
                Watcher::OneShot(kind, handle) if !is_given_up && !handle.is_abandoned() => {
                    is_bare = is_covered && !watches.armed.has(Armed::covering(kind));
                    watches.add(kept_as(kind, reply), handle);
                }
                Watcher::Stream(mode, stream) if !is_given_up && !stream.is_abandoned() => {
                    watches.add_stream(mode, stream);
                }
                Watcher::OneShot(..) | Watcher::Stream(..) => {}
            }
        });
        self.note_stale(&path);
        is_bare
    }

    /// Registers a one-shot watch on a node that may exist. The caller sends the request that
    /// [sets](Self::asked) it.
    pub(crate) fn register(&mut self, path: &str, kind: WatchKind, handle: W) {
        let watches = self.paths.entry(path.into()).or_default();
        watches.armed = watches.armed.with(Armed::by_one_shot(kind));
        let kind = kept_as(kind, WatchReply::Found);
        track(&mut self.counts, watches, |watches| watches.add(kind, handle));
    }

    /// Removes all watches and returns their recipients, at the end of the session.
    pub(crate) fn drain(&mut self) -> (Vec<W>, Vec<S>) {
        let (mut one_shots, mut streams) = (Vec::new(), Vec::new());
        for watches in
            std::mem::replace(self, Self::new(self.rearm_chunk_bytes)).paths.into_values()
        {
            watches.drain(&mut one_shots, &mut streams);
        }
        (one_shots, streams)
    }

    /// Changes the watches on a path, and removes the path if nothing is left there.
    fn on(&mut self, path: &str, change: impl FnOnce(&mut PathWatches<W, S>)) {
        if let Some(watches) = self.paths.get_mut(path) {
            track(&mut self.counts, watches, change);
            if watches.is_over() {
                self.paths.remove(path);
            }
        }
    }
}

/// Index of the recursive watches in the counts.
const RECURSIVE: usize = 1;

/// Changes the watches on a path, and adds the difference to the counts of all paths.
fn track<W: Handle, S: Handle>(
    counts: &mut [usize; 3],
    watches: &mut PathWatches<W, S>,
    change: impl FnOnce(&mut PathWatches<W, S>),
) {
    let before = watches.counts();
    change(watches);
    for ((count, before), after) in counts.iter_mut().zip(before).zip(watches.counts()) {
        *count = *count + after - before;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A session may watch millions of paths in its life.
    #[test]
    fn path_is_forgotten_when_its_last_watch_has_fired() {
        let mut watches = Watches::<char, char>::new(usize::MAX);
        for handle in ['a', 'b', 'c'] {
            let mut watch = PendingWatch::new("/n", Watcher::OneShot(WatchKind::Data, handle));
            watches.request_sent(&mut watch);
            assert!(!watches.answered(watch, WatchReply::Found));
        }
        assert_eq!((watches.len(), watches.paths.len()), (3, 1));
        let fired = watches.fire(proto::EventType::NODE_DATA_CHANGED, "/n");
        assert_eq!(fired.one_shots, ['a', 'b', 'c']);
        assert_eq!((watches.len(), watches.paths.len()), (0, 0));
    }
}
