//! Decoding of the requests that create nodes, as permissive as a server's. It accepts null paths
//! and any flags; later checks refuse them in their order.

use std::borrow::Cow;

use proto::Reader;
use proto::{DecodeError, OpCode};

use super::acl::AskedAcl;
use super::prepare::{CreateArgs, CreateKind};
use super::version::Version;

/// Create flags of a container.
pub(super) const CONTAINER_FLAGS: i32 = 4;

/// Body of create, create2, createContainer or createTTL.
#[derive(Debug)]
pub(super) struct CreateBody<'a> {
    pub(super) path: Option<Cow<'a, str>>,
    data: Option<&'a [u8]>,
    /// ACL of the node. Most operations treat null as empty.
    pub(super) acl: Option<Vec<AskedAcl<'a>>>,
    pub(super) flags: i32,
    /// Time to live; only createTTL has one.
    ttl_ms: Option<i64>,
}

impl<'a> CreateBody<'a> {
    pub(super) fn decode(r: &mut Reader<'a>, op: OpCode) -> Result<Self, DecodeError> {
        Ok(Self {
            path: r.opt_text("path")?,
            data: r.slice("data")?,
            acl: AskedAcl::opt_list(r)?,
            flags: r.i32("flags")?,
            ttl_ms: if op == OpCode::CreateTtl { Some(r.i64("ttl")?) } else { None },
        })
    }

    /// Returns the arguments of a single request. The operation decides the kind of node.
    pub(super) fn alone(&self, op: OpCode) -> CreateArgs<'_> {
        match (op, self.ttl_ms) {
            (OpCode::CreateContainer, _) => self.of(CreateKind::Container, true),
            (_, Some(ttl_ms)) => self.of(CreateKind::Ttl(ttl_ms), true),
            _ => self.of(CreateKind::Plain, op != OpCode::Create),
        }
    }

    /// Returns the arguments as part of a multi, where the flags also decide the kind of node.
    /// Returns `None` if the server reads the request with the wrong layout and fails.
    pub(super) fn in_multi(&self, op: OpCode, version: Version) -> Option<CreateArgs<'_>> {
        if !version.has_op(OpCode::CreateTtl) {
            return Some(self.alone(op));
        }
        Some(match (self.flags, self.ttl_ms) {
            (5 | 6, Some(ttl_ms)) => self.of(CreateKind::Ttl(ttl_ms), true),
            (5 | 6, None) => return None,
            (CONTAINER_FLAGS, _) => self.of(CreateKind::Container, true),
            (_, None) if version.multi_keeps_create_ops() => self.alone(op),
            _ => self.of(CreateKind::Plain, false),
        })
    }

    fn of(&self, kind: CreateKind, wants_stat: bool) -> CreateArgs<'_> {
        CreateArgs {
            path: self.path.as_deref(),
            data: self.data,
            acl: self.acl.as_deref(),
            flags: self.flags,
            kind,
            wants_stat,
        }
    }
}
