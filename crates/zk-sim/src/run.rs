//! Run of one seed, from its plan to its verdict.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use zk_recipes::LockError;
use zk_session::{Client, ErrorOrigin};

use crate::client;
use crate::clock::now;
use crate::faults::{self, Rules};
use crate::oracle::Violation;
use crate::orphans;
use crate::plan::Plan;
use crate::recipe::Recipe;
use crate::script::{Point, Script, Strike};
use crate::small_world::SmallWorld;
use crate::strikes;
use crate::suite::Suite;
use crate::workload::{self, double_barrier, operations, registration, semaphore};
use crate::world::World;

/// Result of one seed.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// The first broken invariant, if any.
    pub violation: Option<Violation>,
    /// The trace: one line for each event.
    pub trace: String,
    /// A hash of the trace.
    pub hash: u64,
    /// Whether the seed had locks and no session workload.
    pub is_locks_only: bool,
    /// Whether the seed decides all. It does not if two handles of one session wait for the next
    /// session: tokio wakes them in an order that it draws itself.
    pub is_repeatable: bool,
    /// Requests of the session workload.
    pub requests: u64,
    /// Locks granted, and successful operations of the other recipes.
    pub handoffs: u64,
    /// Polls of the clients' tasks and connections.
    pub steps: u64,
    /// Time that passed on the virtual clock.
    pub virtual_time: Duration,
    /// Number of faults of each kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// The points of a run with a script. No fault is to strike at `None`.
    pub points: Vec<Option<Point>>,
}

/// Runs one seed on a new runtime.
///
/// # Panics
///
/// Panics if the runtime cannot be built.
#[must_use]
pub fn run(suite: Suite, seed: u64) -> Outcome {
    run_plan(Plan::draw(suite, seed), None)
}

/// Runs a small world in which these faults strike.
///
/// # Panics
///
/// Panics if the runtime cannot be built.
#[must_use]
pub fn run_script(world: SmallWorld, strikes: &[Strike]) -> Outcome {
    run_plan(world.plan(), Some(Script::new(strikes.to_vec())))
}

fn run_plan(plan: Plan, script: Option<Script>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap_or_else(|error| panic!("no runtime: {error}"));
    runtime.block_on(simulate(plan, script))
}

async fn simulate(plan: Plan, script: Option<Script>) -> Outcome {
    let seed = plan.seed;
    let start = now();
    let world = World::new(plan, script);
    world.oracle().log(format_args!("{:?}", world.plan));
    let mut course = tokio::spawn(course(Arc::clone(&world)));
    let news = Arc::clone(&world.oracle().news);
    // A violation ends the run, whichever task finds it.
    loop {
        match futures::future::select(&mut course, std::pin::pin!(news.notified())).await {
            futures::future::Either::Left((result, _)) => {
                if result.is_err_and(|error| error.is_panic()) {
                    world.oracle().violated("panic", "the simulation panicked".to_owned());
                }
                break;
            }
            futures::future::Either::Right(_) if world.oracle().violation.is_some() => break,
            futures::future::Either::Right(_) if world.steps.are_too_many() => {
                world.oracle().violated("spin", format!("{} steps", world.steps.taken()));
                break;
            }
            futures::future::Either::Right(_) => world.reached_target(),
        }
    }
    course.abort();
    let mut oracle = world.oracle();
    let trace = std::mem::take(&mut oracle.trace);
    Outcome {
        seed,
        violation: oracle.violation.clone(),
        hash: trace.hash(),
        trace: trace.into_text(),
        is_locks_only: world.plan.locks && !world.plan.sessions,
        is_repeatable: world.plan.recipe != Recipe::Registration
            || !world.plan.coordination.has_twins,
        requests: oracle.asked,
        handoffs: oracle.handoffs,
        steps: world.steps.taken(),
        virtual_time: now() - start,
        faults: std::mem::take(&mut oracle.faults),
        points: world.script.as_ref().map(Script::points).unwrap_or_default(),
    }
}

/// Runs the phase with faults, ends all faults, and checks that every client recovers.
async fn course(world: Arc<World>) {
    let rules = Rules::put_in_force(&world);
    let mut clients: Vec<JoinHandle<()>> = (0..world.slots())
        .map(|slot| tokio::spawn(client::run(Arc::clone(&world), slot)))
        .collect();
    if world.plan.recipe == Recipe::Semaphore && world.plan.permits.shared {
        clients.push(tokio::spawn(semaphore::rule(Arc::clone(&world), world.rng(4))));
    }
    if world.plan.sessions {
        clients.push(tokio::spawn(operations::run(Arc::clone(&world), world.rng(6))));
    }
    let strikes = tokio::spawn(faults::strike(Arc::clone(&world), world.rng(1)));
    tokio::spawn(orphans::judge_all(Arc::clone(&world)));
    tokio::spawn(strikes::strike_all(Arc::clone(&world)));
    let overwrites = (world.plan.recipe == Recipe::Registration)
        .then(|| tokio::spawn(registration::overwrite(Arc::clone(&world), world.rng(5))));
    let expiries = tokio::spawn(faults::expire_owners(Arc::clone(&world), world.rng(2)));
    let longest = (world.plan.longest_timeout() * 15).clamp(LONGEST / 20, LONGEST);
    let _ = timeout(longest, world.target().notified()).await;
    strikes.abort();
    expiries.abort();
    overwrites.inspect(JoinHandle::abort);
    world.drain();
    faults::heal(&world, rules);
    if world.plan.recipe == Recipe::Election {
        world.oracle().must_lead_within(world.plan.leaderless());
    }
    let time_limit = world.plan.time_limit();
    for client in clients {
        if timeout(time_limit, client).await.is_err() {
            let left = world.oracle().leftovers();
            return world.oracle().violated("I6", format!("not served in {time_limit:?}: {left}"));
        }
    }
    if !becomes(time_limit, || !world.oracle().has_nodes()).await {
        let left = world.oracle().leftovers();
        return world.oracle().violated("I5", format!("left behind after {time_limit:?}: {left}"));
    }
    if world.plan.recipe == Recipe::DoubleBarrier {
        double_barrier::exam(&world, time_limit).await;
    }
    // Every client acquires the lock. One of them keeps it, because a renewal of its lease takes
    // time to show.
    let keeper = world.rng(3).index(world.slots());
    for slot in 0..world.slots() {
        let client = world.slot(slot).client.clone();
        let timeout = world.plan.clients[slot].timeout;
        let is_keeper = slot == keeper;
        let time = if is_keeper { timeout * 3 / 2 } else { timeout / 10 };
        if let Some(client) = client {
            exam(&world, slot, client, (time, is_keeper)).await;
        }
    }
    close(&world, time_limit).await;
}

/// Checks that a live client acquires the lock without faults, and holds it for `time`. A keeper
/// holds it until an operator deletes its node.
async fn exam(
    world: &Arc<World>,
    slot: usize,
    client: Client,
    (time, is_keeper): (Duration, bool),
) {
    if client.end_reason().is_some() {
        return;
    }
    let time_limit = world.plan.time_limit();
    let who = format!("exam of {slot}");
    let guard = match timeout(time_limit, workload::exam(world, &client, &who)).await {
        Ok(Ok(guard)) => guard,
        Ok(Err(LockError::Client(error))) if error.origin() == ErrorOrigin::Session => {
            return world.oracle().log(format_args!("client {slot}: {error}"));
        }
        Ok(Err(LockError::Lost(reason))) if !world.plan.keeps_leases(slot) => {
            return world.oracle().log(format_args!("client {slot}, far away: {reason}"));
        }
        Ok(Err(error)) => {
            return world.oracle().violated("I6", format!("client {slot}, all well: {error}"));
        }
        Err(_) => {
            let text = format!("client {slot} waited for {time_limit:?} with all well");
            return world.oracle().violated("I6", text);
        }
    };
    sleep(time).await;
    let Some(guard) = guard else { return };
    let is_held = guard.is_held();
    if !is_held && world.plan.keeps_leases(slot) {
        let stats = client.stats().lease;
        let text =
            format!("client {slot} lost the lock with all well: {:?}, {stats:?}", guard.tokens());
        world.oracle().violated("I6", text);
    } else if is_held && is_keeper {
        orphans::examine(world, slot, &*guard).await;
    }
}

/// Closes all clients, and checks that their sessions end at both ends.
async fn close(world: &World, time_limit: Duration) {
    for slot in 0..world.slots() {
        let (client, drivers) = {
            let mut place = world.slot(slot);
            place.sessions = None;
            (place.client.take(), std::mem::take(&mut place.drivers))
        };
        drop(client);
        for driver in drivers {
            match timeout(time_limit, driver).await {
                Err(_) => {
                    let text = format!("a session of client {slot} does not end");
                    return world.oracle().violated("I7", text);
                }
                Ok(Err(error)) if error.is_panic() => {
                    return world.oracle().violated("panic", format!("the driver of {slot}"));
                }
                Ok(_) => {}
            }
        }
    }
    if becomes(time_limit, || !world.oracle().has_nodes()).await {
        return;
    }
    let left = world.oracle().leftovers();
    world.oracle().violated("I5", format!("left behind by sessions that ended: {left}"));
}

async fn becomes(time_limit: Duration, mut is: impl FnMut() -> bool) -> bool {
    let until = now() + time_limit;
    while !is() {
        if now() > until {
            return false;
        }
        sleep(Duration::from_millis(50)).await;
    }
    true
}

/// The longest phase with faults, even if few locks are granted.
const LONGEST: Duration = Duration::from_secs(80);
