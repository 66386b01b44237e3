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

use futures::future::{Either, OptionFuture, join4, select, try_join_all};
use zk_session::{ChildList, Children, Client, ErrorCode, Watch};

use super::limit::{Followed, Limit};
use super::path_check::PathCheck;
use crate::error::LockError;
use crate::guard::Guard;
use crate::holding::deleted;
use crate::limits::{PERMITS_CHUNK, RESTARTS_MAX};
use crate::planted::Planted;
use crate::queue::attempts::Attempts;
use crate::queue::contender::Contender;
use crate::queue::kind::Kind;
use crate::queue::{name, one_write, waiter};

/// Descriptions of the nodes of a semaphore.
#[derive(Clone, Debug)]
pub(super) struct Kinds {
    /// Nodes of the mutex that orders the waiters.
    pub(super) turns: Arc<Kind>,
    /// Leases, one for each permit.
    pub(super) leases: Arc<Kind>,
    /// Check of the semaphore's path, shared by all clones of the handle.
    pub(super) path: Arc<PathCheck>,
}

impl Kinds {
    /// Returns the check of the path, unless other recipes may use the path as well.
    fn path_check(&self) -> Option<&PathCheck> {
        self.leases.exclusive.is_some().then_some(&*self.path)
    }
}

/// Waits until the permits are acquired, without a time limit.
pub(super) async fn wait(
    client: &Client,
    kinds: &Kinds,
    limit: &Limit,
    permits: u32,
) -> Result<Vec<Guard>, LockError> {
    let mut limit = limit.follow().await?;
    let mut restarts = 0;
    while restarts < RESTARTS_MAX {
        // A caller that needs more permits than the limit must not block the queue.
        limit.at_least(permits).await?;
        // Dropped at the end of the turn. The session then deletes its node, over reconnects if
        // necessary; the leases do not depend on that.
        let mut own_turn = waiter::Waiter::new(Contender::new(client, &kinds.turns));
        own_turn.acquire().await?;
        // Declared after the turn, so that the leases are dropped first.
        let mut leases = contenders(client, kinds, permits);
        // On the heap: of all waiters only the head of the queue needs this memory.
        match Box::pin(during(kinds, own_turn.contender(), &mut leases, &mut limit)).await? {
            TurnOutcome::Granted => {
                if Planted::TurnIsKept.is_on() {
                    std::mem::forget(own_turn);
                }
                return guards(leases).await;
            }
            TurnOutcome::LimitTooLow => {}
            TurnOutcome::Lost => restarts += 1,
        }
    }
    Err(LockError::NodeDeleted { path: kinds.turns.path.clone() })
}

/// Acquires the permits if they are free now. This needs no turn: a permit that the head of the
/// queue waits for is not free, because its lease already exists.
pub(super) async fn look_once(
    client: &Client,
    kinds: &Kinds,
    limit: &Limit,
    permits: u32,
) -> Result<Option<Vec<Guard>>, LockError> {
    let mut limit = limit.follow().await?;
    if permits > limit.now() {
        return Ok(None);
    }
    let mut leases = contenders(client, kinds, permits);
    let mut place = enter_and_look(kinds, &mut leases, &mut limit).await?;
    if place == LeaseRank::Within && had_to_renew(&mut leases).await? {
        place = look_again(&leases, &mut limit).await?;
    }
    match place {
        LeaseRank::Within => guards(leases).await.map(Some),
        LeaseRank::Behind | LeaseRank::Missing => Ok(None),
    }
}

enum TurnOutcome {
    Granted,
    /// The limit is now below the number of permits.
    LimitTooLow,
    /// Another client deleted the node of the turn, so another contender may have the turn. Two
    /// contenders that each wait for several permits must not both keep some.
    Lost,
}

async fn during(
    kinds: &Kinds,
    own_turn: &Contender,
    leases: &mut [Contender],
    limit: &mut Followed,
) -> Result<TurnOutcome, LockError> {
    let Some(turn_node) = own_turn.node().cloned() else { return Ok(TurnOutcome::Lost) };
    let mut turn_lost = pin!(deleted(own_turn.client().clone(), turn_node, None));
    let mut place = enter_and_look(kinds, leases, limit).await?;
    let mut restarts = 0;
    loop {
        if !u32::try_from(leases.len()).is_ok_and(|permits| permits <= limit.now()) {
            return Ok(TurnOutcome::LimitTooLow);
        }
        match place {
            LeaseRank::Within if !had_to_renew(leases).await? => return Ok(TurnOutcome::Granted),
            LeaseRank::Within => {
                place = look_again(leases, limit).await?;
                continue;
            }
            LeaseRank::Behind => {}
            LeaseRank::Missing if restarts == RESTARTS_MAX => return Ok(TurnOutcome::Lost),
            LeaseRank::Missing => {
                restarts += 1;
                leases.iter_mut().for_each(Contender::restart);
                place = enter_and_look(kinds, leases, limit).await?;
                continue;
            }
        }
        let Some((names, watch)) = list_and_watch(leases).await? else {
            place = LeaseRank::Missing;
            continue;
        };
        place = look(leases, &names, limit.now());
        if !matches!(place, LeaseRank::Behind) {
            continue;
        }
        let news = {
            let changed = pin!(limit.changed());
            match select(select(watch, changed), turn_lost.as_mut()).await {
                Either::Left((Either::Left((event, _)), _)) => event.map(drop).map_err(Into::into),
                Either::Left((Either::Right((changed, _)), _)) => changed,
                Either::Right(((), _)) => return Ok(TurnOutcome::Lost),
            }
        };
        news?;
    }
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

/// Creates the missing leases and evaluates the list of leases. The list and the limit are
/// requested in the same write as the leases: leases must not exceed a limit that was lowered
/// before they were created.
async fn enter_and_look(
    kinds: &Kinds,
    leases: &mut [Contender],
    limit: &mut Followed,
) -> Result<LeaseRank, LockError> {
    let Some(first) = leases.first() else { return Ok(LeaseRank::Within) };
    let (client, path) = (first.client().clone(), first.kind().path.clone());
    if Planted::CountsBeforeOwnLease.is_on() {
        let ahead = list(&client, &path).await?.map_or(0, |children| children.names.len());
        enter(leases).await?;
        let count = u32::try_from(ahead + leases.len()).unwrap_or(u32::MAX);
        return Ok(if count <= limit.now() { LeaseRank::Within } else { LeaseRank::Behind });
    }
    let (listed, beside) = one_write(&client, async {
        let listed = async { client.get_children(&path).await };
        let beside = async {
            let asked = kinds.path_check().and_then(|path| path.list(&client));
            OptionFuture::from(asked).await
        };
        let (entered, refreshed, listed, beside) =
            join4(enter(leases), limit.refresh(), listed, beside).await;
        entered.and(refreshed).map(|()| (listed, beside))
    })
    .await?;
    let found = listed.ok().map(|children| {
        let place = look(leases, &children.names, limit.now());
        (place, children.stat.czxid)
    });
    // A list from before the creation of the last lease is not valid.
    let (found, beside) = match found.filter(|(place, _)| *place != LeaseRank::Missing) {
        Some((place, node)) => ((place, Some(node)), beside),
        None => (list_and_look(leases, limit).await?, None),
    };
    if let Some(path) = kinds.path_check().filter(|path| !path.is_checked(found.1)) {
        Box::pin(path.check(&client, found.1, beside)).await?;
    }
    Ok(found.0)
}

async fn look_again(leases: &[Contender], limit: &mut Followed) -> Result<LeaseRank, LockError> {
    list_and_look(leases, limit).await.map(|(place, _)| place)
}

/// As [`look_again`]; also returns the czxid of the leases' parent if all of the caller's leases
/// exist.
async fn list_and_look(
    leases: &[Contender],
    limit: &mut Followed,
) -> Result<(LeaseRank, Option<i64>), LockError> {
    let Some(first) = leases.first() else { return Ok((LeaseRank::Within, None)) };
    limit.refresh().await?;
    let Some(children) = list(first.client(), &first.kind().path).await? else {
        return Ok((LeaseRank::Missing, None));
    };
    let place = look(leases, &children.names, limit.now());
    Ok((place, (place != LeaseRank::Missing).then_some(children.stat.czxid)))
}

async fn had_to_renew(leases: &mut [Contender]) -> Result<bool, LockError> {
    match leases.first_mut() {
        Some(first) => waiter::had_to_renew(first).await,
        None => Ok(false),
    }
}

async fn enter(leases: &mut [Contender]) -> Result<(), LockError> {
    for chunk in leases.chunks_mut(PERMITS_CHUNK) {
        let out = chunk.iter_mut().filter(|lease| lease.node().is_none());
        try_join_all(out.map(Contender::enter)).await?;
    }
    Ok(())
}

fn look(leases: &[Contender], names: &ChildList, limit: u32) -> LeaseRank {
    let own: HashSet<&[u8]> = leases
        .iter()
        .filter_map(|lease| lease.node())
        .map(|node| name::of(&node.path).as_bytes())
        .collect();
    let nodes = leases.iter().filter_map(Contender::node);
    let last = match Planted::FirstLeaseIsEnough.is_on() {
        false => nodes.max_by_key(|node| node.czxid),
        true => nodes.min_by_key(|node| node.czxid),
    };
    let (Some(last), Some(first)) = (last, leases.first()) else { return LeaseRank::Missing };
    let present = names.into_iter().filter(|name| own.contains(name)).count();
    let limit = limit + u32::from(Planted::OnePermitTooMany.is_on());
    let rank = names.rank(name::of(&last.path).as_bytes(), first.kind().rule());
    match rank {
        Some(rank) if present == leases.len() => {
            match u32::try_from(rank.position).is_ok_and(|ahead| ahead < limit) {
                true => LeaseRank::Within,
                false => LeaseRank::Behind,
            }
        }
        _ => LeaseRank::Missing,
    }
}

/// Lists the leases; returns `None` if their parent does not exist.
async fn list(client: &Client, path: &str) -> Result<Option<Children>, LockError> {
    let mut attempts = Attempts::default();
    loop {
        match client.get_children(path).await {
            Ok(children) => return Ok(Some(children)),
            Err(error) if error.code() == Some(ErrorCode::NO_NODE) => return Ok(None),
            Err(error) => attempts.again(client, error).await?,
        }
    }
}

/// As [`list`], with a watch that fires when a lease is created or deleted. Only the head of the
/// queue sets it.
async fn list_and_watch(leases: &[Contender]) -> Result<Option<(ChildList, Watch)>, LockError> {
    let Some(first) = leases.first() else { return Ok(None) };
    let mut attempts = Attempts::default();
    loop {
        match first.client().get_children_and_watch(&first.kind().path).await {
            Ok((children, watch)) => return Ok(Some((children.names, watch))),
            Err(error) if error.code() == Some(ErrorCode::NO_NODE) => return Ok(None),
            Err(error) => attempts.again(first.client(), error).await?,
        }
    }
}

fn contenders(client: &Client, kinds: &Kinds, permits: u32) -> Vec<Contender> {
    (0..permits).map(|_| Contender::new(client, &kinds.leases)).collect()
}

/// Binds the granted permits to the session's lease.
async fn guards(mut leases: Vec<Contender>) -> Result<Vec<Guard>, LockError> {
    let Some(first) = leases.first_mut() else { return Ok(Vec::new()) };
    let term = waiter::renewed(first).await?;
    leases.into_iter().map(|lease| Guard::granted(lease, term, None)).collect()
}
