//! Checks of a group: each member's node belongs to its process and has its data, no process touches
//! the node of another one, and none deletes its own node before it has closed it.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Instant;
use zk_coordination::Members;
use zk_coordination::session::{SessionId, Zxid};
use zk_testing::server::{Commit, Effect, Tree};

use super::Oracle;
use crate::clock::now;
use crate::ensure::ensure;

/// Path of the group.
pub(crate) const GROUP_PATH: &str = "/services/web";
const BELOW: &str = "/services/web/";

/// State of a member's node: its path, its `czxid`, its owner, and its data.
type State = (String, Zxid, SessionId, Vec<u8>);

/// The members of the group, and their processes.
#[derive(Debug, Default)]
pub(crate) struct Registrations {
    /// The nodes at the leader.
    nodes: BTreeMap<String, State>,
    /// All states that nodes have had.
    states: BTreeSet<State>,
    /// The last owner of each path whose session has ended before its node was deleted. The transaction
    /// that replaces a node compares only versions. If the earlier session expires on the way, it may
    /// replace the next node of the path, as `PersistentNode` documents.
    before: BTreeMap<String, SessionId>,
    /// How often each node has become missing.
    gaps: BTreeMap<String, u64>,
    /// The time of the last change.
    pub(crate) changed_at: Option<Instant>,
    /// Nodes that an operator has deleted. Their owners may miss that for a round trip, and then write
    /// or delete the node of another owner, because the server compares only versions.
    operated: BTreeSet<String>,
    /// The process of each session, and the last process of each slot.
    owners: BTreeMap<SessionId, u64>,
    processes: BTreeMap<usize, u64>,
    /// The handle of each process.
    handles: BTreeMap<u64, Handle>,
}

#[derive(Debug)]
struct Handle {
    path: String,
    /// The session of the process's last run, if this handle or a dropped one knows it.
    previous: Option<SessionId>,
    end: End,
    /// The process has dropped an earlier handle, which deletes its node in the background.
    has_dropped: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Open,
    /// The handle is closed or dropped, and nothing has confirmed the deletion.
    Begun,
    Confirmed,
}

impl Registrations {
    pub(super) fn committed(&mut self, tree: &Tree, commit: Commit<'_>) -> Result<(), String> {
        let Commit { session_id: session, effect, .. } = commit;
        match effect {
            Effect::SessionClosed => {
                for path in self.nodes_of(session) {
                    self.remove(&path);
                    self.before.insert(path, session);
                }
                Ok(())
            }
            Effect::Created(path) | Effect::Changed(path) if path.starts_with(BELOW) => {
                let Some(node) = tree.node(path) else { return Ok(()) };
                let (stat, data) = (node.stat(), node.data().unwrap_or_default().to_vec());
                let state = (path.to_owned(), stat.czxid, stat.ephemeral_owner, data);
                self.states.insert(state.clone());
                self.changed_at = Some(now());
                let before = self.nodes.insert(path.to_owned(), state);
                self.may_write(path, session, stat.ephemeral_owner, before.is_none())
            }
            Effect::Deleted(path) if path.starts_with(BELOW) => {
                let owner = self.nodes.get(path).map_or(SessionId::NONE, |(_, _, owner, _)| *owner);
                // A transaction may create the node again.
                let is_gone = !tree.contains(path);
                if is_gone {
                    self.remove(path);
                }
                if !self.owners.contains_key(&session) {
                    self.operated.insert(path.to_owned());
                }
                self.may_delete(path, session, owner, is_gone)
            }
            _ => Ok(()),
        }
    }

    fn remove(&mut self, path: &str) {
        self.changed_at = Some(now());
        self.nodes.remove(path);
        *self.gaps.entry(path.to_owned()).or_default() += 1;
    }

    fn nodes_of(&self, session: SessionId) -> Vec<String> {
        let own = self.nodes.values().filter(|(_, _, owner, _)| *owner == session);
        own.map(|(path, ..)| path.clone()).collect()
    }

    /// Returns the process and the handle of a session, unless the session is an operator's.
    fn handle(&self, session: SessionId) -> Option<(u64, &Handle)> {
        let process = *self.owners.get(&session)?;
        Some((process, self.handles.get(&process)?))
    }

    fn may_write(
        &self,
        path: &str,
        by: SessionId,
        owner: SessionId,
        is_new: bool,
    ) -> Result<(), String> {
        let Some((process, handle)) = self.handle(by) else { return Ok(()) };
        // A handle that was dropped may delete the node between a look of the next one and its write.
        let may_have_changed = self.operated.contains(path) || handle.has_dropped && !is_new;
        let is_own = self.owners.get(&owner) == Some(&process) || may_have_changed;
        let is_late = handle.end == End::Confirmed && is_new;
        ensure(handle.path == path && is_own && !is_late, || {
            format!("{by} wrote {path} of {owner}: {handle:?}")
        })
    }

    fn may_delete(
        &self,
        path: &str,
        by: SessionId,
        owner: SessionId,
        is_gone: bool,
    ) -> Result<(), String> {
        let Some((process, handle)) = self.handle(by) else { return Ok(()) };
        let is_own = self.owners.get(&owner) == Some(&process) || handle.previous == Some(owner);
        let belonged = |owner: &SessionId| {
            self.owners.get(owner) == Some(&process) || handle.previous == Some(*owner)
        };
        let is_race = !is_gone && self.before.get(path).is_some_and(belonged);
        let is_exempt = is_race || self.operated.contains(path);
        ensure(is_own || is_exempt, || format!("{by} deleted {path} of {owner}: {handle:?}"))?;
        let is_early = handle.end == End::Open && !handle.has_dropped;
        ensure(!is_gone || !is_early, || format!("{by} deleted its node {path}: {handle:?}"))
    }

    fn present(&self, process: u64, czxid: Zxid, owner: SessionId) -> Result<(), String> {
        let is_own = self.owners.get(&owner) == Some(&process);
        let path = self.handles.get(&process).map(|handle| &handle.path);
        let mut states = self.states.iter();
        let existed =
            states.any(|state| Some(&state.0) == path && state.1 == czxid && state.2 == owner);
        ensure(is_own && existed, || format!("{path:?} of {owner}, {czxid} is said to be present"))
    }

    fn written(&self, process: u64, data: &[u8]) -> Result<(), String> {
        ensure(self.states.iter().any(|(.., written)| written == data), || {
            format!("process {process} did not write {data:?}")
        })
    }

    fn closed(&mut self, process: u64) -> Result<(), String> {
        let Some(handle) = self.handles.get_mut(&process) else { return Ok(()) };
        handle.end = End::Confirmed;
        let owner = self.nodes.get(&handle.path).map(|(_, _, owner, _)| owner);
        let is_own = owner.is_some_and(|owner| self.owners.get(owner) == Some(&process));
        ensure(!is_own || handle.has_dropped, || {
            format!("{} is there after it was closed", handle.path)
        })
    }

    fn members(&self, members: &Members) -> Result<(), String> {
        for (id, member) in members.iter() {
            let path = format!("{BELOW}{id}");
            let state = (path, member.czxid(), member.session_id(), member.data().to_vec());
            ensure(self.states.contains(&state), || format!("there never was a member {state:?}"))?;
        }
        Ok(())
    }

    /// Returns how often the node has become missing.
    pub(crate) fn gaps(&self, path: &str) -> u64 {
        self.gaps.get(path).copied().unwrap_or(0)
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = &String> {
        self.nodes.keys()
    }
}

impl Oracle {
    /// Records a new process in a slot. Returns its number, and a session of the process before.
    pub(crate) fn process_begins(&mut self, slot: usize) -> (u64, Option<SessionId>) {
        let all = &mut self.registrations;
        let number = u64::try_from(all.processes.values().count()).unwrap_or(0);
        let number = number.max(all.processes.values().max().map_or(0, |last| last + 1));
        let before = all.processes.insert(slot, number);
        let mut owned = all.owners.iter().filter(|(_, process)| Some(**process) == before);
        (number, owned.next_back().map(|(session, _)| *session))
    }

    /// Records that the server has accepted a session of the process in a slot.
    pub(crate) fn session_accepted(&mut self, slot: usize, session: SessionId) {
        let all = &mut self.registrations;
        if let Some(process) = all.processes.get(&slot) {
            all.owners.entry(session).or_insert(*process);
        }
    }

    /// Records a new handle of a process.
    pub(crate) fn handle_begins(&mut self, process: u64, path: &str, previous: Option<SessionId>) {
        self.log(format_args!("process {process} keeps {path}, after {previous:?}"));
        let all = &mut self.registrations;
        let before = all.handles.get(&process);
        let has_dropped =
            before.is_some_and(|before| before.has_dropped || before.end != End::Confirmed);
        let previous = previous.or_else(|| before?.previous);
        let handle = Handle { path: path.to_owned(), previous, end: End::Open, has_dropped };
        all.handles.insert(process, handle);
    }

    /// Records that a handle is about to be closed or dropped.
    pub(crate) fn handle_closes(&mut self, process: u64) {
        self.log(format_args!("process {process} closes its node"));
        if let Some(handle) = self.registrations.handles.get_mut(&process) {
            handle.end = End::Begun;
        }
    }

    pub(crate) fn handle_closed(&mut self, process: u64) {
        self.log(format_args!("process {process} has closed its node"));
        let closed = self.registrations.closed(process);
        self.must("I19", closed);
    }

    pub(crate) fn handle_present(&mut self, process: u64, czxid: Zxid, owner: SessionId) {
        self.must("I19", self.registrations.present(process, czxid, owner));
    }

    pub(crate) fn handle_written(&mut self, process: u64, data: &[u8]) {
        self.must("I19", self.registrations.written(process, data));
    }

    pub(crate) fn members_read(&mut self, members: &Members) {
        self.must("I19", self.registrations.members(members));
    }

    /// Returns true if the node at the path belongs to this session and has this data.
    pub(crate) fn is_registered(&self, path: &str, session: SessionId, data: &[u8]) -> bool {
        let node = self.registrations.nodes.get(path);
        node.is_some_and(|(_, _, owner, found)| *owner == session && found == data)
    }

    /// Returns true if the members are those of the leader.
    pub(crate) fn is_group(&self, members: &Members) -> bool {
        let own = members
            .iter()
            .map(|(id, member)| (format!("{BELOW}{id}"), member.czxid(), member.data().to_vec()));
        let nodes = self.registrations.nodes.values();
        own.eq(nodes.map(|(path, czxid, _, data)| (path.clone(), *czxid, data.clone())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_may_only_touch_its_own_node() {
        let mut all = Registrations {
            owners: [(SessionId(7), 1), (SessionId(8), 2)].into(),
            ..Registrations::default()
        };
        let path = format!("{BELOW}a");
        let handle = |end| Handle {
            path: path.clone(),
            previous: Some(SessionId(5)),
            end,
            has_dropped: false,
        };
        all.handles.insert(1, handle(End::Open));
        let [own, other, last] = [7, 8, 5].map(SessionId);
        assert!(all.may_write(&path, own, own, true).is_ok());
        assert!(all.may_write(&path, own, other, false).is_err());
        assert!(all.may_delete(&path, own, other, false).is_err());
        assert!(all.may_delete(&path, own, own, true).is_err(), "a gap");
        assert!(all.may_delete(&path, own, last, false).is_ok(), "the node of the last run");
        assert!(all.may_delete(&path, SessionId(99), own, true).is_ok(), "an operator");
        for (before, is_race) in [(last, true), (own, true), (other, false)] {
            all.before.insert(path.clone(), before);
            assert_eq!(all.may_delete(&path, own, other, false).is_ok(), is_race, "after {before}");
            assert!(all.may_delete(&path, own, other, true).is_err(), "no replacement");
        }
        all.handles.insert(1, handle(End::Confirmed));
        assert!(
            all.may_write(&path, SessionId(7), SessionId(7), true).is_err(),
            "created after the close"
        );
    }
}
