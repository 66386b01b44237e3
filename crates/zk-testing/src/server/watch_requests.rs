//! Requests that set, re-register, check and remove watches.

use std::borrow::Cow;

use bytes::Bytes;
use proto::{
    AddWatch, AddWatchMode, AddWatchReply, CheckWatches, Decode, DecodeErrorKind, ErrorCode,
    EventType, RemoveWatches, SetWatches, SetWatches2, WatcherType, Zxid,
};

use super::Ensemble;
use super::connection::Ticket;
use super::connection_id::ConnectionId;
use super::dispatch::decode;
use super::version::Version;
use super::watches::{Firing, WatchMode, WatchTable};

impl Ensemble {
    /// Sets a persistent watch. The node need not exist, and its path is not validated.
    pub(super) fn add_watch(&mut self, ticket: Ticket, body: &Bytes) -> Result<(), ErrorCode> {
        let request: AddWatch<'_> = decode(body)?;
        match request.mode {
            AddWatchMode::PersistentRecursive => {
                self.watch_recursively(ticket.connection, &request.path);
            }
            _ => self.watch_persistently(ticket.connection, &request.path),
        }
        self.answer(ticket, ErrorCode::OK, Some(&AddWatchReply { err: ErrorCode::OK }));
        Ok(())
    }

    pub(super) fn set_watches(&mut self, ticket: Ticket, body: &Bytes) -> Result<(), ErrorCode> {
        let request: SetWatches<'_> = decode(body)?;
        let readable = vectors_before_null(body, 3)?;
        let all = SetWatches2 {
            relative_zxid: request.relative_zxid,
            data: request.data,
            exist: request.exist,
            child: request.child,
            ..SetWatches2::default()
        };
        self.rearm(ticket, &all, readable)
    }

    pub(super) fn set_watches2(&mut self, ticket: Ticket, body: &Bytes) -> Result<(), ErrorCode> {
        let request: SetWatches2<'_> = decode(body)?;
        let readable = vectors_before_null(body, 5)?;
        self.rearm(ticket, &request, readable)
    }

    pub(super) fn check_watches(&mut self, ticket: Ticket, body: &Bytes) -> Result<(), ErrorCode> {
        let request: CheckWatches<'_> = match CheckWatches::from_frame(body) {
            // Before 3.9 a server fails on a null path while it computes the parent.
            Err(error)
                if error.kind == DecodeErrorKind::NullText
                    && self.settings.version.watch_modes_are_independent() =>
            {
                return self.nobody_watches_null(body);
            }
            request => request.map_err(|_| ErrorCode::MARSHALLING_ERROR)?,
        };
        self.check_type(request.watcher_type)?;
        let Some(at) = self.server_of(ticket.connection) else { return Ok(()) };
        let (id, path) = (ticket.connection, &request.path);
        let version = self.settings.version;
        if !version.watch_modes_are_independent() && !path.contains('/') {
            // The server walks the parents of the path. It finds no watch on an empty path, even if
            // one exists, and fails on any other path without a slash.
            return Err(if path.is_empty() {
                ErrorCode::NO_WATCHER
            } else {
                ErrorCode::MARSHALLING_ERROR
            });
        }
        if !self.servers[at].watches.contains(path, id, request.watcher_type, version) {
            return Err(ErrorCode::NO_WATCHER);
        }
        self.answer(ticket, ErrorCode::OK, None);
        Ok(())
    }

    pub(super) fn remove_watches(&mut self, ticket: Ticket, body: &Bytes) -> Result<(), ErrorCode> {
        let request: RemoveWatches<'_> = match RemoveWatches::from_frame(body) {
            Err(error) if error.kind == DecodeErrorKind::NullText => {
                return self.nobody_watches_null(body);
            }
            request => request.map_err(|_| ErrorCode::MARSHALLING_ERROR)?,
        };
        self.check_type(request.watcher_type)?;
        let Some(at) = self.server_of(ticket.connection) else { return Ok(()) };
        let (id, path, version) = (ticket.connection, &request.path, self.settings.version);
        if !self.servers[at].watches.remove(path, id, request.watcher_type, version) {
            return Err(ErrorCode::NO_WATCHER);
        }
        self.answer(ticket, ErrorCode::OK, None);
        Ok(())
    }

    /// Returns the error for a null path. The type behind it must still be valid.
    fn nobody_watches_null(&self, body: &Bytes) -> Result<(), ErrorCode> {
        let kind = body.get(4..).and_then(|rest| rest.first_chunk::<4>());
        let kind = kind.and_then(|kind| WatcherType::from_code(i32::from_be_bytes(*kind)));
        self.check_type(kind.ok_or(ErrorCode::MARSHALLING_ERROR)?)?;
        Err(ErrorCode::NO_WATCHER)
    }

    /// Checks that the server knows the type. Before 3.9 no type names a mode.
    fn check_type(&self, kind: WatcherType) -> Result<(), ErrorCode> {
        match kind {
            WatcherType::Children | WatcherType::Data | WatcherType::Any => Ok(()),
            _ if self.settings.version.watch_modes_are_independent() => Ok(()),
            _ => Err(ErrorCode::MARSHALLING_ERROR),
        }
    }

    /// Re-registers the watches on nodes that have not changed since `relative_zxid`, and sends
    /// events for the others. It checks no ACLs, and sends no events for changes that persistent
    /// watches have missed (ZOOKEEPER-4698). If one of the lists is null, it fails after the
    /// `readable` lists before it.
    fn rearm(
        &mut self,
        ticket: Ticket,
        request: &SetWatches2<'_>,
        readable: Option<usize>,
    ) -> Result<(), ErrorCode> {
        if self.settings.version == Version::RaftKeeper {
            return self.rearm_at_raftkeeper(ticket, request);
        }
        let since = request.relative_zxid;
        let has = |list: usize| readable.is_none_or(|readable| list < readable);
        self.rearm_each(ticket, WatchTable::Data, &request.data, |node| match node {
            None => Some(EventType::NODE_DELETED),
            Some((mzxid, _)) => (mzxid > since).then_some(EventType::NODE_DATA_CHANGED),
        });
        if has(1) {
            self.rearm_each(ticket, WatchTable::Data, &request.exist, |node| {
                node.map(|_| EventType::NODE_CREATED)
            });
        }
        if has(2) {
            self.rearm_each(ticket, WatchTable::Child, &request.child, |node| match node {
                None => Some(EventType::NODE_DELETED),
                Some((_, pzxid)) => (pzxid > since).then_some(EventType::NODE_CHILDREN_CHANGED),
            });
        }
        if has(3) {
            for path in &request.persistent {
                self.watch_persistently(ticket.connection, path);
            }
        }
        if has(4) {
            for path in &request.persistent_recursive {
                self.watch_recursively(ticket.connection, path);
            }
        }
        if readable.is_some() {
            return Err(ErrorCode::MARSHALLING_ERROR);
        }
        self.answer(ticket, ErrorCode::OK, None);
        Ok(())
    }

    /// Re-registers watches as RaftKeeper does (`processRequestSetWatch`). It looks up only the nodes
    /// of the data watches: a child watch on another node hears that the node is deleted, and an
    /// exists watch on another node hears nothing. An event goes to all watches on its path.
    fn rearm_at_raftkeeper(
        &mut self,
        ticket: Ticket,
        request: &SetWatches2<'_>,
    ) -> Result<(), ErrorCode> {
        let Some(at) = self.server_of(ticket.connection) else { return Ok(()) };
        let since = request.relative_zxid;
        let lists = [
            (&request.data, WatchTable::Data),
            (&request.exist, WatchTable::Data),
            (&request.child, WatchTable::Child),
        ];
        for (list, (paths, table)) in lists.into_iter().enumerate() {
            for path in paths.iter() {
                self.watch(ticket.connection, table, path, WatchMode::Standard);
                let tree = &self.servers[at].tree;
                let node = if request.data.contains(path) { tree.node(path) } else { None };
                let missed = match (list, node) {
                    (1, node) => node.map(|_| EventType::NODE_CREATED),
                    (_, None) => Some(EventType::NODE_DELETED),
                    (0, Some(node)) => (node.mzxid > since).then_some(EventType::NODE_DATA_CHANGED),
                    // `processWatches` sends this event to the data watches.
                    (_, Some(node)) => {
                        (node.pzxid > since).then_some(EventType::NODE_CHILDREN_CHANGED)
                    }
                };
                let Some(event) = missed else { continue };
                for firing in self.servers[at].watches.fire_at_keeper(event, path) {
                    self.send_event(&firing, Zxid(-1), None);
                }
            }
        }
        self.answer(ticket, ErrorCode::OK, None);
        Ok(())
    }

    /// Re-registers the watches on `paths`, or sends the event that `missed` returns. `missed` gets
    /// the mzxid and pzxid of an existing node.
    fn rearm_each(
        &mut self,
        ticket: Ticket,
        table: WatchTable,
        paths: &[Cow<'_, str>],
        missed: impl Fn(Option<(Zxid, Zxid)>) -> Option<EventType>,
    ) {
        let Some(at) = self.server_of(ticket.connection) else { return };
        for path in paths {
            let node = self.servers[at].tree.node(path).map(|node| (node.mzxid, node.pzxid));
            match missed(node) {
                Some(event) => {
                    let path = Box::from(&**path);
                    let firing = Firing { connection: ticket.connection, event, path };
                    self.send_event(&firing, Zxid(-1), None);
                }
                None => self.watch(ticket.connection, table, path, WatchMode::Standard),
            }
        }
    }

    fn watch_persistently(&mut self, id: ConnectionId, path: &str) {
        self.watch(id, WatchTable::Data, path, WatchMode::Persistent);
        self.watch(id, WatchTable::Child, path, WatchMode::Persistent);
    }

    fn watch_recursively(&mut self, id: ConnectionId, path: &str) {
        self.watch(id, WatchTable::Data, path, WatchMode::Recursive);
        if self.settings.version.recursive_watches_are_child_watches() {
            self.watch(id, WatchTable::Child, path, WatchMode::Recursive);
        }
    }
}

/// Returns the number of vectors before the first null one. The codec reads a null vector as empty;
/// a server fails on it.
fn vectors_before_null(body: &Bytes, count: usize) -> Result<Option<usize>, ErrorCode> {
    let mut r = proto::Reader::new(body, "SetWatches");
    let unreadable = |_| ErrorCode::MARSHALLING_ERROR;
    r.i64("relativeZxid").map_err(unreadable)?;
    for before in 0..count {
        let len = r.i32("count").map_err(unreadable)?;
        if len == -1 {
            return Ok(Some(before));
        }
        for _ in 0..len.max(0) {
            r.slice("path").map_err(unreadable)?;
        }
    }
    Ok(None)
}
