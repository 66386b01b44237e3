//! Kinds of nodes to create: the int `flags` of the create operations.
//!
//! Nodes with a time to live have a request of their own, [`CreateTtl`](crate::CreateTtl), so that
//! their flags (5 and 6) cannot go out with another opcode, nor the flags here with that one.
//!
//! ```
//! use zk_proto::CreateMode;
//!
//! assert_eq!(CreateMode::EphemeralSequential.flags(), 3);
//! assert_eq!(CreateMode::from_flags(3), Some(CreateMode::EphemeralSequential));
//! assert_eq!(CreateMode::from_flags(99), None);
//! ```

/// What kind of node to create.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CreateMode {
    /// Stays until deleted.
    Persistent,
    /// Ends with the session that creates it; cannot have children.
    Ephemeral,
    /// Stays until deleted; the server appends a sequence number to the name.
    PersistentSequential,
    /// Ends with the session; the server appends a sequence number to the name.
    EphemeralSequential,
    /// Removed by the server some time after its last child went. Only
    /// [`CreateContainer`](crate::CreateContainer) makes one: with the other create operations
    /// these flags make a plain persistent node that is never removed.
    Container,
}

impl CreateMode {
    /// The number on the wire. Not a bit mask.
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

    /// The mode of a number on the wire; `None` for the time-to-live modes (5, 6) and for numbers
    /// no server knows.
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

    /// Whether the server appends a sequence number to the name.
    #[must_use]
    pub const fn is_sequential(self) -> bool {
        matches!(self, Self::PersistentSequential | Self::EphemeralSequential)
    }

    /// Whether the node ends with the session that creates it.
    #[must_use]
    pub const fn is_ephemeral(self) -> bool {
        matches!(self, Self::Ephemeral | Self::EphemeralSequential)
    }
}
