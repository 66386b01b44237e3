//! One node in the queue: put in once, found again after a lost answer, and taken
//! out for certain.

use std::sync::Arc;

use futures::FutureExt;
use tokio::task::unconstrained;
use zk_session::{
    Children, Client, CreateMode, Created, ErrorCode, LeaseClaim, Outcome, Pending, Watch,
};

use super::admission::Admission;
use super::attempts::Attempts;
use super::foreign::{Recipe, refuse_before_leases};
use super::kind::Kind;
use super::name::{self, protection, sequence};
use super::parents;
use crate::error::LockError;
use crate::limits::{PARENT_ATTEMPTS_MAX, SEQUENCE_END};
use crate::planted::{self, Planted};

/// A contender for a lock, from before its node exists until it is gone.
///
/// Dropping it, at whatever moment, leaves no node behind: the clean-up is handed
/// to the session, which sees to it over reconnects.
#[derive(Debug)]
pub(crate) struct Contender {
    client: Client,
    kind: Arc<Kind>,
    protection: String,
    /// Once the contender is next in line. Until then nothing rests on the lease, and keeping it
    /// renewed would cost the ensemble writes for everybody who waits.
    claim: Option<LeaseClaim>,
    state: State,
    /// The watch on the own node that it waited with.
    watch: Option<Watch>,
}

#[derive(Debug)]
enum State {
    /// There is no node.
    Out,
    /// There may be a node: the answer to its creation has not been seen.
    Asked,
    /// There is a node.
    In(Node),
}

/// Whether there is a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Out,
    Unknown,
    In,
}

/// A contender's node.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) path: String,
    /// The transaction that made the node. It grows over the life of the whole
    /// ensemble; the sequence number starts again when an empty lock is removed.
    pub(crate) czxid: i64,
}

impl Contender {
    pub(crate) fn new(client: &Client, kind: &Arc<Kind>) -> Self {
        let id = planted::id_for_life(kind).unwrap_or_else(|| client.draw_uuid());
        Self {
            client: client.clone(),
            kind: kind.clone(),
            protection: protection(&id),
            claim: None,
            state: State::Out,
            watch: None,
        }
    }

    /// Keeps the watch on the own node for as long as the node is there.
    pub(crate) fn keep_watch(&mut self, watch: Option<Watch>) {
        self.watch = watch;
    }

    pub(crate) fn take_watch(&mut self) -> Option<Watch> {
        self.watch.take()
    }

    /// True if there may be anything to hear of the own node: nobody knows without a watch.
    pub(crate) fn has_news(&mut self) -> bool {
        // A task that has used up its budget would not be told of an event that is there.
        let has_fired = |armed: &mut Watch| unconstrained(armed).now_or_never().is_some();
        if self.watch.as_mut().is_some_and(has_fired) {
            self.watch = None;
        }
        self.watch.is_none()
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn kind(&self) -> &Arc<Kind> {
        &self.kind
    }

    /// The claim on the session's lease, from now on if there was none.
    pub(crate) fn claim(&mut self) -> &LeaseClaim {
        self.claim.get_or_insert_with(|| self.client.claim_lease())
    }

    pub(crate) fn presence(&self) -> Presence {
        match &self.state {
            State::Out => Presence::Out,
            State::Asked => Presence::Unknown,
            State::In(_) => Presence::In,
        }
    }

    pub(crate) fn node(&self) -> Option<&Node> {
        match &self.state {
            State::In(node) => Some(node),
            State::Out | State::Asked => None,
        }
    }

    /// Puts a node into the queue, and gives the list of children that was asked
    /// for in the same write, unless something came in between.
    ///
    /// There is at most one node whatever happens: after a lost answer the node is
    /// looked for, by the id in its name, before another one is made.
    pub(crate) async fn enter(&mut self) -> Result<Option<Children>, LockError> {
        let (data, path) = (self.data(), self.path_asked_for(""));
        let (mut attempts, mut parent_attempts) = (Attempts::default(), 0);
        if Planted::AdoptDeadSessionsNode.is_on() && Box::pin(self.find()).await? {
            return Ok(None);
        }
        loop {
            let (created, listed) = {
                let _one_write = self.client.batch();
                let mode = CreateMode::EphemeralSequential;
                let created = self.client.create_with_acl(&path, &data, mode, self.kind.acl());
                // Who counts many of them asks for one list for all.
                let listed = (!self.is_lease()).then(|| self.client.get_children(&self.kind.path));
                (created, listed)
            };
            let error = match Creating::of(&mut self.state, created).answer().await {
                Ok(created) => {
                    self.take(created)?;
                    return Ok(match listed {
                        Some(listed) => listed.await.ok(),
                        None => None,
                    });
                }
                Err(error) => error,
            };
            if error.outcome() == Outcome::Unknown && !is_final(&error) {
                // On the heap, as it is rare: all who wait keep the room for what is not.
                if !Planted::BlindRecreate.is_on() && Box::pin(self.find()).await? {
                    return Ok(None);
                }
                attempts.again_if_unknown(&self.client, error).await?;
                continue;
            }
            if error.outcome() == Outcome::Applied {
                // There is a node, under a name that could not be read: swept on drop.
                return Err(error.into());
            }
            self.state = State::Out;
            let attempts_max = planted::parent_attempts_max().unwrap_or(PARENT_ATTEMPTS_MAX);
            if error.code() == Some(ErrorCode::NO_NODE) && parent_attempts < attempts_max {
                parent_attempts += 1;
                if self.kind.exclusive == Some(Recipe::Semaphore) {
                    Box::pin(refuse_before_leases(&self.client, &self.kind.path)).await?;
                }
                parents::make(&self.client, &self.kind.path, self.kind.acl()).await?;
            } else {
                attempts.again(&self.client, error).await?;
            }
        }
    }

    /// What the node's data is to be.
    pub(crate) fn data(&self) -> Arc<[u8]> {
        self.kind.data.clone().unwrap_or_else(|| local_address(&self.client).into())
    }

    /// The path of the node as far as it is up to this end, and then `sequence`.
    pub(crate) fn path_asked_for(&self, sequence: &str) -> String {
        let name = [&*self.protection, &*self.kind.lock_name, sequence].concat();
        parents::child(&self.kind.path, &name)
    }

    /// From now on there may be a node of the path asked for, which somebody else than
    /// [`enter`](Self::enter) makes.
    pub(crate) fn expect_node(&mut self) {
        self.state = State::Asked;
    }

    /// There is none, and there will be none: it was not made, or has gone with a
    /// transaction.
    pub(crate) fn forget_node(&mut self) {
        self.state = State::Out;
    }

    /// Looks for the node of a create whose answer was lost.
    async fn find(&mut self) -> Result<bool, LockError> {
        let mut attempts = Attempts::default();
        loop {
            // This server may be behind the one that took the create. The sync also
            // orders the list after everything the old connection still had in the
            // pipes: the leader refuses what comes through a connection the session
            // has moved away from.
            let (synced, listed) = {
                let _one_write = self.client.batch();
                (self.client.sync(&self.kind.path), self.client.get_children(&self.kind.path))
            };
            let found = match (synced.await, listed.await) {
                (Ok(()), Ok(children)) => children
                    .names
                    .names()
                    .find(|name| name.starts_with(&self.protection))
                    .map(|name| parents::child(&self.kind.path, &name)),
                (Ok(()), Err(error)) if error.code() == Some(ErrorCode::NO_NODE) => None,
                (Err(error), _) | (_, Err(error)) => {
                    attempts.again(&self.client, error).await?;
                    continue;
                }
            };
            let Some(path) = found else {
                self.state = State::Out;
                return Ok(false);
            };
            match self.client.exists(&path).await {
                Ok(Some(stat)) => {
                    self.take(Created { path, stat })?;
                    return Ok(true);
                }
                Ok(None) => {} // gone since the list was made
                Err(error) => attempts.again(&self.client, error).await?,
            }
        }
    }

    /// The node is ours if this session owns it; a node that another session left
    /// behind is as good as gone already (CURATOR-604).
    pub(crate) fn take(&mut self, Created { path, stat }: Created) -> Result<(), LockError> {
        let number = sequence(name::of(&path), self.kind.rule());
        self.state = State::In(Node { path: path.clone(), czxid: stat.czxid });
        let is_own = stat.ephemeral_owner == self.client.session_id();
        if !is_own && !Planted::AdoptDeadSessionsNode.is_on() {
            self.state = State::Out; // nor is it ours to delete
            return Err(LockError::Vanished { path });
        }
        match number {
            Some(number) if number < SEQUENCE_END => Ok(()),
            _ => Err(LockError::SequenceExhausted { node: path }),
        }
    }

    /// Leaves the queue, if need be, to start over under a new name, so that no
    /// late answer of the old attempt can be mistaken for one of the new.
    pub(crate) fn restart(&mut self) {
        self.clean_up();
        self.claim = None; // it is not next in line any more
        self.protection = protection(&self.client.draw_uuid());
    }

    /// Takes the node out and waits until the server has said so; false if somebody
    /// else had taken it out before.
    pub(crate) async fn leave(&mut self) -> Result<bool, zk_session::Error> {
        match std::mem::replace(&mut self.state, State::Out) {
            State::In(node) => self.client.delete_guaranteed(&node.path).await,
            State::Asked => {
                self.client.delete_protected_guaranteed(&self.kind.path, &self.protection);
                Ok(true)
            }
            State::Out => Ok(true),
        }
    }

    fn is_lease(&self) -> bool {
        self.kind.admission == Admission::Counted
    }

    fn clean_up(&mut self) {
        match std::mem::replace(&mut self.state, State::Out) {
            State::In(_) if Planted::TimeoutLeavesNode.is_on() => {}
            State::In(_) if Planted::LeaseNotReturned.is_on() && self.is_lease() => {}
            State::Asked if Planted::CancelForgetsCreate.is_on() => {}
            State::In(node) => drop(self.client.delete_guaranteed(&node.path)),
            State::Asked => {
                self.client.delete_protected_guaranteed(&self.kind.path, &self.protection)
            }
            State::Out => {}
        }
    }
}

/// A create that is under way. One that has not left when nobody waits for it any more is
/// taken back, and nothing has to be cleaned up after it: in an outage, a service may give
/// up waiting for a lock very often.
struct Creating<'a> {
    state: &'a mut State,
    asked: Pending<Created>,
}

impl<'a> Creating<'a> {
    fn of(state: &'a mut State, asked: Pending<Created>) -> Self {
        *state = State::Asked;
        Self { state, asked }
    }

    async fn answer(mut self) -> Result<Created, zk_session::Error> {
        (&mut self.asked).await
    }
}

impl Drop for Creating<'_> {
    fn drop(&mut self) {
        if self.asked.take_back() {
            *self.state = State::Out;
        }
    }
}

impl Drop for Contender {
    fn drop(&mut self) {
        self.clean_up();
    }
}

/// True when the session is over: nothing is left to look for.
pub(crate) fn is_final(error: &zk_session::Error) -> bool {
    error.fault() == zk_session::Fault::Session
}

fn local_address(client: &Client) -> Vec<u8> {
    client.local_address().map(|address| address.to_string().into_bytes()).unwrap_or_default()
}
