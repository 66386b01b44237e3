//! Operations on a few nodes, by clients with sessions of their own. Their history must be linearizable
//! (I24).

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use zk_history::{Recorder, Role, SharedSession, Worker, judge};
use zk_session::{Client, SessionId};
use zk_testing::Rng;

use super::impatient;
use crate::clock::now;
use crate::faults::{expire, outsider_config};
use crate::world::World;

/// Runs the clients until the run drains, and judges their history.
pub(crate) async fn run(world: Arc<World>, mut rng: Rng) {
    let start = now();
    let clock = move || u64::try_from((now() - start).as_micros()).unwrap_or(u64::MAX);
    let recorder = Recorder::new(clock);
    let (shared, mut tasks) = (SharedSession::default(), Vec::new());
    for number in 0..VISITORS {
        let (world, recorder, shared) = (Arc::clone(&world), recorder.clone(), shared.clone());
        let visitor = Visitor { world, recorder, shared, number, rng: rng.fork() };
        tasks.push(tokio::spawn(visitor.work()));
    }
    for task in tasks {
        if task.await.is_err_and(|error| error.is_panic()) {
            world.oracle().violated("panic", "a task of the operations panicked".to_owned());
        }
    }
    let slot = usize::MAX - 3;
    if let Some(client) = outsider_config(&world, slot, &mut rng).and_then(|it| it.open().ok()) {
        let last = Worker::new(client.clone(), u32::MAX, &recorder, ROOT, rng);
        last.read_all().await;
        client.close().await;
    }
    let entries = recorder.entries();
    let verdict = judge(entries.clone());
    let mut oracle = world.oracle();
    oracle.log(format_args!("{} operations, {} unknown", verdict.operations, verdict.unknown));
    let broken = [verdict.violations, verdict.stale_syncs, verdict.undecided].concat();
    if let Some(text) = broken.into_iter().next() {
        entries.iter().for_each(|entry| oracle.log(format_args!("{entry}")));
        oracle.violated("I24", text);
    }
}

/// One client after the other. The last visitor takes over the session of the first, which still uses it.
struct Visitor {
    world: Arc<World>,
    recorder: Recorder,
    /// The session of the first visitor.
    shared: SharedSession,
    number: u32,
    rng: Rng,
}

impl Visitor {
    async fn work(mut self) {
        let mut sent = 0;
        for generation in 0.. {
            if self.world.is_draining() || sent >= OPERATIONS {
                return;
            }
            let number = self.number + VISITORS * generation;
            let role = match self.number {
                0 => Role::Owner,
                _ if self.number == VISITORS - 1 => Role::Twin,
                _ => Role::Other,
            };
            let is_twin = role == Role::Twin;
            match self.open(role) {
                Some(client) => {
                    sent += self.use_client(&client, number, is_twin).await;
                    if is_twin {
                        client.detach();
                    }
                    client.close().await;
                }
                None => sleep(self.world.plan.tick).await,
            }
        }
    }

    fn open(&mut self, role: Role) -> Option<Client> {
        let slot = usize::MAX - 4 - usize::try_from(self.number).unwrap_or(0);
        self.world.oracle().reborn(slot);
        self.shared.open(outsider_config(&self.world, slot, &mut self.rng)?, role)
    }

    /// Sends operations with a client until its session is over, and those of a twin for a while. Returns
    /// their number.
    async fn use_client(&mut self, client: &Client, number: u32, is_twin: bool) -> u64 {
        let plan = &self.world.plan;
        let (pause, may_sync) = (plan.session.think.max(PAUSE), !plan.replaces_leaders());
        let limited = self.rng.chance(0.3).then(|| self.rng.around(client.session_timeout() / 8));
        let handle = limited.map_or_else(|| client.clone(), |limit| client.with_timeout(limit));
        let mut worker = Worker::new(handle, number, &self.recorder, ROOT, self.rng.fork());
        let most = if is_twin { TWIN_OPERATIONS } else { OPERATIONS };
        let mut sent = 0;
        while sent < most && !self.world.is_draining() {
            let burst = self.rng.between(1, 3);
            sent += burst;
            let polls = if self.rng.chance(0.05) { self.rng.below(6) } else { u64::MAX };
            if impatient(polls, worker.send(burst, may_sync)).await.unwrap_or(false) {
                break;
            }
            let session = client.session_id();
            if self.rng.chance(0.01) && session != SessionId::NONE && !self.world.is_draining() {
                expire(&self.world, session);
            }
            sleep(self.rng.around(pause) + Duration::from_millis(1)).await;
        }
        sent
    }
}

const VISITORS: u32 = 4;
/// Operations of each visitor.
const OPERATIONS: u64 = 40;
/// Operations of a client that has taken over a session.
const TWIN_OPERATIONS: u64 = 6;
const PAUSE: Duration = Duration::from_millis(10);
const ROOT: &str = "/r";
