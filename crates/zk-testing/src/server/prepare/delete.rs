//! Validation of delete and of the reaper's deleteContainer.

use proto::{ErrorCode, Perms};

use super::{Preparation, next_version};
use crate::server::tree::{OWN_NODES, parent_of};
use crate::server::txn::TxnOp;

impl Preparation<'_> {
    pub(crate) fn delete(&mut self, path: Option<&str>, version: i32) -> Result<TxnOp, ErrorCode> {
        if self.settings.version.is_keeper_like() {
            return self.delete_at_keeper(path, version);
        }
        // The server does not check for null before it uses the path.
        let path = path.ok_or(ErrorCode::MARSHALLING_ERROR)?;
        check_deletable(path)?;
        let parent = self.record(parent_of(path))?;
        if self.settings.version.finds_node_before_permission() {
            self.record(path)?;
        }
        self.permit(&parent, Perms::DELETE)?;
        let record = self.record(path)?;
        next_version(version, record.version)?;
        self.finish_delete(path, record.children)
    }

    /// Validates the reaper's request, which needs no permission.
    pub(crate) fn delete_container(&mut self, path: &str) -> Result<TxnOp, ErrorCode> {
        check_deletable(path)?;
        self.record(parent_of(path))?;
        let record = self.record(path)?;
        if record.is_ephemeral {
            return Err(ErrorCode::BAD_VERSION);
        }
        self.finish_delete(path, record.children)
    }

    pub(super) fn finish_delete(
        &mut self,
        path: &str,
        children: usize,
    ) -> Result<TxnOp, ErrorCode> {
        if children > 0 {
            return Err(ErrorCode::NOT_EMPTY);
        }
        let parent_path = parent_of(path);
        let mut parent = self.record(parent_path)?;
        parent.children = parent.children.saturating_sub(1);
        self.remember(parent_path, || Some(parent));
        self.remember(path, || None);
        Ok(TxnOp::Delete { path: path.into() })
    }
}

fn check_deletable(path: &str) -> Result<(), ErrorCode> {
    if !path.contains('/') || path.contains('\0') || path == "/" || OWN_NODES.contains(&path) {
        return Err(ErrorCode::BAD_ARGUMENTS);
    }
    Ok(())
}
