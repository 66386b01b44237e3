//! Types of services, as in Curator.

use std::fmt;

/// Type of an instance: how long its node exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ServiceType {
    /// An ephemeral node `<base>/<name>/<id>`: the instance is gone when its session ends.
    #[default]
    Dynamic,
    /// An ephemeral sequential node: the server appends a number to its name. Several instances may
    /// have one id.
    ///
    /// The name also has a random prefix, so that a lost reply leaves no second node. Curator
    /// creates the node without the prefix. Readers take the id from the data.
    DynamicSequential,
    /// A persistent node `<base>/<name>/<id>`, which exists until it is unregistered.
    Static,
    /// The same as [`Static`](Self::Static).
    Permanent,
}

impl ServiceType {
    /// All types, in the order of Curator's list.
    const ALL: [Self; 4] = [Self::Dynamic, Self::Static, Self::Permanent, Self::DynamicSequential];

    /// Returns Curator's name of the type.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dynamic => "DYNAMIC",
            Self::DynamicSequential => "DYNAMIC_SEQUENTIAL",
            Self::Static => "STATIC",
            Self::Permanent => "PERMANENT",
        }
    }

    /// Returns true if the server deletes the node when its session ends.
    #[must_use]
    pub fn is_dynamic(self) -> bool {
        matches!(self, Self::Dynamic | Self::DynamicSequential)
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == name)
    }

    /// Returns the type at a position of Curator's list.
    pub(super) fn from_position(position: usize) -> Option<Self> {
        Self::ALL.get(position).copied()
    }
}

impl fmt::Display for ServiceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
