//! A node that is created again whenever it is lost: Curator's `PersistentNode`.

mod builder;
mod node_watch;
mod own_node;
mod published;
mod state;
mod task;
mod timers;

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use futures::future::select;
use tokio::sync::watch;
use zk_recipes::session::{Client, Error, SessionManager, Stat};

use self::builder::Options;
use self::published::Progress;
use self::task::{NodeRequest, NodeTask};

pub use self::builder::{NodeMode, PersistentNodeBuilder};
pub use self::state::{NodeState, PersistentNodeError};

/// A node that is created again after a deletion, after the end of its session, and after an
/// outage: Curator's `PersistentNode` and `PersistentEphemeralNode`.
///
/// The typical use is a registration: an ephemeral node with the address of a service.
///
/// # What it promises
/// * The node exists while this process is connected, except for the time of the requests that
///   create it. Every failed attempt is repeated, after a growing pause.
/// * The node belongs to the current session of the [`SessionManager`]. A node of an earlier
///   session is never taken for present, because the server is about to delete it.
/// * If the node of an earlier session of this handle still exists, one transaction deletes it and
///   creates the new one. No reader finds the node missing.
/// * A node of another owner is reported as [`NodeState::Conflict`] and not changed, apart from the
///   races below.
/// * The data is the latest one given to [`set_data`](Self::set_data), on every session.
///
/// # Whose node it is
/// * The handle recognises its node by the `czxid` from the reply to the create. If that reply was
///   lost, it recognises the node by the session that owns it.
/// * Of several handles of one [`SessionManager`] with the same path, only the first one acts. The
///   others report its node as a conflict. The next one takes over when the first one is closed or
///   dropped, and has deleted its node. This holds for [`NodeMode::Ephemeral`].
/// * The handle writes and deletes its node on the session that owns it. If that session has expired,
///   the server rejects these requests. A node of an ended session is replaced by the next session, or
///   left to the server.
///
/// ZooKeeper can compare the version of a node with a write, and not its owner or its `czxid`. So the
/// handle reads the owner first, and then changes the node if it still has that version. Two races
/// remain, in which the node of another process is changed, if it has the same version:
///
/// * **Replacement.** The earlier session expires after the owner was read, and another process
///   creates the node before the transaction of this handle arrives. The transaction then replaces the
///   node of the other process. This handle then reports
///   [`Present`](NodeState::Present), and the other one a [`Conflict`](NodeState::Conflict).
///   The read follows a `sync`, so only the time of one round trip counts. But two replicas that keep
///   one path wait for the same expiry, so this is likely then, and the path may change hands several
///   times. Give each process a path of its own.
/// * **Deletion by an operator.** Another client deletes the node after the owner was read, and another
///   process creates it before the write or the delete of this handle arrives. That request then hits
///   the node of the other process. If it is a delete, a `PersistentNode` there creates the node again.
///
/// # On the wire
/// The node at the given path, with the given data, as Curator's. Missing parents are created as
/// containers. Curator adopts a node of another session, and this handle does not.
///
/// # What it costs
/// Two requests to create and watch the node. A change of the data costs three, and a lost connection
/// during one of these requests costs two. The renewal of a [`NodeMode::Ttl`] costs two requests
/// for each half of the time to live. Otherwise there is one watch and no request. The replacement of
/// a node of an earlier session costs four requests. [`close`](Self::close) costs three.
///
/// # What happens on loss
/// * The connection is lost: the node stays, and so does the state. The session sets the watch
///   again on the next connection.
/// * The session ends: the state is [`NodeState::Pending`] until the next session has the node.
/// * Another client deletes the node: a watch reports it, and the node is created again.
/// * The process ends without [`close`](Self::close): the server deletes an ephemeral node when the
///   session expires. If the program starts again before, the old node is a conflict until then,
///   unless [`previous_session`](PersistentNodeBuilder::previous_session) names its session.
///
/// Dropping the handle deletes the node in the background, on the current session. A node that is
/// not ephemeral remains if that session ends first.
///
/// # Example
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// use zk_coordination::PersistentNode;
/// use zk_coordination::session::{Config, SessionManager};
///
/// let sessions = SessionManager::connect(Config::new("zk1:2181,zk2:2181,zk3:2181")?).await?;
/// let node = PersistentNode::start(&sessions, "/services/web/10.0.0.7", "10.0.0.7:8080")?;
/// node.wait_until_present(Duration::from_secs(10)).await?;
/// // ... serve, and stop:
/// node.close().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping the handle deletes the node"]
#[doc(alias = "PersistentEphemeralNode")]
pub struct PersistentNode {
    path: String,
    options: Options,
    /// For timers. It does not keep the session open.
    client: Client,
    requested: watch::Sender<NodeRequest>,
    state: watch::Receiver<NodeState>,
    progress: watch::Receiver<Progress>,
}

impl PersistentNode {
    /// Starts to create an ephemeral node, in the background.
    ///
    /// The background task runs on the runtime that drives the sessions. The handle keeps the
    /// session manager alive.
    ///
    /// # Errors
    /// Returns an error if the path is not a valid ZooKeeper path, or if the data is larger than a
    /// server accepts. Failed requests are repeated; see [`state`](Self::state).
    pub fn start(
        sessions: &SessionManager,
        path: &str,
        data: impl AsRef<[u8]>,
    ) -> Result<Self, Error> {
        Self::builder(sessions, path).data(data).start()
    }

    /// Returns the options of a node, to change them before the start.
    pub fn builder<'a>(sessions: &'a SessionManager, path: &'a str) -> PersistentNodeBuilder<'a> {
        PersistentNodeBuilder::new(sessions, path)
    }

    fn spawn(sessions: &SessionManager, path: &str, data: Bytes, options: Options) -> Self {
        let client = sessions.client();
        let (requested, requests) = watch::channel(NodeRequest::new(data));
        let (task, state, progress) =
            NodeTask::new(path, options.clone(), client.clone(), requests);
        drop(client.runtime().spawn(task.run(sessions.clone())));
        Self { path: path.to_owned(), options, client: client.weak(), requested, state, progress }
    }

    /// Returns the path that the handle was started with. The path of a sequential node is in its
    /// [state](NodeState::Present).
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the present state.
    #[must_use]
    pub fn state(&self) -> NodeState {
        self.state.borrow().clone()
    }

    /// Subscribes to the states. A slow subscriber skips states, but not the last.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<NodeState> {
        self.state.clone()
    }

    /// Waits until the node is present, and returns its Stat.
    ///
    /// # Errors
    /// The node is not present after `timeout`, or the handle is closed. The error has the state
    /// with the reason. The handle continues to create the node.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub fn wait_until_present(
        &self,
        timeout: Duration,
    ) -> impl Future<Output = Result<Stat, PersistentNodeError>> + Send + use<> {
        let (mut state, path) = (self.state.clone(), self.path.clone());
        let elapsed = self.client.runtime().sleep(timeout);
        async move {
            let settled = async {
                drop(state.wait_for(|state| state.is_present() || state.is_closed()).await);
            };
            select(pin!(settled), pin!(elapsed)).await;
            let state = state.borrow();
            state.stat().copied().ok_or_else(|| PersistentNodeError::new(&path, state.clone()))
        }
    }

    /// Replaces the data of the node, now and whenever the node is created again. Waits until the
    /// node has this data, or that of a later call.
    ///
    /// The data of other clients is overwritten. Calls take effect in their order.
    ///
    /// # Errors
    /// * The data is larger than a server accepts; see [`check_data`](Self::check_data). The node keeps
    ///   its earlier data.
    /// * The attempt was refused, the node belongs to another owner, or the handle is closed. Unless
    ///   it is closed, the data is kept and written as soon as possible.
    ///
    /// # Cancel safety
    /// The call stores the data. Dropping the future only ends the wait.
    pub fn set_data<D: AsRef<[u8]>>(
        &self,
        data: D,
    ) -> impl Future<Output = Result<(), PersistentNodeError>> + Send + use<D> {
        let data = Bytes::copy_from_slice(data.as_ref());
        let stored = self.check_data(&data).map(|()| {
            let mut number = 0;
            self.requested.send_modify(|requested| number = requested.replace_data(data));
            number
        });
        let (state, path) = (self.state.clone(), self.path.clone());
        let mut progress = self.progress.clone();
        async move {
            let number = stored?;
            let tried = progress
                .wait_for(|progress| progress.written >= number || progress.failed >= number)
                .await;
            match tried {
                Ok(progress) if progress.written >= number => Ok(()),
                _ => Err(PersistentNodeError::new(&path, state.borrow().clone())),
            }
        }
    }

    /// Checks that data is not larger than a server accepts. Sends no request.
    /// [`set_data`](Self::set_data) checks it too.
    ///
    /// # Errors
    /// The error has the state [`NodeState::Refused`] with
    /// [`ErrorKind::TooLarge`](zk_recipes::session::ErrorKind::TooLarge).
    pub fn check_data(&self, data: &[u8]) -> Result<(), PersistentNodeError> {
        let checked = self.options.check_data(&self.client, &self.path, data);
        checked.map_err(|error| PersistentNodeError::new(&self.path, NodeState::Refused { error }))
    }

    /// Deletes the node, and waits until a server has confirmed it. The deletion is repeated over
    /// reconnects, and over sessions.
    ///
    /// Only a node of this handle is deleted; see [`PersistentNode`]. A create that was in flight is
    /// awaited, and its node is deleted too. If the node belongs to an earlier session, which has ended
    /// at the client and not yet at the servers, the method waits until the servers expire that session.
    ///
    /// Without a connection, only the end of the session manager bounds the wait; bound it with a
    /// timeout of your own.
    ///
    /// # Errors
    /// The error has the state with the reason:
    ///
    /// * [`NodeState::Closed`]: the server rejects the deletion, with `NoAuth`, or with `NotEmpty` if
    ///   a persistent node has children; or the session manager stopped meanwhile.
    /// * [`NodeState::Stopped`]: the session manager had stopped before. The server deletes an
    ///   ephemeral node with its session.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the deletion.
    pub async fn close(self) -> Result<(), PersistentNodeError> {
        self.requested.send_modify(NodeRequest::close);
        let mut state = self.state.clone();
        drop(state.wait_for(NodeState::is_closed).await);
        let state = state.borrow();
        match &*state {
            NodeState::Closed { error: None } => Ok(()),
            state => Err(PersistentNodeError::new(&self.path, state.clone())),
        }
    }
}

impl fmt::Debug for PersistentNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PersistentNode")
            .field("path", &self.path)
            .field("state", &*self.state.borrow())
            .finish_non_exhaustive()
    }
}
