//! Watches of one server.
//!
//! Watches belong to connections and not to sessions, and end with their connection.

use std::collections::BTreeSet;

use proto::{EventType, WatcherType};

use super::ConnectionId;
use super::hash::FastMap;
use super::tree::parent_of;
use super::version::Version;

/// Modes of the watches that a connection has on a path. Since 3.9 it can have several; before,
/// only the last mode requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Modes(u8);

/// Mode of a watch: whether it persists, and whether it covers the nodes below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WatchMode {
    /// A one-shot watch.
    Standard,
    /// A persistent watch.
    Persistent,
    /// A persistent recursive watch.
    Recursive,
}

/// One of a server's two watch tables.
// Closed: a server has two tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchTable {
    /// Watches on the data of a node, and on its creation and deletion.
    Data,
    /// Watches on the children of a node.
    Child,
}

/// Event for a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Firing {
    pub(crate) connection: ConnectionId,
    pub(crate) event: EventType,
    pub(crate) path: Box<str>,
}

/// All watches of one server.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    data: Entries,
    child: Entries,
}

impl Watches {
    pub(crate) fn is_empty(&self) -> bool {
        self.data.by_path.is_empty() && self.child.by_path.is_empty()
    }

    /// Sets a watch.
    pub(crate) fn add(
        &mut self,
        table: WatchTable,
        path: &str,
        connection: ConnectionId,
        mode: WatchMode,
        version: Version,
    ) {
        self.entries_mut(table).add(path, connection, mode, version);
    }

    /// Fires the watches of a creation, deletion or data change, and returns the events to send.
    /// Fired one-shot watches are removed.
    pub(crate) fn fire(&mut self, event: EventType, path: &str) -> Vec<Firing> {
        let told = self.data.fire(event, path);
        let firing = |event: EventType, path: &str| {
            let path: Box<str> = path.into();
            move |connection| Firing { connection, event, path: path.clone() }
        };
        let mut firings: Vec<Firing> = told.iter().copied().map(firing(event, path)).collect();
        if event == EventType::NODE_DELETED {
            // A connection with watches in both tables receives one event.
            let others = self.child.fire(event, path);
            let others = others.into_iter().filter(|connection| !told.contains(connection));
            firings.extend(others.map(firing(event, path)));
        }
        if event == EventType::NODE_CREATED || event == EventType::NODE_DELETED {
            let parent = parent_of(path);
            let told = self.child.fire(EventType::NODE_CHILDREN_CHANGED, parent);
            firings.extend(told.into_iter().map(firing(EventType::NODE_CHILDREN_CHANGED, parent)));
        }
        firings
    }

    /// Fires the watches as Keeper and RaftKeeper do (`processWatchesImpl`). Each table sends an event
    /// of its own, also for the same path. The event of a recursive watch has the path of the watch
    /// (ClickHouse issue 115475).
    pub(crate) fn fire_at_keeper(&mut self, event: EventType, path: &str) -> Vec<Firing> {
        let mut firings = Vec::new();
        let mut fire = |event: EventType, path: &str, connections: Vec<ConnectionId>| {
            let firing = |connection| Firing { connection, event, path: path.into() };
            firings.extend(connections.into_iter().map(firing));
        };
        let (mut at, mut is_top) = (path, false);
        while !is_top {
            fire(event, at, self.data.take(at, WatchMode::Recursive));
            is_top = at == "/";
            at = parent_of(at);
        }
        for mode in [WatchMode::Standard, WatchMode::Persistent] {
            fire(event, path, self.data.take(path, mode));
            if event == EventType::NODE_DELETED {
                fire(event, path, self.child.take(path, mode));
            }
            if event == EventType::NODE_CREATED || event == EventType::NODE_DELETED {
                let parent = parent_of(path);
                let watching = self.child.take(parent, mode);
                fire(EventType::NODE_CHILDREN_CHANGED, parent, watching);
            }
        }
        firings
    }

    /// Returns whether a connection has such a watch.
    pub(crate) fn contains(
        &self,
        path: &str,
        connection: ConnectionId,
        kind: WatcherType,
        version: Version,
    ) -> bool {
        let (modes, tables) = meant(kind, version);
        tables.iter().any(|table| {
            let entries = self.entries(*table);
            // These servers find the watch of any connection.
            if !version.watch_modes_are_independent() {
                return entries.by_path.contains_key(path);
            }
            if version.is_keeper_like() {
                let all = entries.by_path.get(path).into_iter().flatten();
                return all.map(|(_, other)| other.0).any(|other| other & modes.0 != 0);
            }
            entries.modes(path, connection).0 & modes.0 != 0
        })
    }

    /// Returns whether a connection has a watch of this mode in this table.
    pub(crate) fn has(
        &self,
        table: WatchTable,
        path: &str,
        connection: ConnectionId,
        mode: WatchMode,
    ) -> bool {
        self.entries(table).modes(path, connection).0 & Modes::of(mode).0 != 0
    }

    /// Removes such watches. Returns whether there were any.
    pub(crate) fn remove(
        &mut self,
        path: &str,
        connection: ConnectionId,
        kind: WatcherType,
        version: Version,
    ) -> bool {
        let (modes, tables) = meant(kind, version);
        let mut found = false;
        for table in tables {
            found |= self.entries_mut(*table).remove(path, connection, modes);
        }
        found
    }

    pub(crate) fn forget(&mut self, connection: ConnectionId) {
        self.data.forget(connection);
        self.child.forget(connection);
    }

    /// Returns the numbers of connections, paths and watches in the data table, which wchs counts.
    pub(crate) fn summary(&self) -> (usize, usize, usize) {
        let table = &self.data;
        (table.by_connection.len(), table.by_path.len(), table.len())
    }

    pub(crate) fn len(&self) -> usize {
        self.data.len() + self.child.len()
    }

    fn entries(&self, table: WatchTable) -> &Entries {
        match table {
            WatchTable::Data => &self.data,
            WatchTable::Child => &self.child,
        }
    }

    fn entries_mut(&mut self, table: WatchTable) -> &mut Entries {
        match table {
            WatchTable::Data => &mut self.data,
            WatchTable::Child => &mut self.child,
        }
    }
}

/// Returns the modes and tables of a watcher type on the wire.
fn meant(kind: WatcherType, version: Version) -> (Modes, &'static [WatchTable]) {
    let standard = if version.watch_modes_are_independent() {
        Modes::of(WatchMode::Standard)
    } else {
        Modes::ALL
    };
    match kind {
        WatcherType::Children => (standard, &[WatchTable::Child]),
        WatcherType::Data => (standard, &[WatchTable::Data]),
        WatcherType::Persistent => {
            (Modes::of(WatchMode::Persistent), &[WatchTable::Data, WatchTable::Child])
        }
        WatcherType::PersistentRecursive => (Modes::of(WatchMode::Recursive), &[WatchTable::Data]),
        _ => (Modes::ALL, &[WatchTable::Data, WatchTable::Child]),
    }
}

impl Modes {
    const ALL: Self = Self(7);

    const fn of(mode: WatchMode) -> Self {
        Self(match mode {
            WatchMode::Standard => 1,
            WatchMode::Persistent => 2,
            WatchMode::Recursive => 4,
        })
    }
}

#[derive(Debug, Default)]
struct Entries {
    by_path: FastMap<Box<str>, Vec<(ConnectionId, Modes)>>,
    /// Paths of each connection, to remove its watches when it ends.
    by_connection: FastMap<ConnectionId, BTreeSet<Box<str>>>,
    /// Number of recursive watches. Without any, `fire` skips the ancestors.
    recursive: usize,
}

impl Entries {
    fn add(&mut self, path: &str, connection: ConnectionId, mode: WatchMode, version: Version) {
        let entries = match self.by_path.get_mut(path) {
            Some(entries) => entries,
            None => self.by_path.entry(path.into()).or_default(),
        };
        let at = entries.iter().position(|(watcher, _)| *watcher == connection);
        let at = at.unwrap_or_else(|| {
            entries.push((connection, Modes(0)));
            self.by_connection.entry(connection).or_default().insert(path.into());
            entries.len() - 1
        });
        let before = entries[at].1;
        // A later mode replaces the earlier ones, unless they are independent.
        let kept = if version.watch_modes_are_independent() { before } else { Modes(0) };
        entries[at].1 = Modes(kept.0 | Modes::of(mode).0);
        self.count_recursive(before, Modes(kept.0 | Modes::of(mode).0));
    }

    /// Fires the watches on a path and returns their connections in the order of registration.
    /// Recursive watches receive no child events.
    fn fire(&mut self, event: EventType, path: &str) -> Vec<ConnectionId> {
        let fires_recursive = event != EventType::NODE_CHILDREN_CHANGED;
        let mut told = Vec::new();
        let mut spent = Vec::new();
        if let Some(entries) = self.by_path.get_mut(path) {
            entries.retain_mut(|(connection, modes)| {
                if *modes == Modes::of(WatchMode::Recursive) && !fires_recursive {
                    return true;
                }
                told.push(*connection);
                modes.0 &= !Modes::of(WatchMode::Standard).0;
                if modes.0 == 0 {
                    spent.push(*connection);
                }
                modes.0 != 0
            });
            if entries.is_empty() {
                self.by_path.remove(path);
            }
        }
        for connection in spent {
            self.unlist(connection, path);
        }
        if fires_recursive && self.recursive > 0 {
            self.recursive_above(path, &mut told);
        }
        told
    }

    /// Returns the connections with a watch of this mode, and removes the one-shot ones.
    fn take(&mut self, path: &str, mode: WatchMode) -> Vec<ConnectionId> {
        let entries = self.by_path.get(path).into_iter().flatten();
        let has_mode = |modes: &Modes| modes.0 & Modes::of(mode).0 != 0;
        let taken: Vec<ConnectionId> = entries
            .filter(|(_, modes)| has_mode(modes))
            .map(|(connection, _)| *connection)
            .collect();
        if mode == WatchMode::Standard {
            for connection in &taken {
                self.remove(path, *connection, Modes::of(mode));
            }
        }
        taken
    }

    fn recursive_above(&self, path: &str, told: &mut Vec<ConnectionId>) {
        let mut at = path;
        while at != "/" {
            at = parent_of(at);
            for (connection, modes) in self.by_path.get(at).into_iter().flatten() {
                if modes.0 & Modes::of(WatchMode::Recursive).0 != 0 && !told.contains(connection) {
                    told.push(*connection);
                }
            }
        }
    }

    fn modes(&self, path: &str, connection: ConnectionId) -> Modes {
        let entries = self.by_path.get(path).into_iter().flatten();
        entries
            .filter(|(watcher, _)| *watcher == connection)
            .map(|(_, modes)| *modes)
            .next()
            .unwrap_or_default()
    }

    fn remove(&mut self, path: &str, connection: ConnectionId, modes: Modes) -> bool {
        let before = self.modes(path, connection);
        if before.0 & modes.0 == 0 {
            return false;
        }
        let after = Modes(before.0 & !modes.0);
        self.count_recursive(before, after);
        if let Some(entries) = self.by_path.get_mut(path) {
            for entry in entries.iter_mut().filter(|(watcher, _)| *watcher == connection) {
                entry.1 = after;
            }
            entries.retain(|(_, modes)| modes.0 != 0);
            if entries.is_empty() {
                self.by_path.remove(path);
            }
        }
        if after.0 == 0 {
            self.unlist(connection, path);
        }
        true
    }

    fn forget(&mut self, connection: ConnectionId) {
        for path in self.by_connection.remove(&connection).unwrap_or_default() {
            let before = self.modes(&path, connection);
            self.count_recursive(before, Modes(0));
            if let Some(entries) = self.by_path.get_mut(&path) {
                entries.retain(|(watcher, _)| *watcher != connection);
                if entries.is_empty() {
                    self.by_path.remove(&path);
                }
            }
        }
    }

    fn unlist(&mut self, connection: ConnectionId, path: &str) {
        if let Some(paths) = self.by_connection.get_mut(&connection) {
            paths.remove(path);
            if paths.is_empty() {
                self.by_connection.remove(&connection);
            }
        }
    }

    fn count_recursive(&mut self, before: Modes, after: Modes) {
        let has = |modes: Modes| usize::from(modes.0 & Modes::of(WatchMode::Recursive).0 != 0);
        self.recursive = self.recursive + has(after) - has(before);
    }

    fn len(&self) -> usize {
        self.by_path.values().map(Vec::len).sum()
    }
}
