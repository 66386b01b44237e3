//! Clients and their tasks. Each slot runs one client after the other.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use zk_recipes::{LocalQueueLimits, Mutex};
use zk_session::{Client, SessionEnd, SessionEvent, SessionEvents};

use crate::network::{Network, config};
use crate::process::Process;
use crate::recipe::Recipe;
use crate::workload::{
    Seat, contend, discovery, election, follower, kept_node, registration, requests, session,
};
use crate::world::World;

/// Runs clients in a slot, one after the other, until the run drains.
pub(crate) async fn run(world: Arc<World>, slot: usize) {
    if world.plan.recipe.is_managed(slot.is_multiple_of(3)) {
        return match world.plan.recipe {
            Recipe::Election => election::run(world, slot).await,
            Recipe::Registration => registration::run(world, slot).await,
            Recipe::KeptNode => kept_node::run(world, slot).await,
            Recipe::Discovery => discovery::run(world, slot).await,
            _ => follower::run(world, slot).await,
        };
    }
    let plan = world.plan.clients[slot].clone();
    let number = u64::try_from(slot).unwrap_or(0);
    for generation in 0_u64.. {
        if world.is_draining() {
            return;
        }
        let mut rng = world.rng((number + 1) << 32 | generation);
        let Some(config) = config(&world, slot, generation) else { return };
        let network = Network::new(&world, slot, &mut rng);
        let takes_read_only = !world.plan.locks && rng.chance(world.plan.session.read_only);
        let config = if takes_read_only { config.allow_read_only() } else { config };
        let (client, driver) = config.connector(network).into_parts();
        let process = Process::new(rng.fork(), world.plan.jitter, &world.steps);
        world.oracle().reborn(slot);
        let driver = process.spawn(driver);
        let lost_is_watched = Arc::new(AtomicBool::new(false));
        let mut tasks = Vec::new();
        let shared_lock = shared_lock(&world, &client, slot);
        let mut seat = |name: String| Seat {
            world: Arc::clone(&world),
            client: client.clone(),
            process: Arc::clone(&process),
            slot,
            shared_lock: shared_lock.clone(),
            semaphore: None,
            timeout: plan.timeout,
            name,
            rng: rng.fork(),
            lost_is_watched: Arc::clone(&lost_is_watched),
        };
        for contender in 0..if world.plan.locks { plan.contenders } else { 0 } {
            tasks.push(process.spawn(contend(seat(format!("{slot}.{contender}")))));
        }
        if world.plan.sessions {
            tasks.push(process.spawn(session::work(seat(format!("{slot}.s{generation}")))));
        }
        if let Some(pause) = world.plan.requests_every {
            let (world, client, rng) = (Arc::clone(&world), client.clone(), rng.fork());
            tasks.push(process.spawn(requests::make(world, client, rng, pause)));
        }
        let watched = tokio::spawn(watch(Arc::clone(&world), client.events()));
        {
            let mut place = world.slot(slot);
            (place.process, place.client) = (Some(process), Some(client));
            place.drivers.push(driver);
        }
        for task in tasks {
            if task.await.is_err_and(|error| error.is_panic()) {
                world.oracle().violated("panic", format!("a task of client {slot} panicked"));
            }
        }
        watched.abort();
        if !world.is_draining() {
            let mut place = world.slot(slot);
            (place.process, place.client) = (None, None);
        }
    }
}

/// Returns the lock that the contenders of a client share, in a run with local queues.
///
/// No attempt is named in the node's data, because the node passes from one to the next.
fn shared_lock(world: &World, client: &Client, slot: usize) -> Option<Mutex> {
    let plan = &world.plan;
    let lock = (plan.recipe == Recipe::LocalQueue).then(|| Mutex::new(client, plan.lock_path));
    let limits = LocalQueueLimits::default();
    let limits = limits.max_passes(plan.local_queue.passes).max_time(plan.local_queue.time);
    Some(lock?.ok()?.with_data(format!("slot {slot}")).with_local_queue(limits))
}

/// Checks every report of an expired session: the session must have ended at the leader.
async fn watch(world: Arc<World>, mut events: SessionEvents) {
    while let Some(event) = events.next().await {
        if let SessionEvent::Expired { session_id, cause: SessionEnd::Expired } = event {
            world.oracle().said_expired(session_id);
        }
    }
}
