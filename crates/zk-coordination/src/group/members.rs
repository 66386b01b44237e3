//! A list of members.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use zk_recipes::session::{Error, NodeData, SessionId, Zxid};

/// The members of a group at one time. Clones share the list.
#[derive(Clone, Debug, Default)]
pub struct Members {
    list: Arc<BTreeMap<String, Member>>,
    unreadable: Arc<BTreeSet<String>>,
    error: Option<Error>,
    /// The group was read at least once.
    is_read: bool,
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

    /// Returns the sorted names of the children that this client may not read: the server rejects the
    /// read with `NoAuth`. They are no members. Each is read again after
    /// [`CHECK_PAUSE`](crate::limits::CHECK_PAUSE), because no event reports a change of its access
    /// control list.
    pub fn unreadable(&self) -> impl Iterator<Item = &str> {
        self.unreadable.iter().map(|name| &**name)
    }

    /// Returns the reason why the list may be out of date: a request failed, and is repeated after a
    /// pause. Returns `None` after the next update that reads the list and all payloads.
    #[must_use]
    pub fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    /// Returns true if the group was read at least once.
    pub(super) fn is_read(&self) -> bool {
        self.is_read
    }

    /// Replaces the list. Returns true if it differs.
    pub(super) fn replace(
        &mut self,
        list: &BTreeMap<String, Member>,
        unreadable: &BTreeSet<String>,
    ) -> bool {
        let is_same = *self.list == *list && *self.unreadable == *unreadable;
        let is_new = !self.is_read || !is_same || self.error.is_some();
        if is_new {
            let (list, unreadable) = (Arc::new(list.clone()), Arc::new(unreadable.clone()));
            *self = Self { list, unreadable, error: None, is_read: true };
        }
        is_new
    }

    /// Sets the reason why the list may be out of date. Returns true if it differs.
    pub(super) fn fail(&mut self, error: Error) -> bool {
        let is_new = self.error.as_ref() != Some(&error);
        self.error = Some(error);
        is_new
    }
}

impl Member {
    /// Returns `None` for a node that is not ephemeral.
    pub(super) fn of(node: NodeData) -> Option<Self> {
        let stat = node.stat;
        let data = node.data;
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
