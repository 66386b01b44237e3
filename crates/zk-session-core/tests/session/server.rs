//! A small model of a ZooKeeper server: a state machine that turns frames into bytes. It has one
//! session and a tree of nodes, and uses neither a socket nor a clock.

use std::collections::{BTreeMap, BTreeSet};

use bytes::{Bytes, BytesMut};
use proto::{
    AddWatch, AddWatchMode, AddWatchReply, ChildList, ChildrenReply, ConnectRequest,
    ConnectResponse, Create2, CreateReply, DataReply, Decode, Encode, ErrorCode, EventType,
    KeeperState, MultiReply, OpCode, Reader, RemoveWatches, ReplyHeader, RequestHeader, SetData,
    SetWatches, SetWatches2, Stat, SyncReply, WatcherEvent, path, xid,
};

use crate::server_watches::{Mode, Table, Watched};

pub(crate) const ID: i64 = 0x1_0000_0001;
pub(crate) const PASSWORD: &[u8; 16] = b"0123456789abcdef";

/// A request as the server received it.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) xid: i32,
    pub(crate) op: OpCode,
    pub(crate) body: Bytes,
}

impl Frame {
    pub(crate) fn parse(frame: &Bytes) -> Self {
        let (header, body) = RequestHeader::split(frame).unwrap();
        Self { xid: header.xid, op: OpCode::from_code(header.op).unwrap(), body }
    }

    pub(crate) fn read<'a, T: Decode<'a>>(&'a self) -> T {
        T::from_frame(&self.body).unwrap()
    }

    /// Returns the path, which is the first field of every request with a path.
    pub(crate) fn path(&self) -> String {
        let mut reader = Reader::new(&self.body, "request");
        reader.text("path").unwrap().into_owned()
    }
}

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) nodes: BTreeMap<String, Bytes>,
    pub(crate) zxid: i64,
    pub(crate) timeout_ms: i32,
    pub(crate) expired: bool,
    /// True after a `closeSession` request.
    pub(crate) closed: bool,
    pub(crate) connects: Vec<ConnectRequest>,
    /// Changes that requests of the client applied, as `operation path`.
    pub(crate) applied: BTreeSet<String>,
    /// Path in the replies to `create`, if it differs from the created one.
    pub(crate) misnamed: Option<String>,
    /// Watches of the current connection.
    pub(crate) watched: Watched,
    /// Zxids of the last changes of each node and of its list of children.
    changed: BTreeMap<String, [i64; 2]>,
}

impl Server {
    pub(crate) fn new(timeout_ms: i32) -> Self {
        Self {
            nodes: BTreeMap::from([("/".to_owned(), Bytes::new())]),
            zxid: 100,
            timeout_ms,
            expired: false,
            closed: false,
            connects: Vec::new(),
            applied: BTreeSet::new(),
            misnamed: None,
            watched: Watched::default(),
            changed: BTreeMap::new(),
        }
    }

    /// Switches to the watch rules of servers before 3.9.0.
    pub(crate) fn old(mut self) -> Self {
        self.watched.is_old = true;
        self
    }

    pub(crate) fn with(mut self, paths: &[&str]) -> Self {
        for path in paths {
            self.nodes.insert((*path).to_owned(), Bytes::new());
        }
        self
    }

    /// Returns the number of entries in the current connection's watch tables.
    pub(crate) fn watches(&self) -> usize {
        self.watched.len()
    }

    /// Answers the first frame of a connection. Returns false if the server closes the connection.
    pub(crate) fn connect(&mut self, frame: &Bytes, out: &mut BytesMut) -> bool {
        let request = ConnectRequest::from_frame(frame).unwrap();
        self.watched.clear();
        let refused = (self.expired || self.closed) && request.session_id != 0;
        self.connects.push(request);
        let response = match refused {
            true => rejection(),
            false => acceptance(self.timeout_ms),
        };
        proto::encode_record(&response, out);
        !refused
    }

    /// Answers a request. Returns false if the server closes the connection after the answer.
    pub(crate) fn answer(&mut self, frame: &Frame, out: &mut BytesMut) -> bool {
        match frame.op {
            OpCode::Ping => reply(out, xid::PING, self.zxid, ErrorCode::OK, &()),
            OpCode::Auth => reply(out, frame.xid, 0, ErrorCode::OK, &()),
            OpCode::Sync => {
                let path = Some(frame.path());
                self.ok(out, frame, &SyncReply { path });
            }
            OpCode::Multi => {
                self.zxid += 1;
                self.ok(out, frame, &MultiReply { results: vec![] }); // a heartbeat
            }
            OpCode::Create2 => self.create(frame, out),
            OpCode::Delete => self.delete(frame, out),
            OpCode::SetData => self.set(frame, out),
            OpCode::GetData | OpCode::Exists => self.get(frame, out),
            OpCode::GetChildren2 => self.list(frame, out),
            OpCode::SetWatches => {
                let SetWatches { relative_zxid, data, exist, child } = frame.read();
                let all = SetWatches2 { relative_zxid, data, exist, child, ..Default::default() };
                self.rearm(frame, &all, out);
            }
            OpCode::SetWatches2 => self.rearm(frame, &frame.read(), out),
            OpCode::AddWatch => {
                let AddWatch { path, mode } = frame.read();
                self.watched.add_stream(&path, mode);
                self.ok(out, frame, &AddWatchReply { err: ErrorCode::OK });
            }
            OpCode::RemoveWatches => {
                let RemoveWatches { path, watcher_type } = frame.read();
                match self.watched.remove(&path, watcher_type) {
                    ErrorCode::OK => self.ok(out, frame, &()),
                    code => self.refuse(out, frame, code),
                }
            }
            OpCode::CloseSession => {
                self.closed = true;
                self.zxid += 1;
                self.ok(out, frame, &());
                return false;
            }
            op => panic!("no test sends {op:?}"),
        }
        true
    }

    /// Removes a node and fires the watches on it.
    pub(crate) fn remove(&mut self, path: &str, out: &mut BytesMut) {
        self.zxid += 1;
        self.nodes.remove(path).unwrap();
        self.fire(EventType::NODE_DELETED, path, out);
    }

    /// Creates a node, as another client would, and fires the watches on it.
    pub(crate) fn make(&mut self, path: &str, out: &mut BytesMut) {
        self.zxid += 1;
        self.nodes.insert(path.to_owned(), Bytes::new());
        self.fire(EventType::NODE_CREATED, path, out);
    }

    /// Sets a node's data, as another client would, and fires the watches on it.
    pub(crate) fn change(&mut self, path: &str, out: &mut BytesMut) {
        self.zxid += 1;
        self.fire(EventType::NODE_DATA_CHANGED, path, out);
    }

    fn fire(&mut self, event: EventType, path: &str, out: &mut BytesMut) {
        let zxid = if self.watched.is_old { -1 } else { self.zxid };
        self.changed.entry(path.to_owned()).or_default()[0] = self.zxid;
        if self.watched.fire(event, path) {
            notify(out, zxid, event, path);
        }
        if event != EventType::NODE_DATA_CHANGED {
            let parent = path::parent(path).unwrap();
            self.changed.entry(parent.to_owned()).or_default()[1] = self.zxid;
            if self.watched.fire(EventType::NODE_CHILDREN_CHANGED, parent) {
                notify(out, zxid, EventType::NODE_CHILDREN_CHANGED, parent);
            }
        }
    }

    fn create(&mut self, frame: &Frame, out: &mut BytesMut) {
        let request: Create2<'_> = frame.read();
        self.zxid += 1;
        let path = match request.mode.is_sequential() {
            true => format!("{}{:010}", request.path, self.zxid),
            false => request.path.to_string(),
        };
        let code = match path::parent(&path) {
            _ if self.nodes.contains_key(&path) => ErrorCode::NODE_EXISTS,
            Some(parent) if self.nodes.contains_key(parent) => ErrorCode::OK,
            _ => ErrorCode::NO_NODE,
        };
        if !code.is_ok() {
            return self.refuse(out, frame, code);
        }
        let data = request.data.map_or_else(Bytes::new, |data| data.to_vec().into());
        self.nodes.insert(path.clone(), data);
        self.fire(EventType::NODE_CREATED, &path, out);
        self.applied.insert(format!("create {path}"));
        let (path, stat) = (self.misnamed.clone().unwrap_or(path), self.stat());
        self.ok(out, frame, &CreateReply { path, stat });
    }

    fn delete(&mut self, frame: &Frame, out: &mut BytesMut) {
        let path = frame.path();
        if !self.nodes.contains_key(&path) {
            self.zxid += 1;
            return self.refuse(out, frame, ErrorCode::NO_NODE);
        }
        self.remove(&path, out);
        self.applied.insert(format!("delete {path}"));
        self.ok(out, frame, &());
    }

    fn set(&mut self, frame: &Frame, out: &mut BytesMut) {
        let request: SetData<'_> = frame.read();
        self.zxid += 1;
        let Some(data) = self.nodes.get_mut(request.path.as_ref()) else {
            return self.refuse(out, frame, ErrorCode::NO_NODE);
        };
        *data = request.data.unwrap_or_default().to_vec().into();
        self.fire(EventType::NODE_DATA_CHANGED, &request.path, out);
        self.applied.insert(format!("set {}", request.path));
        let stat = self.stat();
        self.ok(out, frame, &stat);
    }

    fn get(&mut self, frame: &Frame, out: &mut BytesMut) {
        let proto::GetData { path, watch } = frame.read();
        let Some(data) = self.nodes.get(path.as_ref()).cloned() else {
            if watch && frame.op == OpCode::Exists {
                self.watched.add(Table::Data, &path, Mode::Standard);
            }
            return self.refuse(out, frame, ErrorCode::NO_NODE);
        };
        if watch {
            self.watched.add(Table::Data, &path, Mode::Standard);
        }
        let stat = self.stat();
        match frame.op {
            OpCode::Exists => self.ok(out, frame, &stat),
            _ => {
                let data = Some(data);
                self.ok(out, frame, &DataReply { data, stat });
            }
        }
    }

    fn list(&mut self, frame: &Frame, out: &mut BytesMut) {
        let proto::GetChildren2 { path, watch } = frame.read();
        if !self.nodes.contains_key(path.as_ref()) {
            return self.refuse(out, frame, ErrorCode::NO_NODE);
        }
        let nodes = self.nodes.keys();
        let inside = nodes.filter(|node| path::parent(node) == Some(path.as_ref()));
        let names = inside.map(|node| path::file_name(node));
        let children = ChildList::from_names(names);
        if watch {
            self.watched.add(Table::Child, &path, Mode::Standard);
        }
        let stat = self.stat();
        self.ok(out, frame, &ChildrenReply { children, stat });
    }

    fn rearm(&mut self, frame: &Frame, request: &SetWatches2<'_>, out: &mut BytesMut) {
        let since = request.relative_zxid;
        let is_there = |server: &Self, path: &str| server.nodes.contains_key(path);
        let changed = |server: &Self, path: &str, what: usize| {
            server.changed.get(path).is_some_and(|changed| changed[what] > since)
        };
        for path in &request.data {
            if !is_there(self, path) {
                notify(out, -1, EventType::NODE_DELETED, path);
            } else if changed(self, path, 0) {
                notify(out, -1, EventType::NODE_DATA_CHANGED, path);
            } else {
                self.watched.add(Table::Data, path, Mode::Standard);
            }
        }
        for path in &request.exist {
            match is_there(self, path) {
                true => notify(out, -1, EventType::NODE_CREATED, path),
                false => self.watched.add(Table::Data, path, Mode::Standard),
            }
        }
        for path in &request.child {
            if !is_there(self, path) {
                notify(out, -1, EventType::NODE_DELETED, path);
            } else if changed(self, path, 1) {
                notify(out, -1, EventType::NODE_CHILDREN_CHANGED, path);
            } else {
                self.watched.add(Table::Child, path, Mode::Standard);
            }
        }
        for path in &request.persistent {
            self.watched.add_stream(path, AddWatchMode::Persistent);
        }
        for path in &request.persistent_recursive {
            self.watched.add_stream(path, AddWatchMode::PersistentRecursive);
        }
        self.ok(out, frame, &());
    }

    fn stat(&self) -> Stat {
        Stat { mzxid: self.zxid, ..Stat::default() }
    }

    fn ok<E: Encode>(&self, out: &mut BytesMut, frame: &Frame, body: &E) {
        reply(out, frame.xid, self.zxid, ErrorCode::OK, body);
    }

    fn refuse(&self, out: &mut BytesMut, frame: &Frame, code: ErrorCode) {
        reply(out, frame.xid, self.zxid, code, &());
    }
}

pub(crate) fn acceptance(timeout_ms: i32) -> ConnectResponse {
    ConnectResponse {
        protocol_version: 0,
        timeout_ms,
        session_id: ID,
        password: Bytes::from_static(PASSWORD),
        read_only: Some(false),
    }
}

pub(crate) fn rejection() -> ConnectResponse {
    ConnectResponse {
        protocol_version: 0,
        timeout_ms: 0,
        session_id: 0,
        password: Bytes::from_static(&[0; 16]),
        read_only: Some(false),
    }
}

pub(crate) fn reply<E: Encode>(out: &mut BytesMut, xid: i32, zxid: i64, err: ErrorCode, body: &E) {
    proto::encode_reply(&ReplyHeader { xid, zxid, err }, Some(body), out);
}

pub(crate) fn notify(out: &mut BytesMut, zxid: i64, event_type: EventType, path: &str) {
    let event =
        WatcherEvent { event_type, state: KeeperState::SYNC_CONNECTED, path: path.to_owned() };
    reply(out, xid::NOTIFICATION, zxid, ErrorCode::OK, &event);
}
