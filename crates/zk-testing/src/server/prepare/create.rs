//! Validation of create, create2, createContainer and createTTL.

use std::sync::Arc;

use bytes::Bytes;
use proto::{Acl, ErrorCode, OpCode, Perms};

use super::{Preparation, Record};
use crate::server::acl::{self, AskedAcl};
use crate::server::node::NodeKind;
use crate::server::quota;
use crate::server::tree::parent_of;
use crate::server::txn::{CreateTxn, TxnOp};

/// Longest time to live, in milliseconds: 40 bits.
const TTL_MAX_MS: i64 = (1 << 40) - 1;

/// Arguments of a creation.
#[derive(Debug)]
pub(crate) struct CreateArgs<'a> {
    pub(crate) path: Option<&'a str>,
    pub(crate) data: Option<&'a [u8]>,
    pub(crate) acl: Option<&'a [AskedAcl<'a>]>,
    pub(crate) flags: i32,
    pub(crate) kind: CreateKind,
    /// Whether the client receives a Stat.
    pub(crate) wants_stat: bool,
}

/// Kind of node according to the operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CreateKind {
    /// The flags decide, except that the container flags create a plain node.
    Plain,
    /// A container. Of the flags, only the sequential one counts.
    Container,
    Ttl(i64),
}

impl Preparation<'_> {
    pub(crate) fn create(&mut self, args: &CreateArgs<'_>) -> Result<TxnOp, ErrorCode> {
        if self.settings.version.is_keeper_like() {
            return self.create_at_keeper(args);
        }
        let checks_flags_late = !self.settings.version.has_op(OpCode::CreateTtl);
        let flags = if checks_flags_late { None } else { Some(self.node_flags(args)?) };
        let asked_path = args.path.ok_or(ErrorCode::MARSHALLING_ERROR)?;
        if !asked_path.contains('/') || asked_path.contains('\0') {
            return Err(ErrorCode::BAD_ARGUMENTS);
        }
        let acl = acl::resolve(self.settings, self.asked(args.acl)?, self.identities, self.open)?;
        let parent_path = parent_of(asked_path);
        let parent = self.record(parent_path)?;
        self.permit(&parent, Perms::CREATE)?;
        let (is_ephemeral, is_sequential) = match flags {
            Some(flags) => flags,
            None => self.node_flags(args)?,
        };
        let path: Box<str> = if is_sequential {
            [asked_path, &format!("{:010}", parent.creates)].concat().into()
        } else {
            asked_path.into()
        };
        self.validate(Some(&path))?;
        if self.record(&path).is_ok() {
            return Err(ErrorCode::NODE_EXISTS);
        }
        if parent.is_ephemeral {
            return Err(ErrorCode::NO_CHILDREN_FOR_EPHEMERALS);
        }
        if self.settings.enforces_quota() {
            let bytes = args.data.map_or(0, <[u8]>::len);
            quota::check(self.tree, &path, 1, i64::try_from(bytes).unwrap_or(i64::MAX))?;
        }

        let kind = match args.kind {
            CreateKind::Plain if is_ephemeral => NodeKind::Ephemeral(self.session_id),
            CreateKind::Plain => NodeKind::Persistent,
            CreateKind::Container => NodeKind::Container,
            CreateKind::Ttl(ttl_ms) => NodeKind::Ttl(ttl_ms),
        };
        // The flags decide `is_ephemeral` even for a container. Later operations of a multi see this
        // kind and not that of the node that will be created.
        let seen_as = if is_ephemeral { NodeKind::Ephemeral(self.session_id) } else { kind };
        let (parent_creates, path) =
            self.remember_created(parent_path, parent, path, &acl, seen_as);
        let data = args.data.map(Bytes::copy_from_slice);
        let (wants_stat, event_path) = (args.wants_stat, None);
        let txn = CreateTxn { path, data, acl, kind, parent_creates, wants_stat, event_path };
        Ok(TxnOp::Create(txn))
    }

    /// Records a new node and its parent for the later operations of a multi. Returns the number of
    /// children ever created under the parent, and the path.
    pub(super) fn remember_created(
        &mut self,
        parent_path: &str,
        mut parent: Record,
        path: Box<str>,
        acl: &Arc<[Acl]>,
        kind: NodeKind,
    ) -> (i64, Box<str>) {
        parent.creates = self.settings.version.next_sequence(parent.creates);
        parent.children += 1;
        let parent_creates = parent.creates;
        self.remember(parent_path, || Some(parent));
        self.remember(&path, || {
            let is_ephemeral = matches!(kind, NodeKind::Ephemeral(_));
            let acl = Arc::clone(acl);
            Some(Record { acl, version: 0, aversion: 0, creates: 0, children: 0, is_ephemeral })
        });
        (parent_creates, path)
    }

    /// Checks the flags and the time to live. Returns whether the node is ephemeral, and whether it is
    /// sequential.
    fn node_flags(&self, args: &CreateArgs<'_>) -> Result<(bool, bool), ErrorCode> {
        let node_flags = match args.flags {
            4.. if !self.settings.version.has_op(OpCode::CreateTtl) => {
                return Err(ErrorCode::BAD_ARGUMENTS);
            }
            0 | 4 | 5 => (false, false),
            1 => (true, false),
            2 | 6 => (false, true),
            3 => (true, true),
            _ => return Err(ErrorCode::BAD_ARGUMENTS),
        };
        let has_ttl_flags = matches!(args.flags, 5 | 6);
        if has_ttl_flags && !self.settings.extended_types {
            return Err(ErrorCode::UNIMPLEMENTED);
        }
        match args.kind {
            CreateKind::Ttl(ttl_ms) if has_ttl_flags && (1..=TTL_MAX_MS).contains(&ttl_ms) => {}
            // A real server accepts a negative time to live and crashes on it.
            CreateKind::Ttl(_) => return Err(ErrorCode::BAD_ARGUMENTS),
            _ if has_ttl_flags => return Err(ErrorCode::BAD_ARGUMENTS),
            _ => {}
        }
        Ok(node_flags)
    }
}
