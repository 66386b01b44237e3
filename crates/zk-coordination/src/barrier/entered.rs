//! A member that has entered a double barrier.

use std::time::Duration;

use zk_recipes::session::Zxid;
use zk_recipes::session::path::file_name;

use super::double::DoubleBarrier;
use super::error::BarrierError;
use super::generation::{first_remaining, wait_for_end, wait_for_others};
use super::member_node::{Leaving, MemberNode};
use crate::requests::{one_attempt, within};

/// A member that has entered a [`DoubleBarrier`].
///
/// Dropping it leaves the barrier without waiting for the other members, like a member that dies.
#[derive(Debug)]
#[must_use = "a member that is dropped leaves the barrier"]
pub struct Entered {
    barrier: DoubleBarrier,
    member: MemberNode,
    /// The `czxid` of the `ready` of its generation.
    ready: Zxid,
}

impl Entered {
    pub(super) fn new(barrier: &DoubleBarrier, member: MemberNode, ready: Zxid) -> Self {
        Self { barrier: barrier.clone(), member, ready }
    }

    /// Returns the path of the member's node.
    #[must_use]
    pub fn node(&self) -> &str {
        self.member.path()
    }

    /// Deletes the member's node, and waits until all members of the generation have left or died.
    ///
    /// The member whose node is first by name waits for the others before it deletes the node. Curator's
    /// members leave when one node is left, and expect that it is the first one's.
    ///
    /// The call can be repeated, for example after a timeout. Once the first call has ended, the session
    /// deletes the node, over reconnects. The call returns when the node is gone, too.
    ///
    /// # Errors
    /// Fails if the session ends, or if the server rejects a request.
    ///
    /// # Cancel safety
    /// If the future is dropped, the session still deletes the node. Only the wait ends.
    pub async fn leave(&mut self) -> Result<(), BarrierError> {
        let leaving = Leaving(&mut self.member);
        wait_for_others(&self.barrier, self.ready, file_name(leaving.0.path())).await?;
        leaving.0.delete().await?;
        Ok(wait_for_end(&self.barrier, self.ready).await?)
    }

    /// As [`leave`](Self::leave), for at most `timeout`. Returns false after that time: others have
    /// not left, or no server has confirmed yet that this member has. A timeout of zero waits for the
    /// replies of a server that answers, and neither for other members nor for a connection.
    ///
    /// # Errors
    /// As [`leave`](Self::leave).
    ///
    /// # Cancel safety
    /// As [`leave`](Self::leave).
    pub async fn leave_timeout(&mut self, timeout: Duration) -> Result<bool, BarrierError> {
        let client = self.barrier.client.clone();
        if timeout.is_zero() {
            return one_attempt(&client, self.leave_at_once()).await.unwrap_or(Ok(false));
        }
        let left = within(&client, timeout, self.leave()).await;
        left.map_or(Ok(false), |left| left.map(|()| true))
    }

    /// Deletes the member's node. Returns true if all members of the generation have left.
    async fn leave_at_once(&mut self) -> Result<bool, BarrierError> {
        self.member.delete().await?;
        Ok(first_remaining(&self.barrier, self.ready).await?.is_none())
    }
}
