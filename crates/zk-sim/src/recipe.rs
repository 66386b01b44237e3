//! Recipes of the simulation.

/// The recipe that all contenders of a seed use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recipe {
    Mutex,
    RwLock,
    Semaphore,
    SemaphoreMutex,
    MultiLock,
    Shared,
    Revocation,
    /// A mutex whose contenders of one process share a node.
    LocalQueue,
    /// Candidates of an election, each with a manager of sessions.
    Election,
    /// Additions to one counter.
    Counter,
    /// Members of a group, each with a manager of sessions.
    Registration,
    /// Caches of a tree that other clients change.
    Cache,
    DoubleBarrier,
    Barrier,
    /// Persistent nodes of other kinds than those of a group, each with a manager of sessions.
    KeptNode,
    /// Instances of a service, and caches of the service, each with a manager of sessions.
    Discovery,
}

impl Recipe {
    /// Returns true if each client has a manager of sessions. `is_first` tells whether its slot is the
    /// first of three.
    pub(crate) fn is_managed(self, is_first: bool) -> bool {
        match self {
            Self::Election | Self::Registration | Self::KeptNode | Self::Discovery => true,
            Self::Cache => is_first,
            _ => false,
        }
    }
}
