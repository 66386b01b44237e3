//! What a lock's nodes are like.

use std::borrow::Cow;
use std::sync::Arc;

use zk_session::{Acl, KeyRule, OPEN_ACL};

use super::admission::Admission;
use super::foreign::Recipe;

#[derive(Clone, Debug)]
pub(crate) struct Kind {
    /// The node the queue lives in.
    pub(crate) path: String,
    /// What stands before the sequence number in the names of these nodes.
    pub(crate) lock_name: Cow<'static, str>,
    /// How they and their like are ordered, if there are others than by this name.
    pub(crate) rule: Option<KeyRule<'static>>,
    /// Whom they wait for.
    pub(crate) admission: Admission,
    /// The nodes' data; this end's address if `None`, as Curator has it.
    pub(crate) data: Option<Arc<[u8]>>,
    /// Who may do what with them, and with what is missing of the path.
    pub(crate) acl: Option<Arc<[Acl]>>,
    /// The recipe, if the nodes of others in its queue are refused.
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

    pub(crate) fn rule(&self) -> KeyRule<'_> {
        self.rule.unwrap_or_else(|| KeyRule::named(&self.lock_name))
    }

    pub(crate) fn acl(&self) -> &[Acl] {
        self.acl.as_deref().unwrap_or(OPEN_ACL)
    }

    pub(crate) fn set_data(&mut self, data: impl Into<Vec<u8>>) {
        self.data = Some(data.into().into());
    }

    pub(crate) fn set_acl(&mut self, acl: impl Into<Vec<Acl>>) {
        self.acl = Some(acl.into().into());
    }
}
