//! How a member enters a double barrier, and how it withdraws.
//!
//! A member creates its node only while there is no `ready`, and then lists the members. The newest
//! member sees all the others that are alive, so at least one member sees `n` of them. That one opens
//! the barrier. The others wait for `ready`, and need not list the members again.
//!
//! If many members arrive together, many of them see `n`. An opening reads every member, so only the
//! newest one opens at once: no child was created or deleted since its own node. If the newest one does
//! not open, because it has died or because another child was deleted, the others do so one after the
//! other; see [`Watched::turn`].
//!
//! A node that is created too late for a generation is deleted again, under the condition that no
//! later generation has opened with it.

use std::time::Duration;

use futures::TryFutureExt as _;
use futures::future::{select, try_join};
use zk_recipes::session::{
    Client, CreateMode, Error, ErrorCode, ErrorKind, Operation, Outcome, ParentMode, Stat, Watch,
    Zxid, path,
};

use super::double::DoubleBarrier;
use super::entered::Entered;
use super::error::BarrierError;
use super::generation::{READY, Ready, View, first_remaining, members, view, wait_for_end};
use super::member_node::MemberNode;
use crate::limits::{
    OPENING_PAUSE, OPENING_PAUSE_PER_MEMBER, READS_IN_FLIGHT, RESTARTS_MAX, WITHDRAWAL_PART,
    WITHDRAWAL_TIME,
};
use crate::requests::{CONFLICT_POLICY, is_transient, one_attempt, repeat, retry, unless, within};

impl DoubleBarrier {
    /// Becomes a member, and waits until there are `n`.
    ///
    /// # Errors
    /// Fails if the session ends, or if the server rejects a request;
    /// [`BarrierError::NodeDeleted`]. The member's node is deleted.
    ///
    /// # Cancel safety
    /// If the future is dropped, the session deletes the member's node. The barrier may have opened
    /// before; the member then counts as one that has left.
    pub async fn enter(&self) -> Result<Entered, BarrierError> {
        Entering::new(self).enter().await
    }

    /// As [`enter`](Self::enter), for at most `timeout`. Returns `None` after that time; the member's
    /// node is then deleted, and the barrier had not opened with it. A member that still waits for the
    /// end of the last generation has no node, and needs no answer.
    ///
    /// The delete is a transaction that fails if the barrier has opened meanwhile. In that case the
    /// member has entered after all.
    ///
    /// With a timeout of zero, only the last member of a generation enters. The attempt
    /// waits for the replies of a server that answers, and neither for other members nor for a
    /// connection.
    ///
    /// # Errors
    /// As [`enter`](Self::enter). If the ensemble does not answer within
    /// [`WITHDRAWAL_TIME`](crate::limits::WITHDRAWAL_TIME), or a third of the session timeout, after the
    /// timeout, the error is a timeout with an unknown outcome: the barrier may have opened. The session
    /// deletes the node when it has reconnected.
    ///
    /// # Cancel safety
    /// As [`enter`](Self::enter).
    pub async fn enter_timeout(&self, timeout: Duration) -> Result<Option<Entered>, BarrierError> {
        let mut entering = Entering::new(self);
        let entered = if timeout.is_zero() {
            one_attempt(&self.client, entering.try_enter()).await.transpose()?.flatten()
        } else {
            within(&self.client, timeout, entering.enter()).await.transpose()?
        };
        match entered {
            Some(entered) => Ok(Some(entered)),
            None => entering.withdraw_in_time().await,
        }
    }
}

/// A member that has not entered. Dropping it deletes its node.
#[derive(Debug)]
pub(super) struct Entering<'a> {
    barrier: &'a DoubleBarrier,
    member: Option<MemberNode>,
}

impl<'a> Entering<'a> {
    pub(super) fn new(barrier: &'a DoubleBarrier) -> Self {
        Self { barrier, member: None }
    }

    /// Waits until the barrier has opened with this member.
    pub(super) async fn enter(&mut self) -> Result<Entered, BarrierError> {
        loop {
            let entered = self.wait_for_opening(Patience::Waits).await;
            if let Some(entered) = entered.map_err(|error| self.with_outcome(error))? {
                return Ok(entered);
            }
        }
    }

    /// Enters if no other member has to come first. Returns `None` otherwise.
    async fn try_enter(&mut self) -> Result<Option<Entered>, BarrierError> {
        let entered = self.wait_for_opening(Patience::OneAttempt).await;
        entered.map_err(|error| self.with_outcome(error))
    }

    /// Sets the outcome of the entry, instead of that of the failed request. Without a node, no barrier
    /// has opened with this member. With one, it may have.
    fn with_outcome(&self, error: BarrierError) -> BarrierError {
        let outcome = if self.member.is_some() { Outcome::Unknown } else { Outcome::NotApplied };
        match error {
            BarrierError::Client(error) => BarrierError::Client(error.with_outcome(outcome)),
            error => error,
        }
    }

    /// Becomes a member, and waits until the barrier has opened with it. Returns `None` if one attempt is
    /// not enough: other members have to leave the last generation, or to join this one.
    async fn wait_for_opening(
        &mut self,
        patience: Patience,
    ) -> Result<Option<Entered>, BarrierError> {
        let DoubleBarrier { client, path, .. } = self.barrier;
        let mut conflicts = CONFLICT_POLICY.begin();
        let mut deletions = 0;
        loop {
            let Some(member) = self.member.as_ref().map(|member| member.path().to_owned()) else {
                if deletions > RESTARTS_MAX {
                    return Err(BarrierError::NodeDeleted { path: path.clone() });
                }
                // Its `ready` must not be taken for that of the next one.
                while let Some(ready) = self.last_generation().await? {
                    match patience {
                        Patience::Waits => wait_for_end(self.barrier, ready).await?,
                        Patience::OneAttempt => {
                            if first_remaining(self.barrier, ready).await?.is_some() {
                                return Ok(None);
                            }
                        }
                    }
                    deletions = 0;
                }
                self.create().await?;
                continue;
            };
            match self.read_state(&member).await? {
                BarrierState::Open(view) => return self.entered(view).map(Some),
                BarrierState::TooLate(view) => self.withdraw(&member, view.version).await?,
                BarrierState::Deleted => {
                    deletions += 1;
                    self.forget();
                }
                BarrierState::Changed => {}
                BarrierState::Few(_) if patience == Patience::OneAttempt => return Ok(None),
                BarrierState::Few(mut watched) => watched.changed().await,
                BarrierState::Enough(view, mut watched) => {
                    let turn = watched.turn(path::file_name(&member));
                    let is_turn = turn.is_zero()
                        || patience == Patience::OneAttempt
                        || within(client, turn, watched.changed()).await.is_none();
                    if is_turn && !self.open(&view, &watched.members).await? {
                        conflicts.pause(client).await;
                    }
                }
            }
        }
    }

    /// Withdraws after a timeout. Returns the member if the barrier has opened with it.
    pub(super) async fn withdraw_in_time(&mut self) -> Result<Option<Entered>, BarrierError> {
        if self.member.is_none() {
            return Ok(None);
        }
        let client = &self.barrier.client;
        let time = WITHDRAWAL_TIME.max(WITHDRAWAL_PART.of(client.session_timeout()));
        let withdrawn = within(client, time, self.withdraw_unless_open()).await;
        let withdrawn = withdrawn.unwrap_or_else(|| {
            let error = Error::not_applied(ErrorKind::TimedOut);
            Err(error.on(Operation::EnterBarrier, self.barrier.path.as_str()).into())
        });
        withdrawn.map_err(|error| self.with_outcome(error))
    }

    /// The `sync` shows what became of a request whose reply was lost.
    async fn withdraw_unless_open(&mut self) -> Result<Option<Entered>, BarrierError> {
        let DoubleBarrier { client, path, .. } = self.barrier;
        retry(client).run(|client| client.sync(path)).await?;
        while let Some(member) = self.member.as_ref().map(|member| member.path().to_owned()) {
            match self.seen(&member).await? {
                None => self.member = None,
                Some((stat, view)) if view.admits(&stat) => return self.entered(view).map(Some),
                Some((_, view)) => self.withdraw(&member, view.version).await?,
            }
        }
        Ok(None)
    }

    /// Returns the `ready` of the generation before, if it is not over.
    async fn last_generation(&self) -> Result<Option<Zxid>, Error> {
        let DoubleBarrier { client, path, .. } = self.barrier;
        let seen = retry(client).run(|client| view(client.clone(), path)).await?;
        Ok(seen.and_then(|view| view.ready).map(|ready| ready.czxid))
    }

    /// Creates the member's node, with a name that was never used before.
    async fn create(&mut self) -> Result<(), Error> {
        let DoubleBarrier { client, path, acl, .. } = self.barrier;
        let acl = acl.entries();
        let own = path::child(path, &path::random_uuid(client));
        // Before the request, so that a node is deleted if the reply is lost.
        self.member = Some(MemberNode::new(client, own.clone()));
        loop {
            let mode = CreateMode::Ephemeral;
            let created = retry(client).create_with_acl(&own, b"", mode, acl).await;
            match unless(ErrorCode::NO_NODE, created) {
                Ok(Some(_)) => return Ok(()),
                Ok(None) => {}
                Err(error) => {
                    if error.outcome() == Outcome::NotApplied {
                        self.forget();
                    }
                    return Err(error);
                }
            }
            let create = || client.ensure_path_with_acl(path, ParentMode::Containers, acl);
            if let Err(error) = repeat(client, create).await.reply {
                self.forget(); // the server has rejected the node
                return Err(error);
            }
        }
    }

    /// Reads the state of the barrier, and watches it unless it is open.
    async fn read_state(&self, member: &str) -> Result<BarrierState, Error> {
        let client = &self.barrier.client;
        let Some((stat, view)) = self.seen(member).await? else { return Ok(BarrierState::Deleted) };
        match &view.ready {
            Some(_) if view.admits(&stat) => return Ok(BarrierState::Open(view)),
            Some(_) => return Ok(BarrierState::TooLate(view)),
            None => {}
        }
        let watch = |client: &Client| watch(client.clone(), &self.barrier.path, member);
        let Some(watched) = retry(client).run(watch).await? else {
            return Ok(BarrierState::Deleted);
        };
        Ok(if watched.is_ready {
            BarrierState::Changed
        } else if watched.members.len() >= self.barrier.members {
            BarrierState::Enough(view, watched)
        } else {
            BarrierState::Few(watched)
        })
    }

    /// Reads the member's node, and the barrier. Returns `None` if the node does not exist.
    async fn seen(&self, member: &str) -> Result<Option<(Stat, View)>, Error> {
        let DoubleBarrier { client, path, .. } = self.barrier;
        let read = |client: &Client| {
            let view = view(client.clone(), path);
            try_join(client.exists(member), view).map_ok(|(own, view)| own.zip(view))
        };
        retry(client).run(read).await
    }

    /// Opens the barrier with the oldest `n` members. Returns false if something has changed.
    async fn open(&self, view: &View, members: &[String]) -> Result<bool, BarrierError> {
        let DoubleBarrier { client, path, members: count, acl } = self.barrier;
        let Some(members) = self.by_age(members).await? else { return Ok(false) };
        let Some(members) = members.get(..*count) else { return Ok(false) };
        let newest = members.last().map_or(Zxid::ZERO, |(czxid, _)| *czxid);
        let (ready, data) = (path::child(path, READY), Ready::data(newest));
        let checks =
            members.iter().fold(client.multi(), |multi, (_, name)| multi.check(name, None));
        let opened = checks
            .set_data(path, &view.data, Some(view.version))
            .create_with_acl(&ready, data.as_bytes(), CreateMode::Persistent, acl.entries())
            .send()
            .await;
        let Err(error) = opened else { return Ok(true) };
        match error.code() {
            Some(ErrorCode::NO_NODE | ErrorCode::BAD_VERSION | ErrorCode::NODE_EXISTS) => Ok(false),
            // The next read shows whether it was applied.
            _ if is_transient(&error) => Ok(false),
            _ => Err(error.into()),
        }
    }

    /// Returns the members with their `czxid`, the oldest first, or `None` if one has gone.
    async fn by_age(&self, members: &[String]) -> Result<Option<Vec<(Zxid, String)>>, Error> {
        let DoubleBarrier { client, path, .. } = self.barrier;
        let mut aged = Vec::with_capacity(members.len());
        for chunk in members.chunks(READS_IN_FLIGHT) {
            let paths = chunk.iter().map(|name| path::child(path, name));
            let asked: Vec<_> = paths.map(|path| (client.exists(&path), path)).collect();
            for (stat, path) in asked {
                match stat.await {
                    Ok(Some(stat)) => aged.push((stat.czxid, path)),
                    Ok(None) => return Ok(None),
                    Err(error) if is_transient(&error) => return Ok(None),
                    Err(error) => return Err(error),
                }
            }
        }
        aged.sort_unstable();
        Ok(Some(aged))
    }

    /// Deletes the member's node, unless a generation has opened since the barrier's node had this
    /// version.
    async fn withdraw(&mut self, member: &str, version: i32) -> Result<(), Error> {
        let DoubleBarrier { client, path, .. } = self.barrier;
        let delete = || client.multi().check(path, Some(version)).delete(member, None).send();
        match repeat(client, delete).await.reply {
            Ok(_) => self.forget(),
            Err(error) if error.is_no_node() => self.forget(),
            Err(error) if error.is_bad_version() => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn forget(&mut self) {
        if let Some(mut member) = self.member.take() {
            member.set_deleted();
        }
    }

    fn entered(&mut self, View { ready, .. }: View) -> Result<Entered, BarrierError> {
        let deleted = || BarrierError::NodeDeleted { path: self.barrier.path.clone() };
        let (Some(member), Some(ready)) = (self.member.take(), ready) else {
            return Err(deleted());
        };
        Ok(Entered::new(self.barrier, member, ready.czxid))
    }
}

/// How long a member waits for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patience {
    /// Until they come, or leave.
    Waits,
    /// Not at all: the member opens the barrier itself, or not.
    OneAttempt,
}

/// State of the barrier, for a member that has not entered.
enum BarrierState {
    /// The barrier has opened with it.
    Open(View),
    /// The barrier has opened without it.
    TooLate(View),
    /// Its node does not exist.
    Deleted,
    /// The barrier has opened in the meantime.
    Changed,
    /// There are fewer members than necessary.
    Few(Watched),
    /// There are enough members. This one opens the barrier at its turn, unless a watch fires before.
    Enough(View, Watched),
}

impl View {
    /// Returns true if the barrier has opened with the live member of this node.
    fn admits(&self, member: &Stat) -> bool {
        self.ready.as_ref().is_some_and(|ready| ready.admits(member.czxid))
    }
}

/// The members of a barrier, with the watches on `ready` and on its node that wake a waiting member.
struct Watched {
    is_ready: bool,
    members: Vec<String>,
    /// The member's node is the last change of the barrier's children.
    is_newest: bool,
    ready: Watch,
    own: Watch,
}

impl Watched {
    /// Waits until `ready` or the member's node has changed.
    async fn changed(&mut self) {
        drop(select(&mut self.ready, &mut self.own).await);
    }

    /// Returns how long the member leaves the opening to others: one step, and another one each time that
    /// the number of members before it, by name, doubles. So one of them is the first.
    fn turn(&self, member: &str) -> Duration {
        if self.is_newest {
            return Duration::ZERO;
        }
        let before = self.members.iter().filter(|name| name.as_str() < member).count();
        let count = u32::try_from(self.members.len()).unwrap_or(u32::MAX);
        let step = OPENING_PAUSE + OPENING_PAUSE_PER_MEMBER.saturating_mul(count);
        step.saturating_mul(1 + (before + 1).ilog2())
    }
}

/// Sets the watches of a waiting member, and then lists the members. Returns `None` if the member's
/// node does not exist.
async fn watch(client: Client, barrier: &str, member: &str) -> Result<Option<Watched>, Error> {
    let (ready, own, children) = {
        let _one_write = client.batch();
        let ready = client.exists_and_watch(&path::child(barrier, READY));
        (ready, client.exists_and_watch(member), client.get_children(barrier))
    };
    let ((opened, ready), (own, own_watch)) = (ready.await?, own.await?);
    let Some(children) = unless(ErrorCode::NO_NODE, children.await)? else { return Ok(None) };
    let members = members(&children);
    let is_ready = opened.is_some();
    Ok(own.map(|own| {
        let is_newest = children.stat.pzxid <= own.czxid;
        Watched { is_ready, members, is_newest, ready, own: own_watch }
    }))
}
