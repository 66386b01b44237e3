//! Watches of a session, and the check that they deliver their events.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::Stream;
use zk_session::{Watch, WatchStream, WatchStreamItem};
use zk_testing::Rng;

use super::Worker;
use crate::history::Seen;
use crate::watch_progress::WatchProgress;

/// Kinds of watches that a session uses. If it mixes them, the events of one kind reach watches of
/// the other, and streams are not checked exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Uses {
    OneShots,
    Persistent,
    Recursive,
    All,
}

impl Uses {
    pub(super) fn draw(rng: &mut Rng) -> Self {
        rng.pick(&[Self::OneShots, Self::Persistent, Self::Recursive, Self::All])
    }
}

pub(super) struct OneShot {
    pub(super) watch: Watch,
    pub(super) path: String,
    pub(super) seen: Seen,
    /// A read-only server has set it, and may have shown a state that the majority never has. It fires on
    /// the next connection.
    pub(super) is_read_only: bool,
    /// Connections that the session had lost when the watch was requested.
    pub(super) connections_lost: u64,
}

pub(super) struct Streaming {
    pub(super) stream: WatchStream,
    pub(super) progress: WatchProgress,
    pub(super) has_ended: bool,
}

impl Worker {
    /// Reads all pending events. It runs before the replies are checked: an event that is delivered
    /// after the reply that shows its effect is late.
    pub(super) fn hear(&mut self, cx: &mut Context<'_>) {
        for mut one in std::mem::take(&mut self.one_shots) {
            match Pin::new(&mut one.watch).poll(cx) {
                Poll::Pending => self.one_shots.push(one),
                Poll::Ready(result) => self.fired(&one, result),
            }
        }
        for mut one in std::mem::take(&mut self.streams) {
            if self.drain(&mut one, cx) {
                self.streams.push(one);
            }
        }
    }

    pub(super) fn fired(
        &self,
        one: &OneShot,
        result: Result<zk_session::WatchEvent, zk_session::Error>,
    ) {
        let mut oracle = self.seat.world.oracle();
        oracle.log(format_args!("{} watch of {}: {result:?}", self.seat.name, one.path));
        let newest = oracle.history.newest();
        match result {
            Ok(event) if event.path != one.path => {
                drop(oracle);
                self.violated("I11", &format!("a watch of {} told {event:?}", one.path));
            }
            Ok(event)
                if self.uses == Uses::OneShots
                    && !one.is_read_only
                    && !matches!(one.seen, Seen::Nothing(_))
                    && !oracle.history.fires(&one.path, one.seen, newest, false) =>
            {
                drop(oracle);
                let text = format!("{event:?} of {}, unchanged since {:?}", one.path, one.seen);
                self.violated("I11", &text);
            }
            Ok(_) => {}
            Err(_) => {
                drop(oracle);
                if !self.is_over() {
                    self.violated("I7", &format!("a watch of {} ends before", one.path));
                }
            }
        }
    }

    /// Reads all pending events of a stream. Returns true if the stream may deliver more.
    fn drain(&self, one: &mut Streaming, cx: &mut Context<'_>) -> bool {
        while let Poll::Ready(news) = Pin::new(&mut one.stream).poll_next(cx) {
            let mut oracle = self.seat.world.oracle();
            oracle.log(format_args!("{} stream: {news:?}", self.seat.name));
            let told = match news {
                None if one.has_ended => return false,
                None => Err("a stream ends without a word".to_owned()),
                Some(_) if one.has_ended => Err("a stream goes on behind its end".to_owned()),
                Some(Ok(WatchStreamItem::Changed(event))) if self.uses != Uses::All => {
                    one.progress.tell(&oracle.history, &event)
                }
                Some(Ok(WatchStreamItem::Gap | WatchStreamItem::Overflow { .. })) => {
                    one.progress.gap(self.made + 1, self.view);
                    Ok(())
                }
                Some(Ok(_)) => Ok(()),
                Some(Err(_)) => {
                    one.has_ended = true;
                    Ok(())
                }
            };
            drop(oracle);
            if let Err(text) = told {
                self.violated("I11", &text);
                return false;
            }
            if one.has_ended && !self.is_over() {
                self.violated("I7", "a stream ends before its session");
            }
        }
        true
    }

    /// Checks that all events within the view of this session were delivered.
    pub(super) fn check_watches(&mut self) {
        let (view, lost) = (self.view, self.seat.client.stats().connections_lost);
        let oracle = self.seat.world.oracle();
        let mut late = self
            .one_shots
            .iter()
            .filter(|one| {
                let has_reconnected = lost > one.connections_lost;
                oracle.history.fires(&one.path, one.seen, view, has_reconnected)
            })
            .map(|one| format!("{} since {:?}, view {view}", one.path, one.seen));
        let is_exact = self.uses != Uses::All;
        let exact = self.streams.iter_mut().filter(|one| is_exact && !one.has_ended);
        let missing = || {
            let mut missing = exact.map(|one| one.progress.missing(&oracle.history, view));
            missing.find_map(|found| found)
        };
        let late = late.next().or_else(missing);
        drop(oracle);
        match late {
            Some(late) if !self.is_over() => {
                self.violated("I11", &format!("a watch has not told of {late}"));
            }
            _ => {}
        }
    }
}
