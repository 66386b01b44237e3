//! A small ZooKeeper server as a state machine: frames in, bytes out. It knows
//! one session and a tree of nodes, and never touches a socket or a clock.

use std::collections::{BTreeMap, BTreeSet};

use bytes::{Bytes, BytesMut};
use proto::{
    ChildList, ChildrenReply, ConnectRequest, ConnectResponse, Create2, CreateReply, DataReply,
    Decode, Encode, ErrorCode, EventType, KeeperState, MultiReply, OpCode, Reader, ReplyHeader,
    RequestHeader, SetData, SetWatches, Stat, SyncReply, WatcherEvent, path, xid,
};

pub(crate) const ID: i64 = 0x1_0000_0001;
pub(crate) const PASSWORD: &[u8; 16] = b"0123456789abcdef";

/// A request as the server got it.
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

    /// The path, which is the first field of every request that has one.
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
    /// Set by closeSession.
    pub(crate) closed: bool,
    pub(crate) connects: Vec<ConnectRequest>,
    /// The changes made for the client, as `operation path`.
    pub(crate) applied: BTreeSet<String>,
    data: BTreeSet<String>,
    exist: BTreeSet<String>,
    child: BTreeSet<String>,
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
            data: BTreeSet::new(),
            exist: BTreeSet::new(),
            child: BTreeSet::new(),
        }
    }

    pub(crate) fn with(mut self, paths: &[&str]) -> Self {
        for path in paths {
            self.nodes.insert((*path).to_owned(), Bytes::new());
        }
        self
    }

    /// How many watches the current connection has.
    pub(crate) fn watches(&self) -> usize {
        self.data.len() + self.exist.len() + self.child.len()
    }

    /// Answers the first frame of a connection; false if it is to be closed.
    pub(crate) fn connect(&mut self, frame: &Bytes, out: &mut BytesMut) -> bool {
        let request = ConnectRequest::from_frame(frame).unwrap();
        self.data.clear();
        self.exist.clear();
        self.child.clear();
        let refused = (self.expired || self.closed) && request.session_id != 0;
        self.connects.push(request);
        let response = match refused {
            true => rejection(),
            false => acceptance(self.timeout_ms),
        };
        proto::encode_record(&response, out);
        !refused
    }

    /// Answers a request; false if the connection is to be closed after it.
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
            OpCode::SetWatches => self.rearm(frame, out),
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

    /// Somebody else removes a node.
    pub(crate) fn remove(&mut self, path: &str, out: &mut BytesMut) {
        self.zxid += 1;
        self.nodes.remove(path).unwrap();
        let watched = self.data.remove(path) | self.exist.remove(path) | self.child.remove(path);
        if watched {
            notify(out, EventType::NODE_DELETED, path);
        }
        self.children_changed(path, out);
    }

    fn children_changed(&mut self, path: &str, out: &mut BytesMut) {
        let parent = path::parent(path).unwrap();
        if self.child.remove(parent) {
            notify(out, EventType::NODE_CHILDREN_CHANGED, parent);
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
        if self.exist.remove(&path) {
            notify(out, EventType::NODE_CREATED, &path);
        }
        self.children_changed(&path, out);
        self.applied.insert(format!("create {path}"));
        let stat = self.stat();
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
        if self.data.remove(request.path.as_ref()) {
            notify(out, EventType::NODE_DATA_CHANGED, &request.path);
        }
        self.applied.insert(format!("set {}", request.path));
        let stat = self.stat();
        self.ok(out, frame, &stat);
    }

    fn get(&mut self, frame: &Frame, out: &mut BytesMut) {
        let proto::GetData { path, watch } = frame.read();
        let Some(data) = self.nodes.get(path.as_ref()).cloned() else {
            if watch && frame.op == OpCode::Exists {
                self.exist.insert(path.into_owned());
            }
            return self.refuse(out, frame, ErrorCode::NO_NODE);
        };
        if watch {
            self.data.insert(path.into_owned());
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
            self.child.insert(path.into_owned());
        }
        let stat = self.stat();
        self.ok(out, frame, &ChildrenReply { children, stat });
    }

    /// Knows of no modification times, so it reports only what is gone or come.
    fn rearm(&mut self, frame: &Frame, out: &mut BytesMut) {
        let SetWatches { data, exist, child, .. } = frame.read();
        for path in data {
            match self.nodes.contains_key(path.as_ref()) {
                true => drop(self.data.insert(path.into_owned())),
                false => notify(out, EventType::NODE_DELETED, &path),
            }
        }
        for path in exist {
            match self.nodes.contains_key(path.as_ref()) {
                true => notify(out, EventType::NODE_CREATED, &path),
                false => drop(self.exist.insert(path.into_owned())),
            }
        }
        for path in child {
            match self.nodes.contains_key(path.as_ref()) {
                true => drop(self.child.insert(path.into_owned())),
                false => notify(out, EventType::NODE_DELETED, &path),
            }
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

pub(crate) fn notify(out: &mut BytesMut, event_type: EventType, path: &str) {
    let event =
        WatcherEvent { event_type, state: KeeperState::SYNC_CONNECTED, path: path.to_owned() };
    reply(out, xid::NOTIFICATION, -1, ErrorCode::OK, &event);
}
