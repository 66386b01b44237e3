//! The server of a session in a [`World`], with a second client that changes the nodes.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use proto::{
    ConnectReply, ConnectRequest, Create2, CreateMode, Delete, OPEN_ACL_UNSAFE, ReplyHeader,
    Request, SessionId, SetData, Zxid, split_frame,
};
use zk_testing::server::{Commit, Effect, Ensemble, Output, WatchMode, WatchTable};
use zk_testing::{ConnectionId, Settings, Version};

use crate::harness::Peer;
use crate::script::Frame;

/// A session with a [`Server`].
pub(crate) type World = crate::harness::World<Server>;

/// Creates a session that is connected to a server of the newest version with these nodes.
pub(crate) fn served(paths: &[&str]) -> World {
    served_by(Server::new(paths))
}

/// Creates a session that is connected to a server before 3.9 with these nodes.
pub(crate) fn served_by_old(paths: &[&str]) -> World {
    served_by(Server::old(paths))
}

pub(crate) fn served_by(server: Server) -> World {
    let mut world = World::of(server, |_| {});
    world.start_serving();
    world
}

pub(crate) struct Server {
    zk: Ensemble,
    now: Instant,
    /// Connection of the session.
    connection: Option<ConnectionId>,
    other: OtherClient,
    /// Changes that requests of the session applied, as `operation path`.
    applied: Arc<Mutex<BTreeSet<String>>>,
}

/// A client that changes the nodes. Its session never expires.
struct OtherClient {
    connection: ConnectionId,
    session_id: SessionId,
    received: BytesMut,
}

impl Server {
    pub(crate) fn new(paths: &[&str]) -> Self {
        Self::of(Version::V3_9, paths)
    }

    /// Creates a server before 3.9. It keeps only the last mode of a watch on a path
    /// (ZOOKEEPER-4466).
    pub(crate) fn old(paths: &[&str]) -> Self {
        Self::of(Version::V3_8, paths)
    }

    #[allow(clippy::disallowed_methods, reason = "virtual time needs some instant to count from")]
    fn of(version: Version, paths: &[&str]) -> Self {
        let now = Instant::now();
        let settings = Settings::new().version(version).max_session_timeout(NEVER);
        let mut zk = Ensemble::new(settings, now);
        let connection = zk.accept(now, 0, PEER.into()).unwrap();
        let other =
            OtherClient { connection, session_id: SessionId::NONE, received: BytesMut::new() };
        let mut server = Self { zk, now, connection: None, other, applied: Arc::default() };
        server.connect_other();
        for path in paths {
            server.make(path, &mut BytesMut::new());
        }
        server.record_changes();
        server
    }

    /// Returns whether a request of the session made this change.
    pub(crate) fn has_applied(&self, change: &str) -> bool {
        self.applied.lock().unwrap().contains(change)
    }

    pub(crate) fn has_node(&self, path: &str) -> bool {
        self.zk.tree().contains(path)
    }

    /// Returns the paths of all nodes outside `/zookeeper`.
    pub(crate) fn nodes(&self) -> BTreeSet<&str> {
        let paths = self.zk.tree().iter().map(|(path, _)| path);
        paths.filter(|path| !path.starts_with("/zookeeper")).collect()
    }

    /// Returns the number of watches.
    pub(crate) fn watches(&self) -> usize {
        self.zk.watches(0)
    }

    /// Returns whether the session's connection has a watch of one of these modes in this table.
    pub(crate) fn has_watch(&self, table: WatchTable, path: &str, modes: &[WatchMode]) -> bool {
        let has = |id, mode: &WatchMode| self.zk.has_watch(id, path, table, *mode);
        self.connection.is_some_and(|id| modes.iter().any(|mode| has(id, mode)))
    }

    /// Expires the session.
    pub(crate) fn expire(&mut self) {
        let ids: Vec<SessionId> = self.zk.sessions().map(|session| session.id).collect();
        for id in ids.into_iter().filter(|id| *id != self.other.session_id) {
            self.zk.expire_session(self.now, id);
        }
    }

    /// Creates a node, as another client.
    pub(crate) fn make(&mut self, path: &str, out: &mut BytesMut) {
        let acl = OPEN_ACL_UNSAFE.into();
        let mode = CreateMode::Persistent;
        self.call_as_other(&Create2 { path: path.into(), data: None, acl, mode }, out);
    }

    /// Sets a node's data, as another client.
    pub(crate) fn change(&mut self, path: &str, out: &mut BytesMut) {
        self.call_as_other(&SetData { path: path.into(), data: None, version: -1 }, out);
    }

    /// Deletes a node, as another client.
    pub(crate) fn remove(&mut self, path: &str, out: &mut BytesMut) {
        self.call_as_other(&Delete { path: path.into(), version: -1 }, out);
    }

    fn connect_other(&mut self) {
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: Zxid::ZERO,
            timeout_ms: i32::try_from(NEVER.as_millis()).unwrap(),
            session_id: SessionId::NONE,
            password: vec![0; 16].into(),
            read_only: Some(false),
        };
        let mut bytes = BytesMut::new();
        proto::encode_record(&request, &mut bytes);
        self.zk.receive(self.now, self.other.connection, &mut bytes);
        self.drain(&mut BytesMut::new());
        let reply = split_frame(&mut self.other.received, FRAME_LEN_MAX).unwrap().unwrap();
        let ConnectReply::Accepted(session) = ConnectReply::parse(&reply).unwrap() else {
            panic!("the server rejected a new session")
        };
        self.other.session_id = session.session_id;
    }

    /// Sends a request as another client. It must succeed. The session's events go to `out`.
    fn call_as_other<R: Request>(&mut self, request: &R, out: &mut BytesMut) {
        let mut bytes = BytesMut::new();
        proto::encode_request(1, request, &mut bytes);
        self.zk.receive(self.now, self.other.connection, &mut bytes);
        self.drain(out);
        let reply = split_frame(&mut self.other.received, FRAME_LEN_MAX).unwrap().unwrap();
        let (header, _) = ReplyHeader::split(&reply).unwrap();
        assert!(header.err.is_ok(), "{:?}", header.err);
    }

    fn record_changes(&mut self) {
        let (applied, other) = (Arc::clone(&self.applied), self.other.session_id);
        self.zk.observe(move |_, Commit { session_id, effect, .. }| {
            let change = match effect {
                Effect::Created(path) => format!("create {path}"),
                Effect::Deleted(path) => format!("delete {path}"),
                Effect::Changed(path) => format!("set {path}"),
                _ => return,
            };
            if session_id != other {
                applied.lock().unwrap().insert(change);
            }
        });
    }

    /// Passes bytes of the session to the server. Returns false if the server closes the connection.
    fn receive(&mut self, mut bytes: BytesMut, out: &mut BytesMut) -> bool {
        if let Some(id) = self.connection {
            self.zk.receive(self.now, id, &mut bytes);
        }
        self.drain(out);
        self.connection.is_some()
    }

    /// Moves the bytes that the server has sent to the session into `out`.
    fn drain(&mut self, out: &mut BytesMut) {
        while let Some(output) = self.zk.poll_output() {
            match output {
                Output::Send(id, bytes) => {
                    self.zk.have_read(self.now, id, bytes.len());
                    if id == self.other.connection {
                        self.other.received.extend_from_slice(&bytes);
                    } else if Some(id) == self.connection {
                        out.extend_from_slice(&bytes);
                    }
                }
                Output::Close(id, _) if Some(id) == self.connection => self.connection = None,
                Output::Close(..) => {}
            }
        }
    }
}

impl Peer for Server {
    fn connect(&mut self, now: Instant, frame: &Bytes, out: &mut BytesMut) -> bool {
        self.now = now;
        if let Some(before) = self.connection.take() {
            self.zk.disconnected(now, before);
        }
        self.drain(out);
        self.connection = Some(self.zk.accept(now, 0, PEER.into()).unwrap());
        self.receive(framed(&[frame]), out)
    }

    fn answer(&mut self, now: Instant, frame: &Frame, out: &mut BytesMut) -> bool {
        self.now = now;
        let header = [frame.xid.to_be_bytes(), frame.op.code().to_be_bytes()].concat();
        self.receive(framed(&[&header, &frame.body]), out)
    }
}

impl World {
    /// Changes the server's nodes as another client. A connected session gets the events.
    pub(crate) fn others(&mut self, act: impl FnOnce(&mut Server, &mut BytesMut)) {
        self.server.now = self.instant();
        let mut out = BytesMut::new();
        act(&mut self.server, &mut out);
        if self.session.is_connected() {
            self.deliver(&out);
        }
    }

    /// Deletes a node if it exists, as another client.
    pub(crate) fn remove_node(&mut self, path: &str) {
        if self.server.has_node(path) {
            self.others(|server, out| server.remove(path, out));
        }
    }
}

fn framed(parts: &[&[u8]]) -> BytesMut {
    let body = parts.concat();
    let mut frame = BytesMut::new();
    frame.put_i32(i32::try_from(body.len()).unwrap());
    frame.put_slice(&body);
    frame
}

/// Longer than any test.
const NEVER: Duration = Duration::from_secs(20 * 24 * 3600);

const FRAME_LEN_MAX: usize = 1 << 20;

const PEER: ([u8; 4], u16) = ([127, 0, 0, 1], 4_000);
