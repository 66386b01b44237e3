//! The node of a client: its name, its creation and its deletion.

use super::{CleanUp, Client, Kind, Lost, NodeStage, Pending, Seen, Setting};
use crate::queue::machine::exploration::faults::Fault;
use crate::queue::machine::exploration::server::{Name, Node, Request, Seeker};

impl Client {
    pub(super) fn renew_name(&mut self, setting: &Setting, is_restart: bool) {
        self.attempt += 1;
        let may_have_common_id = matches!(self.kind, Kind::Mutex | Kind::Writer);
        if setting.has_common_ids && may_have_common_id {
            let is_constant = setting.fault == Some(Fault::ConstantId);
            self.name = Name::common(if is_constant { 0 } else { self.parent });
        } else if !is_restart || setting.fault != Some(Fault::RestartKeepsName) {
            self.name = (self.index, self.index * 32 + self.attempt);
        }
        if self.lost.is_empty() {
            self.gone.clear();
        }
        self.own_watch = None;
    }

    pub(super) fn marks_release(&self, fault: Option<Fault>) -> bool {
        let may_mark = match self.kind {
            Kind::Mutex | Kind::Writer => true,
            Kind::Reader => fault == Some(Fault::ReaderMarks),
            Kind::Candidate | Kind::Curator => false,
        };
        self.machine.marks_release() && may_mark
    }

    /// Deletes the node if there is or may be one.
    pub(super) fn clean_up(&mut self, is_marked: bool) {
        let attempt = self.attempt;
        let request = match std::mem::replace(&mut self.node, NodeStage::Absent) {
            NodeStage::Absent => return,
            NodeStage::Requested if self.has_common_name() => {
                self.lost.push(Lost { id: self.name.1, is_sent: false });
                return;
            }
            NodeStage::Requested => Request::DeleteProtected { id: self.name.1, attempt },
            NodeStage::Exists { name, attempt, .. } => Request::Delete { name, is_marked, attempt },
        };
        self.clean_ups.push(CleanUp(request.clone()));
        if self.connection.is_up {
            self.connection.send(request);
        }
    }

    pub(super) fn restart(&mut self, setting: &Setting) {
        self.clean_up(false);
        self.has_claim = false;
        self.renew_name(setting, true);
    }

    pub(super) fn has_common_name(&self) -> bool {
        let (client, id) = self.name;
        Name { number: 0, client, id }.parent().is_some()
    }

    /// Returns true if a task can search for the node of a create.
    pub(in super::super) fn can_find_lost(&self) -> bool {
        self.is_connected() && self.lost.iter().any(|lost| !lost.is_sent)
    }

    /// The task sends its request, at any time after it has begun.
    pub(in super::super) fn find_lost(&mut self) {
        // Those that were sent come first.
        let Some(lost) = self.lost.iter_mut().find(|lost| !lost.is_sent) else { return };
        lost.is_sent = true;
        let (owner, id, seeker) = (self.index, lost.id, Seeker::CleanUp);
        self.connection.send(Request::FindOwn { owner, id, seeker });
    }

    pub(super) fn delete_lost(&mut self, nodes: &[Node], parent: u8) {
        self.lost.remove(0);
        if let Some(node) = self.take_found(nodes, parent, None) {
            self.delete(node);
        }
    }

    pub(super) fn delete(&mut self, Node { name, attempt, .. }: Node) {
        let request = Request::Delete { name, is_marked: false, attempt };
        self.clean_ups.push(CleanUp(request.clone()));
        self.connection.send(request);
    }

    /// Takes one of the session's nodes that no attempt has. Deletes them if their names are stale.
    pub(super) fn take_found(
        &mut self,
        nodes: &[Node],
        parent: u8,
        fault: Option<Fault>,
    ) -> Option<Node> {
        self.parent = self.parent.max(parent);
        let is_stale = |node: &Node| node.name.parent().is_some_and(|id| id != parent);
        if nodes.iter().any(is_stale) && fault != Some(Fault::StaleNameIsLeft) {
            nodes.iter().for_each(|node| self.delete(*node));
            return None;
        }
        let is_deleting = |name: Name| {
            self.clean_ups.iter().any(|CleanUp(request)| match request {
                Request::Delete { name: deleted, .. } => *deleted == name,
                _ => false,
            })
        };
        let is_free = |node: &&Node| {
            let is_own = self.own().is_some_and(|(own, _)| own == node.name);
            let is_known = is_own || self.found.contains(&node.name) || is_deleting(node.name);
            !is_known
        };
        let node = nodes.iter().find(is_free).copied()?;
        self.found.push(node.name);
        Some(node)
    }

    pub(super) fn begin_create(&mut self, setting: &Setting) {
        self.node = NodeStage::Requested;
        let ((client, id), attempt) = (self.name, self.attempt);
        self.connection.send(Request::Create { client, id, attempt });
        if self.kind != Kind::Curator {
            let guesses = self.has_common_name() && self.guesses;
            self.connection.send(if guesses { Request::ReadParent } else { Request::List });
        }
        if setting.fault == Some(Fault::ListBeforeCreate) {
            let last = self.connection.to_server.len() - 1;
            self.connection.to_server.swap(last - 1, last);
        }
        let connections_lost = self.connections_lost;
        let seen = (self.kind == Kind::Curator).then_some(Seen::Nothing);
        self.pending = Pending::Create { created: None, seen, connections_lost };
    }

    pub(super) fn begin_find(&mut self) {
        let (owner, id, seeker) = (self.index, self.name.1, Seeker::Attempt);
        let is_common = self.has_common_name();
        let find =
            if is_common { Request::FindOwn { owner, id, seeker } } else { Request::Find { id } };
        self.connection.send(find);
        self.pending = Pending::Find(None);
    }
}
