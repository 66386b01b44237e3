//! Script of a run: the points at which faults strike.
//!
//! A point is a frame that a client under test sends, or that reaches one, or a time at which its driver is
//! woken, before the run drains. The points are numbered from 1. A connection is a byte stream, so a cut at
//! each frame covers what a client or a server can tell apart.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use clap::ValueEnum;
use tokio::sync::Notify;
use tokio::time::Instant;
use zk_testing::{ConnectionId, Op};

use crate::clock::now;
use crate::oracle::Oracle;

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
    reached: Mutex<Vec<Reached>>,
    /// Faults that strike when the task of the client waits.
    due: Mutex<VecDeque<Due>>,
    wake: Notify,
}

/// Kind of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// The client sends a frame.
    Sent,
    /// A frame is on its way to the client.
    Received,
    /// The driver of the client is woken: by a timer, by a caller, or by a frame that arrives.
    Woken,
}

impl Point {
    /// Returns whether a fault at this point differs from all others. A frame from a server cannot be late:
    /// its connection is closed. Without a frame there is one kind of cut.
    pub(crate) fn has(self, fault: Fault) -> bool {
        match self {
            Self::Sent => true,
            Self::Received => fault != Fault::Late,
            Self::Woken => !matches!(fault, Fault::CutBefore | Fault::Late),
        }
    }
}

/// A point of a run.
#[derive(Clone, Copy, Debug)]
struct Reached {
    point: Point,
    slot: usize,
    at: Instant,
}

/// A fault that strikes the world around a frame, and where the frame was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Due {
    pub(crate) fault: Fault,
    pub(crate) slot: usize,
    pub(crate) server: usize,
    pub(crate) connection: ConnectionId,
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
        Self { strikes, ..Self::default() }
    }

    /// Returns the points of the run. `None` is a time at which the client sends or receives a frame, so
    /// that a fault would strike twice.
    pub(crate) fn points(&self) -> Vec<Option<Point>> {
        let reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        let frames = reached.iter().filter(|other| other.point != Point::Woken);
        let frames: HashSet<_> = frames.map(|frame| (frame.slot, frame.at)).collect();
        let is_frame = |of: &Reached| frames.contains(&(of.slot, of.at));
        let points = reached.iter().map(|of| {
            let is_twice = of.point == Point::Woken && is_frame(of);
            (!is_twice).then_some(of.point)
        });
        points.collect()
    }

    /// Counts a time at which the driver of a client is woken as a point, and lets the faults of the script
    /// strike.
    pub(crate) fn wake(&self, due: Due, oracle: &mut Oracle) {
        let at = now();
        let is_known = |of: &Reached| (of.slot, of.at, of.point) == (due.slot, at, Point::Woken);
        {
            let reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
            if reached.iter().rev().take_while(|of| of.at == at).any(is_known) {
                return;
            }
        }
        let (number, faults) = self.reach(Point::Woken, due.slot);
        oracle.log(format_args!("point {number}: client {} is woken", due.slot));
        for fault in faults {
            oracle.fault("script", format_args!("{fault} at {number}"));
            self.push(Due { fault, ..due });
        }
    }

    fn push(&self, due: Due) {
        self.due.lock().unwrap_or_else(PoisonError::into_inner).push_back(due);
        self.wake.notify_one();
    }

    /// Counts a frame as a point, and lets the faults of the script strike.
    pub(crate) fn pass(&self, passing: Passing<'_>, oracle: &mut Oracle) -> Fate {
        let point = if passing.is_sent { Point::Sent } else { Point::Received };
        let (number, faults) = self.reach(point, passing.slot);
        let Passing { slot, server, connection, is_sent, .. } = passing;
        let (way, what) = if is_sent { ("to", sent(&passing)) } else { ("from", "a frame") };
        oracle.log(format_args!("point {number}: client {slot}, {what} {way} server {server}"));
        let mut fate = Fate::Passes;
        for fault in faults {
            oracle.fault("script", format_args!("{fault} at {number}"));
            match fault {
                Fault::CutBefore => fate = Fate::CutBefore,
                Fault::CutAfter => fate = Fate::CutAfter,
                Fault::Late => fate = if is_sent { Fate::Late } else { Fate::CutBefore },
                _ => self.push(Due { fault, slot, server, connection }),
            }
        }
        fate
    }

    /// Waits for a fault that strikes the world around a frame.
    pub(crate) async fn next_due(&self) -> Due {
        loop {
            let due = self.due.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            match due {
                Some(due) => return due,
                None => self.wake.notified().await,
            }
        }
    }

    /// Counts a point, and returns its number with the faults that strike there.
    fn reach(&self, point: Point, slot: usize) -> (u64, impl Iterator<Item = Fault>) {
        let mut reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        reached.push(Reached { point, slot, at: now() });
        let number = u64::try_from(reached.len()).unwrap_or(u64::MAX);
        let here = self.strikes.iter().filter(move |strike| strike.point == number);
        (number, here.map(|strike| strike.fault))
    }
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
