//! A [`Mutex`].

use std::sync::Arc;

use zk_recipes::{Guard, LockError, Mutex};
use zk_session::Client;

use super::Seat;
use super::contender::{Attempt, ask, settle, take};
use super::holding::Holding;
use crate::oracle::{Claim, Share};
use crate::plan::Plan;

/// Contends once; whether the session is over.
pub(super) async fn once(seat: &mut Seat) -> bool {
    let path = seat.world.plan.lock_path;
    let Ok(lock) = Mutex::new(&seat.client, path) else { return true };
    let attempt = Attempt::begin(seat);
    let lock = lock.with_data(attempt.label.clone());
    let asked = take(seat, &attempt, ask!(lock)).await;
    settle(seat, attempt, asked, |guard| claims(path, guard)).await
}

pub(super) fn claims(path: &str, guard: &Guard) -> Vec<Claim> {
    vec![Claim::new(path, guard.node(), Share::Alone)]
}

pub(super) async fn exam(
    client: &Client,
    plan: &Plan,
    label: String,
) -> Result<Arc<dyn Holding>, LockError> {
    let guard = Mutex::new(client, plan.lock_path)?.with_data(label).acquire().await?;
    Ok(Arc::new(guard))
}
