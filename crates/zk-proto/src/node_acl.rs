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

use bytes::BufMut;

use crate::{
    acl::Acl,
    record::{JavaText, forms, record, request},
    request::OpCode,
    stat::Stat,
    wire::{
        Decode,
        writer::{self, INT_LEN},
    },
};

record! {
    /// Request to read a node's ACL and Stat.
    ///
    /// It needs the permission READ or ADMIN. A server rejects it with [`NO_NODE`](crate::ErrorCode::NO_NODE)
    /// or [`NO_AUTH`](crate::ErrorCode::NO_AUTH).
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct GetAcl<'a> as "GetACLRequest" {
        /// The path.
        pub path: Cow<'a, str>,
    }
}

request!(GetAcl<'_>: OpCode::GetAcl -> AclReply, path);

record! {
    /// ACL and Stat of a node.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct AclReply as "GetACLResponse" {
        /// The ACL. Without the permission ADMIN, a client gets `x` instead of the hash of a digest.
        pub acl: Vec<Acl> as "acl" by JavaText,
        /// The node's Stat.
        pub stat: Stat,
    }
}

forms! { JavaText:
    Vec<Acl> =>
        |acl| {
            let entries = acl.iter().map(|entry| {
                INT_LEN + writer::java_text_len(&entry.scheme) + writer::java_text_len(&entry.id)
            });
            INT_LEN + entries.sum::<usize>()
        },
        |acl, out| {
            out.put_i32(writer::wire_len(acl.len()));
            for entry in acl {
                out.put_i32(entry.perms.0);
                writer::put_java_text(out, &entry.scheme);
                writer::put_java_text(out, &entry.id);
            }
        },
        |r, field| r.vector(field, Acl::LEN_MIN, Acl::decode);
}

record! {
    /// Request to replace a node's ACL and return its new Stat. No watch fires.
    ///
    /// A server rejects it with [`BAD_ARGUMENTS`](crate::ErrorCode::BAD_ARGUMENTS) (the path),
    /// [`INVALID_ACL`](crate::ErrorCode::INVALID_ACL), [`NO_NODE`](crate::ErrorCode::NO_NODE),
    /// [`NO_AUTH`](crate::ErrorCode::NO_AUTH) or [`BAD_VERSION`](crate::ErrorCode::BAD_VERSION).
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct SetAcl<'a> as "SetACLRequest" {
        /// The path.
        pub path: Cow<'a, str>,
        /// The new ACL; a server rejects an empty one.
        pub acl: Cow<'a, [Acl]>,
        /// The version that the current ACL must have ([`Stat::aversion`]); -1 for any version.
        pub aversion: i32 as "version",
    }
}

request!(SetAcl<'_>: OpCode::SetAcl -> Stat, path);
