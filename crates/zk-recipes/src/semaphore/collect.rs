//! Collecting permits: one node for each below `leases`, all of them during one turn of the mutex
//! below `locks`.
//!
//! The turn makes a queue of the waiters, so that only one of them reads the leases. Mutual
//! exclusion does not depend on the turn. A caller holds its permits once its last lease ranks
//! within the limit among all leases. In any set of holders, all but the last already had their
//! leases when the last one read the list.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;

use futures::future::{Either, OptionFuture, join, join4, select, try_join_all};
use zk_session::path::file_name;
use zk_session::{ChildList, Client, LeaseTerm, Repeat, Watch, Zxid};

use super::limit::{Followed, PermitLimit};
use super::path_check::PathCheck;
use crate::error::LockError;
use crate::guard::Guard;
use crate::holding::deleted;
use crate::limits::{PERMITS_CHUNK, RESTARTS_MAX};
use crate::queue::contender::Contender;
use crate::queue::one_write;
use crate::queue::spec::QueueSpec;
use crate::queue::waiter::{Waiter, list};
use crate::retry::{if_exists, retry_after};

/// The two queues of a semaphore.
#[derive(Clone, Debug)]
pub(super) struct Queues {
    /// Nodes of the mutex that orders the waiters.
    pub(super) turns: Arc<QueueSpec>,
    /// Leases, one for each permit.
    pub(super) leases: Arc<QueueSpec>,
    /// Check of the semaphore's path, shared by all clones of the handle.
    pub(super) path: Arc<PathCheck>,
}

impl Queues {
    /// Returns the check of the path, unless other recipes may use the path as well.
    fn path_check(&self) -> Option<&PathCheck> {
        self.leases.exclusive.is_some().then_some(&*self.path)
    }
}

/// Waits until the permits are acquired, without a time limit.
pub(super) async fn wait(
    client: &Client,
    queues: &Queues,
    limit: &PermitLimit,
    permits: u32,
) -> Result<Vec<Guard>, LockError> {
    let mut limit = limit.follow().await?;
    let mut restarts = 0;
    while restarts < RESTARTS_MAX {
        // A caller that needs more permits than the limit must not block the queue.
        limit.at_least(permits).await?;
        // Dropped at the end of the turn. The session then deletes its node, over reconnects if
        // necessary; the leases do not depend on that.
        let mut own_turn = turn(client, queues);
        own_turn.acquire().await?;
        // Declared after the turn, so that the leases are dropped first.
        let mut leases = Leases::new(client, queues, permits, &mut limit);
        // On the heap: of all waiters only the head of the queue needs this memory.
        match Box::pin(leases.collect(&own_turn.contender)).await? {
            TurnOutcome::Granted(term) => return leases.into_guards(term),
            TurnOutcome::LimitTooLow => {}
            TurnOutcome::Lost => restarts += 1,
        }
    }
    Err(LockError::NodeDeleted { path: queues.turns.path.clone() })
}

/// Returns the contender for a turn. This is a function of its own because a contender in a local
/// variable of [`wait`] would take memory in the future of each waiter.
fn turn(client: &Client, queues: &Queues) -> Waiter {
    Waiter::new(Contender::new(client, &queues.turns))
}

/// Acquires the permits if they are free now. This needs no turn: a permit that the head of the
/// queue waits for is not free, because its lease already exists.
pub(super) async fn try_acquire(
    client: &Client,
    queues: &Queues,
    limit: &PermitLimit,
    permits: u32,
) -> Result<Option<Vec<Guard>>, LockError> {
    let mut limit = limit.follow().await?;
    if permits > limit.now() {
        return Ok(None);
    }
    let mut leases = Leases::new(client, queues, permits, &mut limit);
    let mut rank = leases.enter().await?;
    while rank == LeaseRank::Within {
        match leases.bind().await? {
            Some(term) => return leases.into_guards(term).map(Some),
            None => rank = leases.list().await?.0,
        }
    }
    Ok(None)
}

enum TurnOutcome {
    Granted(LeaseTerm),
    /// The limit is now below the number of permits.
    LimitTooLow,
    /// Another client deleted the node of the turn, so another contender may have the turn. Two
    /// contenders that each wait for several permits must not both keep some.
    Lost,
}

/// Position of the caller's last lease among all leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeaseRank {
    /// Within the limit.
    Within,
    Behind,
    /// One of the caller's leases is gone.
    Missing,
}

/// The leases of one acquisition.
struct Leases<'a> {
    client: &'a Client,
    queues: &'a Queues,
    limit: &'a mut Followed,
    permits: u32,
    /// One for each permit.
    contenders: Vec<Contender>,
}

impl<'a> Leases<'a> {
    fn new(client: &'a Client, queues: &'a Queues, permits: u32, limit: &'a mut Followed) -> Self {
        let contenders = (0..permits).map(|_| Contender::new(client, &queues.leases)).collect();
        Self { client, queues, limit, permits, contenders }
    }

    /// Creates the leases, and waits until they are within the limit.
    async fn collect(&mut self, own_turn: &Contender) -> Result<TurnOutcome, LockError> {
        let Some(turn_node) = own_turn.node().cloned() else { return Ok(TurnOutcome::Lost) };
        let mut turn_lost = pin!(deleted(self.client.clone(), &turn_node, None));
        for lease in &mut self.contenders {
            lease.observed.continue_hand_off(&own_turn.observed);
        }
        let mut rank = self.enter().await?;
        let mut restarts = 0;
        loop {
            if self.permits > self.limit.now() {
                return Ok(TurnOutcome::LimitTooLow);
            }
            rank = match rank {
                LeaseRank::Within => match self.bind().await? {
                    Some(term) => return Ok(TurnOutcome::Granted(term)),
                    None => self.list().await?.0,
                },
                LeaseRank::Missing if restarts == RESTARTS_MAX => return Ok(TurnOutcome::Lost),
                LeaseRank::Missing => {
                    restarts += 1;
                    self.contenders.iter_mut().for_each(Contender::restart);
                    self.enter().await?
                }
                LeaseRank::Behind => match self.list_and_watch().await? {
                    None => LeaseRank::Missing,
                    Some(_) if self.permits > self.limit.now() => {
                        return Ok(TurnOutcome::LimitTooLow);
                    }
                    Some((names, watch)) => {
                        let rank = self.rank(&names);
                        if rank == LeaseRank::Behind {
                            self.contenders.iter_mut().for_each(|it| it.observed.blocked());
                            let changed = pin!(self.limit.changed());
                            match select(select(watch, changed), turn_lost.as_mut()).await {
                                Either::Left((Either::Left((event, _)), _)) => drop(event?),
                                Either::Left((Either::Right((changed, _)), _)) => changed?,
                                Either::Right(((), _)) => return Ok(TurnOutcome::Lost),
                            }
                            self.contenders.iter_mut().for_each(|it| it.observed.unblocked());
                        }
                        rank
                    }
                },
            };
        }
    }

    /// Creates the missing leases and evaluates the list of leases. The same write requests the list
    /// and then the limit. A limit that was lowered before a permit was released is not exceeded so.
    async fn enter(&mut self) -> Result<LeaseRank, LockError> {
        let (client, queues) = (self.client, self.queues);
        let path = &queues.leases.path;
        let (listed, beside) = one_write(client, async {
            let created = create(&mut self.contenders);
            let listed = async { client.get_children(path).await };
            let beside = async {
                let asked = queues.path_check().and_then(|path| path.list(client));
                OptionFuture::from(asked).await
            };
            let (created, listed, refreshed, beside) =
                join4(created, listed, self.limit.refresh(), beside).await;
            created.and(refreshed).map(|()| (listed, beside))
        })
        .await?;
        let found = listed.ok().map(|listed| (self.rank(&listed.names), Some(listed.stat.czxid)));
        // A list from before the creation of the last lease is not valid.
        let ((rank, parent), beside) = match found.filter(|(rank, _)| *rank != LeaseRank::Missing) {
            Some(found) => (found, beside),
            None => (self.list().await?, None),
        };
        if let Some(path) = queues.path_check().filter(|path| !path.is_checked(parent)) {
            Box::pin(path.check(client, parent, beside)).await?;
        }
        Ok(rank)
    }

    /// Lists the leases, and then reads the limit. Also returns the czxid of the leases' parent if all of
    /// the caller's leases exist.
    async fn list(&mut self) -> Result<(LeaseRank, Option<Zxid>), LockError> {
        let listed = list(self.client, &self.queues.leases.path).await?;
        self.limit.refresh().await?;
        Ok(match listed {
            None => (LeaseRank::Missing, None),
            Some(children) => match self.rank(&children.names) {
                LeaseRank::Missing => (LeaseRank::Missing, None),
                rank => (rank, Some(children.stat.czxid)),
            },
        })
    }

    /// Lists the leases, with a watch that fires when a lease is created or deleted, and reads the
    /// limit in the same write; returns `None` if the leases' parent does not exist. Only the head of
    /// the queue sets this watch.
    async fn list_and_watch(&mut self) -> Result<Option<(ChildList, Watch)>, LockError> {
        let (client, path) = (self.client, &self.queues.leases.path);
        let request = || client.get_children_and_watch(path);
        let (mut listed, refreshed) =
            one_write(client, join(request(), self.limit.refresh())).await;
        refreshed?;
        if let Err(error) = listed {
            let repeated = retry_after(error, client, Repeat::NotApplied, request);
            listed = Box::pin(repeated).await;
            // A limit from before the list could be too high for it.
            self.limit.refresh().await?;
        }
        Ok(if_exists(listed)?.map(|(children, watch)| (children.names, watch)))
    }

    /// Ranks the last lease in a list.
    fn rank(&self, names: &ChildList) -> LeaseRank {
        let nodes = || self.contenders.iter().filter_map(Contender::node);
        let own: HashSet<&[u8]> = nodes().map(|node| file_name(&node.path).as_bytes()).collect();
        let last = nodes().max_by_key(|node| node.czxid);
        let Some(last) = last else { return LeaseRank::Missing };
        let present = names.into_iter().filter(|name| own.contains(name)).count();
        let limit = self.limit.now();
        match self.queues.leases.rank(names, file_name(&last.path)) {
            Some(rank) if present == self.contenders.len() => {
                match u32::try_from(rank.position).is_ok_and(|ahead| ahead < limit) {
                    true => LeaseRank::Within,
                    false => LeaseRank::Behind,
                }
            }
            _ => LeaseRank::Missing,
        }
    }

    /// Binds the future guards to the session's lease; see [`Contender::bind`].
    async fn bind(&mut self) -> Result<Option<LeaseTerm>, LockError> {
        let Some(first) = self.contenders.first_mut() else { return Ok(None) };
        Ok(first.bind().await?)
    }

    /// Returns the guards in the order of their nodes. It may be another one than that of the requests,
    /// if a server has throttled one of them.
    fn into_guards(mut self, term: LeaseTerm) -> Result<Vec<Guard>, LockError> {
        self.contenders.sort_by_key(|lease| lease.node().map(|node| node.czxid));
        self.contenders.into_iter().map(|lease| Guard::granted(lease, term, None)).collect()
    }
}

async fn create(leases: &mut [Contender]) -> Result<(), LockError> {
    for chunk in leases.chunks_mut(PERMITS_CHUNK) {
        let out = chunk.iter_mut().filter(|lease| lease.node().is_none());
        try_join_all(out.map(Contender::enter)).await?;
    }
    Ok(())
}
