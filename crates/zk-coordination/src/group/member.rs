//! The membership of this process.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use tokio::sync::watch;
use zk_recipes::session::path::child;
use zk_recipes::session::{SessionManager, Stat, validate_path};

use super::GroupError;
use crate::{NodeMode, NodeState, PersistentNode, PersistentNodeBuilder, PersistentNodeError};

/// The membership of this process in a group: the writing half of Curator's `GroupMember`.
///
/// # What it promises
/// The promises of a [`PersistentNode`]: the process stays a member over deletions, outages and
/// sessions. If another process is a member with the same id, the state is
/// [`NodeState::Conflict`] until that process has left. Data that another client overwrites is
/// restored. Curator overwrites the data of another process with the same id, and does not
/// restore its own. Curator calls the data the payload.
///
/// # On the wire
/// An ephemeral node `<group>/<id>` with the data, as Curator's. A missing group is created as a container.
///
/// # What it costs
/// As a [`PersistentNode`]: two requests to join, three to leave, and one watch.
///
/// # What happens on loss
/// As with a [`PersistentNode`]. Dropping the handle leaves the group in the background. A program
/// that starts again before its last session has expired names that session with
/// [`join_with`](Self::join_with). Otherwise its own last node is a conflict until then, and the
/// program is missing for a moment afterwards.
///
/// # Example
/// ```no_run
/// # async fn example(
/// #     sessions: zk_coordination::session::SessionManager,
/// # ) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// use zk_coordination::{GroupMember, NodeState};
///
/// let me = GroupMember::join(&sessions, "/services/web", "10.0.0.7", "port=8080")?;
/// if let Err(error) = me.wait_until_present(Duration::from_secs(10)).await {
///     if let NodeState::Conflict { .. } = error.state() {
///         return Err("another process runs with this id".into());
///     }
/// }
/// // ... serve, and stop:
/// me.leave().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping the handle leaves the group"]
pub struct GroupMember {
    id: String,
    node: PersistentNode,
}

impl GroupMember {
    /// Starts to join a group, in the background.
    ///
    /// # Errors
    /// The path of the group or the id is invalid, or the data is larger than a server accepts.
    pub fn join(
        sessions: &SessionManager,
        group: &str,
        id: &str,
        data: impl AsRef<[u8]>,
    ) -> Result<Self, GroupError> {
        Self::join_with(sessions, group, id, data, |node| node)
    }

    /// Starts to join a group with options of the member's node, for example an
    /// [access control list](PersistentNodeBuilder::acl), or the
    /// [session](PersistentNodeBuilder::previous_session) of an earlier run of this program. The mode
    /// and the data of the node cannot be changed.
    ///
    /// The access control list is also that of the missing nodes of the group's path. It must permit this
    /// client to read and write the member's node. The other members need permission to read it.
    ///
    /// ```no_run
    /// # use zk_coordination::session::{SessionId, SessionManager};
    /// # use zk_coordination::{GroupError, GroupMember};
    /// # fn example(sessions: SessionManager, last_run: SessionId) -> Result<(), GroupError> {
    /// let me = GroupMember::join_with(&sessions, "/services/web", "10.0.0.7", "port=8080", |node| {
    ///     node.previous_session(last_run)
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`join`](Self::join).
    pub fn join_with(
        sessions: &SessionManager,
        group: &str,
        id: &str,
        data: impl AsRef<[u8]>,
        options: impl for<'a> FnOnce(PersistentNodeBuilder<'a>) -> PersistentNodeBuilder<'a>,
    ) -> Result<Self, GroupError> {
        validate_path(group)?;
        let path = child(group, id);
        if id.is_empty() || id.contains('/') {
            return Err(GroupError::InvalidId { id: id.to_owned() });
        }
        let node = options(PersistentNode::builder(sessions, &path).keep_data());
        let node = node.mode(NodeMode::Ephemeral).data(data).start()?;
        Ok(Self { id: id.to_owned(), node })
    }

    /// Returns the id of the member.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the present state of the membership.
    #[must_use]
    pub fn state(&self) -> NodeState {
        self.node.state()
    }

    /// Subscribes to the states of the membership; see [`PersistentNode::subscribe`].
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<NodeState> {
        self.node.subscribe()
    }

    /// Waits until the process is a member; see [`PersistentNode::wait_until_present`].
    ///
    /// # Errors
    /// Returns the errors of [`PersistentNode::wait_until_present`].
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub fn wait_until_present(
        &self,
        timeout: Duration,
    ) -> impl Future<Output = Result<Stat, PersistentNodeError>> + Send + use<> {
        self.node.wait_until_present(timeout)
    }

    /// Replaces the data of the member; see [`PersistentNode::set_data`].
    ///
    /// # Errors
    /// Returns the errors of [`PersistentNode::set_data`].
    ///
    /// # Cancel safety
    /// The call stores the data. Dropping the future only ends the wait.
    pub fn set_data<D: AsRef<[u8]>>(
        &self,
        data: D,
    ) -> impl Future<Output = Result<(), PersistentNodeError>> + Send + use<D> {
        self.node.set_data(data)
    }

    /// Leaves the group, and waits until a server has confirmed it; see [`PersistentNode::close`].
    ///
    /// # Errors
    /// Returns the errors of [`PersistentNode::close`].
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the deletion.
    pub async fn leave(self) -> Result<(), PersistentNodeError> {
        self.node.close().await
    }
}

impl fmt::Debug for GroupMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupMember")
            .field("id", &self.id)
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}
