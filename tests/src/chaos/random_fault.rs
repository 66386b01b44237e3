//! Faults of random chaos, with a beginning and an end.

use std::fmt;
use std::time::Duration;

use zk_recipes::session::{Config, RetryPolicy};
use zk_testing::{Cut, Direction, FaultProxy, Rng};

use super::Error;
use super::process::Process;
use crate::Ensemble;

/// A contender, and the proxies between it and each server.
#[derive(Debug)]
pub(super) struct Contender {
    pub(super) process: Process,
    pub(super) proxies: Vec<FaultProxy>,
}

/// A fault that lasts for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RandomFault {
    Nothing,
    StopServer(usize),
    KillServer(usize),
    CutLink(usize, usize),
    CutLinkOneWay {
        from: usize,
        to: usize,
    },
    /// Cuts a server off from all others.
    Isolate(usize),
    /// Removes a server from the ensemble by a reconfiguration, and adds it again.
    Remove(usize),
    StopContender(usize),
    KillContender(usize),
    Delay(usize, Direction, Duration),
    /// Connections hold all bytes back, and deliver them when the fault ends.
    Stall(usize),
    Break(usize, Cut),
    /// Bytes arrive late and in pieces, and the connection breaks in the middle of a piece.
    Lose(usize, Direction, usize),
}

impl RandomFault {
    /// Returns a fault of servers and links. A majority of the servers stays connected.
    pub(super) fn to_servers(ensemble: &Ensemble, random: &mut Rng) -> Self {
        let count = ensemble.servers().len();
        let server = random.index(count);
        let other = (server + 1 + random.index(count - 1)) % count;
        let kinds = if ensemble.can_change() { 12 } else { 8 };
        match random.below(kinds) {
            0 => Self::Nothing,
            1 | 2 => Self::StopServer(server),
            3 => Self::KillServer(server),
            4 => Self::CutLink(server, other),
            5 | 6 => Self::CutLinkOneWay { from: server, to: other },
            7 => Self::Isolate(server),
            _ => Self::Remove(server),
        }
    }

    /// Returns a fault of a contender and its connections.
    pub(super) fn to_contender(random: &mut Rng, timeout: Duration) -> Self {
        let who = random.index(8);
        match random.below(9) {
            0 => Self::Nothing,
            1..=3 => Self::StopContender(who),
            4 => Self::KillContender(who),
            _ => Self::to_connections(who, random, timeout),
        }
    }

    /// Returns a fault of a client's connections.
    pub(super) fn to_connections(who: usize, random: &mut Rng, timeout: Duration) -> Self {
        let way = random.pick(&[Direction::ToServer, Direction::ToClient]);
        let percent = u32::try_from(random.below(40)).unwrap_or(0);
        match random.below(4) {
            0 => Self::Delay(who, way, timeout * percent / 100),
            1 => Self::Stall(who),
            2 => Self::Break(who, random.pick(&[Cut::Fin, Cut::Rst, Cut::Silence])),
            _ => Self::Lose(who, way, random.index(500)),
        }
    }

    /// Returns the contender that was killed.
    pub(super) fn killed(&self) -> Option<usize> {
        if let Self::KillContender(who) = self { Some(*who) } else { None }
    }

    pub(super) fn begin(
        &self,
        ensemble: &Ensemble,
        contenders: &mut [Contender],
    ) -> Result<(), Error> {
        match *self {
            Self::Nothing => {}
            Self::StopServer(server) => ensemble.server(server).pause()?,
            Self::KillServer(server) => ensemble.server(server).kill(),
            Self::CutLink(one, other) => ensemble.cut(one, other)?,
            Self::CutLinkOneWay { from, to } => ensemble.cut_one_way(from, to)?,
            Self::Isolate(server) => {
                let others = (0..ensemble.servers().len()).filter(|other| *other != server);
                others.into_iter().try_for_each(|other| ensemble.cut(server, other))?;
            }
            Self::Remove(server) => reconfigure(ensemble, &[], &[ensemble.id(server)])?,
            Self::StopContender(who) => contenders[who].process.stop(),
            Self::KillContender(who) => contenders[who].process.kill(),
            Self::Delay(who, ..) | Self::Stall(who) | Self::Break(who, _) | Self::Lose(who, ..) => {
                self.disturb(&contenders[who].proxies);
            }
        }
        Ok(())
    }

    /// Begins a fault of the connections through these proxies.
    pub(super) fn disturb(&self, proxies: &[FaultProxy]) {
        for proxy in proxies {
            match *self {
                Self::Delay(_, way, by) => proxy.delay(way, by),
                Self::Stall(_) => proxy.stall(),
                Self::Break(_, how) => proxy.cut_all(how),
                Self::Lose(_, way, bytes) => {
                    proxy.split(way, 7);
                    proxy.cut_after(way, bytes, Cut::Silence);
                }
                _ => {}
            }
        }
    }

    pub(super) fn end(&self, ensemble: &Ensemble, contenders: &[Contender]) -> Result<(), Error> {
        match *self {
            Self::Nothing | Self::KillContender(_) | Self::Break(..) => {}
            Self::StopServer(server) => ensemble.server(server).resume()?,
            Self::KillServer(server) => ensemble.server(server).launch()?,
            Self::Remove(server) => reconfigure(ensemble, &[&ensemble.line(server)], &[])?,
            Self::CutLink(..) | Self::CutLinkOneWay { .. } | Self::Isolate(_) => ensemble.heal()?,
            Self::StopContender(who) => contenders[who].process.resume(),
            Self::Delay(who, ..) | Self::Stall(who) | Self::Lose(who, ..) => {
                contenders[who].proxies.iter().for_each(|proxy| proxy.heal());
            }
        }
        Ok(())
    }
}

/// Changes the members of the ensemble. A leader that has just been elected may not be ready for it.
fn reconfigure(ensemble: &Ensemble, joining: &[&str], leaving: &[u64]) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let config = Config::new(&ensemble.connect_string())?.session_timeout(RECONFIG_TIMEOUT);
        let client = config.connect_timeout(RECONFIG_LIMIT).connect().await?;
        let policy = RetryPolicy::fixed(RECONFIG_PAUSE).timeout(RECONFIG_LIMIT);
        let mut attempts = policy.begin();
        while let Err(error) = client.reconfig(joining, leaving, None).await {
            if !attempts.pause(&client).await {
                return Err(error.into());
            }
        }
        client.close().await;
        Ok(())
    })
}

const RECONFIG_TIMEOUT: Duration = Duration::from_secs(4);
/// Enough for elections on a loaded machine.
const RECONFIG_LIMIT: Duration = Duration::from_secs(60);
const RECONFIG_PAUSE: Duration = Duration::from_millis(200);

impl fmt::Display for RandomFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
