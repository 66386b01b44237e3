//! History of the nodes that sessions work on, as the leader applied it. It checks whether a
//! session's results can be true.
//!
//! Every write carries a unique number in its data, which identifies the write here. A session's
//! view is the newest zxid that it is known to have seen: later reads are never older.

use crate::ensure::ensure;
use std::collections::{BTreeMap, BTreeSet};

use zk_session::{EventType, Outcome, SessionId, Zxid};

/// Root of the nodes that sessions work on.
pub(crate) const ROOT: &str = "/s";

#[derive(Debug, Default)]
pub(crate) struct History {
    /// The newest transaction of the leader.
    newest: Zxid,
    nodes: BTreeMap<String, Life>,
    /// How often each write was applied, by its number.
    applied: BTreeMap<u64, u32>,
    /// Writes that were reported as not applied.
    denied: BTreeSet<u64>,
    deletes: BTreeMap<(SessionId, String), Deletes>,
    /// Paths of changed nodes, in the order of their transactions.
    changes: Vec<(Zxid, String)>,
}

#[derive(Debug, Default)]
struct Life {
    /// All states, in order. The lists below are in order too.
    states: Vec<State>,
    /// Events of a persistent watch on the node, one for each state.
    news: Vec<News>,
    /// Events of a persistent watch on the node's children, one for each child created or deleted.
    children: Vec<News>,
    /// The session that owns the node, if the node exists and is ephemeral.
    owner: SessionId,
}

#[derive(Clone, Copy, Debug)]
struct State {
    zxid: Zxid,
    /// The number of the write that set the state; `None` if the node is deleted.
    number: Option<u64>,
}

/// The deletes of one node by one session. They carry no number, so they are counted.
#[derive(Debug, Default)]
struct Deletes {
    open: u32,
    /// Deletes that reported success; `unknown` counts deletes with an unknown outcome.
    applied: u32,
    unknown: u32,
    committed: u32,
}

/// The state on which a one-shot watch was set.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Seen {
    /// A node, with the zxid of its last change.
    Node(Zxid),
    /// No node, with the newest zxid of the leader.
    Nothing(Zxid),
    /// A list of children, with the zxid of its last change.
    Children(Zxid),
}

/// An event of a persistent watch, with the zxid of its transaction.
pub(crate) type News = (Zxid, EventType);

/// Target of a watch: a node, or its list of children.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Watched {
    pub(crate) path: String,
    pub(crate) is_children: bool,
}

impl History {
    pub(crate) fn newest(&self) -> Zxid {
        self.newest
    }

    /// Records the newest zxid of the leader.
    pub(crate) fn reached(&mut self, zxid: Zxid) {
        self.newest = self.newest.max(zxid);
    }

    /// Records that a node was created or set.
    pub(crate) fn put(
        &mut self,
        path: &str,
        zxid: Zxid,
        data: &[u8],
        owner: SessionId,
    ) -> Result<(), String> {
        if !is_below_root(path) {
            return Ok(());
        }
        let number = number_in(data);
        let life = self.nodes.entry(path.to_owned()).or_default();
        let is_new = life.states.last().is_none_or(|state| state.number.is_none());
        let event = if is_new { EventType::NODE_CREATED } else { EventType::NODE_DATA_CHANGED };
        life.states.push(State { zxid, number: Some(number) });
        life.news.push((zxid, event));
        life.owner = owner;
        self.changes.push((zxid, path.to_owned()));
        if is_new {
            self.child_changed(path, zxid);
        }
        let times = self.applied.entry(number).or_default();
        *times += 1;
        match (*times, self.denied.contains(&number)) {
            (1, false) => Ok(()),
            (times, true) => Err(format!("#{number} on {path}: applied {times}, though denied")),
            (times, false) => Err(format!("#{number} on {path}: applied {times} times")),
        }
    }

    /// Records that a session has deleted a node.
    pub(crate) fn deleted(
        &mut self,
        path: &str,
        zxid: Zxid,
        session: SessionId,
    ) -> Result<(), String> {
        if !is_below_root(path) {
            return Ok(());
        }
        self.gone(path, zxid);
        self.deletes.entry((session, path.to_owned())).or_default().committed += 1;
        self.check_deletes(session, path)
    }

    /// Records the end of a session, which deletes its ephemeral nodes.
    pub(crate) fn session_ended(&mut self, session: SessionId, zxid: Zxid) {
        for path in self.ephemerals(session) {
            self.gone(&path, zxid);
        }
    }

    /// Returns the ephemeral nodes of a session.
    pub(crate) fn ephemerals(&self, session: SessionId) -> Vec<String> {
        let owned = self.nodes.iter().filter(|(_, life)| life.owner == session);
        owned.map(|(path, _)| path.clone()).collect()
    }

    /// Checks the outcome that a write reports.
    pub(crate) fn written(&mut self, number: u64, outcome: Outcome) -> Result<(), String> {
        let times = self.applied.get(&number).copied().unwrap_or(0);
        let is_true = match outcome {
            Outcome::Applied => times == 1,
            Outcome::NotApplied => {
                self.denied.insert(number);
                times == 0
            }
            Outcome::Unknown => times <= 1,
        };
        ensure(is_true, || format!("#{number}: applied {times} times, said to be {outcome:?}"))
    }

    pub(crate) fn delete_begins(&mut self, session: SessionId, path: &str) {
        self.deletes.entry((session, path.to_owned())).or_default().open += 1;
    }

    pub(crate) fn delete_ends(
        &mut self,
        session: SessionId,
        path: &str,
        outcome: Outcome,
    ) -> Result<(), String> {
        let deletes = self.deletes.entry((session, path.to_owned())).or_default();
        deletes.open = deletes.open.saturating_sub(1);
        match outcome {
            Outcome::Applied => deletes.applied += 1,
            Outcome::NotApplied => {}
            Outcome::Unknown => deletes.unknown += 1,
        }
        self.check_deletes(session, path)
    }

    fn check_deletes(&self, session: SessionId, path: &str) -> Result<(), String> {
        let Some(deletes) = self.deletes.get(&(session, path.to_owned())) else { return Ok(()) };
        if deletes.applied <= deletes.committed
            && deletes.committed <= deletes.applied + deletes.unknown + deletes.open
        {
            Ok(())
        } else {
            Err(format!("deletes of {path} by {session}: {deletes:?}"))
        }
    }

    /// Checks a read by a session with this view, and returns its new view. `seen` is the zxid of
    /// the node's last change, with the number in its data if the data was read. `None` means that
    /// the node does not exist.
    pub(crate) fn read(
        &self,
        path: &str,
        view: Zxid,
        seen: Option<(Zxid, Option<u64>)>,
    ) -> Result<Zxid, String> {
        let states = self.nodes.get(path).map_or(&[][..], |life| &life.states);
        let Some((zxid, number)) = seen else {
            let (known, later) =
                states.split_at(states.partition_point(|state| state.zxid <= view));
            let known = known.last();
            if known.is_none_or(|state| state.number.is_none()) {
                return Ok(view);
            }
            let gone = later.iter().find(|state| state.number.is_none());
            return gone
                .map(|state| state.zxid)
                .ok_or_else(|| format!("{path} is gone, they say; it is there since {known:?}"));
        };
        let Ok(at) = states.binary_search_by_key(&zxid, |state| state.zxid) else {
            return Err(format!("{path} never changed at {zxid}"));
        };
        ensure(number.is_none() || states[at].number == number, || {
            format!("{path} at {zxid} is not {number:?}: {:?}", states[at])
        })?;
        match states.get(at + 1).filter(|next| next.zxid <= view) {
            Some(next) => Err(format!("{path} of {zxid} at {view}, it had changed: {next:?}")),
            None => Ok(view.max(zxid)),
        }
    }

    /// Checks a list of children in the same way as [`read`](Self::read).
    pub(crate) fn listed(&self, path: &str, view: Zxid, pzxid: Zxid) -> Result<Zxid, String> {
        let Some(life) = self.nodes.get(path) else { return Err(format!("{path} never was")) };
        let made = life.states.binary_search_by_key(&pzxid, |state| state.zxid);
        let known = life.children.binary_search_by_key(&pzxid, |child| child.0).is_ok()
            || made.is_ok_and(|at| life.states[at].number.is_some());
        ensure(known, || format!("children of {path} never changed at {pzxid}"))?;
        match news_after(&life.children, pzxid).first().filter(|next| next.0 <= view) {
            Some((next, _)) => {
                Err(format!("children of {path} of {pzxid} at {view}, changed at {next}"))
            }
            None => Ok(view.max(pzxid)),
        }
    }

    /// Returns true if a watch must have fired for a session with this view.
    ///
    /// A node that was created and deleted between two connections fires nothing: the server
    /// compares the present state with the state on which the watch was set. Its state may be any from
    /// the view to the newest one.
    pub(crate) fn fires(&self, path: &str, seen: Seen, view: Zxid, has_reconnected: bool) -> bool {
        let Some(life) = self.nodes.get(path) else { return false };
        let (in_view, later) =
            life.states.split_at(life.states.partition_point(|state| state.zxid <= view));
        let mut latest = in_view.iter().rev();
        match seen {
            Seen::Node(since) => latest.next().is_some_and(|state| state.zxid > since),
            Seen::Nothing(since) => {
                let here = latest.take_while(|state| state.number.is_some()).last();
                let may_be_gone =
                    has_reconnected && later.iter().any(|state| state.number.is_none());
                here.is_some_and(|created| created.zxid > since) && !may_be_gone
            }
            Seen::Children(since) => {
                let mut new = latest.take_while(|state| state.zxid > since);
                let next = news_after(&life.children, since).first();
                new.any(|state| state.number.is_none()) || next.is_some_and(|next| next.0 <= view)
            }
        }
    }

    /// Returns the events of a persistent watch, in order.
    pub(crate) fn news(&self, of: &Watched) -> &[News] {
        match (self.nodes.get(&of.path), of.is_children) {
            (None, _) => &[],
            (Some(life), true) => &life.children,
            (Some(life), false) => &life.news,
        }
    }

    /// Returns the paths of nodes that changed after the zxid `after`, up to `up_to`.
    pub(crate) fn changes(&self, after: Zxid, up_to: Zxid) -> impl Iterator<Item = &str> {
        let first = self.changes.partition_point(|(zxid, _)| *zxid <= after);
        let those = self.changes[first..].iter().take_while(move |(zxid, _)| *zxid <= up_to);
        those.map(|(_, path)| path.as_str())
    }

    fn gone(&mut self, path: &str, zxid: Zxid) {
        let life = self.nodes.entry(path.to_owned()).or_default();
        life.states.push(State { zxid, number: None });
        life.news.push((zxid, EventType::NODE_DELETED));
        life.owner = SessionId::NONE;
        self.changes.push((zxid, path.to_owned()));
        self.child_changed(path, zxid);
    }

    fn child_changed(&mut self, path: &str, zxid: Zxid) {
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        if is_below_root(parent) {
            let news = (zxid, EventType::NODE_CHILDREN_CHANGED);
            self.nodes.entry(parent.to_owned()).or_default().children.push(news);
        }
    }
}

pub(crate) fn is_at_or_below(path: &str, top: &str) -> bool {
    path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn news_after(news: &[News], zxid: Zxid) -> &[News] {
    &news[news.partition_point(|(at, _)| *at <= zxid)..]
}

fn is_below_root(path: &str) -> bool {
    is_at_or_below(path, ROOT)
}

/// Returns the number in a node's data.
pub(crate) fn number_in(data: &[u8]) -> u64 {
    std::str::from_utf8(data).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history() -> History {
        let mut history = History::default();
        history.put("/s", Zxid(1), b"1", SessionId::NONE).unwrap();
        history.put("/s/a", Zxid(3), b"2", SessionId::NONE).unwrap();
        history.put("/s/a", Zxid(5), b"3", SessionId::NONE).unwrap();
        history.deleted("/s/a", Zxid(7), SessionId(9)).unwrap_err(); // no session has requested it
        history
    }

    #[test]
    fn reads_are_checked_against_history_and_view() {
        let history = history();
        assert_eq!(history.read("/s/a", Zxid::ZERO, Some((Zxid(3), Some(2)))), Ok(Zxid(3)));
        assert_eq!(history.read("/s/a", Zxid(4), Some((Zxid(3), Some(2)))), Ok(Zxid(4)));
        assert!(history.read("/s/a", Zxid(5), Some((Zxid(3), Some(2)))).is_err());
        assert!(history.read("/s/a", Zxid::ZERO, Some((Zxid(3), Some(3)))).is_err());
        assert_eq!(history.read("/s/a", Zxid::ZERO, None), Ok(Zxid::ZERO));
        assert_eq!(history.read("/s/a", Zxid(5), None), Ok(Zxid(7)));
        assert!(history.read("/s", Zxid(5), None).is_err());
        assert_eq!(history.listed("/s", Zxid::ZERO, Zxid(3)), Ok(Zxid(3)));
        assert!(history.listed("/s", Zxid(7), Zxid(3)).is_err());
    }

    #[test]
    fn reported_outcome_must_match_applied_writes() {
        let mut history = history();
        assert!(history.written(2, Outcome::Applied).is_ok());
        assert!(history.written(2, Outcome::NotApplied).is_err());
        assert!(history.written(8, Outcome::Applied).is_err());
        assert!(history.written(8, Outcome::NotApplied).is_ok());
        assert!(history.put("/s/b", Zxid(9), b"8", SessionId::NONE).is_err());
    }

    #[test]
    fn watch_fires_only_for_changes_within_the_view() {
        let history = history();
        let fires = |path, seen, view| history.fires(path, seen, Zxid(view), false);
        assert!(!fires("/s/a", Seen::Node(Zxid(3)), 4));
        assert!(fires("/s/a", Seen::Node(Zxid(3)), 5));
        assert!(fires("/s/a", Seen::Nothing(Zxid(2)), 4));
        assert!(!fires("/s/a", Seen::Nothing(Zxid(2)), 7));
        assert!(fires("/s", Seen::Children(Zxid(3)), 7));
        // The server of a new connection may be past the deletion.
        assert!(!history.fires("/s/a", Seen::Nothing(Zxid(2)), Zxid(4), true));
        assert!(history.fires("/s/a", Seen::Node(Zxid(3)), Zxid(5), true));
    }

    #[test]
    fn events_are_in_the_order_of_changes() {
        let history = history();
        let of = Watched { path: "/s/a".to_owned(), is_children: false };
        let events = [
            (Zxid(3), EventType::NODE_CREATED),
            (Zxid(5), EventType::NODE_DATA_CHANGED),
            (Zxid(7), EventType::NODE_DELETED),
        ];
        assert_eq!(history.news(&of), events);
        let of = Watched { path: "/s".to_owned(), is_children: true };
        let events = [3, 7].map(|zxid| (Zxid(zxid), EventType::NODE_CHILDREN_CHANGED));
        assert_eq!(history.news(&of), events);
        assert_eq!(history.changes(Zxid(1), Zxid(5)).collect::<Vec<_>>(), ["/s/a", "/s/a"]);
    }
}
