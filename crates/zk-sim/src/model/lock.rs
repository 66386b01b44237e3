//! `Lock.tla`: the queue of a mutex, its marks and its tokens.
//!
//! A contender of the module is an attempt with its node. An attempt that creates another node is another
//! contender. `List`, and `Receive` of another contender's event, are steps inside a client. They are taken
//! to happen when they let the contender go furthest: it is first from the moment on when nobody is ahead.

use std::collections::{BTreeMap, BTreeSet};

use zk_session::{SessionId, Zxid};

use super::refused;

#[derive(Debug, Default)]
pub(crate) struct Lock {
    /// The lock's nodes, by the numbers of their transactions.
    queue: Vec<Zxid>,
    contenders: BTreeMap<Zxid, Contender>,
    /// The last contender with each path.
    paths: BTreeMap<String, Zxid>,
    closed: BTreeSet<SessionId>,
    tokens: Vec<Zxid>,
    meddled: BTreeSet<Zxid>,
    /// The node whose data the last transaction has changed.
    changed: Option<(Zxid, String)>,
}

#[derive(Debug)]
struct Contender {
    attempt: u64,
    session: SessionId,
    /// The number at the end of the name.
    number: u32,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waits,
    First,
    Holds,
    Lost,
    Over,
}

impl Lock {
    /// `Join`: a node was created.
    pub(crate) fn joins(
        &mut self,
        (path, number): (&str, u32),
        (attempt, session): (u64, SessionId),
        zxid: Zxid,
    ) -> Result<(), String> {
        self.settles(zxid)?;
        if self.closed.contains(&session) {
            return refused("Join", format_args!("session {session} of {path} was closed"));
        }
        let mut queued = self.queue.iter().map(|node| &self.contenders[node]);
        if queued.any(|other| other.attempt == attempt && other.session == session) {
            return refused("Join", format_args!("#{attempt} has a node beside {path}"));
        }
        let last = self.queue.last().map(|last| (*last, self.contenders[last].number));
        if last.is_some_and(|last| last.0 >= zxid || last.1 >= number) {
            return refused("Join", format_args!("{path} is not behind {last:?}"));
        }
        self.queue.push(zxid);
        self.paths.insert(path.to_owned(), zxid);
        let contender = Contender { attempt, session, number, state: State::Waits };
        self.contenders.insert(zxid, contender);
        self.head_is_first();
        Ok(())
    }

    /// The first half of `Release` with a mark.
    pub(crate) fn changes(&mut self, path: &str, zxid: Zxid) -> Result<(), String> {
        self.settles(zxid)?;
        if self.paths.contains_key(path) {
            self.changed = Some((zxid, path.to_owned()));
        }
        Ok(())
    }

    /// `Release`, `GiveUp` or `OperatorDeletes`: a node was deleted.
    pub(crate) fn deletes(
        &mut self,
        path: &str,
        session: SessionId,
        zxid: Zxid,
        is_operator: bool,
    ) -> Result<(), String> {
        let is_marked = self.changed.take_if(|changed| *changed == (zxid, path.to_owned()));
        self.settles(zxid)?;
        let node = self.paths.get(path).copied().filter(|node| self.queue.contains(node));
        let Some(node) = node else { return Ok(()) };
        let is_first = self.queue.first() == Some(&node);
        let Some(contender) = self.contenders.get_mut(&node) else { return Ok(()) };
        if contender.session == session && !self.closed.contains(&session) {
            if is_marked.is_some() && !is_first {
                return refused("Release", format_args!("{path} is marked and was not first"));
            }
            contender.state = State::Over;
        } else if is_operator {
            self.meddled.insert(node);
        } else {
            return refused("OperatorDeletes", format_args!("{path} was deleted by {session}"));
        }
        self.queue.retain(|other| *other != node);
        self.head_is_first();
        Ok(())
    }

    /// `Receive`: a session has read that its contender's node was deleted.
    pub(crate) fn receives(&mut self, path: &str, session: SessionId) {
        let Some(node) = self.paths.get(path) else { return };
        let of_path = self.contenders.get_mut(node).filter(|of| of.session == session);
        match of_path {
            Some(contender) if matches!(contender.state, State::Waits | State::First) => {
                contender.state = State::Over;
            }
            _ => {}
        }
    }

    /// `Expire`. The operator may have closed a session as well.
    pub(crate) fn expires(&mut self, session: SessionId, is_operator: bool) {
        self.closed.insert(session);
        let owns = |node: &Zxid| self.contenders[node].session == session;
        let nodes: Vec<Zxid> = self.queue.extract_if(.., |node| owns(node)).collect();
        if is_operator {
            self.meddled.extend(nodes);
        }
        self.head_is_first();
    }

    /// `Grant`, and `TokensGrow`.
    pub(crate) fn grants(
        &mut self,
        (path, attempt): (&str, u64),
        session: SessionId,
        token: Zxid,
        is_leased: bool,
    ) -> Result<(), String> {
        let of_attempt = self.contenders.get_mut(&token);
        let Some(contender) =
            of_attempt.filter(|of| (of.attempt, of.session) == (attempt, session))
        else {
            return refused("Grant", format_args!("{token} is no node of #{attempt}, {path}"));
        };
        if contender.state != State::First || !is_leased {
            let state = contender.state;
            return refused("Grant", format_args!("#{attempt} {state:?}, leased: {is_leased}"));
        }
        contender.state = State::Holds;
        let is_late = |before: &&Zxid| **before >= token;
        let later =
            if self.meddled.contains(&token) { None } else { self.tokens.iter().find(is_late) };
        if let Some(later) = later {
            return Err(format!("TokensGrow: #{attempt} got {token} after {later}"));
        }
        self.tokens.push(token);
        Ok(())
    }

    /// A guard is no longer valid. Its lease or its node is gone, or it was released.
    pub(crate) fn loses(&mut self, token: Zxid) {
        self.enter(token, State::Holds, State::Lost);
    }

    /// Checks a guard that says that it is valid.
    pub(crate) fn is_used(&self, attempt: u64, token: Zxid) -> Result<(), String> {
        match self.contenders.get(&token) {
            Some(contender) if contender.state == State::Holds => Ok(()),
            other => refused("a valid guard", format_args!("#{attempt} with {token}: {other:?}")),
        }
    }

    /// Checks that the last change of data was a mark.
    fn settles(&mut self, zxid: Zxid) -> Result<(), String> {
        match self.changed.take_if(|changed| changed.0 != zxid) {
            Some((_, path)) => refused("Release", format_args!("{path} was changed, not deleted")),
            None => Ok(()),
        }
    }

    fn head_is_first(&mut self) {
        if let Some(head) = self.queue.first().copied() {
            self.enter(head, State::Waits, State::First);
        }
    }

    fn enter(&mut self, node: Zxid, from: State, to: State) {
        let contender = self.contenders.get_mut(&node);
        if let Some(contender) = contender.filter(|contender| contender.state == from) {
            contender.state = to;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: (u64, SessionId) = (1, SessionId(1));
    const B: (u64, SessionId) = (2, SessionId(2));

    /// Returns a lock with a queue of two: `/1` of `A` at zxid 11, and `/2` of `B` at 12.
    fn queue() -> Lock {
        let mut lock = Lock::default();
        lock.joins(("/1", 1), A, Zxid(11)).unwrap();
        lock.joins(("/2", 2), B, Zxid(12)).unwrap();
        lock
    }

    fn grant(lock: &mut Lock, (attempt, session): (u64, SessionId)) -> Result<(), String> {
        let (path, token) = if attempt == 1 { ("/1", 11) } else { ("/2", 12) };
        lock.grants((path, attempt), session, Zxid(token), true)
    }

    #[track_caller]
    fn assert_refused(taken: Result<(), String>, action: &str) {
        assert!(taken.is_err_and(|text| text.starts_with(action)), "{action}");
    }

    #[test]
    fn lock_passes_from_one_contender_to_the_next() {
        let mut lock = queue();
        grant(&mut lock, A).unwrap();
        lock.is_used(1, Zxid(11)).unwrap();
        assert_refused(grant(&mut lock, B), "Grant");
        lock.changes("/1", Zxid(13)).unwrap();
        lock.deletes("/1", A.1, Zxid(13), false).unwrap();
        assert_refused(lock.is_used(1, Zxid(11)), "a valid guard");
        grant(&mut lock, B).unwrap();
        lock.loses(Zxid(12));
        assert_refused(lock.is_used(2, Zxid(12)), "a valid guard");
        assert_refused(grant(&mut lock, B), "Grant");
    }

    #[test]
    fn grant_needs_the_own_node_a_lease_and_its_token() {
        let mut lock = queue();
        assert_refused(lock.grants(("/1", 1), A.1, Zxid(11), false), "Grant");
        assert_refused(lock.grants(("/1", 1), A.1, Zxid(10), true), "Grant");
        assert_refused(lock.grants(("/1", 1), B.1, Zxid(11), true), "Grant");
        lock.deletes("/1", SessionId(9), Zxid(13), true).unwrap();
        lock.receives("/1", A.1);
        assert_refused(grant(&mut lock, A), "Grant");
    }

    #[test]
    fn token_is_larger_unless_the_operator_has_deleted_its_node() {
        for is_operator in [false, true] {
            let mut lock = queue();
            lock.expires(A.1, is_operator);
            grant(&mut lock, B).unwrap();
            let granted = grant(&mut lock, A);
            assert_eq!(granted.is_ok(), is_operator, "{granted:?}");
        }
    }

    #[test]
    fn only_the_first_contender_marks_its_release() {
        let mut lock = queue();
        lock.changes("/2", Zxid(13)).unwrap();
        assert_refused(lock.deletes("/2", B.1, Zxid(13), false), "Release");
        let mut lock = queue();
        lock.changes("/1", Zxid(13)).unwrap();
        assert_refused(lock.deletes("/1", A.1, Zxid(14), false), "Release");
        let mut lock = queue();
        lock.deletes("/2", B.1, Zxid(13), false).unwrap();
    }

    #[test]
    fn contender_queues_once_while_its_session_exists() {
        assert_refused(queue().joins(("/3", 3), A, Zxid(13)), "Join");
        assert_refused(queue().joins(("/0", 0), (3, A.1), Zxid(13)), "Join");
        let mut lock = queue();
        lock.expires(A.1, false);
        assert_refused(lock.joins(("/3", 3), (3, A.1), Zxid(13)), "Join");
        assert_refused(lock.deletes("/2", SessionId(9), Zxid(13), false), "OperatorDeletes");
    }
}
