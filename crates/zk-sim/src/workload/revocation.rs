//! Holders of a [`Mutex`] that wait for a revocation request.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::future::join;
use zk_recipes::{Guard, LockError, Mutex, revoke};
use zk_session::{Client, ErrorOrigin};

use super::Seat;
use super::contender::{Attempt, ask, enter, give_up, judge, keep, settle, take};
use super::mutex::claims;

/// Contends once. Returns true if the session is over.
pub(super) async fn once(seat: &mut Seat) -> bool {
    let path = seat.world.plan.lock_path;
    let Ok(lock) = Mutex::new(&seat.client, path) else { return true };
    let attempt = Attempt::begin(seat);
    let lock = lock.with_data(attempt.label.clone());
    match take(seat, &attempt, ask!(lock)).await {
        Ok(Some(guard)) => {
            let claims = claims(path, &guard);
            let guard = enter(seat, guard, claims, &attempt);
            let is_over = be_asked(seat, &guard).await;
            if seat.rng.chance(0.3) {
                keep(seat, &guard, attempt.number).await;
            }
            give_up(seat, guard, attempt).await;
            is_over
        }
        asked => settle(seat, attempt, asked, |guard| claims(path, guard)).await,
    }
}

/// Requests a revocation, before or after the holder begins to wait for one. The holder waits
/// without a limit and must be notified. Returns true if the session is over.
async fn be_asked(seat: &mut Seat, guard: &Arc<Guard>) -> bool {
    let node = guard.node().to_owned();
    let slot = seat.rng.index(seat.world.slots());
    let other = seat.world.slot(slot).client.clone();
    let asking = [other, Some(seat.client.clone())];
    let way = seat.rng.below(4);
    if way == 0 {
        ask_for(seat, asking, &node).await;
        let told = guard.revocation_requested().await;
        return judge_told(seat, &node, told);
    }
    if way == 1 && !seat.lost_is_watched.swap(true, Ordering::Relaxed) {
        let ran = guard.run_until_revoked(pending::<()>());
        let (ran, ()) = join(ran, ask_for(seat, asking, &node)).await;
        seat.lost_is_watched.store(false, Ordering::Relaxed);
        return match ran {
            Err(LockError::RevocationRequested { .. }) => judge_told(seat, &node, Ok(())),
            Err(error) => judge(seat, "run", error),
            Ok(()) => false,
        };
    }
    let (told, ()) = join(guard.revocation_requested(), ask_for(seat, asking, &node)).await;
    judge_told(seat, &node, told)
}

/// Requests the revocation through the first client with a live session.
async fn ask_for(seat: &Seat, asking: [Option<Client>; 2], node: &str) {
    for client in asking.into_iter().flatten() {
        match revoke(&client, node).await {
            Ok(true) => return,
            Ok(false) => return seat.world.oracle().is_gone(node),
            Err(LockError::Client(error)) if error.origin() == ErrorOrigin::Session => {}
            Err(error) => {
                judge(seat, "revoke", error);
                return;
            }
        }
    }
}

fn judge_told(seat: &Seat, node: &str, told: Result<(), LockError>) -> bool {
    seat.world.oracle().log(format_args!("{node}: told of being asked for: {told:?}"));
    match told {
        Ok(()) => seat.world.oracle().was_asked(node),
        Err(LockError::NodeDeleted { .. }) => seat.world.oracle().is_gone(node),
        Err(error) => return judge(seat, "revocation", error),
    }
    false
}
