//! One round of a scenario: a holder, a waiter, a fault, and the outcome.

use std::path::Path;
use std::time::Duration;

use super::Error;
use super::checker::{Verdict, check};
use super::contender::CHECKED;
use super::event::What;
use super::history::{History, micros};
use super::process::{Process, Start};
use super::scenario::{Before, Cut, Fault, Home, Scenario};
use crate::{Ensemble, Mode, Settings, monotonic_us, poll};

/// The ensemble and the timing of rounds.
#[derive(Debug)]
pub struct Testbed<'a> {
    /// Three servers.
    pub ensemble: &'a Ensemble,
    /// The program with the subcommand `contender`.
    pub program: &'a Path,
    /// Tick of the servers.
    pub tick: Duration,
    /// Timeout of the holder's session.
    pub timeout: Duration,
}

/// Outcome of a round.
#[derive(Debug)]
pub struct Outcome {
    /// The events.
    pub history: History,
    /// Verdict of the checker.
    pub verdict: Verdict,
    /// Outcome for the holder.
    pub holder_end: HolderEnd,
}

impl Outcome {
    /// Creates the outcome of a round that shows nothing.
    pub fn void(error: Error) -> Self {
        let holder_end = HolderEnd::Void(error.to_string());
        Self { history: History::default(), verdict: Verdict::default(), holder_end }
    }
}

/// Outcome for the holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HolderEnd {
    /// It lost the lock, and the waiter acquired it.
    Lost,
    /// It kept the lock; the waiter acquired it only after the release.
    Kept,
    /// It lost the lock before the fault. The margin does not measure the fault.
    LostEarly,
    /// The round shows nothing, for this reason.
    Void(String),
}

/// Starts the ensemble that a scenario needs.
///
/// # Errors
/// As [`Ensemble::in_namespaces`].
pub fn start_ensemble(scenario: &Scenario, tick: Duration) -> Result<Ensemble, crate::Error> {
    let tick_ms = u32::try_from(tick.as_millis()).unwrap_or(u32::MAX);
    let settings = Settings::default().tick_ms(tick_ms);
    if scenario.needs_namespaces() {
        settings.start_in_namespaces()
    } else {
        settings.start_ensemble(3)
    }
}

impl Testbed<'_> {
    /// Runs a round, after repairing the damage of the round before. The fault happens at `phase`
    /// of the servers' tick, in percent. At phase 0 a leader expires sessions. In a scenario that
    /// begins with an idle session, the session begins at `phase`.
    ///
    /// # Errors
    /// A server does not obey a command.
    pub fn round(&self, scenario: &Scenario, number: u32, phase: u32) -> Result<Outcome, Error> {
        repair(self.ensemble)?;
        let history = History::default();
        let holder_end =
            self.play(scenario, number, phase, &history)?.unwrap_or_else(HolderEnd::Void);
        let verdict = check(&history.snapshot());
        Ok(Outcome { history, verdict, holder_end })
    }

    fn play(
        &self,
        scenario: &Scenario,
        number: u32,
        phase: u32,
        history: &History,
    ) -> Result<Result<HolderEnd, String>, Error> {
        let roles = self.roles(scenario)?;
        history.engine(format!("{}: {roles:?}, phase {phase} %", scenario.name));
        let path = format!("/chaos-{number}-{}", monotonic_us());
        let acquire = format!("acquire mutex:{path}");
        let (holder_servers, first) = self.holder_servers(scenario, &roles);
        let waiter_servers = self.waiter_servers(scenario, &roles);
        // Long enough for an election.
        let time_limit = if scenario.fault.hits_leader() { 20 * self.tick } else { self.timeout };
        let start = |number, connect_string, timeout, first| {
            let program = self.program;
            let start = Start { program, number, connect_string, timeout, first };
            Process::start(&start, history)
        };
        // The waiter's session starts first, so that the holder's session is the younger one.
        let mut waiter = start(WAITER, &waiter_servers, time_limit, None)?;
        if waiter.connected(LIMIT).is_none() {
            return Ok(Err("the waiter has no session".to_owned()));
        }
        if let Before::Idle(_) = scenario.before {
            // The session of the holder must be silent from a fixed phase of the tick on.
            await_phase(phase, monotonic_us(), self.tick, history);
        }
        let mut holder = start(HOLDER, &holder_servers, self.timeout, first.as_deref())?;
        let Some(connected_us) = holder.connected(LIMIT) else {
            return Ok(Err("the holder has no session".to_owned()));
        };

        if let Before::Idle(percent) = scenario.before {
            // The fewer requests the holder has to send, the less likely a flush happens in
            // between.
            crate::raw::create_with_null_data(self.ensemble.server(roles.leader), &path);
            // reason: the silence of the session is what matters.
            history.wait_until(connected_us + micros(self.timeout * percent / 100));
        }
        holder.send(&acquire);
        if holder.granted(LIMIT).is_none() {
            return Ok(Err("the holder was not granted the lock".to_owned()));
        }
        match scenario.before {
            Before::Idle(_) => self.inject(scenario.fault, &roles, history)?,
            Before::Hold => {
                if !self.queue(&mut waiter, &acquire, &path, &roles) {
                    return Ok(Err("the waiter did not queue".to_owned()));
                }
                self.await_steady_phase(phase, history);
                if has_lost(&holder) {
                    return Ok(Ok(HolderEnd::LostEarly));
                }
                self.inject(scenario.fault, &roles, history)?;
            }
            Before::Stop(percent) => {
                if !self.queue(&mut waiter, &acquire, &path, &roles) {
                    return Ok(Err("the waiter did not queue".to_owned()));
                }
                self.await_steady_phase(phase, history);
                if has_lost(&holder) {
                    return Ok(Ok(HolderEnd::LostEarly));
                }
                holder.stop();
                // reason: the length of the stop is what matters.
                history.wait_until(monotonic_us() + micros(self.timeout * percent / 100));
                let resumed_us = monotonic_us();
                holder.resume();
                holder.send("check");
                let lost_or_checked = |what: &What| match what {
                    What::Note(note) => note.starts_with(CHECKED),
                    what => matches!(what, What::Lost { .. }),
                };
                if holder.event(resumed_us, LIMIT, lost_or_checked).is_none() {
                    return Ok(Err("the holder neither checked nor lost its lock".to_owned()));
                }
                self.inject(scenario.fault, &roles, history)?;
            }
        }
        if let Before::Idle(_) = scenario.before {
            waiter.send(&acquire);
        }
        Ok(self.await_end(scenario, &mut holder, &mut waiter))
    }

    /// Waits until the holder has lost the lock to the waiter, or has kept it for long enough.
    fn await_end(
        &self,
        scenario: &Scenario,
        holder: &mut Process,
        waiter: &mut Process,
    ) -> Result<HolderEnd, String> {
        // A leader that receives nothing of a session expires it at most a tick after its timeout.
        // For a new leader, the others must first notice the failure and hold an election.
        let mut keep = self.timeout + 3 * self.tick;
        if scenario.fault.hits_leader() {
            keep += 10 * self.tick + ELECTION;
        }
        let holder_end = if waiter.granted(keep).is_some() {
            HolderEnd::Lost
        } else if has_lost(holder) {
            if waiter.granted(LIMIT).is_none() {
                return Err("the lock was lost, and the waiter was not granted it".to_owned());
            }
            HolderEnd::Lost
        } else {
            holder.send("release");
            if waiter.granted(LIMIT).is_none() {
                return Err("the lock was released, and the waiter was not granted it".to_owned());
            }
            HolderEnd::Kept
        };
        // The history is complete only when it has the loss of the holder.
        if holder_end == HolderEnd::Lost {
            holder.event(0, self.timeout + LIMIT, is_loss).ok_or("the holder lost nothing")?;
        }
        waiter.send("release");
        waiter.noted("released", 0, LIMIT).ok_or("the waiter could not release the lock")?;
        Ok(holder_end)
    }

    /// Makes the waiter queue. Returns whether its node appears.
    fn queue(&self, waiter: &mut Process, acquire: &str, path: &str, roles: &Roles) -> bool {
        waiter.send(acquire);
        let prefix = format!("{path}/");
        let queued = || {
            let dump = self.ensemble.server(roles.bystander).four_letter("dump").ok()?;
            let nodes = dump.lines().filter(|line| line.trim().starts_with(&prefix)).count();
            (nodes == 2).then_some(())
        };
        poll(LIMIT, queued).is_some()
    }

    /// Waits until the session has been steady for half a timeout, and then for a phase of the
    /// tick.
    fn await_steady_phase(&self, phase: u32, history: &History) {
        let steady_us = monotonic_us() + micros(self.timeout / 2);
        await_phase(phase, steady_us, self.tick, history);
    }

    fn inject(&self, fault: Fault, roles: &Roles, history: &History) -> Result<(), Error> {
        let Roles { leader, home, .. } = *roles;
        history.engine(format!("fault begins: {fault:?}"));
        match fault {
            Fault::StopHome => self.ensemble.server(home).pause()?,
            Fault::KillHome => self.ensemble.server(home).kill(),
            Fault::CutHome(cut) => self.cut(home, leader, cut)?,
            Fault::StopLeader => self.ensemble.server(leader).pause()?,
            Fault::KillLeader => self.ensemble.server(leader).kill(),
            Fault::CutLeader(cut) => {
                let others = (0..3).filter(|other| *other != leader);
                others.into_iter().try_for_each(|other| self.cut(other, leader, cut))?;
            }
        }
        history.engine("fault done");
        Ok(())
    }

    fn cut(&self, server: usize, leader: usize, cut: Cut) -> Result<(), Error> {
        match cut {
            Cut::BothWays => self.ensemble.cut(server, leader)?,
            Cut::ToLeader => self.ensemble.cut_one_way(server, leader)?,
            Cut::FromLeader => self.ensemble.cut_one_way(leader, server)?,
        }
        Ok(())
    }

    fn roles(&self, scenario: &Scenario) -> Result<Roles, Error> {
        let leader = self.ensemble.leader()?;
        let home = match scenario.home {
            Home::Leader => leader,
            Home::Follower | Home::AllFromFollower => (leader + 1) % 3,
        };
        Ok(Roles { leader, home, bystander: (leader + 2) % 3 })
    }

    fn address(&self, server: usize) -> String {
        self.ensemble.server(server).connect_string()
    }

    /// Returns the holder's connect string, and the server at which its session begins.
    fn holder_servers(&self, scenario: &Scenario, roles: &Roles) -> (String, Option<String>) {
        match scenario.home {
            Home::Leader | Home::Follower => (self.address(roles.home), None),
            Home::AllFromFollower => {
                (self.ensemble.connect_string(), Some(self.address(roles.home)))
            }
        }
    }

    fn waiter_servers(&self, scenario: &Scenario, roles: &Roles) -> String {
        if !scenario.fault.hits_leader() {
            return self.address(roles.leader);
        }
        let others = (0..3).filter(|other| *other != roles.leader);
        others.map(|other| self.address(other)).collect::<Vec<_>>().join(",")
    }
}

/// Waits for the first phase of the tick, in percent, after a time. A server counts ticks on the
/// same clock, so a leader expires sessions at phase 0.
fn await_phase(phase: u32, after_us: u64, tick: Duration, history: &History) {
    let tick_us = micros(tick);
    let whole = (after_us / tick_us + 1) * tick_us;
    // reason: the phase of the servers' tick is what matters.
    history.wait_until(whole + tick_us * u64::from(phase) / 100);
}

/// Ends every fault of an ensemble, and waits until all servers serve in one ensemble.
///
/// # Errors
/// The servers do not recover.
pub(super) fn repair(ensemble: &Ensemble) -> Result<(), Error> {
    // This fails on loopback, where links cannot be cut.
    let _ = ensemble.heal();
    for server in ensemble.servers() {
        // This fails for a server that was killed.
        let _ = server.resume();
        server.launch()?;
    }
    let synced = || {
        let serve = ensemble.servers().iter().all(|server| matches!(server.status(), Ok(Some(_))));
        let leads = |index: &usize| match ensemble.server(*index).status() {
            Ok(Some(status)) => status.mode == Mode::Leader,
            _ => false,
        };
        let leader = (0..ensemble.servers().len()).find(leads)?;
        let mntr = ensemble.server(leader).four_letter("mntr").ok()?;
        let followers = mntr.lines().find_map(|line| line.strip_prefix("zk_synced_followers\t"))?;
        (serve && followers.parse() == Ok(ensemble.voters() - 1)).then_some(())
    };
    poll(REPAIR_LIMIT, synced).ok_or_else(|| "the ensemble does not recover".into())
}

/// The servers of a round.
#[derive(Clone, Copy, Debug)]
struct Roles {
    leader: usize,
    /// The server at which the holder's session begins.
    home: usize,
    /// The server that no fault of a follower affects.
    bystander: usize,
}

/// Contender number of the holder.
pub const HOLDER: u32 = 1;
/// Contender number of the waiter.
pub const WAITER: u32 = 2;

/// Far longer than any step takes that has nothing to wait for, including an election.
const LIMIT: Duration = Duration::from_secs(60);
const ELECTION: Duration = Duration::from_secs(5);
const REPAIR_LIMIT: Duration = Duration::from_secs(120);

fn is_loss(what: &What) -> bool {
    matches!(what, What::Lost { .. })
}

fn has_lost(holder: &Process) -> bool {
    holder.event(0, Duration::ZERO, is_loss).is_some()
}
