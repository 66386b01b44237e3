//! The one-shot watches this session holds, and what is asked of a new server to
//! get them back.

use std::collections::BTreeMap;

use proto::{EventType, SetWatches};

use super::handles::{Handle, WatchKind};
use crate::limits::REARM_CHUNK_BYTES;

/// Handles by list and path. The lists are those of the Java client: an exists
/// watch goes to the data list if the node was there, and to the exist list
/// only if it was not.
#[derive(Debug)]
pub(super) struct Watches<W> {
    data: List<W>,
    exist: List<W>,
    children: List<W>,
    len: usize,
}

type List<W> = BTreeMap<String, Vec<W>>;

impl<W: Handle> Watches<W> {
    pub(super) fn new() -> Self {
        Self { data: List::new(), exist: List::new(), children: List::new(), len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds a watch whose request was answered; `found` tells whether the node
    /// was there. Nobody registers a watch that nobody waits for.
    pub(super) fn add(&mut self, kind: WatchKind, found: bool, path: String, handle: W) {
        if handle.is_abandoned() {
            return;
        }
        let list = match (kind, found) {
            (WatchKind::Children, _) => &mut self.children,
            (WatchKind::Exists, false) => &mut self.exist,
            (WatchKind::Data | WatchKind::Exists, _) => &mut self.data,
        };
        list.entry(path).or_default().push(handle);
        self.len += 1;
    }

    /// Takes out the watches that an event fires. None is normal: the watch may
    /// have been forgotten here while the server still had it.
    pub(super) fn fire(&mut self, event: EventType, path: &str) -> Vec<W> {
        let mut fired = Vec::new();
        let mut take = |list: &mut List<W>| fired.extend(list.remove(path).unwrap_or_default());
        match event {
            EventType::NODE_CREATED | EventType::NODE_DATA_CHANGED => {
                take(&mut self.data);
                take(&mut self.exist);
            }
            EventType::NODE_DELETED => {
                take(&mut self.data);
                take(&mut self.exist);
                take(&mut self.children);
            }
            EventType::NODE_CHILDREN_CHANGED => take(&mut self.children),
            _ => {}
        }
        self.len -= fired.len();
        fired
    }

    /// Drops the watches on a path behind which nobody waits any more.
    pub(super) fn prune(&mut self, path: &str) {
        for list in [&mut self.data, &mut self.exist, &mut self.children] {
            let Some(handles) = list.get_mut(path) else {
                continue;
            };
            let before = handles.len();
            handles.retain(|handle| !handle.is_abandoned());
            self.len -= before - handles.len();
            if handles.is_empty() {
                list.remove(path);
            }
        }
    }

    /// Takes out everything, for the end of the session.
    pub(super) fn drain(&mut self) -> Vec<W> {
        self.len = 0;
        let lists = [&mut self.data, &mut self.exist, &mut self.children];
        lists.into_iter().flat_map(|list| std::mem::take(list).into_values().flatten()).collect()
    }

    /// The requests that re-arm every watch on a new connection, each below the
    /// frame limit, whatever the number of watches.
    pub(super) fn rearm(&self, relative_zxid: i64) -> Vec<SetWatches<'_>> {
        let paths = |list, kind| List::keys(list).map(move |path: &String| (kind, path));
        let all = paths(&self.data, WatchKind::Data)
            .chain(paths(&self.exist, WatchKind::Exists))
            .chain(paths(&self.children, WatchKind::Children));
        let mut chunks: Vec<SetWatches<'_>> = Vec::new();
        let mut chunk_bytes = 0;
        for (kind, path) in all {
            if chunks.is_empty() || chunk_bytes + path.len() > REARM_CHUNK_BYTES {
                chunks.push(SetWatches {
                    relative_zxid,
                    data: Vec::new(),
                    exist: Vec::new(),
                    child: Vec::new(),
                });
                chunk_bytes = 0;
            }
            let Some(chunk) = chunks.last_mut() else {
                break;
            };
            chunk_bytes += path.len() + 4; // the length prefix goes over the wire too
            let list = match kind {
                WatchKind::Data => &mut chunk.data,
                WatchKind::Exists => &mut chunk.exist,
                WatchKind::Children => &mut chunk.child,
            };
            list.push(path.into());
        }
        chunks
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    #[derive(Clone, Debug, Default)]
    struct Flag(Rc<Cell<bool>>);

    impl Handle for Flag {
        fn is_abandoned(&self) -> bool {
            self.0.get()
        }
    }

    impl Handle for u32 {}

    #[test]
    fn each_event_fires_the_lists_of_the_java_client() {
        let fired = |event| {
            let mut watches = Watches::new();
            watches.add(WatchKind::Data, true, "/a".into(), 1_u32);
            watches.add(WatchKind::Exists, true, "/a".into(), 2);
            watches.add(WatchKind::Exists, false, "/a".into(), 3);
            watches.add(WatchKind::Children, true, "/a".into(), 4);
            watches.add(WatchKind::Data, true, "/b".into(), 5);
            let fired = watches.fire(event, "/a");
            assert_eq!(watches.len(), 5 - fired.len());
            assert!(watches.fire(event, "/a").is_empty(), "one-shot");
            fired
        };
        assert_eq!(fired(EventType::NODE_CREATED), [1, 2, 3]);
        assert_eq!(fired(EventType::NODE_DATA_CHANGED), [1, 2, 3]);
        assert_eq!(fired(EventType::NODE_DELETED), [1, 2, 3, 4]);
        assert_eq!(fired(EventType::NODE_CHILDREN_CHANGED), [4]);
        assert!(fired(EventType(99)).is_empty());
    }

    #[test]
    fn abandoned_watches_are_pruned_and_not_rearmed() {
        let (kept, dropped) = (Flag::default(), Flag::default());
        let mut watches = Watches::new();
        watches.add(WatchKind::Data, true, "/a".into(), kept);
        watches.add(WatchKind::Data, true, "/a".into(), dropped.clone());
        watches.add(WatchKind::Data, true, "/b".into(), dropped.clone());
        dropped.0.set(true);
        watches.prune("/a");
        watches.prune("/b");
        watches.prune("/none");
        assert_eq!(watches.len(), 1);
        assert_eq!(watches.rearm(0)[0].data, ["/a"]);
        watches.add(WatchKind::Data, true, "/c".into(), dropped);
        assert_eq!(watches.len(), 1);
    }

    #[test]
    fn rearming_is_cut_into_chunks_that_lose_nothing() {
        let mut watches = Watches::new();
        for n in 0..10_000_u32 {
            let kind = [WatchKind::Data, WatchKind::Exists, WatchKind::Children][n as usize % 3];
            watches.add(kind, kind != WatchKind::Exists, format!("/{n:060}"), n);
        }
        let chunks = watches.rearm(77);
        assert!(chunks.len() >= 5, "{}", chunks.len());
        let mut paths = 0;
        for chunk in &chunks {
            assert_eq!(chunk.relative_zxid, 77);
            assert!(proto::Encode::encoded_len(chunk) < REARM_CHUNK_BYTES + 256);
            paths += chunk.data.len() + chunk.exist.len() + chunk.child.len();
        }
        assert_eq!(paths, 10_000);
        assert!(Watches::<u32>::new().rearm(0).is_empty());
    }
}
