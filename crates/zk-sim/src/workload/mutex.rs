//! A [`Mutex`], sometimes with a local queue, and sometimes with an owner that acquires it again, and a
//! [`SemaphoreMutex`], which has the nodes of a semaphore and the guarantees of a mutex.

use zk_recipes::{Guard, Mutex, Owner, SemaphoreMutex};

use super::Seat;
use super::contender::{Attempt, ask, settle, take};
use crate::holding::numbers;
use crate::oracle::{Claim, Share};

/// Contends once for a mutex. Returns true if the session is over.
pub(super) async fn once(seat: &mut Seat) -> bool {
    let path = seat.world.plan.lock_path;
    let Ok(lock) = Mutex::new(&seat.client, path) else { return true };
    let attempt = Attempt::begin(seat);
    let mut lock = match &seat.shared_lock {
        Some(shared) => {
            seat.world.oracle().local_queues.joins(seat.slot, attempt.number);
            shared.clone()
        }
        None => lock.with_data(attempt.label.clone()),
    };
    let is_owned = seat.rng.chance(0.2);
    if is_owned {
        lock = lock.with_owner(&Owner::new());
    }
    let asking = lock.clone();
    let mut asked = take(seat, &attempt, ask!(asking)).await;
    if let (Ok(Some(guard)), Some(_)) = (&asked, &seat.shared_lock) {
        let token = guard.token().ok().map(numbers);
        seat.world.oracle().granted_locally(attempt.number, guard.node(), token);
    }
    if let (Ok(Some(guard)), true) = (&mut asked, is_owned) {
        enter_again(seat, &lock, guard, attempt.number).await;
    }
    settle(seat, attempt, asked, |guard| claims(path, guard)).await
}

/// Contends once for a semaphore of one permit. Returns true if the session is over.
pub(super) async fn once_by_semaphore(seat: &mut Seat) -> bool {
    let path = seat.world.plan.lock_path;
    let Ok(lock) = SemaphoreMutex::new(&seat.client, path) else { return true };
    let attempt = Attempt::begin(seat);
    let lock = lock.with_data(attempt.label.clone());
    let asked = take(seat, &attempt, ask!(lock)).await;
    settle(seat, attempt, asked, |guard| claims(path, guard)).await
}

/// Acquires the lock once more for the same owner, and drops either of the two guards.
async fn enter_again(seat: &mut Seat, lock: &Mutex, guard: &mut Guard, number: u64) {
    let again = lock.acquire().await;
    seat.world
        .oracle()
        .log(format_args!("#{number} again: {:?}", again.as_ref().map(Guard::token)));
    match again {
        Ok(mut again) => {
            if again.node() != guard.node() {
                let text = format!("#{number} holds {} and {}", guard.node(), again.node());
                seat.world.oracle().violated("I1", text);
            }
            if seat.rng.chance(0.5) {
                std::mem::swap(guard, &mut again);
            }
        }
        Err(error) if guard.is_held() => {
            let text = format!("#{number} is held, and not let in again: {error}");
            seat.world.oracle().violated("I3", text);
        }
        Err(_) => {}
    }
}

pub(super) fn claims(path: &str, guard: &Guard) -> Vec<Claim> {
    vec![Claim::new(path, guard.node(), Share::Alone)]
}
