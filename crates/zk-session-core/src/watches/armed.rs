//! What a server watches on one path for this connection.

use proto::{AddWatchMode, WatcherType};

use crate::handles::WatchKind;

/// A set of the modes in which a server watches a path. One-shot watches are in
/// one of two tables there: data and existence, children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Armed(u8);

impl Armed {
    pub(super) const NOTHING: Self = Self(0);
    pub(super) const DATA: Self = Self(1);
    pub(super) const CHILD: Self = Self(2);
    pub(super) const PERSISTENT: Self = Self(4);
    pub(super) const RECURSIVE: Self = Self(8);
    /// Modes that could not be named in a removal: they go with all others on the path.
    pub(super) const LEFTOVER: Self = Self(16);
    /// A recursive watch whose place a persistent one is about to take.
    pub(super) const GOING: Self = Self(32);
    pub(super) const ONE_SHOTS: Self = Self(3);
    pub(super) const STREAMS: Self = Self(12);

    /// What a stream asks for.
    pub(super) fn by(mode: AddWatchMode) -> Self {
        match mode {
            AddWatchMode::PersistentRecursive => Self::RECURSIVE,
            _ => Self::PERSISTENT,
        }
    }

    /// What a request with the watch flag arms.
    pub(super) fn by_one_shot(kind: WatchKind) -> Self {
        match kind {
            WatchKind::Data | WatchKind::Exists => Self::DATA,
            WatchKind::Children => Self::CHILD,
        }
    }

    /// What makes the server send all that a one-shot watch of this kind waits for.
    pub(super) fn covering(kind: WatchKind) -> Self {
        match kind {
            WatchKind::Data | WatchKind::Exists => Self::STREAMS,
            // A recursive watch hears of children, and not of the list of them.
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

    /// The type that removes just these modes where a path has no other; of
    /// several modes, all there are on the path.
    pub(super) fn watcher_type(self) -> WatcherType {
        match self {
            Self::DATA => WatcherType::Data,
            Self::CHILD => WatcherType::Children,
            _ => WatcherType::Any,
        }
    }
}
