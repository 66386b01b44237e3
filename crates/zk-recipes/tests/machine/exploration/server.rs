//! The server of the model: nodes, watches, and one connection to each client.
//!
//! A write is a transaction of the leader. A client's server is the leader itself or a follower that
//! lags behind: it applies the transactions in order, each at any later time. A reply to a write
//! follows its transaction, and the requests behind that write wait for it.

use std::collections::VecDeque;

use zk_session::{EventType, Zxid};

use super::super::Event;

/// Owner of the nodes that an operator has created.
pub(super) const OPERATOR: u8 = u8::MAX;

/// The name of a lock node. The order is that of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Name {
    pub(super) number: u8,
    pub(super) client: u8,
    /// The id in the name. A random one differs for each attempt of the client.
    pub(super) id: u8,
}

impl Name {
    /// Returns the owner's number and the id in the names with a common id. The number says only which
    /// kind of contender it is: the first client is one of them.
    pub(super) fn common(parent: u8) -> (u8, u8) {
        (0, COMMON + parent)
    }

    /// Returns the czxid of the queue's node that is in the name.
    pub(super) fn parent(self) -> Option<u8> {
        self.id.checked_sub(COMMON)
    }

    /// Returns the name ahead of one with a common id.
    pub(super) fn guess(self) -> Option<Self> {
        let number = self.number.checked_sub(1)?;
        self.parent().map(|_| Self { number, ..self })
    }
}

/// The smallest common id. Random ones are smaller.
const COMMON: u8 = 128;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Node {
    pub(super) name: Name,
    pub(super) czxid: u8,
    mzxid: u8,
    pub(super) owner: u8,
    /// The attempt of the client that created the node.
    pub(super) attempt: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum WatchKind {
    Children,
    Data,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Request {
    Create {
        client: u8,
        id: u8,
        attempt: u8,
    },
    MakeParent,
    List,
    ReadParent,
    Exists(Name),
    SetWatches {
        watches: Vec<(Name, WatchKind)>,
        since: u8,
    },
    /// Reads the node and watches it.
    Watch(Name, WatchKind),
    Read(Name),
    Find {
        id: u8,
    },
    /// Lists the client's own nodes with this id.
    FindOwn {
        owner: u8,
        id: u8,
        seeker: Seeker,
    },
    Renew,
    Delete {
        name: Name,
        is_marked: bool,
        attempt: u8,
    },
    DeleteProtected {
        id: u8,
        attempt: u8,
    },
}

/// Who searches for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Seeker {
    /// The attempt, whose reply was lost.
    Attempt,
    /// The clean-up of an attempt that its caller has dropped.
    CleanUp,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Reply {
    Created(Name, u8),
    NoParent,
    ParentMade,
    Listed(Option<Listing>),
    Parent(Option<Parent>),
    /// The czxid of the node, if it exists.
    Stat(Option<u8>),
    WatchesSet,
    Found(Option<Node>),
    /// With the czxid of the queue's node.
    Own(Vec<Node>, u8, Seeker),
    Renewed,
    Deleted,
}

/// The Stat of the queue's node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Parent {
    pub(super) czxid: u8,
    pub(super) children: usize,
    /// The last create or delete among the children.
    pub(super) pzxid: u8,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Listing {
    pub(super) names: Vec<Name>,
    pub(super) parent: Parent,
}

/// Event of a watch. The zxid is unknown after a disconnect, and before 3.9.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Fired {
    pub(super) kind: FiredKind,
    zxid: Option<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum FiredKind {
    Deleted,
    DataChanged,
    ChildrenChanged,
}

impl Fired {
    pub(super) fn event(self) -> Event {
        let kind = match self.kind {
            FiredKind::Deleted => EventType::NODE_DELETED,
            FiredKind::DataChanged => EventType::NODE_DATA_CHANGED,
            FiredKind::ChildrenChanged => EventType::NODE_CHILDREN_CHANGED,
        };
        (kind, self.zxid.map(|zxid| Zxid(zxid.into())))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Body {
    Reply(Reply),
    /// A reply that no caller waits for any longer.
    UnwantedReply,
    Event(Name, WatchKind, Fired),
}

/// A message to the client. `seen` is the last transaction whose events have all arrived with it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Message {
    pub(super) body: Body,
    pub(super) seen: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Write {
    MakeParent,
    Create(Node),
    Delete(Vec<Name>),
    /// A marked release: the data is changed and the node deleted.
    Release(Name),
    SetData(Name),
    Reap,
    /// A request that changes nothing.
    Nothing,
}

/// The nodes as one server has them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Tree {
    pub(super) has_parent: bool,
    /// The transaction that has made the parent.
    pub(super) made: u8,
    pub(super) next_number: u8,
    /// In the order of the queue.
    pub(super) nodes: Vec<Node>,
    pub(super) zxid: u8,
    pub(super) pzxid: u8,
}

impl Tree {
    pub(super) fn node(&self, name: Name) -> Option<&Node> {
        self.nodes.iter().find(|node| node.name == name)
    }

    fn parent(&self) -> Option<Parent> {
        let Self { made: czxid, pzxid, .. } = *self;
        self.has_parent.then_some(Parent { czxid, children: self.nodes.len(), pzxid })
    }

    fn apply(&mut self, zxid: u8, write: &Write) {
        self.zxid = zxid;
        if matches!(write, Write::Create(_) | Write::Delete(_) | Write::Release(_)) {
            self.pzxid = zxid;
        }
        match write {
            Write::MakeParent => {
                (self.has_parent, self.next_number, self.made) = (true, 0, zxid);
            }
            Write::Create(node) => {
                self.next_number = self.next_number.max(node.name.number + 1);
                self.nodes.push(*node);
                self.nodes.sort_by_key(|node| node.name);
            }
            Write::Delete(names) => self.nodes.retain(|node| !names.contains(&node.name)),
            Write::Release(name) => self.nodes.retain(|node| node.name != *name),
            Write::SetData(name) => {
                for node in self.nodes.iter_mut().filter(|node| node.name == *name) {
                    node.mzxid = zxid;
                }
            }
            Write::Reap => self.has_parent = false,
            Write::Nothing => {}
        }
    }
}

/// The reply to a write, and whether a caller waits for it.
type WriteReply = (Reply, bool);

/// One client's connection, and the server at its other end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Connection {
    pub(super) is_up: bool,
    pub(super) to_server: VecDeque<(Request, bool)>,
    pub(super) to_client: VecDeque<Message>,
    watches: Vec<(Name, WatchKind)>,
    /// The nodes of a follower that lags behind; `None` for the leader.
    follower: Option<Tree>,
    /// Transactions that the follower has not applied, and the replies that wait for them.
    backlog: VecDeque<(u8, Write, Option<WriteReply>)>,
}

impl Connection {
    pub(super) fn new(follower: Option<Tree>) -> Self {
        Self {
            is_up: true,
            to_server: VecDeque::new(),
            to_client: VecDeque::new(),
            watches: Vec::new(),
            follower,
            backlog: VecDeque::new(),
        }
    }

    pub(super) fn send(&mut self, request: Request) {
        self.to_server.push_back((request, true));
    }

    /// Sends a request whose reply no caller waits for.
    pub(super) fn send_unwanted(&mut self, request: Request) {
        self.to_server.push_back((request, false));
    }

    /// Ignores the replies to come. Deletes of the session are not the caller's.
    pub(super) fn abandon_replies(&mut self) {
        let is_clean_up = |request: &Request| {
            matches!(
                request,
                Request::Delete { .. }
                    | Request::DeleteProtected { .. }
                    | Request::FindOwn { seeker: Seeker::CleanUp, .. }
            )
        };
        let is_of_clean_up =
            |reply: &Reply| matches!(reply, Reply::Deleted | Reply::Own(.., Seeker::CleanUp));
        for (request, is_wanted) in &mut self.to_server {
            *is_wanted &= is_clean_up(request);
        }
        for message in &mut self.to_client {
            if matches!(&message.body, Body::Reply(reply) if !is_of_clean_up(reply)) {
                message.body = Body::UnwantedReply;
            }
        }
        for (_, _, reply) in &mut self.backlog {
            if let Some((reply, is_wanted)) = reply {
                *is_wanted &= is_of_clean_up(reply);
            }
        }
    }

    pub(super) fn cut(&mut self) {
        self.is_up = false;
        self.to_server.clear();
        self.to_client.clear();
        self.watches.clear();
        for (_, _, reply) in &mut self.backlog {
            *reply = None;
        }
    }

    /// Returns true if the server can take the next request.
    pub(super) fn can_serve(&self) -> bool {
        let waits = self.backlog.iter().any(|(_, _, reply)| reply.is_some());
        // A find begins with a sync.
        let syncs = matches!(
            self.to_server.front(),
            Some((Request::Find { .. } | Request::FindOwn { .. }, _))
        );
        self.is_up && !self.to_server.is_empty() && !waits && (self.backlog.is_empty() || !syncs)
    }

    pub(super) fn can_apply(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Takes a transaction of the leader; `reply` is that to a request of this client.
    pub(super) fn commit(
        &mut self,
        zxid: u8,
        write: &Write,
        reply: Option<WriteReply>,
        zxids: bool,
    ) {
        if self.follower.is_some() {
            self.backlog.push_back((zxid, write.clone(), reply));
        } else {
            self.notify(zxid, write, zxids);
            if let Some((reply, is_wanted)) = reply {
                self.reply(zxid, reply, is_wanted);
            }
        }
    }

    /// The follower applies the next transaction.
    pub(super) fn apply(&mut self, zxids: bool) {
        let Some((zxid, write, reply)) = self.backlog.pop_front() else { return };
        if let Some(tree) = &mut self.follower {
            tree.apply(zxid, &write);
        }
        self.notify(zxid, &write, zxids);
        if let Some((reply, is_wanted)) = reply {
            self.reply(zxid, reply, is_wanted);
        }
    }

    fn reply(&mut self, seen: u8, reply: Reply, is_wanted: bool) {
        if self.is_up {
            let body = if is_wanted { Body::Reply(reply) } else { Body::UnwantedReply };
            self.to_client.push_back(Message { body, seen });
        }
    }

    /// Sends the events of a transaction.
    fn notify(&mut self, zxid: u8, write: &Write, zxids: bool) {
        let first = self.to_client.len();
        let known = zxids.then_some(zxid);
        match write {
            Write::Delete(names) => {
                for name in names {
                    self.fire(*name, WatchKind::Data, FiredKind::Deleted, known);
                    self.fire(*name, WatchKind::Children, FiredKind::Deleted, known);
                }
            }
            Write::Release(name) => {
                self.fire(*name, WatchKind::Data, FiredKind::DataChanged, known);
                self.fire(*name, WatchKind::Children, FiredKind::Deleted, known);
            }
            Write::SetData(name) => {
                self.fire(*name, WatchKind::Data, FiredKind::DataChanged, known);
            }
            Write::MakeParent | Write::Create(_) | Write::Reap | Write::Nothing => {}
        }
        let last = self.to_client.len();
        for (index, message) in self.to_client.iter_mut().enumerate().skip(first) {
            message.seen = if index + 1 == last { zxid } else { zxid - 1 };
        }
    }

    fn fire(&mut self, name: Name, watch: WatchKind, kind: FiredKind, zxid: Option<u8>) {
        if let Some(index) = self.watches.iter().position(|set| *set == (name, watch)) {
            self.watches.remove(index);
            let body = Body::Event(name, watch, Fired { kind, zxid });
            self.to_client.push_back(Message { body, seen: 0 });
        }
    }

    fn set_watch(&mut self, name: Name, kind: WatchKind) {
        if !self.watches.contains(&(name, kind)) {
            self.watches.push((name, kind));
        }
    }

    /// Answers a read. Returns the request if it is a write.
    pub(super) fn read(
        &mut self,
        request: Request,
        is_wanted: bool,
        leader: &Tree,
    ) -> Option<Request> {
        let tree = self.follower.as_ref().unwrap_or(leader);
        let seen = tree.zxid;
        let stat = |name| tree.node(name).map(|node| node.czxid);
        let reply = match request {
            Request::List => {
                let names = tree.nodes.iter().map(|node| node.name).collect();
                Reply::Listed(tree.parent().map(|parent| Listing { names, parent }))
            }
            Request::ReadParent => Reply::Parent(tree.parent()),
            Request::Exists(name) | Request::Read(name) => Reply::Stat(stat(name)),
            Request::Find { id } => {
                Reply::Found(tree.nodes.iter().find(|node| node.name.id == id).copied())
            }
            Request::FindOwn { owner, id, seeker } => {
                let is_own = |node: &&Node| node.owner == owner && node.name.id == id;
                Reply::Own(tree.nodes.iter().filter(is_own).copied().collect(), tree.made, seeker)
            }
            Request::Watch(name, kind) => {
                let stat = stat(name);
                if stat.is_some() {
                    self.set_watch(name, kind);
                }
                Reply::Stat(stat)
            }
            Request::SetWatches { watches, since } => {
                let fired: Vec<_> = watches
                    .iter()
                    .map(|(name, kind)| match tree.node(*name) {
                        None => Some(FiredKind::Deleted),
                        Some(node) => match kind {
                            WatchKind::Data if node.mzxid > since => Some(FiredKind::DataChanged),
                            WatchKind::Children if node.czxid > since => {
                                Some(FiredKind::ChildrenChanged)
                            }
                            _ => None,
                        },
                    })
                    .collect();
                for ((name, watch), fired) in watches.into_iter().zip(fired) {
                    self.set_watch(name, watch);
                    if let Some(kind) = fired {
                        self.fire(name, watch, kind, None);
                        if let Some(message) = self.to_client.back_mut() {
                            // These events have no order.
                            message.seen = seen;
                        }
                    }
                }
                Reply::WatchesSet
            }
            Request::Renew => Reply::Renewed,
            write => return Some(write),
        };
        self.reply(seen, reply, is_wanted);
        None
    }
}

impl Node {
    pub(super) fn new(name: Name, zxid: u8, owner: u8, attempt: u8) -> Self {
        Self { name, czxid: zxid, mzxid: zxid, owner, attempt }
    }
}

impl Tree {
    /// Makes a transaction of the leader.
    pub(super) fn commit(&mut self, write: &Write) -> u8 {
        if *write != Write::Nothing {
            self.apply(self.zxid + 1, write);
        }
        self.zxid
    }
}
