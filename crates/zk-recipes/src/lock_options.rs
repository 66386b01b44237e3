//! The options that all locks have. Each of them changes the [`QueueSpec`] of the lock.

use crate::queue::spec::QueueSpec;

/// A handle with one queue, or with several.
pub(crate) trait Nodes: Sized {
    /// Changes the nodes of all queues.
    fn edit_all(self, change: impl Fn(&mut QueueSpec)) -> Self;

    /// Changes the nodes with which the lock is held.
    fn edit(self, change: impl Fn(&mut QueueSpec)) -> Self {
        self.edit_all(change)
    }
}

/// Adds the options that all locks have.
macro_rules! lock_options {
    ($lock:ty) => {
        impl $lock {
            /// Sets the data of this handle's nodes, of a semaphore's leases, which other contenders can
            /// read. By default the data identifies the contender, see
            /// [`ContenderInfo`](crate::ContenderInfo); Curator writes the address only. A writer that
            /// becomes a reader keeps its data.
            #[must_use]
            pub fn with_data(self, data: impl Into<Vec<u8>>) -> Self {
                let data: std::sync::Arc<[u8]> = data.into().into();
                crate::lock_options::Nodes::edit(self, |spec| spec.data = Some(data.clone()))
            }
        }

        crate::lock_options::node_options!($lock);
    };
}

/// Adds the options of nodes whose data cannot be chosen.
macro_rules! node_options {
    ($lock:ty) => {
        impl $lock {
            /// Sets the ACL of this handle's nodes and of the missing nodes of the path. The default is
            /// open to everyone, as with Curator.
            ///
            /// Each contender needs permission to read the nodes of the others, to create nodes below
            /// the path, and to delete its own nodes.
            #[must_use]
            pub fn with_acl(self, acl: impl Into<Vec<zk_session::Acl>>) -> Self {
                let acl: std::sync::Arc<[zk_session::Acl]> = acl.into().into();
                crate::lock_options::Nodes::edit_all(self, |spec| spec.acl = Some(acl.clone()))
            }

            /// Counts acquisitions, holds and losses of this handle in `metrics`. Each permit of a
            /// semaphore counts, and its wait begins with the turn of the caller, not with the call.
            #[must_use]
            pub fn with_metrics(self, metrics: &crate::LockMetrics) -> Self {
                crate::lock_options::Nodes::edit(self, |spec| spec.metrics = Some(metrics.clone()))
            }

            /// Accepts a path on which other recipes have nodes; see
            /// [`LockError::ForeignNode`](crate::LockError::ForeignNode).
            ///
            /// A lock of another recipe on the same path is a separate lock. Both can be held at the
            /// same time.
            #[must_use]
            pub fn allow_foreign_nodes(self) -> Self {
                crate::lock_options::Nodes::edit(self, |spec| spec.exclusive = None)
            }
        }
    };
}

pub(crate) use {lock_options, node_options};
