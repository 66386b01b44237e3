//! Script of a run: the points at which faults strike.
//!
//! A point is a frame that a client under test sends, or that reaches one, before the run drains. The
//! points are numbered from 1. A connection is a byte stream, so a cut at each frame covers what a client
//! or a server can tell apart.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use clap::ValueEnum;
use tokio::time::sleep;
use zk_session::{Client, CreateMode, Error, ErrorOrigin};
use zk_testing::server::{Action, Rule, Target};
use zk_testing::{ConnectionId, Cut, Op, SessionId};

use crate::clock::now;
use crate::faults::{expire, outsider};
use crate::world::World;

/// A fault that strikes at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Fault {
    /// The connection is closed, and the frame is lost.
    CutBefore,
    /// The connection is closed after the frame. The reply to a request is lost.
    CutAfter,
    /// The connection transfers nothing more, and neither side is notified.
    HalfOpen,
    /// The connection transfers nothing for longer than a lease lasts without news.
    Delay,
    /// The connection is closed, and the request still arrives after the client has reconnected.
    Late,
    /// The connection is closed, and so is the next one, after the server has accepted its session.
    Reconnect,
    /// The leader expires the session, however new its last touch is.
    Expire,
    /// The process pauses for longer than its session lasts.
    Pause,
    /// The caller drops the future of its operation, with the guard if there is one.
    Drop,
    /// The server crashes. If it led, another one is elected.
    Crash,
    /// Another server is elected.
    Elect,
    /// An operator deletes a node and creates another one of the same name, which lives for a while.
    Recreate,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_possible_value().map_or(Ok(()), |value| f.write_str(value.get_name()))
    }
}

/// A fault at a point: `17:cut-before` on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strike {
    /// The number of the point.
    pub point: u64,
    /// What happens there.
    pub fault: Fault,
}

impl fmt::Display for Strike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.point, self.fault)
    }
}

impl FromStr for Strike {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (point, fault) = text.split_once(':').ok_or("expected POINT:FAULT")?;
        let point = point.parse().map_err(|_| format!("`{point}` is no number of a point"))?;
        Ok(Self { point, fault: Fault::from_str(fault, false)? })
    }
}

/// Strikes of a run, and the points that it has reached.
#[derive(Debug, Default)]
pub(crate) struct Script {
    strikes: Vec<Strike>,
    /// Whether the client sends the frame of each point.
    reached: Mutex<Vec<bool>>,
}

/// Frame at a point.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passing<'a> {
    pub(crate) slot: usize,
    pub(crate) server: usize,
    pub(crate) connection: ConnectionId,
    pub(crate) is_sent: bool,
    /// The frame, its length included.
    pub(crate) frame: &'a [u8],
}

/// What happens to a frame and its connection. All other faults strike the world around them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Passes,
    CutBefore,
    CutAfter,
    Late,
}

impl Script {
    pub(crate) fn new(strikes: Vec<Strike>) -> Self {
        Self { strikes, reached: Mutex::default() }
    }

    pub(crate) fn take_reached(&self) -> Vec<bool> {
        std::mem::take(&mut *self.reached.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Counts a point, and returns its number with the faults that strike there.
    fn reach(&self, is_sent: bool) -> (u64, impl Iterator<Item = Fault>) {
        let mut reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        reached.push(is_sent);
        let number = u64::try_from(reached.len()).unwrap_or(u64::MAX);
        let here = self.strikes.iter().filter(move |strike| strike.point == number);
        (number, here.map(|strike| strike.fault))
    }
}

/// Counts a frame as a point, if the run has a script and does not drain, and lets the faults of the
/// script strike.
pub(crate) fn pass(world: &Arc<World>, passing: Passing<'_>) -> Fate {
    let Some(script) = &world.script else { return Fate::Passes };
    if world.is_draining() || passing.slot >= world.slots() {
        return Fate::Passes;
    }
    let (number, faults) = script.reach(passing.is_sent);
    let Passing { slot, server, .. } = passing;
    let (way, what) = if passing.is_sent { ("to", sent(&passing)) } else { ("from", "a frame") };
    world.oracle().log(format_args!("point {number}: client {slot}, {what} {way} server {server}"));
    let mut fate = Fate::Passes;
    for fault in faults {
        world.oracle().fault("script", format_args!("{fault} at {number}"));
        match fault {
            Fault::CutBefore => fate = Fate::CutBefore,
            Fault::CutAfter => fate = Fate::CutAfter,
            Fault::Late => fate = if passing.is_sent { Fate::Late } else { Fate::CutBefore },
            _ => {
                // The caller runs inside a task of the client. The fault strikes when the task waits.
                let world = Arc::clone(world);
                let Passing { slot, server, connection, .. } = passing;
                tokio::spawn(
                    async move { strike(&world, fault, (slot, server, connection)).await },
                );
            }
        }
    }
    fate
}

/// Returns the name of the operation that a client sends.
fn sent(passing: &Passing<'_>) -> &'static str {
    // A connect request begins with the version of the protocol, where others have their number.
    if passing.frame.get(4..8) == Some(&[0; 4]) {
        return "connect";
    }
    let op = passing.frame.get(8..12).and_then(|op| op.try_into().ok()).map(i32::from_be_bytes);
    Op::ALL.iter().find(|known| Some(**known as i32) == op).map_or("a frame", |known| known.name())
}

async fn strike(
    world: &Arc<World>,
    fault: Fault,
    (slot, at, connection): (usize, usize, ConnectionId),
) {
    let (server, timeout) = (&world.server, world.plan.longest_timeout());
    let session = world.slot(slot).client.as_ref().map_or(SessionId::NONE, Client::session_id);
    match fault {
        Fault::HalfOpen => server.with(|servers| servers.stall_connection(connection)),
        Fault::Delay => {
            server.with(|servers| servers.stall_connection(connection));
            world.later(timeout.mul_f64(DELAY), move |world| {
                let now = now().into_std();
                world.server.with(|servers| servers.resume_connection(now, connection));
            });
        }
        Fault::Reconnect => {
            let action = Action::ApplyThenDrop(Cut::Fin);
            let session = (session != SessionId::NONE).then_some(session);
            let rule = Rule { session, ..Rule::new(Target::Connect, action) };
            let now = now().into_std();
            server.with(|servers| {
                servers.add_rule(rule);
                servers.cut_connection(now, connection, Cut::Fin);
            });
        }
        Fault::Expire if session != SessionId::NONE => expire(world, session),
        Fault::Pause => {
            if let Some(process) = &world.slot(slot).process {
                process.freeze(now() + timeout.mul_f64(PAUSE));
            }
        }
        Fault::Drop => {
            let drops = Arc::clone(&world.slot(slot).drops);
            drops.notify_waiters();
        }
        Fault::Crash => {
            server.kill(at);
            if at == server.leader() {
                elect_next(world);
            }
            world.later(timeout.mul_f64(DELAY), move |world| world.server.restart(at));
        }
        Fault::Elect => elect_next(world),
        Fault::Recreate => recreate(world, slot).await,
        Fault::CutBefore | Fault::CutAfter | Fault::Late | Fault::Expire => {}
    }
}

/// Elects the next server that can lead.
fn elect_next(world: &World) {
    let (count, leader) = (world.plan.servers.len(), world.server.leader());
    let _is_elected = (1..count).any(|step| world.server.elect((leader + step) % count));
}

/// Deletes the node of a client, creates one of the same name, and deletes that one after a while.
async fn recreate(world: &Arc<World>, slot: usize) {
    let Some(node) = world.oracle().operate(slot) else { return };
    let Some(operator) = outsider(world, usize::MAX, &mut world.rng(6)) else { return };
    // A client may have deleted its node by now.
    if operator.delete(&node, None).await.is_err() {
        return;
    }
    let created = operator.create(&node, b"", CreateMode::Persistent).await;
    world.oracle().log(format_args!("an operator recreates {node}: {created:?}"));
    sleep(world.plan.longest_timeout() / 4).await;
    let is_over = |error: Error| error.origin() != ErrorOrigin::Network;
    while !operator.delete(&node, None).await.map_or_else(is_over, |()| true) {
        sleep(world.plan.tick).await;
    }
}

/// Parts of a session timeout. A delay ends a lease, and not the connection or the session. A pause ends
/// the session.
const DELAY: f64 = 0.6;
const PAUSE: f64 = 1.6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strike_is_written_as_it_is_read() {
        for text in ["1:cut-before", "23:elect", "7:half-open"] {
            assert_eq!(text.parse::<Strike>().unwrap().to_string(), text);
        }
        for text in ["", "1", "x:elect", "1:nothing", "-1:elect"] {
            assert!(text.parse::<Strike>().is_err(), "{text}");
        }
    }
}
