//! Operations of several clients on a few nodes, under faults of servers and connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::time::{sleep, timeout};
use zk_history::{Entry, Recorder, Role, SharedSession, Worker};
use zk_recipes::session::{Client, Config};
use zk_testing::{FaultProxy, Rng};

use super::Error;
use super::history::{History, micros};
use super::random_fault::RandomFault;
use super::round::repair;
use crate::{Ensemble, Mode, Server, connect, monotonic_us};

/// A run of several clients.
#[derive(Debug)]
pub struct Operations<'a> {
    /// The servers, in namespaces.
    pub ensemble: &'a Ensemble,
    /// Session timeout that the clients request.
    pub timeout: Duration,
    /// For how long faults are injected.
    pub length: Duration,
    /// Seed of the faults and the operations.
    pub seed: u64,
}

impl Operations<'_> {
    /// Runs the clients, and reports progress to `progress`. Returns the history of their operations.
    ///
    /// # Errors
    /// A server does not obey a command, or a client does not end.
    pub fn run(&self, mut progress: impl FnMut(String)) -> Result<Vec<Entry>, Error> {
        repair(self.ensemble)?;
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let mut random = Rng::new(self.seed);
        let recorder = Recorder::new(monotonic_us);
        let root = format!("/operations-{}-", monotonic_us());
        let is_over = Arc::new(AtomicBool::new(false));
        let (shared, mut all, mut tasks) = (SharedSession::default(), Vec::new(), Vec::new());
        for number in 0..CLIENTS {
            let proxies = self.proxies(&runtime)?;
            let servers: Vec<String> = proxies.iter().map(|it| it.address().to_string()).collect();
            let config = Config::new(&servers.join(","))?.session_timeout(self.timeout);
            all.push(proxies);
            let (recorder, is_over) = (recorder.clone(), Arc::clone(&is_over));
            let (root, rng, shared) = (root.clone(), random.fork(), shared.clone());
            let visitor = Visitor { config, recorder, shared, is_over, root, number, rng };
            tasks.push(runtime.spawn(visitor.work()));
        }
        let end_us = monotonic_us() + micros(self.length);
        while monotonic_us() < end_us {
            let text = self.inject_for_a_while(&all, &mut random)?;
            let left_s = end_us.saturating_sub(monotonic_us()) / 1_000_000;
            progress(format!("{text}; {} operations, {left_s} s left", recorder.count()));
        }
        repair(self.ensemble)?;
        is_over.store(true, Ordering::Relaxed);
        runtime.block_on(async {
            for task in tasks {
                timeout(LIMIT, task).await.map_err(|_| "a client does not end")??;
            }
            let client = connect(&self.ensemble.connect_string(), self.timeout).await;
            Worker::new(client.clone(), u32::MAX, &recorder, &root, random).read_all().await;
            client.close().await;
            Ok::<(), Error>(())
        })?;
        Ok(recorder.entries())
    }

    fn proxies(&self, runtime: &Runtime) -> Result<Vec<FaultProxy>, Error> {
        let servers = self.ensemble.servers().iter();
        let start = |server: &Server| runtime.block_on(FaultProxy::in_front_of(server.address()));
        Ok(servers.map(start).collect::<Result<_, _>>()?)
    }

    /// Injects a fault of the servers and one of a client's connections for a random time.
    fn inject_for_a_while(
        &self,
        all: &[Vec<FaultProxy>],
        random: &mut Rng,
    ) -> Result<String, Error> {
        let is_leader =
            |server: &Server| matches!(server.status(), Ok(Some(it)) if it.mode == Mode::Leader);
        let leader = self.ensemble.servers().iter().position(is_leader);
        let to_servers = match (random.below(4), leader) {
            (0, Some(leader)) => RandomFault::KillServer(leader),
            _ => RandomFault::to_servers(self.ensemble, random),
        };
        let who = random.index(all.len());
        let to_client = RandomFault::to_connections(who, random, self.timeout);
        to_servers.begin(self.ensemble, &mut [])?;
        to_client.disturb(&all[who]);
        let (time, timeout_us) = (History::default(), micros(self.timeout));
        // reason: faults last for a random time, some shorter than a session and some longer.
        time.wait_until(monotonic_us() + random.below(timeout_us * 3 / 2));
        to_servers.end(self.ensemble, &[])?;
        all[who].iter().for_each(FaultProxy::heal);
        // reason: some faults must begin before the effects of the previous one have ended, and
        // some after.
        time.wait_until(monotonic_us() + random.below(timeout_us / 2));
        Ok(format!("{to_servers} and {to_client}"))
    }
}

/// One client after the other. The last two take over the session of the first, which still uses it.
struct Visitor {
    config: Config,
    recorder: Recorder,
    /// The session of the first visitor.
    shared: SharedSession,
    is_over: Arc<AtomicBool>,
    root: String,
    number: u32,
    rng: Rng,
}

impl Visitor {
    async fn work(mut self) {
        let role = match self.number {
            0 => Role::Owner,
            _ if self.number >= CLIENTS - 2 => Role::Twin,
            _ => Role::Other,
        };
        let is_twin = role == Role::Twin;
        for generation in 0.. {
            if self.is_over.load(Ordering::Relaxed) {
                return;
            }
            let Some(client) = self.shared.open(self.config.clone(), role) else {
                // reason: the pause between two looks for the owner of the session
                sleep(PAUSE).await;
                continue;
            };
            self.use_client(&client, self.number + CLIENTS * generation, is_twin).await;
            if is_twin {
                client.detach();
            }
            client.close().await;
        }
    }

    /// Sends operations until the session is over, and those of a twin for a while.
    async fn use_client(&mut self, client: &Client, number: u32, is_twin: bool) {
        let most = if is_twin { TWIN_BURSTS } else { u64::MAX };
        let limited = client.with_timeout(client.session_timeout() / 2);
        let mut worker = Worker::new(limited, number, &self.recorder, &self.root, self.rng.fork());
        for _ in 0..most {
            let burst = self.rng.between(1, 3);
            if worker.send(burst, true).await || self.is_over.load(Ordering::Relaxed) {
                return;
            }
            // reason: the load of the servers
            sleep(self.rng.around(PAUSE)).await;
        }
    }
}

const CLIENTS: u32 = 8;
/// Bursts of a client that has taken over a session.
const TWIN_BURSTS: u64 = 20;
const PAUSE: Duration = Duration::from_millis(40);
/// Enough for a new leader and a last operation on a loaded machine.
const LIMIT: Duration = Duration::from_secs(120);
