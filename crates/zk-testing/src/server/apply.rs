//! Applying a transaction to the tree of one server.
//!
//! Transactions have been validated, so applying one cannot fail: the same transactions give the
//! same tree on every server.

use std::sync::Arc;

use proto::{Acl, EventType};

use super::node::{Node, NodeKind};
use super::quota;
use super::tree::{Tree, parent_of};
use super::txn::{Applied, CreateTxn, OpResult, Txn, TxnBody, TxnOp};

/// Change that may fire watches.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) event: EventType,
    pub(crate) path: Box<str>,
    /// ACLs of the changed node and of its parent. They decide which connections receive the event.
    pub(crate) acl: Arc<[Acl]>,
    pub(crate) parent_acl: Arc<[Acl]>,
}

impl Tree {
    /// Applies a transaction. Appends the changes to `changes`, if present.
    pub(crate) fn apply(&mut self, txn: &Txn, changes: &mut Option<Vec<Change>>) -> Applied {
        self.last_zxid = txn.zxid;
        match &txn.body {
            TxnBody::CreateSession { .. } => Applied::SessionCreated,
            TxnBody::CloseSession { paths } => {
                for path in paths {
                    self.delete(txn, path, changes);
                }
                self.forget_session(txn.session_id);
                Applied::SessionClosed
            }
            TxnBody::Op(op) => Applied::Op(self.apply_op(txn, op, changes)),
            TxnBody::Multi(ops) => {
                let results = ops.iter().map(|op| self.apply_op(txn, op, changes));
                Applied::Multi(results.collect())
            }
            &TxnBody::FailedMulti { len, at, code } => Applied::FailedMulti { len, at, code },
            TxnBody::Error(code) => Applied::Error(*code),
        }
    }

    fn apply_op(&mut self, txn: &Txn, op: &TxnOp, changes: &mut Option<Vec<Change>>) -> OpResult {
        match op {
            TxnOp::Create(create) => self.create(txn, create, changes),
            TxnOp::Delete { path } => {
                self.delete(txn, path, changes);
                OpResult::Deleted
            }
            TxnOp::SetData { path, data, version } => {
                let before = self.node(path).map_or(0, Node::data_len);
                self.replace_data(path, data.clone());
                let Some(node) = self.node_mut(path) else { return OpResult::Checked };
                node.version = *version;
                node.mzxid = txn.zxid;
                node.mtime_ms = txn.time_ms;
                let (stat, after) = (node.stat(), node.data_len());
                let acl = changes.is_some().then(|| Arc::clone(&node.acl));
                if self.version.counts_child_sets() && **path != *"/" {
                    if let Some(parent) = self.node_mut(parent_of(path)) {
                        parent.child_sets = parent.child_sets.wrapping_add(1);
                    }
                }
                quota::add(self, path, 0, signed(after) - signed(before));
                if let (Some(changes), Some(acl)) = (changes, acl) {
                    let (event, path) = (EventType::NODE_DATA_CHANGED, path.clone());
                    changes.push(Change { event, path, parent_acl: Arc::clone(&acl), acl });
                }
                OpResult::Set(stat)
            }
            TxnOp::SetAcl { path, acl, aversion } => {
                let Some(node) = self.node_mut(path) else { return OpResult::Checked };
                node.acl = Arc::clone(acl);
                node.aversion = *aversion;
                OpResult::Set(node.stat())
            }
            TxnOp::Check => OpResult::Checked,
        }
    }

    fn create(
        &mut self,
        txn: &Txn,
        create: &CreateTxn,
        changes: &mut Option<Vec<Change>>,
    ) -> OpResult {
        let path = &create.path;
        let mut parent_acl = None;
        if let Some(parent) = self.node_mut(parent_of(path)) {
            // The counter never decreases, so it stays at its maximum.
            if create.parent_creates > parent.creates {
                parent.creates = create.parent_creates;
                parent.pzxid = txn.zxid;
            }
            parent_acl = changes.is_some().then(|| Arc::clone(&parent.acl));
        }
        let mut node = Node::initial(Arc::clone(&create.acl));
        node.data.clone_from(&create.data);
        node.kind = create.kind;
        (node.czxid, node.mzxid, node.pzxid) = (txn.zxid, txn.zxid, txn.zxid);
        (node.ctime_ms, node.mtime_ms) = (txn.time_ms, txn.time_ms);
        let stat = create.wants_stat.then(|| node.stat());
        let bytes = signed(node.data_len());
        self.insert(path, node);
        quota::created(self, path, bytes);
        if let (Some(changes), Some(parent_acl)) = (changes, parent_acl) {
            changes.push(Change {
                event: EventType::NODE_CREATED,
                path: create.event_path.as_ref().unwrap_or(path).clone(),
                acl: Arc::clone(&create.acl),
                parent_acl,
            });
        }
        OpResult::Created { path: path.clone(), stat }
    }

    fn delete(&mut self, txn: &Txn, path: &str, changes: &mut Option<Vec<Change>>) {
        let Some(node) = self.remove(path) else { return };
        let mut parent_acl = None;
        let version = self.version;
        if let Some(parent) = self.node_mut(parent_of(path)) {
            if version.deletes_move_pzxid() {
                parent.pzxid = txn.zxid;
            }
            parent_acl = Some(Arc::clone(&parent.acl));
        }
        quota::deleted(self, path, signed(node.data_len()));
        if let (Some(changes), Some(parent_acl)) = (changes, parent_acl) {
            let event = EventType::NODE_DELETED;
            changes.push(Change { event, path: path.into(), acl: node.acl, parent_acl });
        }
    }

    /// Sets the number of children ever created, which the next sequential child gets. Returns
    /// whether the node exists.
    pub(crate) fn set_sequence(&mut self, path: &str, next: i64) -> bool {
        let Some(node) = self.node_mut(path) else { return false };
        node.creates = next;
        true
    }

    /// Sets the version of a node's data. Returns whether the node exists.
    pub(crate) fn set_data_version(&mut self, path: &str, version: i32) -> bool {
        let Some(node) = self.node_mut(path) else { return false };
        node.version = version;
        true
    }

    /// Returns whether the reaper would delete a node now.
    pub(crate) fn is_reapable(node: &Node, now_ms: i64, never_used_max_ms: Option<i64>) -> bool {
        let idle_ms = now_ms.saturating_sub(node.mtime_ms);
        node.children.is_empty()
            && match node.kind {
                NodeKind::Container if node.creates > 0 => true,
                NodeKind::Container => never_used_max_ms.is_some_and(|max_ms| idle_ms > max_ms),
                NodeKind::Ttl(ttl_ms) => idle_ms > ttl_ms,
                NodeKind::Persistent | NodeKind::Ephemeral(_) => false,
            }
    }
}

fn signed(len: usize) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}
