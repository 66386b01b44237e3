//! A [`SemaphoreMutex`]: it has the nodes of a semaphore and the guarantees of a mutex.

use zk_recipes::{LockError, LockGuard, SemaphoreMutex};
use zk_session::Client;

use super::Seat;
use super::contender::{Attempt, ask, settle, take};
use super::mutex::claims;
use crate::plan::Plan;

/// Contends once. Returns true if the session is over.
pub(super) async fn once(seat: &mut Seat) -> bool {
    let path = seat.world.plan.lock_path;
    let Ok(lock) = SemaphoreMutex::new(&seat.client, path) else { return true };
    let attempt = Attempt::begin(seat);
    let lock = lock.with_data(attempt.label.clone());
    let asked = take(seat, &attempt, ask!(lock)).await;
    settle(seat, attempt, asked, |guard| claims(path, guard)).await
}

pub(super) async fn exam(
    client: &Client,
    plan: &Plan,
    label: String,
) -> Result<Box<dyn LockGuard>, LockError> {
    let guard = SemaphoreMutex::new(client, plan.lock_path)?.with_data(label).acquire().await?;
    Ok(Box::new(guard))
}
