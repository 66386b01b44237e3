//! Kinds of nodes: the int `flags` of the create operations.
//!
//! Nodes with a time to live have a separate request, [`CreateTtl`](crate::CreateTtl). Their flags (5 and 6)
//! can therefore not be sent with another opcode, and the flags here not with createTTL.
//!
//! ```
//! use zk_proto::CreateMode;
//!
//! assert_eq!(CreateMode::EphemeralSequential.flags(), 3);
//! assert_eq!(CreateMode::from_flags(3), Some(CreateMode::EphemeralSequential));
//! assert_eq!(CreateMode::from_flags(99), None);
//! ```

/// Kind of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CreateMode {
    /// The node exists until it is deleted.
    Persistent,
    /// The server deletes the node when its session ends; the node cannot have children.
    Ephemeral,
    /// The node exists until it is deleted; the server appends a sequence number to its name.
    PersistentSequential,
    /// The server deletes the node when its session ends, and appends a sequence number to its name.
    EphemeralSequential,
    /// The server deletes the node some time after its last child was deleted.
    ///
    /// Outside of a multi, only [`CreateContainer`](crate::CreateContainer) creates a container. With the
    /// other create operations, these flags create a persistent node that is never deleted automatically.
    Container,
}

impl CreateMode {
    /// Returns the number on the wire. It is not a bit mask.
    #[must_use]
    pub const fn flags(self) -> i32 {
        match self {
            Self::Persistent => 0,
            Self::Ephemeral => 1,
            Self::PersistentSequential => 2,
            Self::EphemeralSequential => 3,
            Self::Container => 4,
        }
    }

    /// Returns the mode for a number on the wire. Returns `None` for the time-to-live modes (5, 6) and for
    /// numbers that no server knows.
    #[must_use]
    pub const fn from_flags(flags: i32) -> Option<Self> {
        match flags {
            0 => Some(Self::Persistent),
            1 => Some(Self::Ephemeral),
            2 => Some(Self::PersistentSequential),
            3 => Some(Self::EphemeralSequential),
            4 => Some(Self::Container),
            _ => None,
        }
    }

    /// Returns whether the server appends a sequence number to the name.
    #[must_use]
    pub const fn is_sequential(self) -> bool {
        matches!(self, Self::PersistentSequential | Self::EphemeralSequential)
    }

    /// Returns whether the node is deleted when its session ends.
    #[must_use]
    pub const fn is_ephemeral(self) -> bool {
        matches!(self, Self::Ephemeral | Self::EphemeralSequential)
    }
}
