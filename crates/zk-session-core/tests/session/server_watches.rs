//! Watches of the model server's one connection, by the rules of ZooKeeper 3.9 or of earlier
//! versions.

use std::collections::BTreeMap;

use proto::{AddWatchMode, ErrorCode, EventType, WatcherType, path};

/// The two watch tables of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Table {
    Data,
    Child,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Standard = 1,
    Persistent = 2,
    Recursive = 4,
}

#[derive(Debug, Default)]
pub(crate) struct Watched {
    /// True for the rules before 3.9.0. The last mode set on a path replaces the others in its table
    /// (ZOOKEEPER-4466), and recursive watches are in both tables.
    pub(crate) is_old: bool,
    modes: BTreeMap<(Table, String), u8>,
}

impl Watched {
    pub(crate) fn add(&mut self, table: Table, path: &str, mode: Mode) {
        let modes = self.modes.entry((table, path.to_owned())).or_default();
        *modes = if self.is_old { mode as u8 } else { *modes | mode as u8 };
    }

    pub(crate) fn add_stream(&mut self, path: &str, mode: AddWatchMode) {
        if mode == AddWatchMode::Persistent {
            self.add(Table::Data, path, Mode::Persistent);
            self.add(Table::Child, path, Mode::Persistent);
        } else {
            self.add(Table::Data, path, Mode::Recursive);
            if self.is_old {
                self.add(Table::Child, path, Mode::Recursive);
            }
        }
    }

    pub(crate) fn remove(&mut self, path: &str, kind: WatcherType) -> ErrorCode {
        let standard = if self.is_old { 7 } else { Mode::Standard as u8 };
        let (modes, tables): (u8, &[Table]) = match kind {
            WatcherType::Data => (standard, &[Table::Data]),
            WatcherType::Children => (standard, &[Table::Child]),
            WatcherType::Any => (7, &[Table::Data, Table::Child]),
            _ if self.is_old => return ErrorCode::MARSHALLING_ERROR,
            WatcherType::Persistent => (Mode::Persistent as u8, &[Table::Data, Table::Child]),
            _ => (Mode::Recursive as u8, &[Table::Data]),
        };
        let mut found = false;
        for table in tables {
            found |= self.has(*table, path, modes);
            self.take(*table, path, modes);
        }
        if found { ErrorCode::OK } else { ErrorCode::NO_WATCHER }
    }

    /// Fires the watches for an event. Returns true if the server sends the event to the client.
    pub(crate) fn fire(&mut self, event: EventType, path: &str) -> bool {
        let standard = Mode::Standard as u8;
        if event == EventType::NODE_CHILDREN_CHANGED {
            let told = self.has(Table::Child, path, standard | Mode::Persistent as u8);
            self.take(Table::Child, path, standard);
            return told;
        }
        let mut told = self.has(Table::Data, path, 7);
        self.take(Table::Data, path, standard);
        if event == EventType::NODE_DELETED {
            told |= self.has(Table::Child, path, 7);
            self.take(Table::Child, path, standard);
        }
        let above = std::iter::successors(path::parent(path), |at| path::parent(at));
        let recursive = Mode::Recursive as u8;
        told | above.into_iter().any(|at| self.has(Table::Data, at, recursive))
    }

    pub(crate) fn has(&self, table: Table, path: &str, modes: u8) -> bool {
        self.modes.get(&(table, path.to_owned())).is_some_and(|has| has & modes != 0)
    }

    fn take(&mut self, table: Table, path: &str, modes: u8) {
        if let Some(has) = self.modes.get_mut(&(table, path.to_owned())) {
            *has &= !modes;
        }
        self.modes.retain(|_, modes| *modes != 0);
    }

    pub(crate) fn len(&self) -> usize {
        self.modes.len()
    }

    pub(crate) fn clear(&mut self) {
        self.modes.clear();
    }
}
