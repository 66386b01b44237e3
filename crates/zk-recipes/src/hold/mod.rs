//! A held lock: its node, the lease that it rests on, and its end.
//!
//! [`Guard`]s share a [`Hold`]: one at first, and more if an owner acquires the lock again. The last of
//! them ends it. Then the node is deleted, or passes to an [`Heir`], the next holder of this process.

mod guard;
mod held;
mod node_watch;

use std::fmt;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::Notify;
use tokio::task::AbortHandle;
use zk_session::{Client, LeaseTerm, Multi, Pending, SessionLease, Watch};

pub use self::guard::Guard;
pub(crate) use self::held::impl_held;
pub use self::held::{Held, LockGuard};
pub(crate) use self::node_watch::deleted;
use crate::error::{LockError, LossReason};
use crate::fencing_token::FencingToken;
use crate::limits::{NODE_WATCH_DELAY, NODE_WATCH_PART};
use crate::observe::{self, HoldObserver};
use crate::queue::Queue;
use crate::queue::contender::{Granted, Node};

/// The node of a lock that is held.
#[derive(Debug)]
pub(crate) struct Hold {
    /// With a weak client. Futures that wait for the end of the hold may outlive it, and must not keep
    /// the session open. The lease does, while the lock is held.
    pub(crate) queue: Queue,
    pub(crate) node: Node,
    pub(crate) term: LeaseTerm,
    state: Mutex<HoldState>,
    /// Wakes the futures that wait for the end of a holder, or of the hold.
    changed: Notify,
    /// The task that waits for the deletion of the node, once it has started.
    node_watch: OnceLock<AbortHandle>,
}

#[derive(Debug)]
struct HoldState {
    /// `None` once the last guard has ended.
    lease: Option<SessionLease>,
    /// Token of the current holder.
    token: FencingToken,
    /// Guards of the current holder.
    guards: usize,
    /// Why the last holder has lost the lock or released it. The first value is final.
    end: Option<LossReason>,
    /// The deletion of the node is to be marked; see the [rules of the queue](crate::queue).
    marks_release: bool,
    /// The node does not pass to another holder.
    is_last_holder: bool,
    heir: Option<Box<dyn Heir>>,
    observed: Option<Box<HoldObserver>>,
}

impl HoldState {
    fn loss(&self, term: LeaseTerm) -> Option<LossReason> {
        self.end.or_else(|| self.lease_loss(term))
    }

    fn lease_loss(&self, term: LeaseTerm) -> Option<LossReason> {
        match &self.lease {
            Some(lease) if lease.holds(term) => None,
            Some(lease) => Some(lease.loss().into()),
            None => Some(LossReason::Released),
        }
    }

    fn held(&self, term: LeaseTerm, token: FencingToken) -> Option<Result<(), LockError>> {
        if self.guards == 0 || self.token != token {
            return None;
        }
        Some(match self.loss(term) {
            None => Ok(()),
            Some(reason) => Err(LockError::Lost(reason)),
        })
    }
}

/// What takes over the node of a holder instead of its deletion.
pub(crate) trait Heir: fmt::Debug + Send + Sync {
    /// Returns true if the holder with this token may pass its node on.
    fn may_pass(&self, token: FencingToken) -> bool;

    /// Passes the guard of the next holder on, which `next` makes.
    ///
    /// # Errors
    /// Returns itself if nobody waits. `next` is not called then. Drop it after the node is deleted.
    fn pass(self: Box<Self>, next: &dyn Fn() -> Guard) -> Result<(), Box<dyn Heir>>;
}

impl Hold {
    fn begin(granted: Granted, token: FencingToken) -> Arc<Self> {
        let Granted { queue, node, lease, term, marks_release, watch, observed } = granted;
        let observed =
            observed.map(|observed| observed.granted(&node.path, token, queue.client.session_id()));
        let state = HoldState {
            lease: Some(lease),
            token,
            guards: 1,
            end: None,
            marks_release,
            is_last_holder: false,
            heir: None,
            observed,
        };
        let hold = Arc::new(Self {
            queue: queue.weak(),
            node,
            term,
            state: Mutex::new(state),
            changed: Notify::new(),
            node_watch: OnceLock::new(),
        });
        hold.watch_node(watch);
        hold
    }

    /// Takes over the watch with which the contender waited. Without such a watch, a watch is set
    /// after a delay: most locks are released before that, and then it costs no request.
    fn watch_node(self: &Arc<Self>, armed: Option<Watch>) {
        if armed.is_some() {
            return self.spawn_watch(armed);
        }
        let delay = NODE_WATCH_DELAY.min(NODE_WATCH_PART.of(self.queue.client.session_timeout()));
        let weak = Arc::downgrade(self);
        self.queue.client.runtime().start_after(delay, weak);
    }

    /// Returns why the lock is lost, and `None` while it is provably held.
    pub(crate) fn loss(&self) -> Option<LossReason> {
        self.state().loss(self.term)
    }

    /// Reads the lease; returns `None` if the lock is known to be lost for another reason.
    pub(crate) fn lease<T>(&self, read: impl FnOnce(&SessionLease) -> T) -> Option<T> {
        let state = self.state();
        let lease = if state.end.is_none() { state.lease.as_ref() } else { None };
        lease.map(read)
    }

    /// Waits until the lease of the hold is lost.
    pub(crate) fn lease_lost(&self) -> impl Future<Output = LossReason> + Send + use<> {
        let lost = self.state().lease.as_ref().map(|lease| lease.lost(self.term));
        async {
            match lost {
                Some(lost) => lost.await.into(),
                None => pending().await, // the hold has ended
            }
        }
    }

    /// Begins a transaction that is applied only if the node exists.
    pub(crate) fn multi<'a>(&self) -> Multi<'a> {
        self.queue.client.multi().check(&self.node.path, None)
    }

    /// Waits until the holder with this token has ended for another cause than the lease.
    pub(crate) async fn ended(self: Arc<Self>, token: FencingToken) -> LossReason {
        self.wait_for(
            |state| {
                if state.token == token { state.end } else { Some(LossReason::Released) }
            },
        )
        .await
    }

    /// Waits until the holder with this token has passed its node on.
    pub(crate) async fn passed(self: Arc<Self>, token: FencingToken) {
        self.wait_for(|state| (state.token != token).then_some(())).await;
    }

    async fn wait_for<T>(&self, value: impl Fn(&HoldState) -> Option<T>) -> T {
        loop {
            // This future is notified of all changes after its creation.
            let changed = self.changed.notified();
            let found = value(&self.state());
            match found {
                Some(found) => return found,
                None => changed.await,
            }
        }
    }

    /// Records why the hold has ended, unless a reason is already recorded. Returns true if it was not.
    pub(crate) fn set_end(&self, reason: LossReason) -> bool {
        let is_first = {
            let mut state = self.state();
            state.end.is_none() && state.end.replace(reason).is_none()
        };
        if is_first {
            self.changed.notify_waiters();
        }
        is_first
    }

    /// Records that the node no longer exists, and returns the loss of the lock.
    pub(crate) fn found_deleted(&self) -> LockError {
        if self.set_end(LossReason::NodeDeleted) {
            observe::node_deleted(&self.node.path, self.queue.client.session_id());
        }
        LockError::Lost(LossReason::NodeDeleted)
    }

    /// Returns true until the hold ends for another cause than the lease.
    fn is_open(&self) -> bool {
        self.state().end.is_none()
    }

    /// Returns true if the last guard has released the lock.
    pub(crate) fn is_released(&self) -> bool {
        self.state().end == Some(LossReason::Released)
    }

    /// Prepares another node of the holder beside this one: the release will have no mark, because the
    /// next contender in line must list. Returns the client that keeps the session open, or `None` if
    /// the last guard of the holder has ended.
    pub(crate) fn prepare_beside(&self, token: FencingToken) -> Option<Result<Client, LockError>> {
        let mut state = self.state();
        if let Err(error) = state.held(self.term, token)? {
            return Some(Err(error));
        }
        // The last guard reads the mark after this, because it ends after this.
        state.marks_release = false;
        state.lease.as_ref().map(|lease| Ok(lease.client().clone()))
    }

    /// Names who takes the node over from the current holder.
    pub(crate) fn set_heir(&self, heir: Box<dyn Heir>) {
        self.state().heir = Some(heir);
    }

    /// Keeps the node from passing to another holder.
    pub(crate) fn stop_passing(&self) {
        self.state().is_last_holder = true; // no future waits for this
    }

    /// Begins to observe the current holder, if somebody wants to see it.
    pub(crate) fn observe(&self) {
        let token = self.state().token;
        let session_id = self.queue.client.session_id();
        self.state().observed = self.queue.spec.observe_hold(&self.node.path, token, session_id);
    }

    /// Adds a guard of the holder with this token. Returns `None` if its last guard has ended.
    ///
    /// # Errors
    /// Returns [`LockError::Lost`] if the lock may be lost, and still has guards.
    pub(crate) fn share(self: &Arc<Self>, token: FencingToken) -> Option<Result<Guard, LockError>> {
        let mut state = self.state();
        if let Err(error) = state.held(self.term, token)? {
            return Some(Err(error));
        }
        state.guards += 1;
        Some(Ok(Guard::of(self.clone(), token)))
    }

    /// Checks that the holder with this token holds the lock. Returns `None` if its last guard has ended.
    pub(crate) fn held(&self, token: FencingToken) -> Option<Result<(), LockError>> {
        self.state().held(self.term, token)
    }

    /// Ends a guard. Returns the hold if it was the last one: nobody can share it any longer.
    fn end_guard(self: &Arc<Self>) -> Option<Last> {
        let mut state = self.state();
        state.guards -= 1;
        (state.guards == 0).then(|| Last(Some(self.clone())))
    }

    /// As [`end_guard`](Self::end_guard), unless other guards share the hold.
    fn end_last_guard(self: &Arc<Self>) -> Option<Last> {
        let mut state = self.state();
        if state.guards != 1 {
            return None;
        }
        state.guards = 0;
        Some(Last(Some(self.clone())))
    }

    /// Makes the guard of the next holder.
    fn next_holder(self: &Arc<Self>) -> Guard {
        let guard = {
            let mut state = self.state();
            state.token = state.token.next();
            state.guards = 1;
            Guard::of(self.clone(), state.token)
        };
        self.changed.notify_waiters(); // last, because a user's waker may panic
        guard
    }

    fn state(&self) -> MutexGuard<'_, HoldState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A hold whose last guard has ended. Dropping it passes the node on, or deletes it.
#[derive(Debug)]
pub(crate) struct Last(Option<Arc<Hold>>);

/// The deletion of a node at the end of its hold.
struct Deletion {
    /// `None` if the node is known to be gone: a node that another client has made under its name stays.
    deleted: Option<Pending<bool>>,
    observed: Option<Box<HoldObserver>>,
    /// Keeps the session open for the reply.
    _lease: Option<SessionLease>,
}

impl Last {
    /// Passes the node on, or deletes it and waits until the server has confirmed it.
    async fn release(mut self) -> Result<(), LockError> {
        let Some(mut deletion) = self.0.take().and_then(|hold| hold.pass_or_delete()) else {
            return Ok(());
        };
        let was_there = match deletion.deleted.take() {
            Some(deleted) => deleted.await?,
            None => false,
        };
        if was_there {
            return Ok(());
        }
        if let Some(observed) = &mut deletion.observed {
            observed.node_was_gone();
        }
        Err(LockError::Lost(LossReason::NodeDeleted))
    }

    /// Ends the hold of a node that the holder has deleted.
    pub(crate) fn forget_node(self) {
        self.close(|_| {});
    }

    /// Ends the hold of a node that somebody else has deleted. Another client may have made one under
    /// its name.
    pub(crate) fn node_was_gone(self) {
        self.close(HoldObserver::node_was_gone);
    }

    fn close(mut self, observe: impl FnOnce(&mut HoldObserver)) {
        let Some(hold) = self.0.take() else { return };
        if let Some(mut observed) = hold.take_observed() {
            observe(&mut observed);
        }
        drop(hold.set_ended());
        hold.changed.notify_waiters();
    }
}

impl Drop for Last {
    fn drop(&mut self) {
        if let Some(hold) = self.0.take() {
            drop(hold.pass_or_delete());
        }
    }
}

/// The end of a hold, after its last guard.
impl Hold {
    /// Passes the node on, or deletes it.
    fn pass_or_delete(self: &Arc<Self>) -> Option<Deletion> {
        let observed = self.take_observed();
        let heir = self.state().heir.take();
        let heir = match heir {
            Some(heir) if self.may_pass(&*heir) => match heir.pass(&|| self.next_holder()) {
                Ok(()) => return None,
                Err(heir) => Some(heir),
            },
            heir => heir,
        };
        let deletion = self.delete(observed);
        drop(heir); // the next local waiter creates its node after the deletion is sent
        Some(deletion)
    }

    fn may_pass(&self, heir: &dyn Heir) -> bool {
        let (token, is_last_holder) = {
            let state = self.state();
            (state.token, state.is_last_holder)
        };
        !is_last_holder && self.loss().is_none() && heir.may_pass(token)
    }

    /// Deletes the node, unless it is known to be gone.
    fn delete(&self, observed: Option<Box<HoldObserver>>) -> Deletion {
        let lease = self.set_ended();
        let (is_gone, is_marked) = {
            let state = self.state();
            (state.end == Some(LossReason::NodeDeleted), state.marks_release)
        };
        let deleted = (!is_gone).then(|| self.node.delete(&self.queue.client, is_marked));
        let deletion = Deletion { deleted, observed, _lease: lease };
        self.changed.notify_waiters(); // last, because a user's waker may panic
        deletion
    }

    /// Records the end, before the event of the deletion can arrive, and wakes nobody.
    fn set_ended(&self) -> Option<SessionLease> {
        let lease = {
            let mut state = self.state();
            state.end.get_or_insert(LossReason::Released);
            state.lease.take()
        };
        // A task that starts later sees the end.
        if let Some(task) = self.node_watch.get() {
            task.abort();
        }
        lease
    }

    /// Returns the observer, which reports the end of the holder when it is dropped.
    fn take_observed(&self) -> Option<Box<HoldObserver>> {
        let mut state = self.state();
        let mut observed = state.observed.take()?;
        let loss = match state.end {
            None | Some(LossReason::Released) => state.lease_loss(self.term),
            lost => lost,
        };
        let left = state.lease.as_ref().map(|lease| lease.remaining(self.term));
        observed.ends(loss, left.unwrap_or_default());
        Some(observed)
    }
}
