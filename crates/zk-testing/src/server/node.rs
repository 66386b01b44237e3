//! Node of the data tree.

use std::sync::Arc;

use bytes::Bytes;
use proto::{Acl, SessionId, Stat, Zxid};

use super::java_hash::JavaSet;

/// Kind of a node: the event, besides a delete, that removes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeKind {
    /// Only a delete removes the node.
    Persistent,
    /// The end of the session with this id removes the node.
    Ephemeral(SessionId),
    /// The reaper removes the node some time after its last child was deleted.
    Container,
    /// The reaper removes the node after this many milliseconds without children and without new
    /// data.
    Ttl(i64),
}

/// Node: data, Stat, ACL, children.
#[derive(Clone, Debug)]
pub struct Node {
    pub(crate) data: Option<Bytes>,
    pub(crate) acl: Arc<[Acl]>,
    pub(crate) kind: NodeKind,
    pub(crate) czxid: Zxid,
    pub(crate) mzxid: Zxid,
    pub(crate) pzxid: Zxid,
    pub(crate) ctime_ms: i64,
    pub(crate) mtime_ms: i64,
    pub(crate) version: i32,
    pub(crate) aversion: i32,
    /// Number of children ever created, which is the next sequence number.
    pub(crate) creates: i64,
    /// Number of changes of children's data that a server counts in the cversion.
    pub(crate) child_sets: i32,
    pub(crate) children: JavaSet,
}

impl Node {
    /// Creates a node that exists from the start: every field of its Stat is 0.
    pub(crate) fn initial(acl: Arc<[Acl]>) -> Self {
        Self {
            data: Some(Bytes::new()),
            acl,
            kind: NodeKind::Persistent,
            czxid: Zxid::ZERO,
            mzxid: Zxid::ZERO,
            pzxid: Zxid::ZERO,
            ctime_ms: 0,
            mtime_ms: 0,
            version: 0,
            aversion: 0,
            creates: 0,
            child_sets: 0,
            children: JavaSet::of_children(),
        }
    }

    /// Returns the data. `None` is null, which differs from empty data.
    #[must_use]
    pub fn data(&self) -> Option<&[u8]> {
        self.data.as_deref()
    }

    /// Returns the Stat, as a client would receive it.
    #[must_use]
    pub fn stat(&self) -> Stat {
        let num_children = count(self.children.len());
        Stat {
            czxid: self.czxid,
            mzxid: self.mzxid,
            ctime_ms: self.ctime_ms,
            mtime_ms: self.mtime_ms,
            version: self.version,
            // The node stores the number of creations. The difference to the current children is
            // the number of deletions.
            cversion: low_int(self.creates)
                .wrapping_mul(2)
                .wrapping_sub(num_children)
                .wrapping_add(self.child_sets),
            aversion: self.aversion,
            ephemeral_owner: self.ephemeral_owner(),
            data_length: count(self.data_len()),
            num_children,
            pzxid: self.pzxid,
        }
    }

    /// Returns the access control list.
    #[must_use]
    pub fn acl(&self) -> &[Acl] {
        &self.acl
    }

    /// Returns the kind of the node.
    #[must_use]
    pub fn kind(&self) -> NodeKind {
        self.kind
    }

    /// Returns the names of the children, in the order in which a server lists them.
    pub fn children(&self) -> impl Iterator<Item = &str> {
        self.children.iter()
    }

    /// Returns the number of the next sequential child.
    #[must_use]
    pub fn next_sequence(&self) -> i64 {
        self.creates
    }

    /// Returns the session that owns the node, or 0 if the node is not ephemeral.
    pub(crate) fn ephemeral_owner(&self) -> SessionId {
        match self.kind {
            NodeKind::Ephemeral(session_id) => session_id,
            _ => SessionId::NONE,
        }
    }

    pub(crate) fn data_len(&self) -> usize {
        self.data.as_ref().map_or(0, Bytes::len)
    }
}

/// Returns the low half of a long, as Java's conversion to an int does.
fn low_int(long: i64) -> i32 {
    let [.., a, b, c, d] = long.to_be_bytes();
    i32::from_be_bytes([a, b, c, d])
}

/// Returns a length as the int of a Stat. All lengths here are far below 2^31.
fn count(len: usize) -> i32 {
    i32::try_from(len).unwrap_or(i32::MAX)
}
