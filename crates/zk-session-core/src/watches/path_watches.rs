//! Watches on one path: their recipients, and the modes set at the server.

use std::mem;

use proto::AddWatchMode;

use super::at_server::AtServer;
use super::{Armed, WatchReply};
use crate::{Handle, WatchKind};

/// Returns the kind as which a one-shot watch is kept, as in the lists of the Java client: exists
/// sets a data watch on an existing node.
pub(super) fn kept_as(kind: WatchKind, reply: WatchReply) -> WatchKind {
    match (kind, reply) {
        (WatchKind::Exists, WatchReply::Found) => WatchKind::Data,
        (kind, _) => kind,
    }
}

/// Watches on one path. The type is small, since there may be a hundred thousand paths, and nearly
/// all of them have a single one-shot watch.
#[derive(Debug)]
pub(super) struct PathWatches<W, S> {
    first: Option<(WatchKind, W)>,
    more: Option<Box<More<W, S>>>,
    /// Modes set at the server of this connection. It may have more than callers use: an abandoned
    /// watch stays until the server removes it.
    pub(super) armed: Armed,
    /// Modes that unanswered requests for persistent watches will have set.
    pub(super) asked: Armed,
    /// Number of unanswered requests that set a watch here.
    pub(super) unanswered: u32,
    pub(super) at_server: AtServer,
}

#[derive(Debug)]
struct More<W, S> {
    one_shots: Vec<(WatchKind, W)>,
    persistent: Vec<S>,
    recursive: Vec<S>,
}

impl<W, S> Default for PathWatches<W, S> {
    fn default() -> Self {
        let nothing = Armed::NOTHING;
        let at_server = AtServer::default();
        Self { first: None, more: None, armed: nothing, asked: nothing, unanswered: 0, at_server }
    }
}

impl<W: Handle, S: Handle> PathWatches<W, S> {
    pub(super) fn add(&mut self, kind: WatchKind, handle: W) {
        match self.first {
            None => self.first = Some((kind, handle)),
            Some(_) => self.more().one_shots.push((kind, handle)),
        }
    }

    pub(super) fn add_stream(&mut self, mode: AddWatchMode, stream: S) {
        let more = self.more();
        if is_recursive(mode) {
            more.recursive.push(stream);
        } else {
            more.persistent.push(stream);
        }
    }

    /// Returns the numbers of one-shot, recursive and persistent watches.
    pub(super) fn counts(&self) -> [usize; 3] {
        let first = usize::from(self.first.is_some());
        let Some(more) = &self.more else { return [first, 0, 0] };
        [first + more.one_shots.len(), more.recursive.len(), more.persistent.len()]
    }

    /// Returns the persistent watches of one mode.
    pub(super) fn streams(&self, mode: AddWatchMode) -> &[S] {
        match &self.more {
            Some(more) if is_recursive(mode) => &more.recursive,
            Some(more) => &more.persistent,
            None => &[],
        }
    }

    pub(super) fn kinds(&self) -> impl Iterator<Item = WatchKind> + '_ {
        let more = self.more.iter().flat_map(|more| &more.one_shots);
        self.first.iter().chain(more).map(|(kind, _)| *kind)
    }

    pub(super) fn has(&self, kind: WatchKind) -> bool {
        self.kinds().any(|one| one == kind)
    }

    /// Returns the modes that callers use.
    pub(super) fn wanted(&self) -> Armed {
        let used = STREAM_MODES.into_iter().filter(|mode| !self.streams(*mode).is_empty());
        let one_shots = self.kinds().map(Armed::by_one_shot);
        one_shots.chain(used.map(Armed::by)).fold(Armed::NOTHING, Armed::with)
    }

    /// Returns true if the path has no watch, no mode at the server and no unanswered request.
    pub(super) fn is_over(&self) -> bool {
        let nobody = self.first.is_none() && self.more.is_none();
        nobody && self.armed == Armed::NOTHING && self.unanswered == 0
    }

    /// Removes the one-shot watches of these kinds.
    pub(super) fn take(&mut self, kinds: &[WatchKind], into: &mut Vec<W>) {
        let first = self.first.take_if(|(kind, _)| kinds.contains(kind));
        into.extend(first.map(|(_, handle)| handle));
        if let Some(more) = &mut self.more {
            for (kind, handle) in mem::take(&mut more.one_shots) {
                if kinds.contains(&kind) {
                    into.push(handle);
                } else {
                    more.one_shots.push((kind, handle));
                }
            }
        }
        self.shrink();
    }

    /// Drops the abandoned watches.
    pub(super) fn prune(&mut self) {
        self.first.take_if(|(_, handle)| handle.is_abandoned());
        if let Some(more) = &mut self.more {
            more.one_shots.retain(|(_, handle)| !handle.is_abandoned());
            more.persistent.retain(|stream| !stream.is_abandoned());
            more.recursive.retain(|stream| !stream.is_abandoned());
        }
        self.shrink();
    }

    /// Removes all watches, at the end of the session.
    pub(super) fn drain(self, one_shots: &mut Vec<W>, streams: &mut Vec<S>) {
        one_shots.extend(self.first.map(|(_, handle)| handle));
        if let Some(more) = self.more {
            one_shots.extend(more.one_shots.into_iter().map(|(_, handle)| handle));
            streams.extend(more.persistent.into_iter().chain(more.recursive));
        }
    }

    fn more(&mut self) -> &mut More<W, S> {
        let (one_shots, persistent, recursive) = (Vec::new(), Vec::new(), Vec::new());
        self.more.get_or_insert_with(|| Box::new(More { one_shots, persistent, recursive }))
    }

    fn shrink(&mut self) {
        let is_empty = |more: &mut Box<More<W, S>>| {
            more.one_shots.is_empty() && more.persistent.is_empty() && more.recursive.is_empty()
        };
        drop(self.more.take_if(is_empty));
    }
}

pub(super) const STREAM_MODES: [AddWatchMode; 2] =
    [AddWatchMode::Persistent, AddWatchMode::PersistentRecursive];

pub(super) fn is_recursive(mode: AddWatchMode) -> bool {
    mode == AddWatchMode::PersistentRecursive
}
