//! Many contenders on several kinds of locks, under a sequence of faults.

use std::path::Path;
use std::time::Duration;

use tokio::runtime::Runtime;
use zk_testing::{FaultProxy, Rng};

use super::Error;
use super::checker::{Verdict, check};
use super::event::What;
use super::history::{History, micros};
use super::process::{Process, Start};
use super::random_fault::{Contender, RandomFault};
use super::round::repair;
use crate::{Ensemble, Settings, monotonic_us};

/// A run of many contenders.
#[derive(Debug)]
pub struct Workload<'a> {
    /// The servers. They need namespaces if links are to be cut.
    pub ensemble: &'a Ensemble,
    /// The program with the subcommand `contender`.
    pub program: &'a Path,
    /// Tick of the servers.
    pub tick: Duration,
    /// Session timeout that the contenders request.
    pub timeout: Duration,
    /// For how long faults are injected.
    pub length: Duration,
    /// Seed of the faults, and of the locks that contenders acquire.
    pub seed: u64,
    /// Kind of the faults.
    pub faults: Faults,
}

/// Kinds of fault sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Faults {
    /// Random faults of servers, links, connections and contenders.
    Random,
    /// The servers restart in turn, each with another `maxSessionTimeout`.
    RollingRestart,
}

impl Workload<'_> {
    /// Runs the contenders, and reports progress to `progress`. Returns the verdict of the checker.
    ///
    /// # Errors
    /// A server does not obey a command, or a contender is not granted a lock within two minutes
    /// after the last fault.
    pub fn run(
        &self,
        history: &History,
        mut progress: impl FnMut(String),
    ) -> Result<Verdict, Error> {
        repair(self.ensemble)?;
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let mut contenders = Vec::new();
        for number in 1..=CONTENDERS {
            contenders.push(self.contender(number, &runtime, history)?);
        }
        let mut random = Rng::new(self.seed);
        let root = format!("/chaos-{}", monotonic_us());
        for contender in &mut contenders {
            contender.roam(&root, random.draw())?;
        }
        let end_us = monotonic_us() + micros(self.length);
        let mut turn = 0;
        while monotonic_us() < end_us {
            let text = match self.faults {
                Faults::Random => {
                    self.inject_for_a_while(&mut contenders, &mut random, &root, history)?
                }
                Faults::RollingRestart => self.restart_next(turn, &mut random, history)?,
            };
            turn += 1;
            let left_s = end_us.saturating_sub(monotonic_us()) / 1_000_000;
            progress(format!("{text}; {} grants, {left_s} s left", grants(history)));
        }
        repair(self.ensemble)?;
        let repaired_us = monotonic_us();
        let is_grant = |what: &What| matches!(what, What::Granted { .. });
        for Contender { process, .. } in &contenders {
            process.event(repaired_us, RECOVERY_LIMIT, is_grant).ok_or_else(|| {
                format!("contender {} is not granted a lock any more", process.number())
            })?;
        }
        contenders.into_iter().for_each(|contender| contender.process.close());
        Ok(check(&history.snapshot()))
    }

    /// Injects a fault of the servers and a fault of a contender for a random time.
    fn inject_for_a_while(
        &self,
        contenders: &mut [Contender],
        random: &mut Rng,
        root: &str,
        history: &History,
    ) -> Result<String, Error> {
        let faults = [
            RandomFault::to_servers(self.ensemble, random),
            RandomFault::to_contender(random, self.timeout),
        ];
        let text = format!("{} and {}", faults[0], faults[1]);
        history.engine(format!("{text} begins"));
        for fault in &faults {
            fault.begin(self.ensemble, contenders)?;
        }
        let timeout_us = micros(self.timeout);
        // reason: faults last for a random time, some shorter than a lease and some longer.
        history.wait_until(monotonic_us() + random.below(timeout_us * 3 / 2));
        for fault in &faults {
            fault.end(self.ensemble, contenders)?;
        }
        if let Some(killed) = faults.iter().find_map(RandomFault::killed) {
            self.replace(&mut contenders[killed], root, random, history)?;
        }
        history.engine(format!("{text} ends"));
        // reason: some faults must begin before the effects of the previous one have ended, and
        // some after.
        history.wait_until(monotonic_us() + random.below(timeout_us / 2));
        Ok(text)
    }

    /// Restarts a server with another limit of session timeouts.
    fn restart_next(
        &self,
        turn: usize,
        random: &mut Rng,
        history: &History,
    ) -> Result<String, Error> {
        let server = turn % 3;
        let max_ticks = random.pick(&[4, 6, 10, 20]);
        let max_ms = (self.tick * max_ticks).as_millis().to_string();
        let tick_ms = u32::try_from(self.tick.as_millis())?;
        let settings = Settings::default().tick_ms(tick_ms).config("maxSessionTimeout", &max_ms);
        let text = format!("server {server} restarts with maxSessionTimeout {max_ms}");
        history.engine(text.clone());
        self.ensemble.reconfigure(server, &settings)?;
        self.ensemble.server(server).restart()?;
        // reason: sessions must sometimes settle at the server before the next restart, and
        // sometimes not.
        history.wait_until(monotonic_us() + random.below(micros(self.timeout)));
        Ok(text)
    }

    /// Replaces a killed contender by a new one.
    fn replace(
        &self,
        killed: &mut Contender,
        root: &str,
        random: &mut Rng,
        history: &History,
    ) -> Result<(), Error> {
        let number = killed.process.number() + CONTENDERS;
        killed.process = self.process(number, &killed.proxies, history)?;
        killed.roam(root, random.draw())
    }

    fn contender(
        &self,
        number: u32,
        runtime: &Runtime,
        history: &History,
    ) -> Result<Contender, Error> {
        let mut proxies = Vec::new();
        for server in self.ensemble.servers() {
            proxies.push(runtime.block_on(FaultProxy::in_front_of(server.address()))?);
        }
        Ok(Contender { process: self.process(number, &proxies, history)?, proxies })
    }

    fn process(
        &self,
        number: u32,
        proxies: &[FaultProxy],
        history: &History,
    ) -> Result<Process, Error> {
        let addresses: Vec<String> =
            proxies.iter().map(|proxy| proxy.address().to_string()).collect();
        let start = Start {
            program: self.program,
            number,
            connect_string: &addresses.join(","),
            timeout: self.timeout,
            first: None,
        };
        Ok(Process::start(&start, history)?)
    }
}

impl Contender {
    fn roam(&mut self, root: &str, seed: u64) -> Result<(), Error> {
        let locks = LOCKS.map(|lock| lock.replace("ROOT", root)).join(" ");
        self.process.send(&format!("roam {seed} {locks}"));
        Ok(())
    }
}

fn grants(history: &History) -> usize {
    let events = history.snapshot();
    events.iter().filter(|event| matches!(event.what, What::Granted { .. })).count()
}

const CONTENDERS: u32 = 8;
/// The locks that contenders choose from.
const LOCKS: [&str; 5] = [
    "mutex:ROOT/mutex",
    "read:ROOT/read-write",
    "write:ROOT/read-write",
    "semaphore:ROOT/semaphore:1/3",
    "semaphore:ROOT/semaphore:2/3",
];
/// Enough for a new leader, new sessions, and a grant to every contender on a loaded machine.
const RECOVERY_LIMIT: Duration = Duration::from_secs(120);
