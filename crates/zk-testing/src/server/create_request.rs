//! The requests that create nodes, as liberally as a server reads them: with null paths and any
//! flags, which are refused later, in their turn.

use std::borrow::Cow;

use proto::wire::Reader;
use proto::{DecodeError, OpCode};

use super::acl::AskedAcl;
use super::prepare::{CreateArgs, CreateKind};

/// The flags of a container.
pub(super) const CONTAINER_FLAGS: i32 = 4;

/// create, create2, createContainer or createTTL.
#[derive(Debug)]
pub(super) struct CreateBody<'a> {
    pub(super) path: Option<Cow<'a, str>>,
    data: Option<&'a [u8]>,
    /// A null one counts as empty, but not everywhere.
    pub(super) acl: Option<Vec<AskedAcl<'a>>>,
    pub(super) flags: i32,
    /// createTTL alone has one.
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

    /// On its own: the operation decides what kind of node it is.
    pub(super) fn alone(&self, op: OpCode) -> CreateArgs<'_> {
        match (op, self.ttl_ms) {
            (OpCode::CreateContainer, _) => self.of(CreateKind::Container, true),
            (_, Some(ttl_ms)) => self.of(CreateKind::Ttl(ttl_ms), true),
            _ => self.of(CreateKind::Plain, op != OpCode::Create),
        }
    }

    /// As part of a multi, where the flags have a say. `None` is a request that the server takes
    /// apart wrongly, and fails over.
    pub(super) fn in_multi(&self, op: OpCode, keeps_op: bool) -> Option<CreateArgs<'_>> {
        Some(match (self.flags, self.ttl_ms) {
            (5 | 6, Some(ttl_ms)) => self.of(CreateKind::Ttl(ttl_ms), true),
            (5 | 6, None) => return None,
            (CONTAINER_FLAGS, _) => self.of(CreateKind::Container, true),
            (_, None) if keeps_op => self.alone(op),
            _ => self.of(CreateKind::Plain, false),
        })
    }

    fn of(&self, kind: CreateKind, wants_stat: bool) -> CreateArgs<'_> {
        CreateArgs {
            path: self.path.as_deref(),
            data: self.data,
            acl: self.acl.as_deref().unwrap_or_default(),
            flags: self.flags,
            kind,
            wants_stat,
        }
    }
}
