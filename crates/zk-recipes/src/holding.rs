//! The hold of an acquired lock: its node and its lease.
//!
//! The guards of one owner share a hold, if it has acquired the lock more than once. Their `Arc`s
//! count the references, and no other code keeps one for longer than a call. Dropping the last
//! guard deletes the node, and from then on no acquisition can share the hold.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::AbortHandle;
use zk_session::{
    Client, Error, ErrorCode, ErrorKind, EventType, LeaseTerm, Multi, SessionLease, Stat, Watch,
};

use crate::error::{LockError, LossReason};
use crate::fencing_token::FencingToken;
use crate::limits::{NODE_WATCH_DELAY, THROTTLED_PAUSE, UNWATCHED_PAUSE};
use crate::queue::contender::{Contender, Node, is_final};
use crate::retry::{is_transient, retry};

#[derive(Debug)]
pub(crate) struct Holding {
    contender: Contender,
    node: Node,
    claim: SessionLease,
    term: LeaseTerm,
    /// Sets `end` when the node is deleted.
    _node_watch: NodeWatch,
    token: FencingToken,
    /// The end of the hold, for causes other than the lease. Futures that wait for the loss share
    /// it.
    end: Arc<EndState>,
}

impl Holding {
    /// `contender` must have been granted the lock.
    pub(crate) fn new(mut contender: Contender, term: LeaseTerm) -> Result<Self, LockError> {
        let Some(node) = contender.node().cloned() else {
            // A contender that was granted the lock has a node.
            return Err(LockError::NodeDeleted { path: contender.kind().path.clone() });
        };
        let (token, claim) = (FencingToken::new(node.czxid), contender.client().claim_lease());
        let end = Arc::default();
        let _node_watch = NodeWatch::start(&mut contender, &node, &end);
        Ok(Self { contender, node, claim, term, _node_watch, token, end })
    }

    /// Sets the token of the hold that this one replaces.
    pub(crate) fn with_token(mut self, token: FencingToken) -> Self {
        self.token = token;
        self
    }

    /// Deletes the node and waits until the server has confirmed it.
    pub(crate) async fn give_up(mut self) -> Result<(), LockError> {
        let held = self.token();
        self.end.set(LossReason::Released);
        let was_there = self.contender.leave().await;
        held?;
        match was_there? {
            true => Ok(()),
            false => Err(LockError::Lost(LossReason::NodeDeleted)),
        }
    }

    /// Ends the hold as released before another transaction than a release deletes the node.
    /// Futures that wait for the loss then return.
    pub(crate) fn retire(&self) {
        self.end.set(LossReason::Released);
    }

    /// Records that a transaction has deleted the node.
    pub(crate) fn forget_node(&mut self) {
        self.contender.forget_node();
    }

    /// Records that the node no longer exists, and returns the loss of the lock.
    pub(crate) fn found_deleted(&self) -> LockError {
        self.end.set(LossReason::NodeDeleted);
        LockError::Lost(LossReason::NodeDeleted)
    }

    pub(crate) fn multi<'a>(&self) -> Multi<'a> {
        self.client().multi().check(&self.node.path, None)
    }

    pub(crate) fn token(&self) -> Result<FencingToken, LockError> {
        match self.is_held() {
            true => Ok(self.token),
            false => Err(self.lost_error()),
        }
    }

    pub(crate) fn is_held(&self) -> bool {
        self.end.known().is_none() && self.claim.holds(self.term)
    }

    pub(crate) fn lost_error(&self) -> LockError {
        let loss = self.end.known().unwrap_or_else(|| self.claim.loss().into());
        LockError::Lost(loss)
    }

    pub(crate) fn client(&self) -> &Client {
        self.contender.client()
    }

    pub(crate) fn contender(&self) -> &Contender {
        &self.contender
    }

    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    pub(crate) fn term(&self) -> LeaseTerm {
        self.term
    }

    pub(crate) fn claim(&self) -> &SessionLease {
        &self.claim
    }

    pub(crate) fn end(&self) -> &Arc<EndState> {
        &self.end
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.end.set(LossReason::Released);
    }
}

/// The end of a hold, for any number of waiting futures. The first value is final.
#[derive(Debug)]
pub(crate) struct EndState(watch::Sender<Option<LossReason>>);

impl Default for EndState {
    fn default() -> Self {
        Self(watch::Sender::new(None))
    }
}

impl EndState {
    /// Records why the hold ended, unless a reason is already recorded.
    fn set(&self, reason: LossReason) {
        self.0.send_if_modified(|known| known.is_none() && known.replace(reason).is_none());
    }

    fn known(&self) -> Option<LossReason> {
        *self.0.borrow()
    }

    /// Waits until the reason is recorded.
    pub(crate) fn reached(&self) -> impl Future<Output = LossReason> + Send + use<> {
        let mut end = self.0.subscribe();
        async move {
            let told = end.wait_for(Option::is_some).await.ok().and_then(|reason| *reason);
            // The sender is dropped with the last guard.
            told.unwrap_or(LossReason::Released)
        }
    }
}

/// A task that sets the [`EndState`] of a hold when its node is deleted. Dropping this value stops the
/// task.
#[derive(Debug)]
struct NodeWatch(Option<AbortHandle>);

impl NodeWatch {
    /// Takes over the watch with which the contender waited. Without such a watch, a watch is set
    /// after a delay: most locks are released before that, and then it costs no request.
    fn start(contender: &mut Contender, node: &Node, end: &Arc<EndState>) -> Self {
        let (client, armed) = (contender.client().weak(), contender.take_watch());
        let (node, end) = (node.clone(), Arc::clone(end));
        let delay = NODE_WATCH_DELAY.min(client.session_timeout() / 16);
        let task = contender.client().spawn_beside(async move {
            if armed.is_none() {
                // This task runs on the runtime of the session's driver.
                tokio::time::sleep(delay).await;
            }
            deleted(client, node, armed).await;
            end.set(LossReason::NodeDeleted);
        });
        Self(task)
    }
}

impl Drop for NodeWatch {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

/// Waits until the node is deleted. Starts with `armed`, a watch that is already set. It waits
/// through all connection problems, which are reported elsewhere.
///
/// The watch is a child watch. A lock node has no children, so only the deletion fires it. A data
/// watch would have to be set again after each revocation request.
pub(crate) async fn deleted(client: Client, node: Node, mut armed: Option<Watch>) {
    // No caller waits for these replies, so the handle's request timeout does not apply.
    let client = client.with_timeout(Duration::MAX);
    loop {
        let set = match armed.take() {
            Some(watch) => Ok(Some(watch)),
            None => retry(&client, || watch_children(&client, &node)).await,
        };
        let event = match set {
            Ok(Some(watch)) => watch.await,
            Ok(None) => return,
            Err(error) => Err(error),
        };
        let failed = match event {
            Ok(event) if event.event_type == EventType::NODE_DELETED => return,
            // After a reconnect: another client may have created the node again.
            Ok(_) => continue,
            Err(error) => error,
        };
        match failed.kind() {
            _ if is_final(&failed) => futures::future::pending().await,
            // Without a watch the guard would miss the deletion, so it polls the node.
            ErrorKind::LimitReached(_) => client.sleep(UNWATCHED_PAUSE).await,
            _ if is_transient(&failed) => {}
            _ => client.sleep(THROTTLED_PAUSE).await,
        }
    }
}

/// Watches a node; returns `None` if it is gone or was created again.
async fn watch_children(client: &Client, node: &Node) -> Result<Option<Watch>, Error> {
    let is_same = |stat: &Stat| stat.czxid == node.czxid;
    match client.get_children_and_watch(&node.path).await {
        Ok((children, watch)) => Ok(is_same(&children.stat).then_some(watch)),
        Err(error) if error.code() == Some(ErrorCode::NO_NODE) => Ok(None),
        // The ACL of the node does not let the holder read it. `exists` needs no permission.
        Err(error) if error.code() == Some(ErrorCode::NO_AUTH) => {
            let (stat, watch) = client.exists_and_watch(&node.path).await?;
            Ok(stat.filter(is_same).map(|_| watch))
        }
        // The node cannot be watched at the moment. Checks whether it exists.
        Err(error) if matches!(error.kind(), ErrorKind::LimitReached(_)) => {
            let exists = client.exists(&node.path).await?.is_some_and(|stat| is_same(&stat));
            if exists { Err(error) } else { Ok(None) }
        }
        Err(error) => Err(error),
    }
}
