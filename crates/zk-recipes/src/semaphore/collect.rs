//! Collecting permits: one node for each below `leases`, all of them during one turn of the mutex
//! below `locks`.
//!
//! The turn makes a queue of the waiters, so that only one of them waits with its nodes, and lists the
//! permits at each change. Mutual exclusion does not depend on the turn, so a caller that expects a free
//! permit ends it at once. A caller holds its permits once the node of its last one ranks within the
//! limit among all of them. In any set of holders, all but the last already had their nodes when the
//! last one read the list.

use std::collections::HashSet;
use std::future::Future;
use std::pin::{Pin, pin};

use futures::future::{Either, OptionFuture, join3, join5, select, try_join_all};
use zk_session::path::file_name;
use zk_session::{ChildList, Error, LeaseTerm, Repeat, SessionLease, Watch, Zxid};

use super::Semaphore;
use super::limit::Followed;
use super::path_check::PathCheck;
use crate::error::LockError;
use crate::hold::{Guard, deleted};
use crate::limits::{PERMITS_CHUNK, RESTARTS_MAX};
use crate::observe::AcquireObserver;
use crate::queue::contender::{Contender, Granted, Look, Node, is_unwatchable};
use crate::queue::waiter::{Waiter, bind_or_renew};
use crate::queue::watch_set::is_set;
use crate::queue::{Queue, one_write};
use crate::retry::{if_exists, retry, retry_after};

impl Semaphore {
    /// Waits until the permits are acquired, without a time limit.
    pub(super) async fn collect(&self, count: u32) -> Result<Vec<Guard>, LockError> {
        let mut limit = self.limit.follow().await?;
        // Two callers that each wait for several permits could both have some.
        let mut may_end_early = count == 1;
        let mut observed = None;
        let mut restarts = 0;
        while restarts < RESTARTS_MAX {
            // A caller that needs more permits than the limit must not block the queue.
            limit.at_least(count).await?;
            // Dropped at the end of the turn. The session then deletes its node, over reconnects if
            // necessary; the permits do not depend on that.
            let mut own_turn = Waiter::observed_by(&self.turns, self.permits.spec.observe_turn());
            own_turn.reach_head().await?;
            // Declared after the turn, so that the permits are dropped first.
            let mut permits = Permits::new(self, count, &mut limit, observed.take());
            permits.continue_hand_off(&own_turn);
            // On the heap: of all waiters only the head of the queue needs this memory.
            if may_end_early && self.free_turns().expect_a_permit() {
                let taken = Box::pin(permits.take(Some(own_turn))).await?;
                self.free_turns().record(taken.is_some());
                if let Some(term) = taken {
                    return permits.into_guards(term);
                }
                // It queues again without the lease. It must not wait with it: a Curator client with
                // the turn waits until the leases are few enough, also those behind its own.
                may_end_early = false;
                observed = permits.observer_of_another_turn();
                continue;
            }
            match Box::pin(permits.collect(&own_turn)).await? {
                TurnOutcome::Granted(term) => return permits.into_guards(term),
                TurnOutcome::LimitTooLow => {}
                TurnOutcome::Lost => restarts += 1,
                TurnOutcome::TurnDeleted => {
                    own_turn.contender.forget_node(); // another client may have made one of its name
                    restarts += 1;
                }
            }
        }
        Err(LockError::NodeDeleted { path: self.turns.spec.path.clone() })
    }

    /// Acquires the permits if they are free now. This needs no turn: a permit that the head of the
    /// queue waits for is not free, because its node already exists.
    pub(super) async fn try_collect(&self, count: u32) -> Result<Option<Vec<Guard>>, LockError> {
        let mut limit = self.limit.follow().await?;
        if count > limit.now() {
            return Ok(None);
        }
        let mut permits = Permits::new(self, count, &mut limit, None);
        let granted = permits.take(None).await?;
        granted.map(|term| permits.into_guards(term)).transpose()
    }

    /// Returns the check of the path, unless other recipes may use the path as well.
    fn path_check(&self) -> Option<&PathCheck> {
        self.permits.spec.exclusive.is_some().then_some(&*self.path)
    }
}

enum TurnOutcome {
    Granted(LeaseTerm),
    /// The limit is now below the number of permits.
    LimitTooLow,
    /// Other clients deleted the nodes of the permits, again and again.
    Lost,
    /// Another client deleted the node of the turn, so another contender may have the turn. Two
    /// contenders that each wait for several permits must not both keep some.
    TurnDeleted,
}

/// Position of the caller's last permit among the permits of all contenders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PermitRank {
    /// Within the limit.
    Within,
    Behind,
    /// The node of one of the caller's permits is gone.
    Missing,
}

/// The permits of one acquisition.
struct Permits<'a> {
    semaphore: &'a Semaphore,
    limit: &'a mut Followed,
    count: u32,
    permits: Vec<Permit>,
    lease: Option<SessionLease>,
}

/// A permit that is held, or waited for.
struct Permit {
    contender: Contender,
    /// The watch on the node, if it had to wait.
    watch: Option<Watch>,
    observed: Option<Box<AcquireObserver>>,
}

impl<'a> Permits<'a> {
    /// `observed` is that of a caller for one permit that has queued again.
    fn new(
        semaphore: &'a Semaphore,
        count: u32,
        limit: &'a mut Followed,
        mut observed: Option<Box<AcquireObserver>>,
    ) -> Self {
        let permits = (0..count).map(|_| Permit::new(semaphore, observed.take())).collect();
        Self { semaphore, limit, count, permits, lease: None }
    }

    /// Creates the nodes of the permits, and ends the turn in the same write. Returns the term of the lease
    /// if the permits are within the limit.
    async fn take(&mut self, turn: Option<Waiter>) -> Result<Option<LeaseTerm>, LockError> {
        let mut rank = self.enter(turn).await?;
        while rank == PermitRank::Within {
            match self.bind().await? {
                Some(term) => return Ok(Some(term)),
                None => rank = self.list().await?.0,
            }
        }
        Ok(None)
    }

    /// Creates the nodes of the permits, and waits until they are within the limit.
    async fn collect(&mut self, own_turn: &Waiter) -> Result<TurnOutcome, LockError> {
        let Some(turn_node) = own_turn.contender.node() else { return Ok(TurnOutcome::Lost) };
        let mut turn_lost = pin!(deleted(self.semaphore.permits.client.clone(), turn_node, None));
        let mut rank = self.enter(None).await?;
        if self.count == 1 {
            self.semaphore.free_turns().record(rank == PermitRank::Within);
        }
        let mut restarts = 0;
        loop {
            if self.count > self.limit.now() {
                return Ok(TurnOutcome::LimitTooLow);
            }
            rank = match rank {
                PermitRank::Within => match self.bind().await? {
                    Some(term) => return Ok(TurnOutcome::Granted(term)),
                    None => self.list().await?.0,
                },
                PermitRank::Missing if restarts == RESTARTS_MAX => return Ok(TurnOutcome::Lost),
                PermitRank::Missing => {
                    restarts += 1;
                    self.permits.iter_mut().for_each(Permit::restart);
                    self.enter(None).await?
                }
                PermitRank::Behind => match self.list_and_watch().await? {
                    None => PermitRank::Missing,
                    Some(_) if self.count > self.limit.now() => {
                        return Ok(TurnOutcome::LimitTooLow);
                    }
                    Some((PermitRank::Behind, watch)) => {
                        if !self.changed(watch, turn_lost.as_mut()).await? {
                            return Ok(TurnOutcome::TurnDeleted);
                        }
                        PermitRank::Behind
                    }
                    Some((rank, _)) => rank,
                },
            };
        }
    }

    /// Waits until the list of permits or the limit changes. Returns false if the turn is lost.
    async fn changed(
        &mut self,
        watch: Watch,
        turn_lost: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<bool, LockError> {
        self.observe(AcquireObserver::blocked);
        match select(select(watch, pin!(self.limit.changed())), turn_lost).await {
            Either::Left((Either::Left((event, _)), _)) => drop(event?),
            Either::Left((Either::Right((changed, _)), _)) => changed?,
            Either::Right(((), _)) => return Ok(false),
        }
        self.observe(AcquireObserver::unblocked);
        Ok(true)
    }

    /// Creates the missing nodes and evaluates the list of permits. The same write requests the list
    /// and then the limit. A limit that was lowered before a permit was released is not exceeded so. It also
    /// ends the turn, if it is given: whoever is next sees the permits.
    async fn enter(&mut self, turn: Option<Waiter>) -> Result<PermitRank, LockError> {
        let Queue { client, spec: permits, .. } = &self.semaphore.permits;
        let path_check = self.semaphore.path_check();
        let (listed, beside) = one_write(client, async {
            let created = create(&mut self.permits);
            let listed = async { client.get_children(&permits.path).await };
            let beside = async {
                let asked = path_check.and_then(|path| path.list(client));
                OptionFuture::from(asked).await
            };
            let turn_ends = async { drop(turn) };
            let (created, listed, refreshed, beside, ()) =
                join5(created, listed, self.limit.refresh(), beside, turn_ends).await;
            created.and(refreshed).map(|()| (listed, beside))
        })
        .await?;
        let found = listed.ok().map(|listed| (self.rank(&listed.names), Some(listed.stat.czxid)));
        // A list from before the creation of the last node is not valid.
        let ((rank, parent), beside) = match found {
            Some(found) if found.0 != PermitRank::Missing => (found, beside),
            _ => (self.list().await?, None),
        };
        match path_check {
            Some(path) if !path.is_checked(parent) => {
                Box::pin(path.check(client, parent, beside)).await?;
            }
            _ => {}
        }
        Ok(rank)
    }

    /// Lists the permits. Also returns the czxid of their parent if all nodes of the caller exist.
    async fn list(&mut self) -> Result<(PermitRank, Option<Zxid>), LockError> {
        let Queue { client, spec: permits, .. } = &self.semaphore.permits;
        let request = || client.get_children(&permits.path);
        Ok(match self.look(request).await? {
            None => (PermitRank::Missing, None),
            Some(children) => match self.rank(&children.names) {
                PermitRank::Missing => (PermitRank::Missing, None),
                rank => (rank, Some(children.stat.czxid)),
            },
        })
    }

    /// Lists the permits, with a watch that fires when one is created or deleted. Returns `None` if a node
    /// of the caller is gone. Only the head of the queue sets this watch.
    async fn list_and_watch(&mut self) -> Result<Option<(PermitRank, Watch)>, LockError> {
        let Queue { client, spec: permits, .. } = &self.semaphore.permits;
        let request = || client.get_children_and_watch(&permits.path);
        let listed = self.look(request).await?;
        Ok(listed.map(|(children, watch)| (self.rank(&children.names), watch)))
    }

    /// Watches the caller's nodes, then lists the permits, and reads the limit: all in one write. Returns
    /// `None` if one of the nodes is gone.
    ///
    /// A list has names only. Another client may have deleted a node, and created another one under its
    /// name, which the caller must not delete. The watches show that, and they stay with the guard.
    async fn look<L, F>(&mut self, list: impl Fn() -> F) -> Result<Option<L>, LockError>
    where
        F: Future<Output = Result<L, Error>>,
    {
        if self.forget_deleted() {
            return Ok(None);
        }
        let client = &self.semaphore.permits.client;
        let unwatched = self.permits.iter_mut().filter(|permit| permit.watch.is_none());
        let watched = try_join_all(unwatched.map(Permit::watch_node));
        let (watched, mut listed, refreshed) =
            one_write(client, async { join3(watched, list(), self.limit.refresh()).await }).await;
        watched?;
        refreshed?;
        if let Err(error) = listed {
            listed = Box::pin(retry_after(error, client, Repeat::NotApplied, list)).await;
            // A limit from before the list could be too high for it.
            self.limit.refresh().await?;
        }
        let listed = if_exists(listed)?;
        Ok(if self.forget_deleted() { None } else { listed })
    }

    /// Forgets the nodes that are known to be deleted. Returns true if the caller lacks one.
    fn forget_deleted(&mut self) -> bool {
        for permit in &mut self.permits {
            if permit.watch.is_some() && !is_set(&mut permit.watch) {
                permit.contender.forget_node();
            }
        }
        self.permits.iter().any(|permit| permit.node().is_none())
    }

    /// Ranks the caller's last permit in a list.
    fn rank(&self, names: &ChildList) -> PermitRank {
        let nodes = || self.permits.iter().filter_map(Permit::node);
        let own: HashSet<&[u8]> = nodes().map(|node| file_name(&node.path).as_bytes()).collect();
        let last = nodes().max_by_key(|node| node.czxid);
        let Some(last) = last else { return PermitRank::Missing };
        let present = names.iter().filter(|name| own.contains(name)).count();
        let limit = self.limit.now();
        match self.semaphore.permits.spec.rank(names, file_name(&last.path)) {
            Some(rank) if present == self.permits.len() => {
                let is_within = u32::try_from(rank.position).is_ok_and(|ahead| ahead < limit);
                if is_within { PermitRank::Within } else { PermitRank::Behind }
            }
            _ => PermitRank::Missing,
        }
    }

    /// Binds the future guards to the session's lease, or renews it and returns `None`.
    async fn bind(&mut self) -> Result<Option<LeaseTerm>, LockError> {
        let client = &self.semaphore.permits.client;
        Ok(bind_or_renew(client, self.lease.get_or_insert_with(|| client.claim_lease())).await?)
    }

    fn continue_hand_off(&mut self, turn: &Waiter) {
        self.observe(|observed| {
            if let Some(turn) = &turn.observed {
                observed.continue_hand_off(turn);
            }
        });
    }

    /// Returns the observer of a caller for one permit that queues again.
    fn observer_of_another_turn(&mut self) -> Option<Box<AcquireObserver>> {
        let mut observed = self.permits.first_mut()?.observed.take();
        if let Some(observed) = &mut observed {
            observed.restarted();
        }
        observed
    }

    fn observe(&mut self, mut tell: impl FnMut(&mut AcquireObserver)) {
        for observed in self.permits.iter_mut().filter_map(|permit| permit.observed.as_mut()) {
            tell(observed);
        }
    }

    /// Returns the guards in the order of their nodes. It may be another one than that of the requests,
    /// if a server has throttled one of them.
    fn into_guards(mut self, term: LeaseTerm) -> Result<Vec<Guard>, LockError> {
        self.permits.sort_by_key(|permit| permit.node().map(|node| node.czxid));
        let client = &self.semaphore.permits.client;
        let guards =
            self.permits.into_iter().map(|permit| permit.granted(client.claim_lease(), term));
        guards.map(|granted| granted.map(Guard::new)).collect()
    }
}

impl Permit {
    fn new(semaphore: &Semaphore, observed: Option<Box<AcquireObserver>>) -> Self {
        let permits = &semaphore.permits;
        let observed = observed.or_else(|| permits.spec.observe());
        Self { contender: Contender::new(permits), watch: None, observed }
    }

    fn node(&self) -> Option<&Node> {
        self.contender.node()
    }

    fn restart(&mut self) {
        self.contender.restart();
        self.watch = None;
    }

    /// Watches the node. If it is gone, or another one has its name, the contender forgets it.
    async fn watch_node(&mut self) -> Result<(), LockError> {
        let client = &self.contender.queue.client;
        let Some(node) = self.contender.node() else { return Ok(()) };
        match retry(client, || node.watch(client)).await {
            Ok(Some(watch)) => self.watch = Some(watch),
            Ok(None) => self.contender.forget_node(),
            // It exists.
            Err(error) if is_unwatchable(&error) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn granted(mut self, lease: SessionLease, term: LeaseTerm) -> Result<Granted, LockError> {
        let granted = self.contender.grant(lease, term)?;
        Ok(Granted { watch: self.watch, observed: self.observed, ..granted })
    }
}

async fn create(permits: &mut [Permit]) -> Result<(), LockError> {
    for chunk in permits.chunks_mut(PERMITS_CHUNK) {
        let out = chunk.iter_mut().filter(|permit| permit.node().is_none());
        try_join_all(out.map(|permit| permit.contender.enter(Look::Nothing))).await?;
    }
    Ok(())
}
