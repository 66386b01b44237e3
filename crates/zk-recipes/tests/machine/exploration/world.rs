//! The state of a world, and the steps that are possible in it.

use super::client::{Client, Kind, Phase, Setting};
use super::faults::Fault;
use super::server::{Name, Node, OPERATOR, Reply, Request, Tree, Write};

/// An event that no step of the contenders needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    Cut,
    Cancel,
    DroppedFuture,
    Delete,
    /// A deletion of two nodes in one transaction.
    DeleteOfTwo,
    CreateAgain,
    Change,
    LeaseEnd,
    Expiry,
    RemovalOfParent,
    LongWait,
}

/// How often each event may still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Budget([u8; 11]);

impl Budget {
    fn allows(&self, event: Trouble) -> bool {
        self.0[event as usize] > 0
    }
}

/// A world to explore.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) kinds: &'static [Kind],
    /// Acquisitions of the first client, and of each other one.
    pub(super) acquisitions: (u8, u8),
    pub(super) has_zxids: bool,
    /// Mutexes and writers use names with a common id.
    pub(super) has_common_ids: bool,
    /// The server of the last client lags behind.
    pub(super) lags: bool,
    /// Clients handle what has arrived before the servers take another request, and clients of one
    /// kind queue in their order. These steps are independent, except when a connection is cut.
    pub(super) is_reduced: bool,
    /// Each may happen as often as it is listed here.
    pub(super) events: [&'static [Trouble]; 2],
}

impl Case {
    pub(super) fn has(&self, event: Trouble) -> bool {
        self.events.concat().contains(&event)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Move {
    Start(usize),
    Serve(usize),
    ServerCatchesUp(usize),
    Receive(usize),
    Run(usize),
    Release(usize),
    Reconnect(usize),
    Resume(usize),
    FindLost(usize),
    Cut(usize),
    Cancel(usize),
    DropFuture(usize),
    WaitLong(usize),
    LeaseEnds(usize),
    Expire(usize),
    OperatorDeletes(Name),
    OperatorDeletesBoth(Name, Name),
    OperatorCreatesAgain(Name),
    OperatorChanges(Name),
    ServerRemovesParent,
}

impl Move {
    /// Returns the event, if it is one that no step of the contenders needs.
    fn trouble(self) -> Option<Trouble> {
        Some(match self {
            Self::Cut(_) => Trouble::Cut,
            Self::Cancel(_) => Trouble::Cancel,
            Self::DropFuture(_) => Trouble::DroppedFuture,
            Self::WaitLong(_) => Trouble::LongWait,
            Self::LeaseEnds(_) => Trouble::LeaseEnd,
            Self::Expire(_) => Trouble::Expiry,
            Self::OperatorDeletes(_) => Trouble::Delete,
            Self::OperatorDeletesBoth(..) => Trouble::DeleteOfTwo,
            Self::OperatorCreatesAgain(_) => Trouble::CreateAgain,
            Self::OperatorChanges(_) => Trouble::Change,
            Self::ServerRemovesParent => Trouble::RemovalOfParent,
            _ => return None,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct World {
    leader: Tree,
    pub(super) clients: Vec<Client>,
    budget: Budget,
    /// Nodes that an operator has deleted, and may create again.
    deleted: Vec<Name>,
}

impl World {
    pub(super) fn new(case: &Case) -> Self {
        // The names have the czxid of a parent that the clients know.
        let has_parent = !case.has(Trouble::RemovalOfParent) || case.has_common_ids;
        let leader = Tree { has_parent, ..Tree::default() };
        let last = case.kinds.len() - 1;
        let clients = case.kinds.iter().enumerate().map(|(index, kind)| {
            let acquisitions = if index == 0 { case.acquisitions.0 } else { case.acquisitions.1 };
            let follower = (case.lags && index == last).then(|| leader.clone());
            Client::new(u8::try_from(index).unwrap(), *kind, acquisitions, follower)
        });
        let mut budget = Budget([0; 11]);
        case.events.concat().iter().for_each(|event| budget.0[*event as usize] += 1);
        Self { clients: clients.collect(), leader, budget, deleted: Vec::new() }
    }

    /// Returns the steps that need no fault.
    pub(super) fn regular_moves(&self, case: &Case) -> Vec<Move> {
        let mut moves = Vec::new();
        for (index, client) in self.clients.iter().enumerate().filter(|_| case.is_reduced) {
            if client.can_run() {
                return vec![Move::Run(index)];
            }
            if client.connection.is_up && !client.connection.to_client.is_empty() {
                return vec![Move::Receive(index)];
            }
        }
        let is_next = |index: usize| {
            let before = case.kinds[..index].iter().rposition(|kind| *kind == case.kinds[index]);
            !case.is_reduced || before.is_none_or(|before| self.clients[before].has_begun())
        };
        for (index, client) in self.clients.iter().enumerate() {
            let connection = &client.connection;
            let has_message = connection.is_up && !connection.to_client.is_empty();
            let may_start = client.phase == Phase::Idle && client.left > 0 && is_next(index);
            let is_down = !connection.is_up && client.phase != Phase::Expired;
            moves.extend(possible([
                (may_start, Move::Start(index)),
                (connection.can_serve(), Move::Serve(index)),
                (connection.can_apply(), Move::ServerCatchesUp(index)),
                (has_message, Move::Receive(index)),
                (client.can_run(), Move::Run(index)),
                (client.phase == Phase::Holding, Move::Release(index)),
                (is_down, Move::Reconnect(index)),
                (client.is_dropped(), Move::Resume(index)),
                (client.can_find_lost(), Move::FindLost(index)),
            ]));
        }
        if moves.is_empty() {
            // In the end an operator removes what an operator has created.
            let node = self.leader.nodes.iter().find(|node| node.owner == OPERATOR);
            moves.extend(node.map(|node| Move::OperatorDeletes(node.name)));
        }
        moves
    }

    /// Returns the faults that may happen.
    pub(super) fn faults(&self) -> Vec<Move> {
        let mut moves = Vec::new();
        for (index, client) in self.clients.iter().enumerate() {
            let is_alive = !client.has_ended() && client.phase != Phase::Expired;
            moves.extend(possible([
                (client.is_connected() && !client.has_ended(), Move::Cut(index)),
                (client.phase == Phase::Acquiring, Move::Cancel(index)),
                (client.can_drop(), Move::DropFuture(index)),
                (client.waits_for_event(), Move::WaitLong(index)),
                (is_alive && client.has_lease, Move::LeaseEnds(index)),
                (is_alive && !client.has_lease, Move::Expire(index)),
            ]));
        }
        let nodes = &self.leader.nodes;
        moves.extend(nodes.iter().map(|node| Move::OperatorDeletes(node.name)));
        let both = |pair: &[Node]| Move::OperatorDeletesBoth(pair[0].name, pair[1].name);
        moves.extend(nodes.windows(2).map(both));
        moves.extend(nodes.iter().map(|node| Move::OperatorChanges(node.name)));
        if self.leader.has_parent {
            moves.extend(self.deleted.iter().copied().map(Move::OperatorCreatesAgain));
            moves.extend(nodes.is_empty().then_some(Move::ServerRemovesParent));
        }
        moves.retain(|step| step.trouble().is_some_and(|event| self.budget.allows(event)));
        moves
    }

    pub(super) fn take(&mut self, step: Move, setting: &Setting) -> Result<(), String> {
        if let Some(event) = step.trouble() {
            // In the end, an operator deletes without a budget.
            let left = &mut self.budget.0[event as usize];
            *left = left.saturating_sub(1);
        }
        match step {
            Move::Start(index) => self.clients[index].start(setting)?,
            Move::Serve(index) => self.serve(index, setting)?,
            Move::ServerCatchesUp(index) => self.clients[index].connection.apply(setting.has_zxids),
            Move::Receive(index) => self.clients[index].deliver(),
            Move::Run(index) => self.clients[index].run(setting)?,
            Move::Release(index) => self.clients[index].release(setting),
            Move::Reconnect(index) => self.clients[index].reconnect(),
            Move::Resume(index) => self.clients[index].resume(setting)?,
            Move::FindLost(index) => self.clients[index].find_lost(),
            Move::Cut(index) => self.clients[index].cut(setting),
            Move::Cancel(index) => self.clients[index].cancel(setting),
            Move::DropFuture(index) => self.clients[index].drop_future(),
            Move::WaitLong(index) => self.clients[index].wait_long(setting)?,
            Move::LeaseEnds(index) => self.clients[index].has_lease = false,
            Move::Expire(index) => self.expire(index, setting),
            Move::OperatorDeletes(name) => self.delete(vec![name], setting),
            Move::OperatorDeletesBoth(first, second) => self.delete(vec![first, second], setting),
            Move::OperatorCreatesAgain(name) => {
                self.deleted.retain(|deleted| *deleted != name);
                let node = Node::new(name, self.leader.zxid + 1, OPERATOR, 0);
                self.commit(&Write::Create(node), None, setting);
            }
            Move::OperatorChanges(name) => self.commit(&Write::SetData(name), None, setting),
            Move::ServerRemovesParent => {
                self.deleted.clear();
                self.commit(&Write::Reap, None, setting);
            }
        }
        self.check(setting)
    }

    fn delete(&mut self, names: Vec<Name>, setting: &Setting) {
        let is_recreated =
            |name: &Name| self.leader.node(*name).is_some_and(|it| it.owner == OPERATOR);
        if self.budget.allows(Trouble::CreateAgain) {
            let deleted = names.iter().copied().filter(|name| !is_recreated(name));
            self.deleted.extend(deleted);
        }
        self.commit(&Write::Delete(names), None, setting);
    }

    fn expire(&mut self, index: usize, setting: &Setting) {
        let client = &mut self.clients[index];
        client.phase = Phase::Expired;
        client.connection.cut();
        let own = |node: &&Node| usize::from(node.owner) == index;
        let names = self.leader.nodes.iter().filter(own).map(|node| node.name).collect();
        self.commit(&Write::Delete(names), None, setting);
    }

    /// Makes a transaction, with the reply to the client that has requested it.
    fn commit(
        &mut self,
        write: &Write,
        mut reply: Option<(usize, Reply, bool)>,
        setting: &Setting,
    ) {
        let removed: Vec<_> = match write {
            Write::Delete(names) => {
                names.iter().filter_map(|name| self.leader.node(*name)).collect()
            }
            Write::Release(name) => self.leader.node(*name).into_iter().collect(),
            _ => Vec::new(),
        };
        for node in removed {
            let zxid = self.leader.zxid + 1;
            if let Some(client) = self.clients.get_mut(usize::from(node.owner)) {
                client.lose(node.name, zxid);
            }
        }
        let zxid = self.leader.commit(write);
        for (index, client) in self.clients.iter_mut().enumerate() {
            let reply = reply.take_if(|(of, ..)| *of == index);
            if client.phase == Phase::Expired {
                continue;
            }
            let reply = reply.map(|(_, reply, is_wanted)| (reply, is_wanted));
            if *write != Write::Nothing || reply.is_some() {
                client.connection.commit(zxid, write, reply, setting.has_zxids);
            }
        }
    }

    /// The server of a client takes its next request.
    fn serve(&mut self, index: usize, setting: &Setting) -> Result<(), String> {
        let connection = &mut self.clients[index].connection;
        let Some((request, is_wanted)) = connection.to_server.pop_front() else { return Ok(()) };
        let Some(request) = connection.read(request, is_wanted, &self.leader) else {
            return Ok(());
        };
        let client = u8::try_from(index).unwrap();
        let (write, reply) = match request {
            Request::Create { .. } if !self.leader.has_parent => (Write::Nothing, Reply::NoParent),
            Request::Create { client: named, id, attempt } => {
                let name = Name { number: self.leader.next_number, client: named, id };
                let zxid = self.leader.zxid + 1;
                let node = Node::new(name, zxid, client, attempt);
                (Write::Create(node), Reply::Created(name, zxid))
            }
            Request::MakeParent if self.leader.has_parent => (Write::Nothing, Reply::ParentMade),
            Request::MakeParent => (Write::MakeParent, Reply::ParentMade),
            Request::Delete { name, is_marked, attempt } => {
                let node = self.leader.node(name).copied();
                (self.deletion(client, node, attempt, is_marked, setting)?, Reply::Deleted)
            }
            Request::DeleteProtected { id, attempt } => {
                let node = self.leader.nodes.iter().find(|node| node.name.id == id).copied();
                (self.deletion(client, node, attempt, false, setting)?, Reply::Deleted)
            }
            other => unreachable!("{other:?}"),
        };
        self.commit(&write, Some((index, reply, is_wanted)), setting);
        Ok(())
    }

    /// Returns the transaction that deletes the node of a client's attempt.
    fn deletion(
        &self,
        client: u8,
        node: Option<Node>,
        attempt: u8,
        is_marked: bool,
        setting: &Setting,
    ) -> Result<Write, String> {
        let Some(node) = node else { return Ok(Write::Nothing) };
        let is_own = node.owner == client && node.attempt == attempt;
        // Nobody waits with a stale name.
        if !is_own && node.owner != OPERATOR && !self.is_stale(node.name, setting) {
            return Err(format!(
                "client {client} deletes {node:?}, which is not that of its attempt"
            ));
        }
        let is_used = self.clients[usize::from(client)].own() == Some((node.name, node.czxid));
        if is_used && !self.is_stale(node.name, setting) {
            return Err(format!("client {client} deletes {node:?}, which it still uses"));
        }
        if !is_marked {
            return Ok(Write::Delete(vec![node.name]));
        }
        if let Some(ahead) = self.blocker(node.name, setting) {
            return Err(format!("client {client} marks its release behind {ahead:?}"));
        }
        Ok(Write::Release(node.name))
    }

    /// Returns true if the name has the id of an earlier parent.
    fn is_stale(&self, name: Name, setting: &Setting) -> bool {
        let is_constant = setting.fault == Some(Fault::ConstantId);
        !is_constant && name.parent().is_some_and(|parent| parent != self.leader.made)
    }

    /// Returns a contender's node ahead of `own` that its contender has to wait for.
    fn blocker(&self, own: Name, setting: &Setting) -> Option<Name> {
        let kind = |name: Name| setting.kinds[usize::from(name.client)];
        let ahead =
            self.leader.nodes.iter().filter(|node| node.name < own && node.owner != OPERATOR);
        ahead.map(|node| node.name).find(|name| kind(own).waits_for(kind(*name)))
    }

    /// Checks that each holder is first, if its node exists.
    pub(super) fn check(&self, setting: &Setting) -> Result<(), String> {
        for (index, client) in
            self.clients.iter().enumerate().filter(|(_, client)| client.is_holder())
        {
            let Some((own, czxid)) = client.own() else { continue };
            let exists = self.leader.node(own).is_some_and(|node| node.czxid == czxid);
            if let (true, Some(ahead)) = (exists, self.blocker(own, setting)) {
                return Err(format!("client {index} holds the lock behind {ahead:?}"));
            }
            if exists && self.is_stale(own, setting) {
                return Err(format!("client {index} holds the lock with the stale {own:?}"));
            }
        }
        Ok(())
    }

    /// Checks a state in which nothing more can happen without a fault.
    pub(super) fn check_end(&self) -> Result<(), String> {
        if let Some(index) = self.clients.iter().position(|client| !client.has_ended()) {
            return Err(format!("client {index} waits for ever"));
        }
        match self.leader.nodes.first() {
            Some(node) => Err(format!("{node:?} is left")),
            None => Ok(()),
        }
    }
}

/// Returns the steps that are possible.
fn possible<const N: usize>(steps: [(bool, Move); N]) -> impl Iterator<Item = Move> {
    steps.into_iter().filter(|(is_possible, _)| *is_possible).map(|(_, step)| step)
}
