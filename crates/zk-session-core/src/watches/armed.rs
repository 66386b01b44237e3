//! Modes in which a server watches one path for this connection.

use proto::{AddWatchMode, WatcherType};

use crate::WatchKind;

/// Set of the modes in which a server watches a path. One-shot watches are in one of two tables
/// there: data and existence, or children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Armed(u8);

impl Armed {
    pub(super) const NOTHING: Self = Self(0);
    pub(super) const DATA: Self = Self(1);
    pub(super) const CHILD: Self = Self(2);
    pub(super) const PERSISTENT: Self = Self(4);
    pub(super) const RECURSIVE: Self = Self(8);
    /// Modes that a removal could not name. They are removed with all others on the path.
    pub(super) const LEFTOVER: Self = Self(16);
    /// A recursive watch that a persistent one is about to replace.
    pub(super) const REPLACED: Self = Self(32);
    pub(super) const ONE_SHOTS: Self = Self(3);
    pub(super) const STREAMS: Self = Self(12);

    /// Returns the mode that a persistent watch sets.
    pub(super) fn by(mode: AddWatchMode) -> Self {
        match mode {
            AddWatchMode::PersistentRecursive => Self::RECURSIVE,
            _ => Self::PERSISTENT,
        }
    }

    /// Returns the mode that a request with the watch flag sets.
    pub(super) fn by_one_shot(kind: WatchKind) -> Self {
        match kind {
            WatchKind::Data | WatchKind::Exists => Self::DATA,
            WatchKind::Children => Self::CHILD,
        }
    }

    /// Returns the modes in which the server sends all events of a one-shot watch of this kind.
    pub(super) fn covering(kind: WatchKind) -> Self {
        match kind {
            WatchKind::Data | WatchKind::Exists => Self::STREAMS,
            // A recursive watch receives events of the children, but not of the list of children.
            WatchKind::Children => Self::PERSISTENT,
        }
    }

    pub(super) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(super) fn has(self, any_of: Self) -> bool {
        self.0 & any_of.0 != 0
    }

    /// Returns the type that removes exactly this mode, if the path has no other. For several
    /// modes, it removes all modes on the path.
    pub(super) fn watcher_type(self) -> WatcherType {
        match self {
            Self::DATA => WatcherType::Data,
            Self::CHILD => WatcherType::Children,
            _ => WatcherType::Any,
        }
    }
}
