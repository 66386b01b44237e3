//! Recipients of an event.

use proto::AddWatchMode::{Persistent, PersistentRecursive};
use proto::{EventType, Zxid, path};

use super::{Armed, RECURSIVE, Watches};
use crate::{Handle, WatchKind};

/// Recipients of one event. The event uses up the one-shot watches.
#[derive(Debug)]
pub(crate) struct Fired<W, S> {
    pub(crate) one_shots: Vec<W>,
    pub(crate) streams: Vec<S>,
}

impl<W, S> Default for Fired<W, S> {
    fn default() -> Self {
        Self { one_shots: Vec::new(), streams: Vec::new() }
    }
}

impl<W: Handle, S: Handle + Clone> Watches<W, S> {
    /// Removes the one-shot watches that an event fires, and finds the persistent watches that
    /// receive it. An event without recipients is normal: the watch may have been dropped here
    /// while the server still had it. An unknown event has no recipient.
    pub(crate) fn fire(&mut self, event: EventType, path: &str) -> Fired<W, S> {
        let mut fired = Fired::default();
        let (kinds, used): (&[WatchKind], _) = match event {
            EventType::NODE_CREATED | EventType::NODE_DATA_CHANGED => {
                (&[WatchKind::Data, WatchKind::Exists], Armed::DATA)
            }
            EventType::NODE_DELETED => {
                (&[WatchKind::Data, WatchKind::Exists, WatchKind::Children], Armed::ONE_SHOTS)
            }
            EventType::NODE_CHILDREN_CHANGED => (&[WatchKind::Children], Armed::CHILD),
            _ => return fired,
        };
        let of_the_node = event != EventType::NODE_CHILDREN_CHANGED;
        self.on(path, |watches| {
            watches.armed = watches.armed.without(used);
            watches.take(kinds, &mut fired.one_shots);
            // No server sends the event of the list of children to a recursive watch
            // (ZOOKEEPER-4475). The watch receives the events of the children themselves.
            fired.streams.extend_from_slice(watches.streams(Persistent));
            if of_the_node {
                fired.streams.extend_from_slice(watches.streams(PersistentRecursive));
            }
        });
        if of_the_node && self.counts[RECURSIVE] > 0 {
            self.fire_above(path, &mut fired.streams);
        }
        if !fired.one_shots.is_empty() {
            self.note_stale(path);
        }
        fired
    }

    /// Returns the recipients of a change of the parent's list of children, which follows from the
    /// creation or deletion of a node. It is used where the server cannot be relied on to send that
    /// change.
    ///
    /// Before 3.9.0 a server remembers one mode of watch per path. With a recursive watch it sends
    /// nothing about the list of children (ZOOKEEPER-4466). A newer server puts the zxid of the
    /// change into its events, and sends the events of all modes set.
    pub(crate) fn fire_parent(
        &mut self,
        event: EventType,
        parent: &str,
        zxid: Zxid,
    ) -> Fired<W, S> {
        let mut fired = Fired::default();
        if !matches!(event, EventType::NODE_CREATED | EventType::NODE_DELETED) {
            return fired;
        }
        self.on(parent, |watches| {
            let is_replaced = watches.armed.has(Armed::REPLACED);
            if !is_replaced && !watches.armed.has(Armed::RECURSIVE) {
                return;
            }
            watches.take(&[WatchKind::Children], &mut fired.one_shots);
            if zxid <= Zxid::ZERO || is_replaced || !watches.armed.has(Armed::PERSISTENT) {
                fired.streams.extend_from_slice(watches.streams(Persistent));
            }
        });
        fired
    }

    /// Adds the recursive watches on all ancestors, the nearest first, "/" last.
    fn fire_above(&self, path: &str, streams: &mut Vec<S>) {
        let mut at = path;
        while let Some(parent) = path::parent(at) {
            if let Some(watches) = self.paths.get(parent) {
                streams.extend_from_slice(watches.streams(PersistentRecursive));
            }
            at = parent;
        }
    }
}
