//! Checks of a cache: every state that it reports has existed, each node only moves forward, and the
//! changes lead from one snapshot to the next.

use std::collections::{BTreeMap, BTreeSet};

use zk_coordination::session::{SessionId, Zxid};
use zk_coordination::{CachedNode, Change, Snapshot};
use zk_testing::server::{Commit, Effect, Tree};

use super::Oracle;
use crate::ensure::ensure;

/// Root of the tree that caches follow.
pub(crate) const TREE_ROOT: &str = "/tree";
const BELOW: &str = "/tree/";
/// Name of the nodes that nobody may read. They have no children.
pub(crate) const HIDDEN: &str = "x";
/// Name of the nodes that a filter leaves out, with all below them.
pub(crate) const LEFT_OUT: &str = "b c";

/// The part of the tree that a cache keeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) depth: Option<usize>,
    pub(crate) filters: bool,
}

impl Part {
    fn contains(self, path: &str) -> bool {
        let below = match path.strip_prefix(TREE_ROOT) {
            Some(below) if below.is_empty() || below.starts_with('/') => below,
            _ => return false,
        };
        let mut names = below.split('/').skip(1);
        let is_left_out = |name| name == HIDDEN || self.filters && name == LEFT_OUT;
        let level = below.matches('/').count();
        self.depth.is_none_or(|depth| level <= depth) && !names.any(is_left_out)
    }
}

/// State of a node: its `czxid`, its `mzxid`, and its data.
type State = (Zxid, Zxid, Vec<u8>);

/// The history of the tree.
#[derive(Debug, Default)]
pub(crate) struct Caches {
    /// All states of each node.
    states: BTreeMap<String, BTreeSet<State>>,
    /// The nodes that were deleted, with the `czxid` of each.
    deleted: BTreeSet<(String, Zxid)>,
    /// The nodes at the leader: `czxid` and session.
    nodes: BTreeMap<String, (Zxid, SessionId)>,
}

/// A copy of the tree, made from the changes of a cache.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    nodes: BTreeMap<String, State>,
    /// The largest `mzxid` seen of each path, also over sessions of the cache.
    newest: BTreeMap<String, Zxid>,
}

impl Caches {
    pub(super) fn committed(&mut self, tree: &Tree, commit: Commit<'_>) {
        let Commit { session_id: session, effect, .. } = commit;
        let is_ours = |path: &str| path == TREE_ROOT || path.starts_with(BELOW);
        match effect {
            Effect::Created(path) | Effect::Changed(path) if is_ours(path) => {
                let Some(node) = tree.node(path) else { return };
                // A transaction may delete a node and create it again.
                let stat = node.stat();
                let new = (stat.czxid, stat.ephemeral_owner);
                if let Some((czxid, _)) = self.nodes.insert(path.to_owned(), new)
                    && czxid != stat.czxid
                {
                    self.deleted.insert((path.to_owned(), czxid));
                }
                let state = (stat.czxid, stat.mzxid, node.data().unwrap_or_default().to_vec());
                self.states.entry(path.to_owned()).or_default().insert(state);
            }
            Effect::Deleted(path) if is_ours(path) => {
                if let Some((czxid, _)) = self.nodes.remove(path) {
                    self.deleted.insert((path.to_owned(), czxid));
                }
            }
            Effect::SessionClosed => {
                let dead = self.nodes.extract_if(.., |_, (_, owner)| *owner == session);
                self.deleted.extend(dead.map(|(path, (czxid, _))| (path, czxid)));
            }
            _ => {}
        }
    }

    /// Checks that a node has had this state.
    fn existed(&self, node: &CachedNode) -> Result<(), String> {
        let state = state_of(node);
        ensure(self.states.get(node.path()).is_some_and(|states| states.contains(&state)), || {
            format!("{} was never {state:?}", node.path())
        })
    }

    fn was_deleted(&self, path: &str, czxid: Zxid) -> Result<(), String> {
        ensure(self.deleted.contains(&(path.to_owned(), czxid)), || {
            format!("{path} of {czxid} was not deleted")
        })
    }

    /// Checks a change, and applies it to the replayed tree.
    fn changed(&self, replay: &mut Replay, change: &Change) -> Result<(), String> {
        let parent = |path: &str| path.rfind('/').map(|at| path[..at].to_owned());
        match change {
            Change::Created { new } => {
                self.existed(new)?;
                match parent(new.path()) {
                    Some(parent)
                        if new.path() != TREE_ROOT && !replay.nodes.contains_key(&parent) =>
                    {
                        return Err(format!("{} was created without {parent}", new.path()));
                    }
                    _ => {}
                }
                match replay.put(new)? {
                    Some(old) => Err(format!("{} was created upon {old:?}", new.path())),
                    None => Ok(()),
                }
            }
            Change::DataChanged { old, new } => {
                self.existed(new)?;
                ensure(old.stat().czxid == new.stat().czxid, || {
                    format!("{} is another node than before", new.path())
                })?;
                match replay.put(new)? {
                    Some(before) if before == state_of(old) => Ok(()),
                    before => Err(format!("{} was changed upon {before:?}", new.path())),
                }
            }
            Change::Deleted { path, old } => {
                let before = replay.nodes.remove(&**path);
                ensure(before == old.as_deref().map(state_of), || {
                    format!("{path} was deleted: {old:?}, upon {before:?}")
                })?;
                let below = format!("{path}/");
                if let Some(child) = replay.nodes.keys().find(|path| path.starts_with(&below)) {
                    return Err(format!("{path} was deleted before {child}"));
                }
                before.map_or(Ok(()), |(czxid, ..)| self.was_deleted(path, czxid))
            }
            Change::Unreadable { path, old: None } if path.ends_with(HIDDEN) => Ok(()),
            Change::Unreadable { path, .. } => Err(format!("{path} is readable")),
            Change::Stopped(error) => Err(format!("the cache stopped: {error}")),
            _ => Ok(()),
        }
    }

    /// Returns the state of a part of the leader's tree.
    fn expected(tree: &Tree, part: Part) -> BTreeMap<String, State> {
        let nodes = tree.iter().filter(|(path, _)| part.contains(path));
        let state = |(path, node): (&str, &zk_testing::server::Node)| {
            let data = node.data().unwrap_or_default().to_vec();
            (path.to_owned(), (node.stat().czxid, node.stat().mzxid, data))
        };
        nodes.map(state).collect()
    }
}

impl Replay {
    /// Starts from a snapshot. It must not be older than what was replayed before.
    fn restart(&mut self, snapshot: &Snapshot) -> Result<(), String> {
        self.nodes.clear();
        snapshot.iter().try_for_each(|node| self.put(node).map(drop))
    }

    /// Stores a node. Returns the one before.
    fn put(&mut self, node: &CachedNode) -> Result<Option<State>, String> {
        let state = state_of(node);
        let newest = self.newest.entry(node.path().to_owned()).or_default();
        ensure(state.1 >= *newest, || {
            format!("{} went back from {newest} to {state:?}", node.path())
        })?;
        *newest = state.1;
        Ok(self.nodes.insert(node.path().to_owned(), state))
    }

    /// Compares the replayed tree with a snapshot that has the same changes.
    pub(crate) fn equals(&self, snapshot: &Snapshot) -> Result<(), String> {
        let nodes: BTreeMap<String, State> =
            snapshot.iter().map(|node| (node.path().to_owned(), state_of(node))).collect();
        ensure(nodes == self.nodes, || {
            format!("the changes lead to {:?}, and not to {nodes:?}", self.nodes)
        })
    }

    /// Returns true if the replayed tree is that part of the leader's.
    pub(crate) fn is_current(&self, tree: &Tree, part: Part) -> bool {
        self.nodes == Caches::expected(tree, part)
    }
}

fn state_of(node: &CachedNode) -> State {
    (node.stat().czxid, node.stat().mzxid, node.data().to_vec())
}

impl Oracle {
    pub(crate) fn cache_restarts(&mut self, replay: &mut Replay, snapshot: &Snapshot) {
        let existed = snapshot.iter().try_for_each(|node| self.caches.existed(node));
        self.must("I20", existed);
        let restarted = replay.restart(snapshot);
        self.must("I20", restarted);
    }

    pub(crate) fn cache_changed(&mut self, replay: &mut Replay, change: &Change) {
        self.log(format_args!("a cache: {change:?}"));
        self.must("I20", self.caches.changed(replay, change));
    }
}
