//! `zk watch`: prints the changes of a node.

use std::convert::Infallible;

use serde_json::json;
use zk_recipes::session::{Client, Error, ErrorCode, EventType, Retry, Stat, Watch, WatchEvent};

use crate::failure::Failure;
use crate::output::Output;
use crate::sessions::Sessions;
use crate::signals::{Signals, number};

pub(crate) async fn run(mut sessions: Sessions, path: &str, output: Output) -> Result<u8, Failure> {
    let mut signals = Signals::new()?;
    let mut teller = EventPrinter { path, output, told: None };
    let result = tokio::select! {
        ended = follow(&mut sessions, &mut teller) => ended.map(|never| match never {}),
        signal = signals.next() => match teller.told {
            Some(_) => Ok(0), // the intended end of this command
            None => Err(Failure::interrupted(number(signal))),
        }
    };
    sessions.close().await;
    result
}

/// Printer of events, with the state that it has printed so far.
struct EventPrinter<'a> {
    path: &'a str,
    output: Output,
    /// The state of the node that the printed lines lead to; `None` before the first read.
    told: Option<State>,
}

/// The state of a node that events report: the zxids that created it, set its data, and changed its
/// list of children. It is `None` if the node does not exist.
type State = Option<Marks>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Marks {
    czxid: i64,
    mzxid: i64,
    pzxid: i64,
}

/// Prints events without end, in one session after the other.
async fn follow(
    sessions: &mut Sessions,
    teller: &mut EventPrinter<'_>,
) -> Result<Infallible, Failure> {
    loop {
        let client = sessions.open(None).await?;
        let Err(failure) = follow_in(&client, sessions, teller).await;
        if !failure.starts_over() || !sessions.may_go_on() {
            return Err(failure);
        }
    }
}

/// Prints events until the session ends.
async fn follow_in(
    client: &Client,
    sessions: &mut Sessions,
    teller: &mut EventPrinter<'_>,
) -> Result<Infallible, Failure> {
    let retry = Sessions::retry(client);
    if teller.told.is_some() {
        // This server may lag behind the one that was read before.
        retry.run(|client| client.sync(teller.path)).await?;
    }
    let mut seen = WatchedState::of(&retry, teller.path).await?;
    sessions.was_answered();
    match teller.told {
        None => eprintln!("zk: watching {}", teller.path),
        Some(_) => eprintln!("zk: the session had ended; watching {} in a new one", teller.path),
    }
    teller.tell(None, seen.state)?;
    loop {
        let event = seen.event().await?;
        // The watches are set again before the event is printed, so that a reader who reacts to the
        // line misses no change. Changes in between cause no event.
        seen = WatchedState::of(&retry, teller.path).await?;
        teller.tell(Some(event.event_type), seen.state)?;
    }
}

/// The state of a node, with watches for later changes. The watches survive reconnects.
struct WatchedState {
    state: State,
    node: Watch,
    /// The watch on the children; `None` if the node does not exist.
    children: Option<Watch>,
}

impl WatchedState {
    async fn of(retry: &Retry, path: &str) -> Result<Self, Error> {
        let (stat, node) = retry.run(|client| client.exists_and_watch(path)).await?;
        let mut state = stat.as_ref().map(Marks::of);
        let listed = retry.run(|client| client.get_children_and_watch(path)).await;
        let children = match listed {
            Ok((children, watch)) => {
                // Each of the two reads returns the zxid from which its watch counts.
                if let Some(marks) = state.as_mut().filter(|it| it.czxid == children.stat.czxid) {
                    marks.pzxid = children.stat.pzxid;
                }
                Some(watch)
            }
            Err(error) if error.code() == Some(ErrorCode::NO_NODE) => None,
            Err(error) => return Err(error),
        };
        Ok(Self { state, node, children })
    }

    async fn event(&mut self) -> Result<WatchEvent, Error> {
        match &mut self.children {
            Some(children) => tokio::select! {
                event = &mut self.node => event,
                event = children => event,
            },
            None => (&mut self.node).await,
        }
    }
}

impl Marks {
    fn of(stat: &Stat) -> Self {
        Self { czxid: stat.czxid, mzxid: stat.mzxid, pzxid: stat.pzxid }
    }
}

impl EventPrinter<'_> {
    /// Prints the events since the last call.
    fn tell(&mut self, event: Option<EventType>, now: State) -> Result<(), Failure> {
        let before = self.told.replace(now).unwrap_or(now);
        news(before, event, now).into_iter().try_for_each(|event| self.print(event))
    }

    fn print(&self, event: EventType) -> Result<(), Failure> {
        let (path, name) = (self.path, event.name().unwrap_or("Unknown"));
        let json = || json!({ "event": name, "path": path });
        self.output.print([format!("{name} {path}")], json)
    }
}

/// Returns the events that lead from `before` to `now`, including `event` if one was received.
fn news(before: State, event: Option<EventType>, now: State) -> Vec<EventType> {
    let mut news = match (before, now) {
        (None, None) if event == Some(EventType::NODE_CREATED) => vec![EventType::NODE_DELETED],
        (None, None) => vec![],
        (None, Some(_)) => vec![EventType::NODE_CREATED],
        (Some(_), None) => vec![EventType::NODE_DELETED],
        (Some(before), Some(now)) if before.czxid != now.czxid => {
            vec![EventType::NODE_DELETED, EventType::NODE_CREATED]
        }
        (Some(before), Some(now)) => {
            let changed = [
                (EventType::NODE_DATA_CHANGED, before.mzxid != now.mzxid),
                (EventType::NODE_CHILDREN_CHANGED, before.pzxid != now.pzxid),
            ];
            changed.into_iter().filter(|(_, is_so)| *is_so).map(|(event, _)| event).collect()
        }
    };
    if let Some(event) = event.filter(|event| !news.contains(event)) {
        news.insert(0, event);
    }
    news
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREATED: EventType = EventType::NODE_CREATED;
    const DELETED: EventType = EventType::NODE_DELETED;
    const DATA: EventType = EventType::NODE_DATA_CHANGED;
    const CHILDREN: EventType = EventType::NODE_CHILDREN_CHANGED;

    #[test]
    fn printed_events_end_with_the_state_seen_last() {
        let node = |czxid, mzxid, pzxid| Some(Marks { czxid, mzxid, pzxid });
        let (old, new) = (node(1, 1, 1), node(5, 5, 5));
        for (before, event, now, expected) in [
            (old, None, old, &[][..]),
            (None, None, None, &[]),
            // Single changes.
            (None, Some(CREATED), old, &[CREATED]),
            (old, Some(DATA), node(1, 2, 1), &[DATA]),
            (old, Some(CHILDREN), node(1, 1, 2), &[CHILDREN]),
            (old, Some(DELETED), None, &[DELETED]),
            // More changes than the event reports.
            (None, Some(CREATED), None, &[CREATED, DELETED]),
            (old, Some(DATA), node(1, 2, 3), &[DATA, CHILDREN]),
            (old, Some(DATA), None, &[DATA, DELETED]),
            (old, Some(DATA), new, &[DATA, DELETED, CREATED]),
            (old, Some(CHILDREN), None, &[CHILDREN, DELETED]),
            (old, Some(DELETED), new, &[DELETED, CREATED]),
            // A new session, without an event.
            (old, None, node(1, 2, 3), &[DATA, CHILDREN]),
            (old, None, new, &[DELETED, CREATED]),
            (old, None, None, &[DELETED]),
            (None, None, new, &[CREATED]),
        ] {
            assert_eq!(news(before, event, now), expected, "{before:?} {event:?} {now:?}");
        }
    }
}
