//! Processes with a manager of sessions. Each slot runs one after the other.

use std::future::Future;
use std::sync::Arc;

use tokio::time::sleep;
use zk_session::{SessionChange, SessionId, SessionManager};
use zk_testing::Rng;

use crate::network::{Network, config};
use crate::process::Process;
use crate::recipe::Recipe;
use crate::world::World;

/// A process with a manager of sessions.
pub(crate) struct Managed {
    pub(crate) world: Arc<World>,
    pub(crate) process: Arc<Process>,
    pub(crate) slot: usize,
    pub(crate) generation: u64,
    /// The number of the process, for the oracle.
    pub(crate) number: u64,
    /// A session of the process before.
    pub(crate) previous_session: Option<SessionId>,
    pub(crate) sessions: SessionManager,
    pub(crate) rng: Rng,
}

/// Runs processes in a slot until the run drains. `work` is the only task of a process, and returns
/// when the run drains.
pub(crate) async fn run<F>(world: Arc<World>, slot: usize, work: impl Fn(Managed) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    for generation in 0.. {
        if world.is_draining() {
            return;
        }
        let Some(managed) = open(&world, slot, generation).await else {
            sleep(world.plan.tick).await;
            continue;
        };
        let (process, sessions) = (Arc::clone(&managed.process), managed.sessions.clone());
        let follows = tokio::spawn(follow(Arc::clone(&world), slot, sessions));
        if process.spawn(work(managed)).await.is_err_and(|error| error.is_panic()) {
            world.oracle().violated("panic", format!("the task of client {slot} panicked"));
        }
        follows.abort();
        if !world.is_draining() {
            let mut place = world.slot(slot);
            (place.process, place.client, place.sessions) = (None, None, None);
        }
    }
}

/// Opens the first session of a process. Returns `None` if it does not open in time.
pub(crate) async fn open(world: &Arc<World>, slot: usize, generation: u64) -> Option<Managed> {
    let number = u64::try_from(slot).unwrap_or(0);
    let mut rng = world.rng((number + 1) << 32 | generation);
    let config = config(world, slot, generation)?;
    let mut network = Network::new(world, slot, &mut rng);
    let process = Process::new(rng.fork(), world.plan.jitter, &world.steps);
    // A candidate that is killed closes its session.
    if world.plan.recipe != Recipe::Election {
        network.process = Some(Arc::clone(&process));
    }
    world.oracle().reborn(slot);
    let (number, previous_session) = world.oracle().process_begins(slot);
    let sessions = SessionManager::connect(config.connector(network)).await.ok()?;
    {
        let mut place = world.slot(slot);
        (place.process, place.client) = (Some(Arc::clone(&process)), Some(sessions.client()));
        place.sessions = Some(sessions.clone());
    }
    let world = Arc::clone(world);
    Some(Managed { world, process, slot, generation, number, previous_session, sessions, rng })
}

/// Keeps the slot's client that of the current session, for the faults that need it.
async fn follow(world: Arc<World>, slot: usize, sessions: SessionManager) {
    let mut changes = sessions.changes();
    while let Some(change) = changes.next().await {
        if let SessionChange::Opened { .. } = change {
            world.oracle().reborn(slot);
            let mut place = world.slot(slot);
            if place.sessions.is_some() {
                place.client = Some(sessions.client());
            }
        }
    }
}
