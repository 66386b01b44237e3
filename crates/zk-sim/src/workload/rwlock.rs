//! Both sides of an [`RwLock`], with writers that become readers.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use zk_recipes::{Guard, LockError, RwLock, WriteGuard};

use super::contender::{Attempt, ask, enter, give_up, judge, keep, rest, settle, take};
use super::{Seat, impatient};
use crate::oracle::{Claim, Share};

/// Contends once. Returns true if the session is over.
pub(super) async fn once(seat: &mut Seat) -> bool {
    let path = seat.world.plan.lock_path;
    let Ok(lock) = RwLock::new(&seat.client, path) else { return true };
    // The writer's node and its reader's node.
    let attempt = Attempt::begin_with(seat, 2);
    let lock = lock.with_data(attempt.label.clone());
    if seat.rng.chance(seat.world.plan.readers) {
        let lock = lock.read().clone();
        let asked = take(seat, &attempt, ask!(lock)).await;
        return settle(seat, attempt, asked, |guard| claims(path, guard)).await;
    }
    let lock = lock.write().clone();
    match take(seat, &attempt, ask!(lock)).await {
        Ok(Some(guard)) => write(seat, guard, attempt).await,
        Ok(None) => {
            drop(attempt);
            rest(seat).await;
            false
        }
        Err(error) => {
            drop(attempt);
            judge(seat, "acquire", error)
        }
    }
}

fn claims(path: &str, guard: &Guard) -> Vec<Claim> {
    vec![Claim::new(path, guard.node(), Share::Read)]
}

/// Holds the write lock, and may then acquire the read lock, in addition or by a downgrade.
async fn write(seat: &mut Seat, guard: WriteGuard, attempt: Attempt) -> bool {
    let path = seat.world.plan.lock_path;
    let number = attempt.number;
    let claims_of_writer = vec![Claim::new(path, guard.node(), Share::Alone)];
    let guard = enter(seat, guard, claims_of_writer, &attempt);
    let way = seat.rng.below(8);
    // A guard watches its node only after a while. A downgrade may come before that.
    let is_immediate = way < 4 && seat.rng.chance(0.5);
    if !is_immediate {
        keep(seat, &guard, number).await;
    }
    // Both ways wait for a loss as well. Only one task of a client may do that at a time.
    if way > 3 || seat.lost_is_watched.swap(true, Ordering::Relaxed) {
        give_up(seat, guard, attempt).await;
        return false;
    }
    let lost_is_watched = Arc::clone(&seat.lost_is_watched);
    if way == 0 {
        let reading = guard.read().await;
        lost_is_watched.store(false, Ordering::Relaxed);
        return read_beside(seat, guard, reading, attempt).await;
    }
    let Some(guard) = Arc::into_inner(guard) else { return false };
    if is_immediate && seat.rng.chance(0.1) {
        // The node is gone when the server checks it, and the guard has not heard of it.
        seat.world.oracle().operate_on(guard.node());
        drop(seat.client.delete(guard.node(), None));
    }
    let polls = if way == 1 { seat.rng.below(6) } else { u64::MAX };
    let downgraded = impatient(polls, guard.downgrade()).await;
    lost_is_watched.store(false, Ordering::Relaxed);
    match downgraded {
        None => false,
        Some(Ok(guard)) => {
            let claims = claims(path, &guard);
            let guard = enter(seat, guard, claims, &attempt);
            keep(seat, &guard, number).await;
            give_up(seat, guard, attempt).await;
            false
        }
        Some(Err(error)) => judge(seat, "downgrade", error),
    }
}

/// Holds both guards, and releases them in either order.
async fn read_beside(
    seat: &mut Seat,
    writing: Arc<WriteGuard>,
    reading: Result<Guard, LockError>,
    attempt: Attempt,
) -> bool {
    let reading = match reading {
        Ok(reading) => reading,
        Err(error) => {
            drop(writing);
            return judge(seat, "downgrade", error);
        }
    };
    let claims = claims(seat.world.plan.lock_path, &reading);
    let reading = enter(seat, reading, claims, &attempt);
    keep(seat, &reading, attempt.number).await;
    if seat.rng.chance(0.5) {
        drop(writing);
        keep(seat, &reading, attempt.number).await;
        give_up(seat, reading, attempt).await;
    } else {
        drop(reading);
        give_up(seat, writing, attempt).await;
    }
    false
}
