//! Validation of writes as ClickHouse Keeper and RaftKeeper do it.
//!
//! The order of the checks is that of the `preprocess` functions in Keeper's
//! `KeeperStorageImpl.cpp`, and of `checkAuth` and `process` in RaftKeeper's `KeeperStore.cpp`.
//! Neither validates a path. Both read a null text as an empty one.

use bytes::Bytes;
use proto::{ErrorCode, Perms};

use super::{CreateArgs, Preparation, next_version};
use crate::server::acl::{self, AskedAcl};
use crate::server::node::NodeKind;
use crate::server::tree::parent_of;
use crate::server::txn::{CreateTxn, TxnOp};

/// Create flags. All others are ignored.
const EPHEMERAL: i32 = 1;
const SEQUENTIAL: i32 = 2;

impl Preparation<'_> {
    pub(super) fn create_at_keeper(&mut self, args: &CreateArgs<'_>) -> Result<TxnOp, ErrorCode> {
        let asked_path = args.path.unwrap_or_default();
        let parent_path = parent(asked_path)?;
        let parent = self.record(parent_path)?;
        self.permit(&parent, Perms::CREATE)?;
        if parent.is_ephemeral {
            return Err(ErrorCode::NO_CHILDREN_FOR_EPHEMERALS);
        }
        let is_sequential = args.flags & SEQUENTIAL != 0;
        let path: Box<str> = if is_sequential {
            [asked_path, &format!("{:010}", parent.creates)].concat().into()
        } else {
            asked_path.into()
        };
        self.refuse_own_node(&path)?;
        if self.record(&path).is_ok() {
            return Err(ErrorCode::NODE_EXISTS);
        }
        if path.ends_with('/') {
            return Err(ErrorCode::BAD_ARGUMENTS);
        }
        let acl = acl::fixed_up(self.settings, args.acl.unwrap_or_default(), self.identities)?;
        let kind = match args.flags & EPHEMERAL {
            0 => NodeKind::Persistent,
            _ => NodeKind::Ephemeral(self.session_id),
        };
        let (parent_creates, path) = self.remember_created(parent_path, parent, path, &acl, kind);
        let data = Some(args.data.map_or_else(Bytes::new, Bytes::copy_from_slice));
        let wants_stat = args.wants_stat;
        // Both pass the path of the request to their watches.
        let event_path = is_sequential.then(|| asked_path.into());
        let txn = CreateTxn { path, data, acl, kind, parent_creates, wants_stat, event_path };
        Ok(TxnOp::Create(txn))
    }

    pub(super) fn delete_at_keeper(
        &mut self,
        path: Option<&str>,
        version: i32,
    ) -> Result<TxnOp, ErrorCode> {
        let path = path.unwrap_or_default();
        self.refuse_own_node(path)?;
        let parent = self.record(parent(path)?)?;
        self.permit(&parent, Perms::DELETE)?;
        let record = self.record(path)?;
        next_version(version, record.version)?;
        if path == "/" {
            return Err(ErrorCode::NOT_EMPTY);
        }
        self.finish_delete(path, record.children)
    }

    pub(super) fn set_acl_at_keeper(
        &self,
        path: Option<&str>,
        acl: Option<&[AskedAcl<'_>]>,
        expected: i32,
    ) -> Result<TxnOp, ErrorCode> {
        let path = self.target_at_keeper(path)?;
        let record = self.record(path)?;
        self.permit(&record, Perms::ADMIN)?;
        let aversion = next_version(expected, record.aversion)?;
        let acl = acl::fixed_up(self.settings, acl.unwrap_or_default(), self.identities)?;
        Ok(TxnOp::SetAcl { path: path.into(), acl, aversion })
    }

    /// Returns the path of an operation on an existing node. Unlike for ZooKeeper, the empty path is not the
    /// root.
    pub(super) fn target_at_keeper<'p>(&self, path: Option<&'p str>) -> Result<&'p str, ErrorCode> {
        let path = path.unwrap_or_default();
        self.refuse_own_node(path)?;
        if path.is_empty() { Err(ErrorCode::NO_NODE) } else { Ok(path) }
    }

    /// Keeper refuses writes and checks of its own nodes; RaftKeeper has none.
    fn refuse_own_node(&self, path: &str) -> Result<(), ErrorCode> {
        let is_own = path
            .strip_prefix("/keeper")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        if is_own && self.settings.version.is_keeper() {
            return Err(ErrorCode::BAD_ARGUMENTS);
        }
        Ok(())
    }
}

/// Returns the path of the parent. A path without a slash has none.
fn parent(path: &str) -> Result<&str, ErrorCode> {
    if path.contains('/') { Ok(parent_of(path)) } else { Err(ErrorCode::NO_NODE) }
}
