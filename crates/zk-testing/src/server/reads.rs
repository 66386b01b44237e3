//! Requests that change nothing, answered from the tree of the receiving server.

use bytes::Bytes;
use proto::{
    AclReply, AllChildrenNumberReply, ChildList, ChildrenReply, DataReply, EphemeralsReply,
    ErrorCode, Exists, GetAcl, GetAllChildrenNumber, GetChildren, GetChildren2, GetData,
    GetEphemerals, MultiReadReply, MultiReadResult, OpCode, Perms, WhoAmIReply,
};

use super::Ensemble;
use super::acl::{self, Identity};
use super::connection::Ticket;
use super::connection_id::ConnectionId;
use super::dispatch::decode;
use super::multi::{self, Part};
use super::node::Node;
use super::watches::{WatchMode, WatchTable};

impl Ensemble {
    /// Processes a request that is not a write, or any request at a read-only server.
    pub(super) fn read(&mut self, ticket: Ticket, op: i32, body: &Bytes) {
        if self.refuses_moved(ticket.connection) {
            return;
        }
        let result = match OpCode::from_code(op) {
            Some(OpCode::Ping) => return self.pong(ticket),
            Some(OpCode::Exists) => self.exists(ticket, body),
            Some(OpCode::GetData) => self.get_data(ticket, body),
            Some(OpCode::GetChildren) => self.get_children(ticket, body),
            Some(OpCode::GetChildren2) => self.get_children2(ticket, body),
            Some(OpCode::GetAcl) => self.get_acl(ticket, body),
            Some(OpCode::GetAllChildrenNumber) => self.get_all_children_number(ticket, body),
            Some(OpCode::GetEphemerals) => self.get_ephemerals(ticket, body),
            Some(OpCode::MultiRead) => self.multi_read(ticket, body),
            Some(OpCode::WhoAmI) => self.who_am_i(ticket),
            Some(OpCode::AddWatch) => self.add_watch(ticket, body),
            Some(OpCode::SetWatches) => self.set_watches(ticket, body),
            Some(OpCode::SetWatches2) => self.set_watches2(ticket, body),
            Some(OpCode::CheckWatches) => self.check_watches(ticket, body),
            Some(OpCode::RemoveWatches) => self.remove_watches(ticket, body),
            Some(OpCode::CloseSession) => self.close_local_session(ticket),
            // The other operations are writes, which a read-only server refuses.
            _ => Err(ErrorCode::NOT_READ_ONLY),
        };
        if let Err(code) = result {
            self.answer(ticket, code, None);
        }
    }

    fn exists(&mut self, ticket: Ticket, body: &Bytes) -> Result<(), ErrorCode> {
        let request: Exists<'_> = decode(body)?;
        if request.path.contains('\0') {
            return Err(ErrorCode::BAD_ARGUMENTS);
        }
        let (node, identities) = self.look(ticket, &request.path);
        let readable = node.is_none_or(|node| acl::permits(&node.acl, Perms::READ, identities));
        if self.settings.version.exists_checks_read() && !readable {
            return Err(ErrorCode::NO_AUTH);
        }
        let stat = node.map(Node::stat);
        if request.watch {
            self.watch(ticket.connection, WatchTable::Data, &request.path, WatchMode::Standard);
        }
        let stat = stat.ok_or(ErrorCode::NO_NODE)?;
        self.answer(ticket, ErrorCode::OK, Some(&stat));
        Ok(())
    }

    fn get_data(&mut self, ticket: Ticket, body: &Bytes) -> Result<(), ErrorCode> {
        let request: GetData<'_> = decode(body)?;
        let node = self.readable(ticket, &request.path)?;
        let reply = DataReply { data: node.data.clone(), stat: node.stat() };
        if request.watch {
            self.watch(ticket.connection, WatchTable::Data, &request.path, WatchMode::Standard);
        }
        self.answer(ticket, ErrorCode::OK, Some(&reply));
        Ok(())
    }

    fn get_children(&mut self, ticket: Ticket, body: &Bytes) -> Result<(), ErrorCode> {
        let request: GetChildren<'_> = decode(body)?;
        let node = self.readable(ticket, &request.path)?;
        let children = ChildList::from_names(node.children());
        if request.watch {
            self.watch(ticket.connection, WatchTable::Child, &request.path, WatchMode::Standard);
        }
        self.answer(ticket, ErrorCode::OK, Some(&children));
        Ok(())
    }

    fn get_children2(&mut self, ticket: Ticket, body: &Bytes) -> Result<(), ErrorCode> {
        let request: GetChildren2<'_> = decode(body)?;
        let node = self.readable(ticket, &request.path)?;
        let children = ChildList::from_names(node.children());
        let reply = ChildrenReply { children, stat: node.stat() };
        if request.watch {
            self.watch(ticket.connection, WatchTable::Child, &request.path, WatchMode::Standard);
        }
        self.answer(ticket, ErrorCode::OK, Some(&reply));
        Ok(())
    }

    fn get_acl(&mut self, ticket: Ticket, body: &Bytes) -> Result<(), ErrorCode> {
        let request: GetAcl<'_> = decode(body)?;
        let (node, identities) = self.look(ticket, &request.path);
        let node = node.ok_or(ErrorCode::NO_NODE)?;
        if !acl::permits(&node.acl, Perms::READ | Perms::ADMIN, identities) {
            return Err(ErrorCode::NO_AUTH);
        }
        let is_whole = !self.settings.version.masks_digests();
        let acl = if is_whole || acl::permits(&node.acl, Perms::ADMIN, identities) {
            node.acl.to_vec()
        } else {
            acl::masked(&node.acl)
        };
        let reply = AclReply { acl, stat: node.stat() };
        self.answer(ticket, ErrorCode::OK, Some(&reply));
        Ok(())
    }

    fn get_all_children_number(&mut self, ticket: Ticket, body: &Bytes) -> Result<(), ErrorCode> {
        let request: GetAllChildrenNumber<'_> = decode(body)?;
        self.readable(ticket, &request.path)?;
        let Some(at) = self.server_of(ticket.connection) else { return Ok(()) };
        let tree = &self.servers[at].tree;
        let total = match &*request.path {
            // The empty path is also the root; it then counts itself.
            "" => tree.len(),
            "/" => tree.len() - 1,
            path => tree.descendants(path),
        };
        let total = i32::try_from(total).unwrap_or(i32::MAX);
        self.answer(ticket, ErrorCode::OK, Some(&AllChildrenNumberReply { total }));
        Ok(())
    }

    fn get_ephemerals(&mut self, ticket: Ticket, body: &Bytes) -> Result<(), ErrorCode> {
        let request: GetEphemerals<'_> = decode(body)?;
        let Some(connection) = self.connections.get(&ticket.connection) else { return Ok(()) };
        let session_id = connection.session_id().unwrap_or_default();
        let all = self.servers[connection.server].tree.ephemerals(session_id);
        // Java's `trim` removes these characters, and only for this comparison.
        let is_all = matches!(request.prefix.trim_matches(|c| c <= ' '), "" | "/");
        let matching = all.filter(|path| is_all || path.starts_with(&*request.prefix));
        let reply = EphemeralsReply { paths: matching.map(str::to_owned).collect() };
        self.answer(ticket, ErrorCode::OK, Some(&reply));
        Ok(())
    }

    fn multi_read(&mut self, ticket: Ticket, body: &Bytes) -> Result<(), ErrorCode> {
        let mut results = Vec::new();
        let mut code = ErrorCode::OK;
        // Every version parses both reads in the same way.
        let version = self.settings.version;
        for part in multi::parts(body, version).map_err(|_| ErrorCode::MARSHALLING_ERROR)? {
            // A server that fails on one part still returns the results before it.
            let Part::Read { op, path: Some(path) } = part else {
                code = ErrorCode::MARSHALLING_ERROR;
                break;
            };
            results.push(match (self.readable(ticket, &path), op) {
                (Err(code), _) => MultiReadResult::Error(code),
                (Ok(node), OpCode::GetData) => {
                    let (data, stat) = (node.data.clone(), node.stat());
                    MultiReadResult::Data(DataReply { data, stat })
                }
                (Ok(node), _) => MultiReadResult::Children(ChildList::from_names(node.children())),
            });
        }
        self.answer(ticket, code, Some(&MultiReadReply { results }));
        Ok(())
    }

    fn who_am_i(&mut self, ticket: Ticket) -> Result<(), ErrorCode> {
        let Some(connection) = self.connections.get(&ticket.connection) else { return Ok(()) };
        let identities = connection.identities.iter().map(acl::client_info).collect();
        self.answer(ticket, ErrorCode::OK, Some(&WhoAmIReply { identities }));
        Ok(())
    }

    /// Closes a local session of a read-only server.
    fn close_local_session(&mut self, ticket: Ticket) -> Result<(), ErrorCode> {
        let Some(connection) = self.connections.get(&ticket.connection) else { return Ok(()) };
        let session_id = connection.session_id().unwrap_or_default();
        if self.servers[connection.server].local_sessions.remove(&session_id).is_none() {
            return Err(ErrorCode::NOT_READ_ONLY);
        }
        self.answer(ticket, ErrorCode::OK, None);
        self.close(ticket.connection, super::faults::Cut::Fin);
        Ok(())
    }

    pub(super) fn server_of(&self, id: ConnectionId) -> Option<usize> {
        self.connections.get(&id).map(|connection| connection.server)
    }

    /// Sets a watch for a connection, at its server.
    pub(super) fn watch(
        &mut self,
        id: ConnectionId,
        table: WatchTable,
        path: &str,
        mode: WatchMode,
    ) {
        let version = self.settings.version;
        if let Some(at) = self.server_of(id) {
            self.servers[at].watches.add(table, path, id, mode, version);
        }
    }

    /// Returns the node at a path from the connection's server, and the connection's identities.
    fn look(&self, ticket: Ticket, path: &str) -> (Option<&Node>, &[Identity]) {
        match self.connections.get(&ticket.connection) {
            Some(connection) => {
                (self.servers[connection.server].tree.node(path), &connection.identities)
            }
            None => (None, &[]),
        }
    }

    /// Returns the node at a path if it exists and the connection may read it.
    fn readable(&self, ticket: Ticket, path: &str) -> Result<&Node, ErrorCode> {
        let (node, identities) = self.look(ticket, path);
        let node = node.ok_or(ErrorCode::NO_NODE)?;
        if acl::permits(&node.acl, Perms::READ, identities) {
            Ok(node)
        } else {
            Err(ErrorCode::NO_AUTH)
        }
    }
}
