//! A list of members.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use zk_recipes::session::{Error, NodeData, SessionId, Zxid};

/// The members of a group at one time. Clones share the list.
#[derive(Clone, Debug, Default)]
pub struct Members {
    list: Arc<BTreeMap<String, Member>>,
    error: Option<Error>,
    is_published: bool,
}

/// One member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    data: Bytes,
    session_id: SessionId,
    czxid: Zxid,
}

impl Members {
    /// Returns the member with this id.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&Member> {
        self.list.get(id)
    }

    /// Returns all members with their ids, sorted by id.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Member)> {
        self.list.iter().map(|(id, member)| (&**id, member))
    }

    /// Returns the sorted ids of all members.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.list.keys().map(|id| &**id)
    }

    /// Returns the number of members.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns true if there is no member.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the reason why the list may be out of date, or incomplete: a request for it was
    /// rejected. Returns `None` after the next successful request.
    #[must_use]
    pub fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    pub(super) fn is_published(&self) -> bool {
        self.is_published
    }

    /// Replaces the list. Returns true if it differs.
    pub(super) fn replace(
        &mut self,
        list: &BTreeMap<String, Member>,
        error: Option<Error>,
    ) -> bool {
        let is_new = !self.is_published || *self.list != *list || self.error != error;
        if is_new {
            *self = Self { list: Arc::new(list.clone()), error, is_published: true };
        }
        is_new
    }

    /// Sets the reason why the list may be out of date. Returns true if it differs.
    pub(super) fn fail(&mut self, error: Error) -> bool {
        let is_new = self.error.as_ref() != Some(&error);
        (self.error, self.is_published) = (Some(error), true);
        is_new
    }
}

impl Member {
    /// Returns `None` for a node that is not ephemeral.
    pub(super) fn of(node: NodeData) -> Option<Self> {
        let stat = node.stat;
        let data = node.data.unwrap_or_default();
        let member = Self { data, session_id: stat.ephemeral_owner, czxid: stat.czxid };
        stat.is_ephemeral().then_some(member)
    }

    /// Returns the data of the member's node: its payload.
    #[must_use]
    pub fn data(&self) -> &Bytes {
        &self.data
    }

    /// Returns the session of the member.
    #[must_use]
    pub fn session_id(&self) -> SessionId {
        self.session_id
    }

    /// Returns the number of the transaction with which the member joined. It grows with each
    /// member that joins, so the oldest member has the smallest one.
    #[must_use]
    pub fn czxid(&self) -> Zxid {
        self.czxid
    }
}
