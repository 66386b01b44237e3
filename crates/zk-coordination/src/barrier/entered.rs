//! Members of a double barrier: their nodes, and the handle of a member that has entered.

use std::time::Duration;

use zk_recipes::session::{Client, Error};

use super::double::DoubleBarrier;
use super::error::BarrierError;
use super::generation::wait_for_end;
use crate::requests::within;

/// A member's node. Dropping it deletes the node.
#[derive(Debug)]
pub(super) struct Member {
    client: Client,
    path: String,
    is_deleted: bool,
}

impl Member {
    /// Prepares the node of a member, which the caller creates.
    pub(super) fn new(client: &Client, path: String) -> Self {
        Self { client: client.clone(), path, is_deleted: false }
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Records that the node does not exist any more.
    pub(super) fn set_deleted(mut self) {
        self.is_deleted = true;
    }

    /// Deletes the node, guaranteed.
    async fn delete(&mut self) -> Result<(), Error> {
        if !self.is_deleted {
            let deleting = self.client.delete_guaranteed(&self.path);
            self.is_deleted = true;
            deleting.await?;
        }
        Ok(())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if !self.is_deleted {
            drop(self.client.delete_guaranteed(&self.path));
        }
    }
}

/// A member that has entered a [`DoubleBarrier`].
///
/// Dropping it leaves the barrier without waiting for the other members, like a member that dies.
#[derive(Debug)]
#[must_use = "a member that is dropped leaves the barrier"]
pub struct Entered {
    barrier: DoubleBarrier,
    member: Member,
    /// The `czxid` of the `ready` of its generation.
    ready: i64,
}

impl Entered {
    pub(super) fn new(barrier: &DoubleBarrier, member: Member, ready: i64) -> Self {
        Self { barrier: barrier.clone(), member, ready }
    }

    /// Returns the path of the member's node.
    #[must_use]
    pub fn node(&self) -> &str {
        self.member.path()
    }

    /// Deletes the member's node, and waits until all members of the generation have left or died.
    ///
    /// The call can be repeated, for example after a timeout. The member has left since the first
    /// call.
    ///
    /// # Errors
    /// Fails if the session ends, or if the server rejects a request.
    ///
    /// # Cancel safety
    /// If the future is dropped, the session still deletes the node. Only the wait ends.
    pub async fn leave(&mut self) -> Result<(), BarrierError> {
        self.member.delete().await?;
        let DoubleBarrier { client, path, .. } = &self.barrier;
        Ok(wait_for_end(client, path, self.ready).await?)
    }

    /// As [`leave`](Self::leave), for at most `timeout`. Returns false after that time: this member
    /// has left, and others have not.
    ///
    /// # Errors
    /// As [`leave`](Self::leave).
    ///
    /// # Cancel safety
    /// As [`leave`](Self::leave).
    pub async fn leave_timeout(&mut self, timeout: Duration) -> Result<bool, BarrierError> {
        let client = self.barrier.client.clone();
        let left = within(&client, timeout, self.leave()).await;
        left.map_or(Ok(false), |left| left.map(|()| true))
    }
}
