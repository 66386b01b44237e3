//! One node of the data tree.

use std::sync::Arc;

use bytes::Bytes;
use proto::{Acl, Stat};

use super::java_hash::JavaSet;

/// What ends a node's life besides a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// Nothing.
    Persistent,
    /// The end of the session with this id.
    Ephemeral(i64),
    /// The reaper, some time after the last child went.
    Container,
    /// The reaper, once the node has had no children and no new data for this many milliseconds.
    Ttl(i64),
}

/// A node: data, Stat, ACL, children.
#[derive(Clone, Debug)]
pub struct Node {
    pub(crate) data: Option<Bytes>,
    pub(crate) acl: Arc<[Acl]>,
    pub(crate) kind: NodeKind,
    pub(crate) czxid: i64,
    pub(crate) mzxid: i64,
    pub(crate) pzxid: i64,
    pub(crate) ctime_ms: i64,
    pub(crate) mtime_ms: i64,
    pub(crate) version: i32,
    pub(crate) aversion: i32,
    /// How many children were ever created: the next sequence number.
    pub(crate) creates: i32,
    pub(crate) children: JavaSet,
}

impl Node {
    /// One of the nodes that are there from the start: every field of the Stat is 0.
    pub(crate) fn initial(acl: Arc<[Acl]>) -> Self {
        Self {
            data: Some(Bytes::new()),
            acl,
            kind: NodeKind::Persistent,
            czxid: 0,
            mzxid: 0,
            pzxid: 0,
            ctime_ms: 0,
            mtime_ms: 0,
            version: 0,
            aversion: 0,
            creates: 0,
            children: JavaSet::of_children(),
        }
    }

    /// The data; `None` is null, which is not the same as empty.
    #[must_use]
    pub fn data(&self) -> Option<&[u8]> {
        self.data.as_deref()
    }

    /// The Stat, as a client would get it.
    #[must_use]
    pub fn stat(&self) -> Stat {
        let num_children = count(self.children.len());
        Stat {
            czxid: self.czxid,
            mzxid: self.mzxid,
            ctime_ms: self.ctime_ms,
            mtime_ms: self.mtime_ms,
            version: self.version,
            // What is stored is the number of creations; deletions are told by the difference.
            cversion: self.creates.wrapping_mul(2).wrapping_sub(num_children),
            aversion: self.aversion,
            ephemeral_owner: self.ephemeral_owner(),
            data_length: count(self.data_len()),
            num_children,
            pzxid: self.pzxid,
        }
    }

    /// The access control list.
    #[must_use]
    pub fn acl(&self) -> &[Acl] {
        &self.acl
    }

    /// What ends its life.
    #[must_use]
    pub fn kind(&self) -> NodeKind {
        self.kind
    }

    /// The names of its children, in the order in which a server lists them.
    pub fn children(&self) -> impl Iterator<Item = &str> {
        self.children.iter()
    }

    /// The number the next sequential child gets.
    #[must_use]
    pub fn next_sequence(&self) -> i32 {
        self.creates
    }

    /// The session it ends with; 0 if with none.
    pub(crate) fn ephemeral_owner(&self) -> i64 {
        match self.kind {
            NodeKind::Ephemeral(session_id) => session_id,
            _ => 0,
        }
    }

    pub(crate) fn data_len(&self) -> usize {
        self.data.as_ref().map_or(0, Bytes::len)
    }
}

/// A length as a Stat writes it. Nothing here comes near 2^31.
fn count(len: usize) -> i32 {
    i32::try_from(len).unwrap_or(i32::MAX)
}
