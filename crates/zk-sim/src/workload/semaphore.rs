//! Permits of a [`Semaphore`], one or several at once, with a limit that may change.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use zk_recipes::{LockError, Semaphore, SharedCount};
use zk_session::{Client, ErrorOrigin, PathError};
use zk_testing::Rng;

use super::Seat;
use super::contender::{Asking, Attempt, settle, take};
use crate::faults::outsider;
use crate::holding::Holding;
use crate::oracle::{Claim, LIMIT_PATH, Share};
use crate::plan::Plan;
use crate::world::World;

/// Contends once. Returns true if the session is over.
pub(super) async fn once(seat: &mut Seat) -> bool {
    let plan = &seat.world.plan;
    let (path, most) = (plan.lock_path, plan.permits.most);
    let Ok(made) = semaphore(&seat.client, plan) else { return true };
    // One handle for all attempts: it remembers whether the last one found a free permit.
    let semaphore = seat.semaphore.get_or_insert(made).clone();
    let several = seat.rng.chance(seat.world.plan.permits.several);
    let permits = if several { seat.rng.between(1, u64::from(most)) } else { 1 };
    let permits = u32::try_from(permits).unwrap_or(1);
    // If the limit falls below the number of permits wanted, the semaphore deletes all leases and
    // creates them again later. A caller for one permit that expected a free one does so once. Deletes
    // that are repeated may be applied after those creates.
    let nodes = match permits {
        _ if seat.world.plan.permits.shared => usize::MAX,
        1 => 2,
        permits => usize::try_from(permits).unwrap_or(1),
    };
    let attempt = Attempt::begin_with(seat, nodes);
    let semaphore = semaphore.with_data(attempt.label.clone());
    let ask = |asking| async move {
        match asking {
            Asking::Waiting => semaphore.acquire_many(permits).await.map(Some),
            Asking::Within(time) => semaphore.acquire_many_timeout(permits, time).await,
            Asking::Once => semaphore.try_acquire_many(permits).await,
        }
    };
    let asked = take(seat, &attempt, ask).await;
    let claims = |nodes: Vec<String>| {
        nodes.iter().map(|node| Claim::new(path, node, Share::Permit)).collect()
    };
    settle(seat, attempt, asked, |lease| claims(Holding::nodes(lease))).await
}

/// Changes the limit from time to time, and leaves it at the value of the plan.
pub(crate) async fn rule(world: Arc<World>, mut rng: Rng) {
    let most = i32::try_from(world.plan.permits.most).unwrap_or(1);
    let mut client: Option<Client> = None;
    loop {
        let is_draining = world.is_draining();
        let limit =
            if is_draining { most } else { i32::try_from(rng.below(8)).unwrap_or(0) % (most + 2) };
        if client.is_none() {
            client = outsider(&world, usize::MAX - 1, &mut rng);
        }
        let Some(ruler) = &client else { return };
        let Ok(count) = SharedCount::new(ruler, LIMIT_PATH, most) else { return };
        match count.set(limit).await {
            Ok(_) if is_draining => return,
            Err(LockError::Client(error)) if error.origin() == ErrorOrigin::Session => {
                client = None
            }
            _ => {}
        }
        let pause = if is_draining { Duration::ZERO } else { world.plan.permits.ruled_every };
        sleep(rng.around(pause).min(world.plan.longest_timeout()) + Duration::from_millis(1)).await;
    }
}

pub(super) fn semaphore(client: &Client, plan: &Plan) -> Result<Semaphore, PathError> {
    let most = plan.permits.most;
    if plan.permits.shared {
        let seed = i32::try_from(most).unwrap_or(1);
        let count = SharedCount::new(client, LIMIT_PATH, seed)?;
        Semaphore::with_shared_limit(client, plan.lock_path, &count)
    } else {
        Semaphore::new(client, plan.lock_path, most)
    }
}
