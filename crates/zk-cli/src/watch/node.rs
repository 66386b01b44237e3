//! The events of one node.

use std::convert::Infallible;

use zk_recipes::session::{Error, EventType, Retry, Stat, Watch, WatchEvent};

use super::Watched;
use crate::prelude::{Result, Session};

/// The state that the printed lines lead to.
#[derive(Default)]
pub(super) struct NodeWatch {
    /// `None` before the first read.
    told: Option<State>,
}

/// The status of a node, whose zxids show the events: those that created it, set its data, and changed its
/// list of children. It is `None` if the node does not exist.
type State = Option<Stat>;

impl NodeWatch {
    /// Follows the events until the session ends.
    pub(super) async fn follow(
        &mut self,
        session: &Session,
        watched: &Watched<'_>,
    ) -> Result<Infallible> {
        let retry = watched.notes.session(session).retry;
        if self.told.is_some() {
            // This server may lag behind the one that was read before.
            retry.run(|client| client.sync(watched.path)).await?;
        }
        let mut seen = WatchedState::of(&retry, watched.path).await?;
        watched.notes.begin();
        let retry = watched.notes.session(session).retry;
        self.print_event(None, seen.state, watched, &retry).await?;
        loop {
            let event = seen.event().await?;
            // The watches are set again before the event is printed, so that a reader who reacts to
            // the line misses no change. Changes in between cause no event.
            seen = WatchedState::of(&retry, watched.path).await?;
            self.print_event(Some(event.event_type), seen.state, watched, &retry).await?;
        }
    }

    /// Tells the events since the last call.
    async fn print_event(
        &mut self,
        event: Option<EventType>,
        now: State,
        watched: &Watched<'_>,
        retry: &Retry,
    ) -> Result<()> {
        for event in news(self.told.unwrap_or(now), event, now) {
            watched.reaction.to(event, watched.path, retry).await?;
        }
        self.told = Some(now);
        Ok(())
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
        let (mut state, node) = retry.run(|client| client.exists_and_watch(path)).await?;
        let listed = retry.run(|client| client.get_children_and_watch(path)).await;
        let children = match listed {
            Ok((children, watch)) => {
                // Each of the two reads returns the zxid from which its watch counts.
                if let Some(stat) = state.as_mut().filter(|stat| stat.czxid == children.stat.czxid)
                {
                    stat.pzxid = children.stat.pzxid;
                }
                Some(watch)
            }
            Err(error) if error.is_no_node() => None,
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
    use zk_recipes::session::Zxid;

    use super::*;

    const CREATED: EventType = EventType::NODE_CREATED;
    const DELETED: EventType = EventType::NODE_DELETED;
    const DATA: EventType = EventType::NODE_DATA_CHANGED;
    const CHILDREN: EventType = EventType::NODE_CHILDREN_CHANGED;

    #[test]
    fn printed_events_end_with_the_state_seen_last() {
        let node = |czxid, mzxid, pzxid| Some(Stat { czxid, mzxid, pzxid, ..Stat::default() });
        let (old, new) = (node(Zxid(1), Zxid(1), Zxid(1)), node(Zxid(5), Zxid(5), Zxid(5)));
        for (before, event, now, expected) in [
            (old, None, old, &[][..]),
            (None, None, None, &[]),
            // Single changes.
            (None, Some(CREATED), old, &[CREATED]),
            (old, Some(DATA), node(Zxid(1), Zxid(2), Zxid(1)), &[DATA]),
            (old, Some(CHILDREN), node(Zxid(1), Zxid(1), Zxid(2)), &[CHILDREN]),
            (old, Some(DELETED), None, &[DELETED]),
            // More changes than the event reports.
            (None, Some(CREATED), None, &[CREATED, DELETED]),
            (old, Some(DATA), node(Zxid(1), Zxid(2), Zxid(3)), &[DATA, CHILDREN]),
            (old, Some(DATA), None, &[DATA, DELETED]),
            (old, Some(DATA), new, &[DATA, DELETED, CREATED]),
            (old, Some(CHILDREN), None, &[CHILDREN, DELETED]),
            (old, Some(DELETED), new, &[DELETED, CREATED]),
            // A new session, without an event.
            (old, None, node(Zxid(1), Zxid(2), Zxid(3)), &[DATA, CHILDREN]),
            (old, None, new, &[DELETED, CREATED]),
            (old, None, None, &[DELETED]),
            (None, None, new, &[CREATED]),
        ] {
            assert_eq!(news(before, event, now), expected, "{before:?} {event:?} {now:?}");
        }
    }
}
