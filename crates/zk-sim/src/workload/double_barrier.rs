//! Members of a [`DoubleBarrier`].

use std::time::Duration;

use futures::future::join_all;
use tokio::time::{sleep, timeout};
use zk_coordination::session::ErrorKind;
use zk_coordination::{BarrierError, DoubleBarrier, Entered};
use zk_session::{Client, ErrorOrigin};

use super::contender::rest;
use super::{Seat, impatient};
use crate::oracle::{BARRIER_PATH, Call};
use crate::world::World;

/// Enters and leaves once. Returns true if the session is over.
pub(super) async fn once(seat: &mut Seat) -> bool {
    let members = seat.world.plan.coordination.members;
    let Ok(barrier) = barrier(&seat.client, members) else { return true };
    let call = seat.world.oracle().barriers.begin();
    let entered = match enter(seat, &barrier.with_acl(call.acl()), call).await {
        Ok(entered) => entered,
        Err(error) => {
            let is_over = judge(&seat.world, &seat.name, &error);
            if !is_over {
                rest(seat).await;
            }
            return is_over;
        }
    };
    let Some(entered) = entered else {
        rest(seat).await;
        return false;
    };
    seat.world.oracle().had();
    seat.world.oracle().member_entered(entered.node());
    sleep(seat.rng.around(seat.world.plan.hold.typical)).await;
    let left = leave(seat, entered).await;
    left.is_err_and(|error| judge(&seat.world, &seat.name, &error))
}

/// Enters in one of several ways. The faults may end at any time, so no member waits without a limit.
async fn enter(
    seat: &mut Seat,
    barrier: &DoubleBarrier,
    call: Call,
) -> Result<Option<Entered>, BarrierError> {
    let (style, polls) = (seat.rng.below(8), seat.rng.below(60));
    let time_limit = seat.rng.millis(seat.world.plan.hold.longest);
    match style {
        0 => {
            timeout(time_limit, impatient(polls, barrier.enter())).await.ok().flatten().transpose()
        }
        1..=4 => {
            let entered = barrier.enter_timeout(time_limit).await;
            if let Ok(None) = &entered {
                seat.world.oracle().member_timed_out(call);
            }
            entered
        }
        _ => timeout(time_limit, barrier.enter()).await.ok().transpose(),
    }
}

/// Leaves in one of several ways.
async fn leave(seat: &mut Seat, mut entered: Entered) -> Result<(), BarrierError> {
    let node = entered.node().to_owned();
    let (style, polls) = (seat.rng.below(8), seat.rng.below(8));
    let time_limit = seat.rng.millis(seat.world.plan.hold.longest);
    match style {
        0 => return Ok(()),
        1 => {
            let left = impatient(polls, entered.leave()).await;
            let Some(left) = left else { return Ok(()) };
            left?;
        }
        2 | 3 if !entered.leave_timeout(time_limit).await? => entered.leave().await?,
        2 | 3 => {}
        _ => entered.leave().await?,
    }
    seat.world.oracle().member_left(&node);
    Ok(())
}

/// Returns true if the session is over. Any other error is a violation, unless the server did not
/// answer after a timeout.
fn judge(world: &World, name: &str, error: &BarrierError) -> bool {
    let is_operated = world.oracle().any_operated();
    let is_fine = match error {
        BarrierError::Client(error) => {
            let is_fine = matches!(error.kind(), ErrorKind::TimedOut);
            (error.origin() == ErrorOrigin::Session, is_fine)
        }
        BarrierError::NodeDeleted { .. } => (false, is_operated),
        _ => (false, false),
    };
    super::judge(world, "I21", name, error, is_fine)
}

/// Lets all live clients enter and leave together, without faults.
pub(crate) async fn exam(world: &World, time_limit: Duration) {
    let mut clients: Vec<Client> = Vec::new();
    for slot in 0..world.slots() {
        let client = world.slot(slot).client.clone();
        // The session may have expired without the client's knowledge.
        if let Some(client) = client
            && let Ok(Ok(_)) = timeout(time_limit, client.sync("/")).await
        {
            clients.push(client);
        }
    }
    if clients.is_empty() {
        return;
    }
    world.oracle().barriers.size = clients.len();
    let together = join_all(clients.iter().map(|client| member(world, client, clients.len())));
    match timeout(time_limit, together).await {
        Ok(results) => {
            if let Some(error) = results.into_iter().find_map(Result::err) {
                world.oracle().violated("I21", format!("a member, all well: {error}"));
            }
        }
        Err(_) => {
            let text = format!("{} members waited for {time_limit:?} with all well", clients.len());
            world.oracle().violated("I21", text);
        }
    }
}

async fn member(world: &World, client: &Client, members: usize) -> Result<(), BarrierError> {
    let mut entered = barrier(client, members)?.enter().await?;
    let node = entered.node().to_owned();
    world.oracle().member_entered(&node);
    entered.leave().await?;
    world.oracle().member_left(&node);
    Ok(())
}

fn barrier(client: &Client, members: usize) -> Result<DoubleBarrier, BarrierError> {
    DoubleBarrier::new(client, BARRIER_PATH, u32::try_from(members).unwrap_or(u32::MAX))
}
