//! The steps of a client: the runner of the real machine.

use super::{Client, Kind, NodeStage, Pending, Phase, Seen, Setting, Watch, Watched};
use crate::queue::machine::exploration::faults::{self, Fault};
use crate::queue::machine::exploration::server::{
    FiredKind, Listing, Name, Node, Parent, Reply, Request, WatchKind,
};
use crate::queue::machine::{Ahead, Input, NodeChange, NodeRole, Output, Step};

impl Client {
    /// Returns true if [`run`](Self::run) would do anything.
    pub(in super::super) fn can_run(&self) -> bool {
        match self.phase {
            Phase::Idle | Phase::Expired => false,
            Phase::Holding => {
                self.kind != Kind::Curator
                    && (!self.has_lease || matches!(self.own_watch, Some(Watch::Fired(_))))
            }
            Phase::Acquiring => match &self.pending {
                Pending::Nothing => true,
                Pending::Dropped => false,
                Pending::Create { created, seen, .. } => match created {
                    Some(Reply::NoParent) => true,
                    Some(_) => seen.is_some() || self.node == NodeStage::Requested,
                    None => false,
                },
                Pending::List { reads_own, listed, stat, .. } => {
                    listed.is_some() && (!reads_own || stat.is_some())
                }
                Pending::Watches { is_set, .. } => *is_set,
                Pending::Event => self.watched.iter().any(|entry| entry.watch != Some(Watch::Set)),
                Pending::MakeParent(reply)
                | Pending::Find(reply)
                | Pending::Rearm(_, reply)
                | Pending::Check(reply)
                | Pending::Renew(reply) => reply.is_some(),
            },
        }
    }

    /// Continues until the contender waits for a reply or an event.
    pub(in super::super) fn run(&mut self, setting: &Setting) -> Result<(), String> {
        while self.can_run() {
            if self.phase == Phase::Holding {
                self.notice_loss(setting);
            } else if self.kind == Kind::Curator {
                self.run_curator(setting)?;
            } else {
                self.run_step(setting)?;
            }
        }
        Ok(())
    }

    /// The holder has lost the lock.
    fn notice_loss(&mut self, setting: &Setting) {
        if let Some(Watch::Fired(fired)) = self.own_watch {
            if fired.kind == FiredKind::Deleted {
                self.node = NodeStage::Absent;
            }
        }
        self.leave(setting.fault);
    }

    fn run_step(&mut self, setting: &Setting) -> Result<(), String> {
        match std::mem::replace(&mut self.pending, Pending::Nothing) {
            Pending::Nothing => self.begin_step(setting),
            Pending::Create {
                created: Some(Reply::Created(name, czxid)),
                seen,
                connections_lost,
            } => {
                let is_new = self.node == NodeStage::Requested;
                let is_taken = self.found.contains(&name) && is_new;
                if is_taken && setting.fault != Some(Fault::FoundIsForgotten) {
                    self.connection.abandon_replies();
                    self.begin_find();
                    return Ok(());
                }
                self.node = NodeStage::Exists { name, czxid, attempt: self.attempt };
                let Some(seen) = seen else {
                    let created = Some(Reply::Created(name, czxid));
                    self.pending = Pending::Create { created, seen: None, connections_lost };
                    return Ok(());
                };
                self.handle(Input::Created, setting)?;
                match seen {
                    Seen::Nothing => Ok(()),
                    Seen::Parent(parent) => self.see(parent, connections_lost, setting),
                    Seen::List(listing) => {
                        let is_own = listing.parent.pzxid == czxid
                            || setting.fault == Some(Fault::FirstListIsOwn);
                        self.listed = Some((listing, is_own, connections_lost));
                        Ok(())
                    }
                }
            }
            Pending::Create { .. } => {
                self.connection.abandon_replies();
                self.node = NodeStage::Absent;
                self.connection.send(Request::MakeParent);
                self.pending = Pending::MakeParent(None);
                Ok(())
            }
            Pending::MakeParent(_) => {
                self.begin_create(setting);
                Ok(())
            }
            Pending::Find(Some(reply)) => {
                let found = match reply {
                    Reply::Own(nodes, parent, _) => self.take_found(&nodes, parent, setting.fault),
                    Reply::Found(found) => found,
                    _ => None,
                };
                self.adopt(found, setting);
                match self.node {
                    NodeStage::Exists { .. } => self.handle(Input::Created, setting),
                    _ => Ok(()),
                }
            }
            Pending::List { reads_own, connections_lost, listed, stat } => {
                let is_own = match (reads_own, self.own()) {
                    (_, None) => false,
                    (true, Some((_, czxid))) => match stat.flatten() {
                        Some(found) => {
                            found == czxid || setting.fault == Some(Fault::AnyNodeOfNameIsOwn)
                        }
                        None => false,
                    },
                    (false, Some(_)) => self.is_own_node_watched(),
                };
                match listed.flatten() {
                    Some(listing) if is_own => {
                        self.handle_list(&listing, true, connections_lost, setting)
                    }
                    _ => self.handle(Input::OwnNodeGone, setting),
                }
            }
            Pending::Watches { entries, .. } => {
                self.watched.extend(entries);
                self.pending = Pending::Event;
                Ok(())
            }
            Pending::Event => self.take_event(setting),
            Pending::Rearm(index, Some(Reply::Stat(None))) => {
                let role = self.watched.swap_remove(index).role;
                self.handle(Input::Changed(role, NodeChange::Deleted), setting)
            }
            Pending::Rearm(..) => {
                self.pending = Pending::Event;
                Ok(())
            }
            Pending::Check(reply) => match reply {
                Some(Reply::Stat(None)) => self.handle(Input::NearestGone, setting),
                _ => Ok(()),
            },
            Pending::Renew(_) => {
                self.has_lease = true;
                self.handle(Input::Recheck, setting)
            }
            Pending::Dropped | Pending::Find(_) => Ok(()),
        }
    }

    /// Takes its place by the Stat of the queue's node.
    fn see(
        &mut self,
        parent: Parent,
        connections_lost: u64,
        setting: &Setting,
    ) -> Result<(), String> {
        let Some((own, czxid)) = self.own() else { return Ok(()) };
        self.parent = self.parent.max(parent.czxid);
        if is_stale(own, parent, setting) {
            return self.handle(Input::NotListed, setting);
        }
        let (is_only, is_last) = (parent.children == 1, parent.pzxid == czxid);
        let is_alone = match setting.fault {
            Some(Fault::OnlyChildIsAlone) => is_only,
            Some(Fault::LastChangeIsAlone) => is_last,
            _ => is_only && is_last,
        };
        let ahead = if is_alone { None } else { own.guess() };
        if is_alone || ahead.is_some() {
            self.handle(Input::Seen { ahead, connections_lost }, setting)
        } else {
            Ok(())
        }
    }

    /// Adopts the node that a search has found. If it is not there, the create is repeated. A node of
    /// an operator ends the acquisition.
    fn adopt(&mut self, found: Option<Node>, setting: &Setting) {
        match found {
            None => {
                if self.has_common_name() {
                    self.attempt -= 1; // it is the same one
                    self.renew_name(setting, false);
                }
                self.begin_create(setting);
            }
            Some(node) if node.owner == self.index => {
                let Node { name, czxid, attempt, .. } = node;
                self.node = NodeStage::Exists { name, czxid, attempt };
            }
            Some(_) => {
                self.node = NodeStage::Absent;
                self.leave(setting.fault);
            }
        }
    }

    fn begin_step(&mut self, setting: &Setting) -> Result<(), String> {
        match self.machine.step() {
            Step::Create => match self.node {
                NodeStage::Exists { .. } => self.handle(Input::Created, setting),
                stage => {
                    if stage == NodeStage::Requested {
                        self.restart(setting);
                    }
                    self.begin_create(setting);
                    Ok(())
                }
            },
            Step::List { .. } => match self.listed.take() {
                Some((listing, is_own, connections_lost)) => {
                    self.handle_list(&listing, is_own, connections_lost, setting)
                }
                None => {
                    self.begin_list();
                    Ok(())
                }
            },
            Step::Watch => self.begin_watches(setting),
            Step::Confirm => {
                let is_watched = self.is_own_node_watched();
                let connections_lost = self.connections_lost;
                self.handle(Input::OwnNode { is_watched, connections_lost }, setting)
            }
            Step::Done => {
                if self.has_lease {
                    self.grant(setting)
                } else {
                    self.connection.send(Request::Renew);
                    self.pending = Pending::Renew(None);
                    Ok(())
                }
            }
        }
    }

    fn grant(&mut self, setting: &Setting) -> Result<(), String> {
        self.has_claim = true;
        self.is_marked = self.marks_release(setting.fault);
        self.phase = Phase::Holding;
        if self.gone().is_some_and(|gone| gone <= self.seen) {
            return Err("the lock is granted although the own node is known to be gone".to_owned());
        }
        Ok(())
    }

    fn handle_list(
        &mut self,
        Listing { names, parent }: &Listing,
        is_own: bool,
        connections_lost: u64,
        setting: &Setting,
    ) -> Result<(), String> {
        self.parent = self.parent.max(parent.czxid);
        let Some((own, _)) = self.own() else { return self.handle(Input::NotListed, setting) };
        if !names.contains(&own) || is_stale(own, *parent, setting) {
            return self.handle(Input::NotListed, setting);
        }
        let ahead = ahead(names, own, self.kind, setting);
        let nearest = [ahead.first().copied(), ahead.get(1).copied()];
        if let (Some(_), Some(nearest)) = (own.parent(), nearest[0]) {
            self.guesses = own.guess() == Some(nearest);
        }
        let ahead = Ahead::of(self.kind.admission(), ahead.len(), nearest);
        self.handle(Input::Listed { ahead, is_own, connections_lost }, setting)
    }

    fn take_event(&mut self, setting: &Setting) -> Result<(), String> {
        if let Some(index) = self.watched.iter().position(|entry| entry.watch.is_none()) {
            let Watched { name, kind, .. } = self.watched[index];
            self.connection.send(Request::Watch(name, kind));
            self.pending = Pending::Rearm(index, None);
            return Ok(());
        }
        let fired =
            self.watched.iter_mut().enumerate().find_map(|(index, entry)| match entry.watch {
                Some(Watch::Fired(fired)) => Some((index, fired)),
                _ => None,
            });
        self.pending = Pending::Event;
        let Some((index, fired)) = fired else { return Ok(()) };
        let entry = &mut self.watched[index];
        entry.watch = None;
        let data = if fired.kind == FiredKind::Deleted { entry.data.take() } else { None };
        let data = match data {
            Some(Watch::Fired(data)) => Some(data.event()),
            _ => None,
        };
        if let Some(change) = faults::change(entry.role, fired.event(), data, setting.fault) {
            let role = self.watched.swap_remove(index).role;
            self.pending = Pending::Nothing;
            let is_unready = self.machine.is_next() && !self.has_claim;
            self.handle(Input::Changed(role, change), setting)?;
            if is_unready {
                return Err("the next contender in line has not claimed the lease".to_owned());
            }
        }
        Ok(())
    }

    pub(in super::super) fn wait_long(&mut self, setting: &Setting) -> Result<(), String> {
        self.handle(Input::WaitedLong, setting)?;
        if let Some(nearest) = self.machine.nearest() {
            self.connection.send(Request::Read(*nearest));
            self.pending = Pending::Check(None);
        }
        Ok(())
    }

    pub(super) fn handle(&mut self, input: Input<Name>, setting: &Setting) -> Result<(), String> {
        match faults::handle(&mut self.machine, input, setting.fault) {
            Output::Continue | Output::Blocked | Output::ListAgain => {}
            Output::First => self.become_first(setting),
            Output::StartOver { is_node_gone, fails } => {
                let id = self.own().and_then(|(own, _)| own.parent());
                let is_stale = id.is_some_and(|id| id != self.parent);
                if fails || (self.gone().is_none() && !is_stale) {
                    return Err("a contender queues again although its node exists".to_owned());
                }
                if is_node_gone {
                    self.node = NodeStage::Absent;
                }
                self.restart(setting);
            }
        }
        if self.machine.is_next() && setting.fault != Some(Fault::NextDoesNotClaim) {
            self.has_claim = true;
        }
        Ok(())
    }

    fn become_first(&mut self, setting: &Setting) {
        let own = self.own().map(|(own, _)| own);
        if let Some(index) = self.watched.iter().position(|entry| Some(entry.name) == own) {
            self.own_watch = self.watched.swap_remove(index).watch.or(self.own_watch);
        }
        self.is_marked |= self.marks_release(setting.fault);
    }

    /// Curator's recipe: creates a protected node, and lists after every event.
    fn run_curator(&mut self, setting: &Setting) -> Result<(), String> {
        match std::mem::replace(&mut self.pending, Pending::Nothing) {
            Pending::Nothing => match self.node {
                NodeStage::Exists { .. } => self.begin_list(),
                _ => self.begin_create(setting),
            },
            Pending::Create { created: Some(Reply::Created(name, czxid)), .. } => {
                self.node = NodeStage::Exists { name, czxid, attempt: self.attempt };
            }
            Pending::Create { .. } => {
                self.node = NodeStage::Absent;
                self.connection.send(Request::MakeParent);
                self.pending = Pending::MakeParent(None);
            }
            Pending::MakeParent(_) => self.begin_create(setting),
            Pending::Find(Some(Reply::Found(found))) => self.adopt(found, setting),
            Pending::List { listed, .. } => {
                let (names, own) = (listed.flatten().unwrap_or_default().names, self.own());
                match own.filter(|(own, _)| names.contains(own)) {
                    None => self.restart(setting),
                    Some((own, _)) => match names.into_iter().rfind(|name| *name < own) {
                        None => self.phase = Phase::Holding,
                        Some(name) => self.begin_data_watch(name),
                    },
                }
            }
            Pending::Rearm(_, Some(Reply::Stat(Some(_)))) => self.pending = Pending::Event,
            _ => self.watched.clear(),
        }
        Ok(())
    }

    fn begin_data_watch(&mut self, name: Name) {
        let (role, kind) = (NodeRole::Nearest { has_marks: false }, WatchKind::Data);
        self.watched = vec![Watched { name, role, kind, watch: None, data: None }];
        self.connection.send(Request::Watch(name, kind));
        self.pending = Pending::Rearm(0, None);
    }
}

/// Returns true if a name has the id of an earlier node of the queue.
fn is_stale(own: Name, parent: Parent, setting: &Setting) -> bool {
    let is_used = matches!(setting.fault, Some(Fault::StaleNameIsUsed | Fault::ConstantId));
    !is_used && own.parent().is_some_and(|id| id != parent.czxid)
}

/// Returns the contenders ahead of `own` that one of this kind waits for, the nearest first.
fn ahead(names: &[Name], own: Name, kind: Kind, setting: &Setting) -> Vec<Name> {
    let mut names = names.to_vec();
    if setting.fault == Some(Fault::SortedById) {
        names.sort_by_key(|name| name.id);
    }
    let waits_for = |other: Kind| match (setting.fault, kind, other) {
        (Some(Fault::ReaderIgnoresWriters), Kind::Reader, Kind::Writer)
        | (Some(Fault::WriterIgnoresReaders), Kind::Writer, Kind::Reader) => false,
        _ => kind.waits_for(other),
    };
    let ahead = names.into_iter().take_while(|name| *name != own);
    let mut ahead: Vec<Name> =
        ahead.filter(|name| waits_for(setting.kinds[usize::from(name.client)])).collect();
    ahead.reverse();
    if setting.fault == Some(Fault::TwoNearestAreAll) {
        ahead.truncate(2);
    }
    ahead
}
