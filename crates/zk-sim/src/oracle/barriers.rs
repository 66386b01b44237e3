//! Checks of a double barrier: all members of a generation enter together and leave together, and a
//! member that does not enter leaves nothing behind.

use std::collections::{BTreeMap, BTreeSet};

use zk_coordination::session::{Acl, Perms, SessionId, Zxid};
use zk_testing::server::{Commit, Effect, Tree};

use super::Oracle;
use crate::ensure::ensure;

/// Path of the barrier's node.
pub(crate) const BARRIER_PATH: &str = "/barriers/load";
const BELOW: &str = "/barriers/load/";
const READY: &str = "ready";
/// Beginning of the names of nodes that are no members: those of clients that delete `ready`.
const CLOSER: &str = "closing-";

/// The nodes and the generations of the barrier.
#[derive(Debug, Default)]
pub(crate) struct Barriers {
    /// Number of members that enter together.
    pub(crate) size: usize,
    /// Members at the leader, with their `czxid` and session.
    members: BTreeMap<String, (Zxid, SessionId)>,
    /// Nodes of clients that delete `ready`, with their session.
    closers: BTreeMap<String, SessionId>,
    /// The members of each generation, the last one first. The first one is open if `is_open`.
    generations: Vec<Vec<String>>,
    is_open: bool,
    /// Members that an operator has deleted. If the barrier had opened before, they missed it.
    operated: BTreeSet<String>,
    /// The sessions that have created members. The others are operators.
    sessions: BTreeSet<SessionId>,
    /// Calls that enter the barrier.
    calls: u64,
    /// The members of each call.
    created: BTreeMap<u64, Vec<String>>,
}

/// A call that enters the barrier. Its nodes have its number in their access control list, because the
/// create of a call that was dropped may be applied during a later call of the session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call(u64);

impl Call {
    /// Returns the access control list of the nodes that the call creates. It is open to everyone.
    pub(crate) fn acl(self) -> Vec<Acl> {
        let mark = format!("{MARK}{}", self.0);
        vec![Acl::open(), Acl::digest(Perms::READ, &mark, "")]
    }

    /// Returns the call that has created the node with this list.
    fn of(acl: &[Acl]) -> Option<Self> {
        let mark = acl.iter().find_map(|entry| entry.id.strip_prefix(MARK))?;
        Some(Self(mark.split_once(':')?.0.parse().ok()?))
    }
}

/// Beginning of the user that names the call in an access control list.
const MARK: &str = "call-";

impl Barriers {
    pub(super) fn committed(&mut self, tree: &Tree, commit: Commit<'_>) -> Result<(), String> {
        let Commit { zxid, session_id: session, effect, .. } = commit;
        match effect {
            Effect::SessionClosed => {
                self.members.retain(|_, (_, owner)| *owner != session);
                self.closers.retain(|_, owner| *owner != session);
            }
            Effect::Created(path) => match path.strip_prefix(BELOW) {
                Some(READY) => return self.opened(),
                Some(name) if name.starts_with(CLOSER) => {
                    let owner =
                        tree.node(path).map_or(SessionId::NONE, |node| node.stat().ephemeral_owner);
                    self.closers.insert(path.to_owned(), owner);
                }
                Some(_) => {
                    let Some(node) = tree.node(path) else { return Ok(()) };
                    let owner = node.stat().ephemeral_owner;
                    self.members.insert(path.to_owned(), (zxid, owner));
                    self.sessions.insert(owner);
                    if let Some(call) = Call::of(node.acl()) {
                        self.created.entry(call.0).or_default().push(path.to_owned());
                    }
                }
                None => {}
            },
            Effect::Deleted(path) => match path.strip_prefix(BELOW) {
                Some(READY) => {
                    self.is_open = false;
                    let left = self.left_of(0);
                    ensure(left.is_empty(), || {
                        format!("closed by {session} before {left:?} have left")
                    })?;
                }
                Some(name) if name.starts_with(CLOSER) => drop(self.closers.remove(path)),
                Some(_) => {
                    let owner = self.members.remove(path).map(|(_, owner)| owner);
                    if let Some(owner) = owner.filter(|owner| *owner != session) {
                        // A node without an owner is an operator's, with the name of a member.
                        let is_operated = owner == SessionId::NONE;
                        ensure(is_operated || !self.sessions.contains(&session), || {
                            format!("{session} deleted {path}, another member")
                        })?;
                        self.operated.insert(path.to_owned());
                    }
                }
                None => {}
            },
            _ => {}
        }
        Ok(())
    }

    fn opened(&mut self) -> Result<(), String> {
        let mut by_age: Vec<(Zxid, &String)> =
            self.members.iter().map(|(path, (czxid, _))| (*czxid, path)).collect();
        by_age.sort_unstable();
        let count = by_age.len();
        let oldest = by_age.into_iter().take(self.size);
        let oldest: Vec<String> = oldest.map(|(_, path)| path.clone()).collect();
        // A repeated create may bring back the name of a node that an operator has deleted.
        let had = |member: &String| {
            self.generation_of(member).is_some() && !self.operated.contains(member)
        };
        let before = oldest.iter().find(|member| had(member));
        let result = match (count < self.size, before) {
            (true, _) => Err(format!("opened with {count} members of {}", self.size)),
            (_, Some(before)) => Err(format!("opened again with {before}")),
            _ => Ok(()),
        };
        self.generations.insert(0, oldest);
        self.is_open = true;
        result
    }

    /// Returns the members of a generation that have neither left nor died.
    fn left_of(&self, generation: usize) -> Vec<&String> {
        let members = self.generations.get(generation).into_iter().flatten();
        let is_left =
            |path: &String| self.members.contains_key(path) && !self.operated.contains(path);
        members.filter(|path| is_left(path)).collect()
    }

    fn generation_of(&self, node: &str) -> Option<usize> {
        self.generations.iter().position(|members| members.iter().any(|member| member == node))
    }

    fn entered(&self, node: &str) -> Result<(), String> {
        match self.generation_of(node) {
            Some(_) => Ok(()),
            None => Err(format!("{node} entered, and the barrier never opened with it")),
        }
    }

    fn left(&self, node: &str) -> Result<(), String> {
        let generation = self.generation_of(node);
        let left = generation.map(|number| self.left_of(number)).unwrap_or_default();
        ensure(left.is_empty(), || format!("{node} left before {left:?}"))
    }

    pub(crate) fn begin(&mut self) -> Call {
        self.calls += 1;
        Call(self.calls)
    }

    /// Checks a timeout: no node of the call is left, and the barrier did not open with it.
    fn timed_out(&self, call: Call) -> Result<(), String> {
        for node in self.created.get(&call.0).into_iter().flatten() {
            ensure(!self.members.contains_key(node), || {
                format!("{node} is there after the timeout")
            })?;
            ensure(self.generation_of(node).is_none() || self.operated.contains(node), || {
                format!("the barrier opened with {node}, which timed out")
            })?;
        }
        Ok(())
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = &String> {
        self.members.keys().chain(self.closers.keys())
    }
}

impl Oracle {
    pub(crate) fn member_entered(&mut self, node: &str) {
        self.log(format_args!("{node} entered"));
        self.must("I21", self.barriers.entered(node));
    }

    pub(crate) fn member_left(&mut self, node: &str) {
        self.log(format_args!("{node} left with all others"));
        self.must("I21", self.barriers.left(node));
    }

    pub(crate) fn member_timed_out(&mut self, call: Call) {
        self.log(format_args!("call {} timed out", call.0));
        self.must("I21", self.barriers.timed_out(call));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn barriers(size: usize, members: &[(&str, Zxid)]) -> Barriers {
        let mut barriers = Barriers { size, ..Barriers::default() };
        for (name, czxid) in members {
            barriers.members.insert((*name).to_owned(), (*czxid, SessionId(7)));
            barriers.created.entry(1).or_default().push((*name).to_owned());
        }
        barriers
    }

    #[test]
    fn only_the_oldest_members_enter_and_leave_together() {
        let mut barriers = barriers(2, &[("c", Zxid(1)), ("a", Zxid(2)), ("b", Zxid(3))]);
        assert!(barriers.opened().is_ok());
        assert!(barriers.entered("c").is_ok() && barriers.entered("a").is_ok());
        assert!(barriers.entered("b").is_err());
        assert!(barriers.left("a").is_err());
        barriers.members.retain(|name, _| name == "b");
        assert!(barriers.left("a").is_ok());
        assert!(barriers.opened().is_err(), "one member of two");
    }

    #[test]
    fn timed_out_member_must_leave_nothing() {
        let mut barriers = barriers(1, &[("a", Zxid(1))]);
        assert!(barriers.timed_out(Call(2)).is_ok());
        assert!(barriers.timed_out(Call(1)).is_err());
        assert!(barriers.opened().is_ok());
        barriers.members.clear();
        assert!(barriers.timed_out(Call(1)).is_err());
    }

    #[test]
    fn call_is_read_back_from_its_list() {
        assert_eq!(Call::of(&Call(42).acl()).map(|call| call.0), Some(42));
        assert!(Call::of(&[Acl::open()]).is_none());
    }
}
