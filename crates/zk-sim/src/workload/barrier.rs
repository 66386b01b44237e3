//! Clients that set a [`Barrier`], remove it, or wait for it.

use std::time::Duration;

use futures::future::join;
use tokio::time::sleep;
use zk_coordination::{Barrier, BarrierError};
use zk_recipes::LockError;
use zk_session::{Client, ErrorOrigin};

use super::contender::rest;
use super::{Seat, impatient};
use crate::oracle::SINGLE_BARRIER_PATH;
use crate::world::World;

/// Does one operation. Returns true if the session is over.
pub(super) async fn once(seat: &mut Seat) -> bool {
    let Ok(barrier) = Barrier::new(&seat.client, SINGLE_BARRIER_PATH) else { return true };
    match operate(seat, &barrier).await {
        Ok(()) => seat.world.oracle().had(),
        Err(error) => {
            if judge(&seat.world, &seat.name, &error) {
                return true;
            }
            rest(seat).await;
        }
    }
    if seat.world.plan.think.is_zero() {
        rest(seat).await;
    }
    false
}

async fn operate(seat: &mut Seat, barrier: &Barrier) -> Result<(), BarrierError> {
    let begun = seat.world.oracle().barrier_call_begins();
    // The faults may end at any time, so no client waits without a limit.
    let time_limit = seat.rng.millis(seat.world.plan.hold.longest);
    let choice = seat.rng.below(8);
    let is_seen_set = match choice {
        0 | 1 => barrier.set().await.map(|()| Some(true))?,
        2 | 3 => barrier.remove().await.map(|()| Some(false))?,
        4 => {
            let waited = impatient(seat.rng.below(12), barrier.wait_timeout(time_limit)).await;
            waited.transpose()?.filter(|is_over| *is_over).map(|_| false)
        }
        _ => barrier.wait_timeout(time_limit).await?.then_some(false),
    };
    let plan = &seat.world.plan;
    let staleness = if choice < 4 { Duration::ZERO } else { plan.tick * plan.sync_limit };
    if let Some(is_set) = is_seen_set {
        seat.world.oracle().barrier_call_ends(&begun, is_set, staleness);
    }
    Ok(())
}

/// Returns true if the session is over. Any other error is a violation, unless replies were lost.
fn judge(world: &World, name: &str, error: &BarrierError) -> bool {
    let origin = match error {
        BarrierError::Client(error) => Some(error.origin()),
        _ => None,
    };
    let is_over = origin == Some(ErrorOrigin::Session);
    super::judge(world, "I22", name, error, (is_over, origin == Some(ErrorOrigin::Network)))
}

/// Sets the barrier, waits for it, and removes it, without faults.
pub(super) async fn exam(client: &Client) -> Result<(), LockError> {
    let client_error = |error| match error {
        BarrierError::Client(error) => LockError::Client(error),
        other => unreachable!("{other}"),
    };
    let barrier = Barrier::new(client, SINGLE_BARRIER_PATH)?;
    barrier.set().await.map_err(client_error)?;
    let removal = async {
        sleep(Duration::from_millis(10)).await;
        barrier.remove().await
    };
    let (waited, removed) = join(barrier.wait(), removal).await;
    waited.and(removed).map_err(client_error)
}
