//! A client of the model: carries out the steps of the real machine, as [`Waiter`] does.
//!
//! [`Waiter`]: crate::queue::waiter::Waiter

use super::super::{Input, Machine, NodeChange, NodeRole};
use super::faults::Fault;
use super::server::{
    Body, Connection, Fired, Listing, Message, Name, Parent, Reply, Request, Seeker, Tree,
    WatchKind,
};
use crate::queue::spec::Admission;

mod contender;
mod runner;

/// Recipe of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Mutex,
    /// A candidate of an election: a mutex without marks.
    Candidate,
    Writer,
    Reader,
    /// A contender of Curator: it lists after every event, and deletes its node without a mark.
    Curator,
}

impl Kind {
    fn admission(self) -> Admission {
        match self {
            Self::Mutex | Self::Candidate | Self::Curator => Admission::FirstInFinalOrder,
            Self::Writer => Admission::First,
            Self::Reader => Admission::Behind("__WRIT__"),
        }
    }

    /// Returns true if a contender of this kind waits for one of the other kind ahead of it.
    pub(super) fn waits_for(self, other: Self) -> bool {
        self != Self::Reader || other == Self::Writer
    }
}

/// Properties that all clients of a world share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) kinds: &'static [Kind],
    /// The servers' events have zxids.
    pub(super) has_zxids: bool,
    /// Mutexes and writers use names with a common id.
    pub(super) has_common_ids: bool,
    pub(super) fault: Option<Fault>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// It does not contend now.
    Idle,
    Acquiring,
    Holding,
    /// Its session has expired.
    Expired,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum NodeStage {
    Absent,
    Requested,
    /// The attempt is that which has created the node. A search may have found it for a later one.
    Exists {
        name: Name,
        czxid: u8,
        attempt: u8,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Watch {
    Set,
    Fired(Fired),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Watched {
    name: Name,
    role: NodeRole,
    kind: WatchKind,
    /// `None` if it has fired for a reason that does not matter, and was not yet set again.
    watch: Option<Watch>,
    /// The watch on the data of the nearest contender.
    data: Option<Watch>,
}

/// What the look at the queue has shown that follows a create.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Seen {
    Nothing,
    Parent(Parent),
    List(Listing),
}

/// The request of the current step, with the replies that have arrived.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Pending {
    /// No step has begun.
    Nothing,
    /// The caller has dropped the future of the step, and may continue.
    Dropped,
    Create {
        created: Option<Reply>,
        seen: Option<Seen>,
        connections_lost: u64,
    },
    MakeParent(Option<Reply>),
    Find(Option<Reply>),
    List {
        reads_own: bool,
        connections_lost: u64,
        listed: Option<Option<Listing>>,
        stat: Option<Option<u8>>,
    },
    Watches {
        entries: Vec<Watched>,
        is_set: bool,
    },
    Event,
    /// Sets the watch of the entry with this index again.
    Rearm(usize, Option<Reply>),
    Check(Option<Reply>),
    Renew(Option<Reply>),
}

/// A delete that the session repeats until it is answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct CleanUp(Request);

/// A task that searches for the node of a create, to delete it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Lost {
    id: u8,
    is_sent: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Client {
    index: u8,
    kind: Kind,
    pub(super) phase: Phase,
    /// Acquisitions to come.
    pub(super) left: u8,
    pub(super) machine: Machine<Name>,
    /// The number of the owner and the id in the name of this attempt.
    name: (u8, u8),
    pub(super) attempt: u8,
    node: NodeStage,
    /// The mark of the current hold; for a fault, also that of earlier attempts.
    is_marked: bool,
    has_claim: bool,
    pub(super) has_lease: bool,
    pending: Pending,
    watched: Vec<Watched>,
    /// The watch on the own node that the contender keeps once it is first.
    own_watch: Option<Watch>,
    /// The list from the same write as the create, whether it shows the own node, and the connections
    /// lost before.
    listed: Option<(Listing, bool, u64)>,
    connections_lost: u64,
    /// The last transaction whose events have all arrived.
    seen: u8,
    /// The last transaction of which a reply has told.
    last_zxid: u8,
    /// Nodes of the session that were deleted, each with the transaction, while an attempt may have them.
    gone: Vec<(Name, u8)>,
    pub(super) connection: Connection,
    clean_ups: Vec<CleanUp>,
    /// Creates whose reply no caller gets.
    lost: Vec<Lost>,
    /// The nodes that a search has found.
    found: Vec<Name>,
    /// The czxid of the queue's node, as last seen.
    parent: u8,
    /// The name ahead was right at the last look.
    guesses: bool,
}

impl Client {
    pub(super) fn new(index: u8, kind: Kind, acquisitions: u8, follower: Option<Tree>) -> Self {
        Self {
            index,
            kind,
            phase: Phase::Idle,
            left: acquisitions,
            machine: Machine::new(),
            name: (0, 0),
            attempt: 0,
            node: NodeStage::Absent,
            is_marked: false,
            has_claim: false,
            has_lease: true,
            pending: Pending::Nothing,
            watched: Vec::new(),
            own_watch: None,
            listed: None,
            connections_lost: 0,
            seen: 0,
            last_zxid: 0,
            gone: Vec::new(),
            connection: Connection::new(follower),
            clean_ups: Vec::new(),
            lost: Vec::new(),
            found: Vec::new(),
            parent: 0,
            guesses: true,
        }
    }

    pub(super) fn own(&self) -> Option<(Name, u8)> {
        match self.node {
            NodeStage::Exists { name, czxid, .. } => Some((name, czxid)),
            NodeStage::Absent | NodeStage::Requested => None,
        }
    }

    /// Notes that a node of the session was deleted.
    pub(super) fn lose(&mut self, name: Name, zxid: u8) {
        if matches!(self.phase, Phase::Acquiring | Phase::Holding) || !self.lost.is_empty() {
            self.gone.push((name, zxid));
        }
    }

    /// Returns the transaction that has deleted the own node.
    fn gone(&self) -> Option<u8> {
        let (own, _) = self.own()?;
        self.gone.iter().find(|(name, _)| *name == own).map(|(_, zxid)| *zxid)
    }

    pub(super) fn is_holder(&self) -> bool {
        self.phase == Phase::Holding && (self.has_lease || self.kind == Kind::Curator)
    }

    /// Returns true if the client neither contends nor has a node to delete.
    pub(super) fn has_ended(&self) -> bool {
        let is_clean = self.clean_ups.is_empty() && self.lost.is_empty();
        let is_over = self.phase == Phase::Idle && self.left == 0 && is_clean;
        is_over || self.phase == Phase::Expired
    }

    pub(super) fn is_connected(&self) -> bool {
        self.connection.is_up && self.phase != Phase::Expired
    }

    pub(super) fn waits_for_event(&self) -> bool {
        self.pending == Pending::Event && self.kind != Kind::Curator
    }

    pub(super) fn is_dropped(&self) -> bool {
        self.pending == Pending::Dropped
    }

    /// Returns true once the client has had a node, or contends no longer.
    pub(super) fn has_begun(&self) -> bool {
        let has_left = self.attempt > 0 && self.phase != Phase::Acquiring;
        self.own().is_some() || self.attempt > 1 || has_left || self.phase == Phase::Expired
    }

    /// Returns true if the caller may drop the future of the current step.
    pub(super) fn can_drop(&self) -> bool {
        self.phase == Phase::Acquiring && self.kind != Kind::Curator && !self.is_dropped()
    }

    // The caller

    pub(super) fn start(&mut self, setting: &Setting) -> Result<(), String> {
        self.left -= 1;
        self.phase = Phase::Acquiring;
        self.machine = Machine::new();
        self.renew_name(setting, false);
        self.is_marked = false;
        self.has_claim = false;
        self.run(setting)
    }

    /// The caller drops the acquisition: the contender leaves.
    pub(super) fn cancel(&mut self, setting: &Setting) {
        self.abandon_step();
        let is_forgotten = match setting.fault {
            Some(Fault::CancelForgetsCreate) => self.node == NodeStage::Requested,
            Some(Fault::CancelLeavesNode) => self.own().is_some(),
            _ => false,
        };
        if is_forgotten {
            self.node = NodeStage::Absent;
        }
        self.leave(setting.fault);
    }

    pub(super) fn release(&mut self, setting: &Setting) {
        self.leave(setting.fault);
    }

    fn leave(&mut self, fault: Option<Fault>) {
        let is_marked = match fault {
            Some(Fault::CancelMarks) => true,
            Some(Fault::RestartKeepsMark) => self.is_marked,
            _ if self.phase == Phase::Holding => self.is_marked,
            _ => self.marks_release(fault),
        };
        self.clean_up(is_marked);
        self.phase = Phase::Idle;
        self.pending = Pending::Nothing;
        self.watched.clear();
        self.own_watch = None;
        self.listed = None;
        self.machine = Machine::new();
    }

    /// The caller drops the future of the current step.
    pub(super) fn drop_future(&mut self) {
        self.abandon_step();
        self.pending = Pending::Dropped;
    }

    pub(super) fn resume(&mut self, setting: &Setting) -> Result<(), String> {
        self.pending = Pending::Nothing;
        self.handle(Input::Recheck, setting)?;
        self.run(setting)
    }

    fn abandon_step(&mut self) {
        if let Pending::Create { created: None, .. } = self.pending {
            // A request that was not sent is cancelled.
            if !self.connection.is_up {
                self.node = NodeStage::Absent;
            }
        }
        if !self.connection.is_up {
            self.connection.to_server.clear();
        }
        self.connection.abandon_replies();
        if let Pending::Watches { .. } = self.pending {
            self.pending = Pending::Nothing;
        }
    }

    // The session

    pub(super) fn cut(&mut self, setting: &Setting) {
        self.connection.cut();
        self.connections_lost += 1;
        self.lost.iter_mut().for_each(|lost| lost.is_sent = false);
        for CleanUp(request) in &mut self.clean_ups {
            if let Request::Delete { is_marked, .. } = request {
                *is_marked = false;
            }
        }
        match &mut self.pending {
            Pending::Create { created: None, .. }
                if setting.fault == Some(Fault::CreateRepeatedBlindly) =>
            {
                self.begin_create(setting);
            }
            Pending::Create { created: None, .. } => self.begin_find(),
            Pending::Create { seen, .. } => *seen = Some(Seen::Nothing),
            _ => self.request_again(),
        }
    }

    /// Repeats the requests of the current step that have no reply.
    fn request_again(&mut self) {
        match &mut self.pending {
            Pending::MakeParent(None) => self.connection.send(Request::MakeParent),
            Pending::Find(None) => self.begin_find(),
            Pending::List { reads_own, listed, stat, .. } => {
                let reads_own = *reads_own;
                if listed.is_none() || (reads_own && stat.is_none()) {
                    (*listed, *stat) = (None, None);
                    self.request_list(reads_own);
                }
            }
            Pending::Watches { entries, is_set: false } => {
                for entry in entries {
                    entry.watch = Some(Watch::Set);
                    entry.data = entry.data.map(|_| Watch::Set);
                }
                self.request_watches();
            }
            Pending::Rearm(index, None) => {
                let Watched { name, kind, .. } = self.watched[*index];
                self.connection.send(Request::Watch(name, kind));
            }
            Pending::Check(None) => {
                if let Some(nearest) = self.machine.nearest() {
                    self.connection.send(Request::Read(*nearest));
                }
            }
            Pending::Renew(None) => self.connection.send(Request::Renew),
            _ => {}
        }
    }

    /// The session connects again: it sets the watches again, and repeats its deletes.
    pub(super) fn reconnect(&mut self) {
        let queued = std::mem::take(&mut self.connection.to_server);
        self.connection.is_up = true;
        let mut watches = Vec::new();
        let set = match &self.pending {
            Pending::Watches { entries, is_set: true } => entries.as_slice(),
            _ => &[],
        };
        for entry in self.watched.iter().chain(set) {
            if entry.watch == Some(Watch::Set) {
                watches.push((entry.name, entry.kind));
            }
            if entry.data == Some(Watch::Set) {
                watches.push((entry.name, WatchKind::Data));
            }
        }
        if let (Some(Watch::Set), Some((own, _))) = (self.own_watch, self.own()) {
            watches.push((own, WatchKind::Children));
        }
        if !watches.is_empty() {
            let since = self.last_zxid;
            self.connection.send_unwanted(Request::SetWatches { watches, since });
        }
        for CleanUp(request) in &self.clean_ups {
            self.connection.send(request.clone());
        }
        self.connection.to_server.extend(queued);
    }

    /// Receives the next message.
    pub(super) fn deliver(&mut self) {
        let Some(Message { body, seen }) = self.connection.to_client.pop_front() else { return };
        self.seen = self.seen.max(seen);
        match body {
            Body::UnwantedReply => self.last_zxid = self.last_zxid.max(seen),
            Body::Reply(reply) => {
                self.last_zxid = self.last_zxid.max(seen);
                self.receive(reply);
            }
            Body::Event(name, kind, fired) => self.fire(name, kind, fired),
        }
    }

    fn receive(&mut self, reply: Reply) {
        match (&mut self.pending, reply) {
            (_, Reply::Deleted) => drop(self.clean_ups.remove(0)),
            (_, Reply::Own(nodes, parent, Seeker::CleanUp)) => self.delete_lost(&nodes, parent),
            (Pending::Create { created, .. }, reply @ (Reply::Created(..) | Reply::NoParent)) => {
                *created = Some(reply);
            }
            (Pending::Create { seen, .. }, Reply::Listed(listing)) => {
                *seen = Some(listing.map_or(Seen::Nothing, Seen::List));
            }
            (Pending::Create { seen, .. }, Reply::Parent(parent)) => {
                *seen = Some(parent.map_or(Seen::Nothing, Seen::Parent));
            }
            (Pending::List { listed, .. }, Reply::Listed(listing)) => *listed = Some(listing),
            (Pending::List { stat, .. }, Reply::Stat(exists)) => *stat = Some(exists),
            (Pending::Watches { is_set, .. }, Reply::WatchesSet) => *is_set = true,
            (Pending::Rearm(index, reply), Reply::Stat(stat)) => {
                *reply = Some(Reply::Stat(stat));
                self.watched[*index].watch = stat.map(|_| Watch::Set);
            }
            (
                Pending::MakeParent(reply)
                | Pending::Find(reply)
                | Pending::Check(reply)
                | Pending::Renew(reply),
                answer,
            ) => *reply = Some(answer),
            _ => {}
        }
    }

    fn fire(&mut self, name: Name, kind: WatchKind, fired: Fired) {
        let setting = match &mut self.pending {
            Pending::Watches { entries, .. } => entries.as_mut_slice(),
            _ => &mut [],
        };
        for entry in self.watched.iter_mut().chain(setting).filter(|entry| entry.name == name) {
            if entry.kind == kind && entry.watch == Some(Watch::Set) {
                entry.watch = Some(Watch::Fired(fired));
            }
            if kind == WatchKind::Data && entry.data == Some(Watch::Set) {
                entry.data = Some(Watch::Fired(fired));
            }
        }
        let is_own = self.own().is_some_and(|(own, _)| own == name);
        if is_own && kind == WatchKind::Children && self.own_watch == Some(Watch::Set) {
            self.own_watch = Some(Watch::Fired(fired));
        }
    }

    // The waiter

    fn request_list(&mut self, reads_own: bool) {
        self.connection.send(Request::List);
        if let (true, Some((own, _))) = (reads_own, self.own()) {
            self.connection.send(Request::Exists(own));
        }
    }

    fn begin_list(&mut self) {
        let reads_own = self.kind != Kind::Curator && !self.is_own_node_watched();
        self.request_list(reads_own);
        let connections_lost = self.connections_lost;
        self.pending = Pending::List { reads_own, connections_lost, listed: None, stat: None };
    }

    fn is_own_node_watched(&mut self) -> bool {
        let Some((own, _)) = self.own() else { return false };
        let entry = self.watched.iter_mut().find(|entry| entry.name == own);
        if let Some(entry) = entry {
            if entry.watch == Some(Watch::Set) {
                return true;
            }
            entry.watch = None; // its event is lost
        }
        self.own_watch == Some(Watch::Set)
    }

    fn begin_watches(&mut self, setting: &Setting) -> Result<(), String> {
        self.handle(Input::Waits { has_marks: setting.has_zxids }, setting)?;
        let own_role = NodeRole::Own { is_readable: true };
        let Some((own, _)) = self.own() else {
            return self.handle(Input::Changed(own_role, NodeChange::Deleted), setting);
        };
        let mut targets: Vec<_> =
            self.machine.targets().map(|(name, role)| (*name, self.role(*name, role))).collect();

        if setting.fault == Some(Fault::RemainingOneNotWatched) && self.machine.is_next() {
            targets.clear();
        }
        targets.push((own, own_role));
        self.watched.retain(|entry| targets.contains(&(entry.name, entry.role)));
        targets.retain(|(name, _)| !self.watched.iter().any(|entry| entry.name == *name));
        let entries: Vec<_> = targets
            .into_iter()
            .map(|(name, role)| {
                let kind = match role {
                    NodeRole::Second => WatchKind::Data,
                    _ => WatchKind::Children,
                };
                let has_data = role == NodeRole::Nearest { has_marks: true };
                Watched {
                    name,
                    role,
                    kind,
                    watch: Some(Watch::Set),
                    data: has_data.then_some(Watch::Set),
                }
            })
            .collect();
        if entries.is_empty() {
            self.pending = Pending::Event;
        } else {
            self.pending = Pending::Watches { entries, is_set: false };
            self.request_watches_since(setting);
        }
        Ok(())
    }

    /// Returns the role of a contender ahead. One with a stale name was never first.
    fn role(&self, name: Name, role: NodeRole) -> NodeRole {
        let is_stale = name.parent().is_some_and(|id| id != self.parent);
        if is_stale { role.without_marks() } else { role }
    }

    fn request_watches_since(&mut self, setting: &Setting) {
        self.request_watches();
        if setting.fault == Some(Fault::WatchesFromNowOn) {
            if let Some((Request::SetWatches { since, .. }, _)) =
                self.connection.to_server.back_mut()
            {
                *since = u8::MAX;
            }
        }
    }

    /// Requests the watches of the pending entries, as of the transaction that created the own node.
    fn request_watches(&mut self) {
        let Some((_, since)) = self.own() else { return };
        let Pending::Watches { entries, .. } = &self.pending else { return };
        let mut watches = Vec::new();
        for entry in entries {
            watches.push((entry.name, entry.kind));
            if entry.data.is_some() {
                watches.push((entry.name, WatchKind::Data));
            }
        }
        self.connection.send(Request::SetWatches { watches, since });
    }
}
