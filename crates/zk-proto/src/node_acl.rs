//! Requests that read and replace a node's ACL.
//!
//! ```text
//! GetACLRequest   path: ustring
//! GetACLResponse  acl: vector<ACL>, stat: Stat
//! SetACLRequest   path: ustring, acl: vector<ACL>, version: int
//! SetACLResponse  stat: Stat
//! ```
//!
//! ```
//! use zk_proto::{Acl, OpCode, Perms, Request, SetAcl};
//!
//! let acl = [Acl::world(Perms::READ), Acl::auth(Perms::ALL)];
//! let request = SetAcl { path: "/a".into(), acl: acl[..].into(), aversion: -1 };
//! assert_eq!(request.path(), Some("/a"));
//! assert_eq!(SetAcl::OP, OpCode::SetAcl);
//! ```

use std::borrow::Cow;

use bytes::{BufMut, BytesMut};

use crate::{
    acl::Acl,
    request::{OpCode, Request},
    stat::Stat,
    wire::{
        Decode, DecodeError, Encode, Reader,
        writer::{self, INT_LEN},
    },
};

/// Request to read a node's ACL and Stat.
///
/// It needs the permission READ or ADMIN. A server rejects it with [`NO_NODE`](crate::ErrorCode::NO_NODE) or
/// [`NO_AUTH`](crate::ErrorCode::NO_AUTH).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GetAcl<'a> {
    /// The path.
    pub path: Cow<'a, str>,
}

impl Encode for GetAcl<'_> {
    fn encoded_len(&self) -> usize {
        writer::text_len(&self.path)
    }

    fn encode(&self, out: &mut BytesMut) {
        writer::put_text(out, &self.path);
    }
}

impl<'a> Decode<'a> for GetAcl<'a> {
    const RECORD: &'static str = "GetACLRequest";

    fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { path: r.text("path")? })
    }
}

impl Request for GetAcl<'_> {
    const OP: OpCode = OpCode::GetAcl;
    type Reply = AclReply;

    fn path(&self) -> Option<&str> {
        Some(&self.path)
    }
}

/// ACL and Stat of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AclReply {
    /// The ACL. Without the permission ADMIN, a client gets `x` instead of the hash of a digest.
    pub acl: Vec<Acl>,
    /// The node's Stat.
    pub stat: Stat,
}

impl Encode for AclReply {
    fn encoded_len(&self) -> usize {
        let entries = self.acl.iter().map(|entry| {
            INT_LEN + writer::java_text_len(&entry.scheme) + writer::java_text_len(&entry.id)
        });
        INT_LEN + entries.sum::<usize>() + Stat::LEN
    }

    fn encode(&self, out: &mut BytesMut) {
        out.put_i32(writer::wire_len(self.acl.len()));
        for entry in &self.acl {
            out.put_i32(entry.perms.0);
            writer::put_java_text(out, &entry.scheme);
            writer::put_java_text(out, &entry.id);
        }
        self.stat.encode(out);
    }
}

impl<'a> Decode<'a> for AclReply {
    const RECORD: &'static str = "GetACLResponse";

    fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { acl: r.vector("acl", Acl::LEN_MIN, Acl::decode)?, stat: Stat::decode(r)? })
    }
}

/// Request to replace a node's ACL and return its new Stat. No watch fires.
///
/// A server rejects it with [`BAD_ARGUMENTS`](crate::ErrorCode::BAD_ARGUMENTS) (the path),
/// [`INVALID_ACL`](crate::ErrorCode::INVALID_ACL), [`NO_NODE`](crate::ErrorCode::NO_NODE),
/// [`NO_AUTH`](crate::ErrorCode::NO_AUTH) or [`BAD_VERSION`](crate::ErrorCode::BAD_VERSION).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetAcl<'a> {
    /// The path.
    pub path: Cow<'a, str>,
    /// The new ACL; a server rejects an empty one.
    pub acl: Cow<'a, [Acl]>,
    /// The version that the current ACL must have ([`Stat::aversion`]); -1 for any version.
    pub aversion: i32,
}

impl Encode for SetAcl<'_> {
    fn encoded_len(&self) -> usize {
        writer::text_len(&self.path) + writer::vector_len(&self.acl) + INT_LEN
    }

    fn encode(&self, out: &mut BytesMut) {
        writer::put_text(out, &self.path);
        writer::put_vector(out, &self.acl);
        out.put_i32(self.aversion);
    }
}

impl<'a> Decode<'a> for SetAcl<'a> {
    const RECORD: &'static str = "SetACLRequest";

    fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            path: r.text("path")?,
            acl: r.vector("acl", Acl::LEN_MIN, Acl::decode)?.into(),
            aversion: r.i32("version")?,
        })
    }
}

impl Request for SetAcl<'_> {
    const OP: OpCode = OpCode::SetAcl;
    type Reply = Stat;

    fn path(&self) -> Option<&str> {
        Some(&self.path)
    }
}
