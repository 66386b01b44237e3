//! Properties of a lock's nodes.

use std::borrow::Cow;
use std::sync::Arc;

use zk_session::{Acl, OPEN_ACL_UNSAFE, SequenceOrder};

use super::admission::Admission;
use super::foreign::Recipe;

#[derive(Clone, Debug)]
pub(crate) struct Kind {
    /// Parent of the lock's nodes.
    pub(crate) path: String,
    /// Text before the sequence number in the names of these nodes.
    pub(crate) lock_name: Cow<'static, str>,
    /// Order of the queue, if the queue has contenders with other lock names.
    pub(crate) rule: Option<SequenceOrder<'static>>,
    /// The contenders that these nodes wait for.
    pub(crate) admission: Admission,
    /// Data of the nodes; `None` for the client's local address, as in Curator.
    pub(crate) data: Option<Arc<[u8]>>,
    /// ACL of the nodes, and of the missing nodes of the path.
    pub(crate) acl: Option<Arc<[Acl]>>,
    /// The recipe; `None` if nodes of other recipes are accepted in the queue.
    pub(crate) exclusive: Option<Recipe>,
}

impl Kind {
    pub(crate) fn new(
        path: String,
        lock_name: impl Into<Cow<'static, str>>,
        admission: Admission,
    ) -> Self {
        let (data, acl, exclusive) = (None, None, None);
        Self { path, lock_name: lock_name.into(), rule: None, admission, data, acl, exclusive }
    }

    pub(crate) fn rule(&self) -> SequenceOrder<'_> {
        self.rule.unwrap_or_else(|| SequenceOrder::named(&self.lock_name))
    }

    pub(crate) fn acl(&self) -> &[Acl] {
        self.acl.as_deref().unwrap_or(OPEN_ACL_UNSAFE)
    }

    pub(crate) fn set_data(&mut self, data: impl Into<Vec<u8>>) {
        self.data = Some(data.into().into());
    }

    pub(crate) fn set_acl(&mut self, acl: impl Into<Vec<Acl>>) {
        self.acl = Some(acl.into().into());
    }
}
