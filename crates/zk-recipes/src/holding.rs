//! The hold of an acquired lock: its node and its lease.
//!
//! The guards of one owner share a hold, if it has acquired the lock more than once. Their `Arc`s
//! count the references, and no other code keeps one for longer than a call. Dropping the last
//! guard deletes the node, and from then on no acquisition can share the hold.

use std::future::Future;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::{join, pending};
use tokio::task::AbortHandle;
use zk_session::{Client, DelayedStart, EventType, LeaseTerm, Multi, SessionLease, Watch};

use crate::end_state::EndState;
use crate::error::{LockError, LossReason};
use crate::fencing_token::FencingToken;
use crate::limits::{NODE_WATCH_DELAY, NODE_WATCH_PART, THROTTLED_PAUSE, UNWATCHED_PAUSE};
use crate::local_queue::turn::LocalTurn;
use crate::observe;
use crate::queue::contender::{Contender, Node, is_final, is_unwatchable};
use crate::queue::spec::QueueSpec;
use crate::retry::retry;
use crate::trace;

/// A hold of one holder. The node may pass from a holder to the next one of the same process; see
/// [`local_queue`](crate::local_queue).
#[derive(Debug)]
pub(crate) struct Holding {
    held: Arc<HeldNode>,
    /// `None` once the node belongs to the next holder, or is being deleted.
    contender: Option<Contender>,
    token: FencingToken,
    /// Set if the lock has a local queue. Declared after `contender`: the node is deleted before
    /// the next local waiter creates its own.
    turn: Option<LocalTurn<Self>>,
    /// `None` before the next local holder takes the hold, once its end is reported, and if nobody
    /// observes it.
    observed: Option<Box<observe::HoldObserver>>,
}

/// The parts of a hold that stay the same when its node passes to the next holder.
#[derive(Debug)]
pub(crate) struct HeldNode {
    pub(crate) client: Client,
    pub(crate) spec: Arc<QueueSpec>,
    pub(crate) node: Node,
    pub(crate) claim: SessionLease,
    pub(crate) term: LeaseTerm,
    /// The end of the hold, for causes other than the lease. Futures that wait for the loss share
    /// it.
    pub(crate) end: Arc<EndState>,
    /// Sets `end` when the node is deleted.
    node_watch: NodeWatch,
}

impl HeldNode {
    /// `waited` is the time in the queue, if it is known.
    fn observe(
        &self,
        token: FencingToken,
        waited: Option<Duration>,
    ) -> Option<Box<observe::HoldObserver>> {
        let session_id = || self.client.session_id();
        let (spec, node) = (&self.spec, &self.node.path);
        observe::HoldObserver::begin(
            &spec.path,
            spec.metrics.as_ref(),
            node,
            token,
            waited,
            session_id,
        )
    }

    /// Records that the node no longer exists, and returns the loss of the lock.
    pub(crate) fn found_deleted(&self) -> LockError {
        if self.end.set(LossReason::NodeDeleted) {
            trace::node_deleted(&self.node.path, self.client.session_id());
        }
        LockError::Lost(LossReason::NodeDeleted)
    }

    pub(crate) fn multi<'a>(&self) -> Multi<'a> {
        self.client.multi().check(&self.node.path, None)
    }

    /// Takes over the watch with which the contender waited. Without such a watch, a watch is set
    /// after a delay: most locks are released before that, and then it costs no request.
    fn watch_node(self: &Arc<Self>, armed: Option<Watch>) {
        if armed.is_some() {
            return self.spawn_watch(armed);
        }
        let delay = NODE_WATCH_DELAY.min(NODE_WATCH_PART.of(self.client.session_timeout()));
        let weak = Arc::downgrade(self);
        self.client.runtime().start_after(delay, weak);
    }

    /// Spawns the task that ends the hold when the node is deleted.
    fn spawn_watch(&self, armed: Option<Watch>) {
        let (client, node, end) = (self.client.weak(), self.node.clone(), self.end.clone());
        let task = self.client.runtime().spawn(async move {
            let session_id = client.session_id();
            deleted(client, &node, armed).await;
            if end.set(LossReason::NodeDeleted) {
                trace::node_deleted(&node.path, session_id);
            }
        });
        if let Some(task) = task {
            self.node_watch.0.get_or_init(|| task);
        }
    }
}

impl DelayedStart for HeldNode {
    fn start(&self) {
        self.spawn_watch(None);
    }
}

impl Holding {
    /// `contender` must have been granted the lock.
    pub(crate) fn new(mut contender: Contender, term: LeaseTerm) -> Result<Self, LockError> {
        let Some(node) = contender.node().cloned() else {
            // A contender that was granted the lock has a node.
            return Err(LockError::NodeDeleted { path: contender.spec.path.clone() });
        };
        let (client, spec) = (contender.client.clone(), contender.spec.clone());
        let (token, claim) = (FencingToken::new(node.czxid), client.claim_lease());
        let waited = contender.observed.granted(&node.path, token);
        let (end, node_watch) = (Arc::default(), NodeWatch::default());
        let held = Arc::new(HeldNode { client, spec, node, claim, term, end, node_watch });
        held.watch_node(contender.take_watch());
        let observed = held.observe(token, waited);
        Ok(Self { held, contender: Some(contender), token, turn: None, observed })
    }

    /// Sets the token of the hold that this one replaces.
    pub(crate) fn with_token(mut self, token: FencingToken) -> Self {
        self.token = token;
        self
    }

    pub(crate) fn held_node(&self) -> Arc<HeldNode> {
        self.held.clone()
    }

    /// Adds the turn in the local queue that the end of this hold hands on.
    pub(crate) fn with_turn(mut self, turn: LocalTurn<Self>) -> Self {
        self.turn = Some(turn);
        self
    }

    /// Passes the lock to the next local waiter, or deletes the node and waits until the server has
    /// confirmed it. `held` is the [`token`](Self::token) at the time of the release.
    pub(crate) async fn release(
        mut self,
        held: Result<FencingToken, LockError>,
    ) -> Result<(), LockError> {
        let ended = self.observed.as_ref().map(|_| self.loss_and_time_left());
        if self.pass() {
            self.report(ended);
            return held.map(drop);
        }
        self.forget_deleted_node();
        self.end.set(LossReason::Released);
        let (contender, turn) = (self.contender.take(), self.turn.take());
        let left = async {
            match contender {
                Some(mut contender) => contender.leave().await,
                None => Ok(true),
            }
        };
        // The deletion is sent before the next local waiter creates its node, and that waiter does
        // not wait for the confirmation.
        let (was_there, ()) = join(left, async { drop(turn) }).await;
        self.report(match was_there {
            Ok(false) => ended.map(|(loss, left)| (loss.or(Some(LossReason::NodeDeleted)), left)),
            _ => ended,
        });
        held?;
        match was_there? {
            true => Ok(()),
            false => Err(LockError::Lost(LossReason::NodeDeleted)),
        }
    }

    /// Passes the node to the next local waiter, if there is one and if the lock may pass. Returns
    /// false if this holder still has the node.
    fn pass(&mut self) -> bool {
        let may_pass = self.turn.as_ref().is_some_and(|turn| {
            let is_last = self.end.is_last_holder();
            self.is_held() && !is_last && turn.may_pass(self.token.pass())
        });
        let Some(turn) = self.turn.take_if(|_| may_pass) else { return false };
        // A turn that nobody waits for ends once the node is being deleted.
        self.turn = turn.pass(|| self.next()).err();
        self.turn.is_none()
    }

    /// Moves the node to a hold of the next holder, and ends this one.
    fn next(&mut self) -> Self {
        self.end.pass();
        let token = self.token.next();
        Self {
            observed: None,
            held: self.held.clone(),
            contender: self.contender.take(),
            token,
            turn: None,
        }
    }

    /// Deletes the node without a mark, because another node will stand beside it.
    pub(crate) fn unmark_release(&self) {
        if let Some(contender) = &self.contender {
            contender.unmark_release();
        }
    }

    /// Keeps the release from deleting a node that another client has made under the name of the deleted
    /// one.
    fn forget_deleted_node(&mut self) {
        if self.end.known() == Some(LossReason::NodeDeleted) {
            self.forget_node();
        }
    }

    /// Records that the node is deleted.
    pub(crate) fn forget_node(&mut self) {
        if let Some(contender) = &mut self.contender {
            contender.forget_node();
        }
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

    /// Waits until this hold has ended for another cause than the lease.
    pub(crate) fn ended(&self) -> impl Future<Output = LossReason> + Send + use<> {
        self.end.reached(self.token.pass())
    }

    /// Waits until this hold has passed its node on.
    pub(crate) fn passed(&self) -> impl Future<Output = ()> + Send + use<> {
        self.end.passed(self.token.pass())
    }

    /// Reports that the holder has the lock from now on. A hold that was passed on begins when the
    /// next holder takes it.
    pub(crate) fn begin(&mut self) {
        self.observed = self.observe(self.token, None);
    }

    /// Reports the end of this hold, at the first call.
    fn report(&mut self, ended: Option<(Option<LossReason>, Duration)>) {
        if let (Some(observed), Some((loss, left))) = (self.observed.take(), ended) {
            observed.end(loss, left);
        }
    }

    /// Returns why the lock is lost, if it is, and how long the lease lasts.
    fn loss_and_time_left(&self) -> (Option<LossReason>, Duration) {
        let loss = self.end.known().filter(|loss| *loss != LossReason::Released);
        match self.claim.holds(self.term) {
            true => (loss, self.claim.remaining(self.term)),
            false => (loss.or_else(|| Some(self.claim.loss().into())), Duration::ZERO),
        }
    }
}

impl Deref for Holding {
    type Target = HeldNode;

    fn deref(&self) -> &HeldNode {
        &self.held
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.report(self.observed.as_ref().map(|_| self.loss_and_time_left()));
        // The node may belong to the next holder by now.
        if self.contender.is_some() && !self.pass() {
            self.forget_deleted_node();
            self.end.set(LossReason::Released);
        }
    }
}

/// The task that waits for the deletion of a held node, once it has started. Dropping this value
/// stops the task.
#[derive(Debug, Default)]
struct NodeWatch(OnceLock<AbortHandle>);

impl Drop for NodeWatch {
    fn drop(&mut self) {
        if let Some(task) = self.0.get() {
            task.abort();
        }
    }
}

/// Waits until the node is deleted. Starts with `armed`, a watch that is already set. It waits
/// through all connection problems, which are reported elsewhere.
///
/// The watch is a child watch. A lock node has no children, and a data watch would have to be set
/// again after each revocation request.
pub(crate) async fn deleted(client: Client, node: &Node, mut armed: Option<Watch>) {
    // No caller waits for these replies, so the handle's request timeout does not apply.
    let client = client.with_timeout(Duration::MAX);
    loop {
        let set = match armed.take() {
            Some(watch) => Ok(Some(watch)),
            None => retry(&client, || node.watch(&client)).await,
        };
        let fired = match set {
            Ok(Some(watch)) => watch.await,
            Ok(None) => return,
            Err(error) => Err(error),
        };
        match fired {
            Ok(event) if event.event_type == EventType::NODE_DELETED => return,
            // Another client has created the node again, or another waiter of this session has set
            // its watch on the node from an earlier transaction on. The next watch tells which.
            Ok(_) => {}
            Err(error) if is_final(&error) => pending().await,
            // Without a watch the guard would miss the deletion, so it polls the node.
            Err(error) if is_unwatchable(&error) => client.runtime().sleep(UNWATCHED_PAUSE).await,
            Err(_) => client.runtime().sleep(THROTTLED_PAUSE).await,
        }
    }
}
