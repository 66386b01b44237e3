//! Scripted replies. A [`Script`] answers each request from the request alone: it keeps no nodes and
//! no watches. Tests that need a server that behaves are in `crates/zk-testing/tests`.

use std::collections::BTreeSet;

use bytes::{Bytes, BytesMut};
use proto::{
    AddWatchReply, ChildList, ChildrenReply, ConnectRequest, ConnectResponse, Create2, CreateReply,
    DataReply, Decode, Encode, ErrorCode, EventType, KeeperState, MultiReply, OpCode, Reader,
    ReplyHeader, RequestHeader, SessionId, Stat, SyncReply, WatcherEvent, Zxid, xid,
};

pub(crate) const ID: SessionId = SessionId(0x1_0000_0001);
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

/// The replies of a server. Every request succeeds, unless the script says otherwise.
#[derive(Debug)]
pub(crate) struct Script {
    /// Zxid of the last reply. Every write increments it.
    zxid: Zxid,
    /// Rejects the resumption of a session, as if it had expired.
    pub(crate) expired: bool,
    /// All connect requests.
    pub(crate) connects: Vec<ConnectRequest>,
    /// Paths whose requests fail with `NoNode`, except those that create a node.
    pub(crate) missing: BTreeSet<String>,
    /// Data in the replies to `getData`.
    pub(crate) data: Bytes,
    /// Names in the replies to `getChildren2`.
    pub(crate) names: Vec<String>,
    /// Path in the replies to `create2`, if it differs from the requested one.
    pub(crate) misnamed: Option<String>,
}

impl Script {
    pub(crate) fn new() -> Self {
        Self {
            zxid: Zxid(100),
            expired: false,
            connects: Vec::new(),
            missing: BTreeSet::new(),
            data: Bytes::new(),
            names: Vec::new(),
            misnamed: None,
        }
    }

    /// Answers the first frame of a connection. Returns false if the server closes the connection.
    pub(crate) fn connect(&mut self, frame: &Bytes, out: &mut BytesMut) -> bool {
        let request = ConnectRequest::from_frame(frame).unwrap();
        let is_rejected = self.expired && request.session_id != SessionId::NONE;
        self.connects.push(request);
        let response = if is_rejected { rejection() } else { acceptance(6000) };
        proto::encode_record(&response, out);
        !is_rejected
    }

    /// Answers a request. Returns false if the server closes the connection after the answer.
    pub(crate) fn answer(&mut self, frame: &Frame, out: &mut BytesMut) -> bool {
        self.zxid.0 += i64::from(is_write(frame.op));
        if needs_node(frame.op) && self.missing.contains(&frame.path()) {
            reply(out, frame.xid, self.zxid, ErrorCode::NO_NODE, &());
            return true;
        }
        let stat = Stat { mzxid: self.zxid, ..Stat::default() };
        match frame.op {
            OpCode::Auth => reply(out, frame.xid, Zxid::ZERO, ErrorCode::OK, &()),
            OpCode::Sync => self.ok(out, frame, &SyncReply { path: Some(frame.path()) }),
            OpCode::Multi => self.ok(out, frame, &MultiReply { results: vec![] }),
            OpCode::Create2 => {
                let path = self.misnamed.clone().unwrap_or_else(|| self.created(&frame.read()));
                self.ok(out, frame, &CreateReply { path, stat });
            }
            OpCode::SetData | OpCode::Exists => self.ok(out, frame, &stat),
            OpCode::GetData => {
                let data = Some(self.data.clone());
                self.ok(out, frame, &DataReply { data, stat });
            }
            OpCode::GetChildren2 => {
                let children = ChildList::from_names(self.names.iter().map(String::as_str));
                self.ok(out, frame, &ChildrenReply { children, stat });
            }
            OpCode::AddWatch => self.ok(out, frame, &AddWatchReply { err: ErrorCode::OK }),
            OpCode::Ping
            | OpCode::Delete
            | OpCode::SetWatches
            | OpCode::SetWatches2
            | OpCode::RemoveWatches
            | OpCode::CloseSession => self.ok(out, frame, &()),
            op => panic!("no test sends {op:?}"),
        }
        frame.op != OpCode::CloseSession
    }

    fn created(&self, request: &Create2<'_>) -> String {
        match request.mode.is_sequential() {
            true => format!("{}{:010}", request.path, self.zxid.0),
            false => request.path.to_string(),
        }
    }

    fn ok<E: Encode>(&self, out: &mut BytesMut, frame: &Frame, body: &E) {
        reply(out, frame.xid, self.zxid, ErrorCode::OK, body);
    }
}

fn is_write(op: OpCode) -> bool {
    use OpCode::{CloseSession, Create2, Delete, Multi, SetData};
    matches!(op, Create2 | Delete | SetData | Multi | CloseSession)
}

fn needs_node(op: OpCode) -> bool {
    use OpCode::{Delete, Exists, GetChildren2, GetData, SetData};
    matches!(op, Delete | SetData | GetData | Exists | GetChildren2)
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
        session_id: SessionId::NONE,
        password: Bytes::from_static(&[0; 16]),
        read_only: Some(false),
    }
}

pub(crate) fn reply<E: Encode>(out: &mut BytesMut, xid: i32, zxid: Zxid, err: ErrorCode, body: &E) {
    proto::encode_reply(&ReplyHeader { xid, zxid, err }, Some(body), out);
}

pub(crate) fn notify(out: &mut BytesMut, zxid: Zxid, event_type: EventType, path: &str) {
    let event =
        WatcherEvent { event_type, state: KeeperState::SYNC_CONNECTED, path: path.to_owned() };
    reply(out, xid::NOTIFICATION, zxid, ErrorCode::OK, &event);
}
