//! One place in a lock that is had: its node, and what is to be believed of it.
//!
//! A hold is shared by the guards of one owner, who may have entered more than once. They
//! count it by their `Arc`s, and nothing else keeps one for longer than a call: when the
//! last guard goes the node does, and from that moment on nobody can enter it again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use zk_session::{Belief, Client, Error, ErrorCode, EventType, LeaseClaim, Multi, Watch};

use crate::error::{LockError, LossReason};
use crate::guard::FencingToken;
use crate::owner::Slot;
use crate::planted::{self, Planted};
use crate::queue::contender::{Contender, Node};
use crate::queue::{passes, pause};

/// See [`deleted`]. Any number of waiters share one watch.
pub(crate) type Deletion = Shared<BoxFuture<'static, ()>>;

#[derive(Debug)]
pub(crate) struct Hold {
    contender: Contender,
    node: Node,
    claim: LeaseClaim,
    belief: Belief,
    /// Done once the node is known to be deleted. Whoever asks polls it, so that a guard knows of
    /// the event as soon as it has arrived.
    deletion: Deletion,
    token: FencingToken,
    /// What the clock cannot tell of the node, shared with those who wait for its loss.
    fate: Arc<Fate>,
    /// Where the owner finds it, if there is one. Kept for as long as it is held.
    slot: Option<Arc<Slot>>,
}

impl Hold {
    /// `contender` must have been admitted.
    pub(crate) fn new(mut contender: Contender, belief: Belief) -> Result<Self, LockError> {
        let Some(node) = contender.node().cloned() else {
            // Whoever was admitted has a node.
            return Err(LockError::Vanished { path: contender.kind().path.clone() });
        };
        let (token, claim) = (FencingToken::of(&node), contender.client().claim_lease());
        let deletion = deleted(contender.client().clone(), node.clone(), contender.take_watch());
        let deletion = deletion.boxed().shared();
        // The first poll asks for the watch, unless the contender waited with one.
        let _ = deletion.clone().now_or_never();
        let fate = Arc::default();
        Ok(Self { contender, node, claim, belief, deletion, token, fate, slot: None })
    }

    /// With the token of the hold whose place this one takes.
    pub(crate) fn with_token(mut self, token: FencingToken) -> Self {
        self.token = token;
        self
    }

    pub(crate) fn in_slot(mut self, slot: Arc<Slot>) -> Self {
        self.slot = Some(slot);
        self
    }

    /// Takes the node out and waits until the server has said so.
    pub(crate) async fn give_up(mut self) -> Result<(), LockError> {
        let held = self.token();
        self.fate.set(Fate::RELEASED);
        let was_there = self.contender.leave().await;
        held?;
        match was_there? {
            true => Ok(()),
            false => Err(LockError::Lost(LossReason::NodeDeleted)),
        }
    }

    /// Tells those who wait for the loss that the lock is given up, ahead of the node's
    /// end, which another transaction than a release is to bring.
    pub(crate) fn retire(&self) {
        self.fate.set(Fate::RELEASED);
    }

    /// The node has gone with that transaction.
    pub(crate) fn forget_node(&mut self) {
        self.contender.forget_node();
    }

    /// The node was found to be gone: the lock is lost.
    pub(crate) fn found_deleted(&self) -> LockError {
        self.fate.set(Fate::DELETED);
        LockError::Lost(LossReason::NodeDeleted)
    }

    pub(crate) fn multi<'a>(&self) -> Multi<'a> {
        self.client().multi().check(&self.node.path, None)
    }

    pub(crate) fn token(&self) -> Result<FencingToken, LockError> {
        match self.is_held() {
            true if Planted::TokenIsSequence.is_on() => {
                Ok(FencingToken::planted(planted::sequence_token(&self.node.path)))
            }
            true => Ok(self.token),
            false => Err(self.lost_error()),
        }
    }

    pub(crate) fn is_held(&self) -> bool {
        let is_held = self.known_fate().is_none() && self.claim.holds(self.belief);
        is_held || Planted::HolderIgnoresExpiry.is_on()
    }

    pub(crate) fn lost_error(&self) -> LockError {
        let loss = self.known_fate().unwrap_or_else(|| self.claim.loss().into());
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

    pub(crate) fn belief(&self) -> Belief {
        self.belief
    }

    pub(crate) fn claim(&self) -> &LeaseClaim {
        &self.claim
    }

    pub(crate) fn deletion(&self) -> Deletion {
        self.deletion.clone()
    }

    /// What is known of the node at this moment.
    fn known_fate(&self) -> Option<LossReason> {
        let is_told = !Planted::DeletionNotTold.is_on();
        if is_told && self.deletion.clone().now_or_never().is_some() {
            self.fate.set(Fate::DELETED);
        }
        self.fate.known()
    }

    pub(crate) fn fate(&self) -> &Arc<Fate> {
        &self.fate
    }

    pub(crate) fn slot(&self) -> Option<&Arc<Slot>> {
        self.slot.as_ref()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.fate.set(Fate::RELEASED);
    }
}

/// What became of a hold's node. The first word is the last.
#[derive(Debug, Default)]
pub(crate) struct Fate(AtomicU8);

impl Fate {
    pub(crate) const DELETED: u8 = 1;
    pub(crate) const RELEASED: u8 = 2;

    /// Remembers it, unless something is known already; what is known then.
    pub(crate) fn set(&self, fate: u8) -> LossReason {
        // An error says that there was a word before.
        let _ = self.0.compare_exchange(0, fate, Ordering::AcqRel, Ordering::Acquire);
        self.known().unwrap_or(LossReason::Released)
    }

    pub(crate) fn known(&self) -> Option<LossReason> {
        match self.0.load(Ordering::Acquire) {
            0 => None,
            Self::DELETED => Some(LossReason::NodeDeleted),
            _ => Some(LossReason::Released),
        }
    }
}

/// Waits until the node is gone, beginning with the watch that is set already, if one is. Trouble
/// with the session is not this one's to tell: it is waited out.
///
/// The watch is one on the node's children. It has none, so nothing but the deletion fires it;
/// a watch on the data would have to be set again at each request to give the lock up.
pub(crate) async fn deleted(client: Client, node: Node, mut armed: Option<Watch>) {
    loop {
        let event = match armed.take() {
            Some(watch) => watch.await,
            None => match client.get_children_and_watch(&node.path).await {
                Ok((children, watch)) if children.stat.czxid == node.czxid => watch.await,
                Ok(_) => return,
                Err(error) if error.code() == Some(ErrorCode::NO_NODE) => return,
                Err(error) => Err(error),
            },
        };
        let failed: Error = match event {
            Ok(event) if event.event_type == EventType::NODE_DELETED => return,
            // Over a cut: somebody may have made the node again.
            Ok(_) => continue,
            Err(error) => error,
        };
        if !passes(&failed) {
            futures::future::pending::<()>().await;
        }
        pause(&failed).await;
    }
}
