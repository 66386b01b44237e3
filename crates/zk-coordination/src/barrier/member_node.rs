//! An ephemeral node that a member of a double barrier creates and deletes.

use zk_recipes::session::{Client, Error, ErrorKind};

use crate::requests::is_transient;

/// An ephemeral node with a name that is never used again. Dropping it deletes the node.
#[derive(Debug)]
pub(super) struct MemberNode {
    client: Client,
    path: String,
    is_deleted: bool,
}

impl MemberNode {
    /// Prepares a node, which the caller creates.
    pub(super) fn new(client: &Client, path: String) -> Self {
        Self { client: client.clone(), path, is_deleted: false }
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn set_deleted(&mut self) {
        self.is_deleted = true;
    }

    /// Deletes the node, guaranteed. If the reply does not arrive in time, or if too many deletes are
    /// pending, the session deletes the node later, and a list of the members shows it until then. A
    /// rejected delete can be repeated.
    pub(super) async fn delete(&mut self) -> Result<(), Error> {
        if self.is_deleted {
            return Ok(());
        }
        match self.client.delete_guaranteed(&self.path).await {
            Ok(_) => {}
            Err(error) if is_transient(&error) => {}
            Err(error) if matches!(error.kind(), ErrorKind::LimitReached(_)) => {}
            Err(error) => return Err(error),
        }
        self.is_deleted = true;
        Ok(())
    }

    fn delete_in_background(&mut self) {
        if !std::mem::replace(&mut self.is_deleted, true) {
            drop(self.client.delete_guaranteed(&self.path));
        }
    }
}

impl Drop for MemberNode {
    fn drop(&mut self) {
        self.delete_in_background();
    }
}

/// A member that leaves. Dropping it deletes the node in the background.
pub(super) struct Leaving<'a>(pub(super) &'a mut MemberNode);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.delete_in_background();
    }
}
