//! Access control list of the nodes that a handle creates.

use std::sync::Arc;

use zk_recipes::session::{Acl, OPEN_ACL_UNSAFE};

/// Access control list of the nodes that a handle creates; open to everyone by default, as with
/// Curator.
#[derive(Clone, Debug, Default)]
pub(crate) struct CreateAcl(Option<Arc<[Acl]>>);

impl CreateAcl {
    pub(crate) fn new(acl: impl Into<Vec<Acl>>) -> Self {
        Self(Some(acl.into().into()))
    }

    pub(crate) fn entries(&self) -> &[Acl] {
        self.0.as_deref().unwrap_or(OPEN_ACL_UNSAFE)
    }
}
