//! Servers without a runtime, and clients that exchange records with them.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use proto::{
    Acl, ConnectReply, ConnectRequest, ConnectResponse, Create2, CreateMode, CreateReply, Decode,
    Delete, Encode, ErrorCode, EventType, Exists, FRAME_LEN_MAX_CLIENT, OPEN_ACL_UNSAFE, OpCode,
    ReplyHeader, Request, RequestHeader, SessionId, SetData, Stat, WatcherEvent, Zxid,
    encode_record, encode_request, split_frame, xid,
};
use zk_testing::server::{Ensemble, Output};
use zk_testing::{ConnectionId, Cut, Settings, Version};

pub(crate) struct World {
    pub(crate) zk: Ensemble,
    pub(crate) now: Instant,
    start: Instant,
    received: HashMap<ConnectionId, BytesMut>,
    /// Every piece of output as it was sent.
    pub(crate) pieces: Vec<(ConnectionId, Bytes)>,
    pub(crate) events: HashMap<ConnectionId, Vec<(ReplyHeader, WatcherEvent)>>,
    closed: HashMap<ConnectionId, Cut>,
    /// Connections with clients that do not read.
    pub(crate) not_reading: HashSet<ConnectionId>,
    xid: i32,
}

#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) id: ConnectionId,
    pub(crate) session: ConnectResponse,
}

pub(crate) type Event = (EventType, String);

pub(crate) fn request_for(session_id: SessionId, password: Bytes) -> ConnectRequest {
    ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid::ZERO,
        timeout_ms: 10_000,
        session_id,
        password,
        read_only: Some(false),
    }
}

pub(crate) fn new_session() -> ConnectRequest {
    request_for(SessionId::NONE, vec![0; 16].into())
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(Settings::new())
    }

    pub(crate) fn of(version: Version) -> Self {
        Self::with(Settings::new().version(version))
    }

    #[allow(clippy::disallowed_methods, reason = "one instant to count from")]
    pub(crate) fn with(settings: Settings) -> Self {
        let now = Instant::now();
        Self {
            zk: Ensemble::new(settings, now),
            now,
            start: now,
            received: HashMap::new(),
            pieces: Vec::new(),
            events: HashMap::new(),
            closed: HashMap::new(),
            not_reading: HashSet::new(),
            xid: 0,
        }
    }

    pub(crate) fn open(&mut self, server: usize) -> ConnectionId {
        let peer = ([127, 0, 0, 1], 4_000).into();
        let id = self.zk.accept(self.now, server, peer).unwrap();
        self.drain();
        id
    }

    pub(crate) fn write(&mut self, id: ConnectionId, bytes: &[u8]) {
        self.zk.receive(self.now, id, &mut bytes.into());
        self.drain();
    }

    pub(crate) fn connect(&mut self) -> Client {
        self.connect_to(0)
    }

    pub(crate) fn connect_to(&mut self, server: usize) -> Client {
        match self.try_connect(server, &new_session()) {
            (id, Some(ConnectReply::Accepted(session))) => Client { id, session },
            (_, other) => panic!("no session: {other:?}"),
        }
    }

    pub(crate) fn try_connect(
        &mut self,
        server: usize,
        request: &ConnectRequest,
    ) -> (ConnectionId, Option<ConnectReply>) {
        let id = self.open(server);
        let mut bytes = BytesMut::new();
        encode_record(request, &mut bytes);
        self.write(id, &bytes);
        let frame = self.frame(id);
        (id, frame.map(|frame| ConnectReply::parse(&frame).unwrap()))
    }

    /// Reconnects the session on a new connection.
    pub(crate) fn reconnect(&mut self, server: usize, client: &Client) -> Client {
        let session = &client.session;
        let request = request_for(session.session_id, session.password.clone());
        match self.try_connect(server, &request) {
            (id, Some(ConnectReply::Accepted(session))) => Client { id, session },
            (_, other) => panic!("not renewed: {other:?}"),
        }
    }

    pub(crate) fn send<R: Request>(&mut self, client: &Client, request: &R) -> i32 {
        self.xid += 1;
        let mut bytes = BytesMut::new();
        encode_request(self.xid, request, &mut bytes);
        self.write(client.id, &bytes);
        self.xid
    }

    /// Sends a body that no record encodes, and returns the error code of the reply.
    pub(crate) fn call_raw(&mut self, client: &Client, op: i32, body: &[u8]) -> Option<ErrorCode> {
        self.send_raw(client, op, body);
        self.reply(client).map(|(header, _)| header.err)
    }

    /// Sends a body unchanged.
    pub(crate) fn send_raw(&mut self, client: &Client, op: i32, body: &[u8]) {
        self.xid += 1;
        let mut bytes = BytesMut::new();
        let len = i32::try_from(body.len() + 8).unwrap();
        bytes.extend_from_slice(&len.to_be_bytes());
        RequestHeader { xid: self.xid, op }.encode(&mut bytes);
        bytes.extend_from_slice(body);
        self.write(client.id, &bytes);
    }

    /// Sends a request and returns its reply, which must have arrived.
    pub(crate) fn exchange<R: Request>(
        &mut self,
        client: &Client,
        request: &R,
    ) -> (ReplyHeader, Bytes) {
        let xid = self.send(client, request);
        let (header, body) = self.reply(client).expect("a reply");
        assert!(header.xid == xid || R::OP == OpCode::Ping, "{header:?}");
        (header, body)
    }

    pub(crate) fn call<R: Request>(
        &mut self,
        client: &Client,
        request: &R,
    ) -> Result<R::Reply, ErrorCode> {
        let (header, body) = self.exchange(client, request);
        if header.err.is_ok() { Ok(R::Reply::from_frame(&body).unwrap()) } else { Err(header.err) }
    }

    /// Returns the next reply. Notifications before it are stored in `events`.
    pub(crate) fn reply(&mut self, client: &Client) -> Option<(ReplyHeader, Bytes)> {
        loop {
            let frame = self.frame(client.id)?;
            let (header, body) = ReplyHeader::split(&frame).unwrap();
            if header.xid != xid::NOTIFICATION {
                return Some((header, body));
            }
            let event = WatcherEvent::from_frame(&body).unwrap();
            self.events.entry(client.id).or_default().push((header, event));
        }
    }

    /// Returns the notifications received so far.
    pub(crate) fn events(&mut self, client: &Client) -> Vec<Event> {
        self.event_frames(client)
            .into_iter()
            .map(|(_, event)| (event.event_type, event.path))
            .collect()
    }

    pub(crate) fn event_frames(&mut self, client: &Client) -> Vec<(ReplyHeader, WatcherEvent)> {
        assert!(self.reply(client).is_none(), "a reply nobody took");
        self.events.remove(&client.id).unwrap_or_default()
    }

    pub(crate) fn frame(&mut self, id: ConnectionId) -> Option<Bytes> {
        self.drain();
        split_frame(self.received.get_mut(&id)?, FRAME_LEN_MAX_CLIENT).unwrap()
    }

    /// Returns the received bytes that are not a complete frame yet.
    pub(crate) fn rest(&mut self, id: ConnectionId) -> &[u8] {
        self.drain();
        self.received.get(&id).map_or(&[], |bytes| bytes)
    }

    pub(crate) fn closed(&mut self, id: ConnectionId) -> Option<Cut> {
        self.drain();
        self.closed.get(&id).copied()
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now += time;
        self.zk.handle_timeout(self.now);
        self.drain();
    }

    pub(crate) fn pass_ms(&mut self, ms: u64) {
        self.pass(Duration::from_millis(ms));
    }

    /// Passes the time until so many milliseconds after the start.
    pub(crate) fn until_ms(&mut self, ms: u64) {
        self.pass(self.start + Duration::from_millis(ms) - self.now);
    }

    /// Returns the time at which a session expires, in milliseconds from the start.
    pub(crate) fn expires_ms(&self, client: &Client) -> u128 {
        let id = client.session.session_id;
        let info = self.zk.sessions().find(|info| info.id == id).unwrap();
        (info.expires - self.start).as_millis()
    }

    /// Passes the time, and returns when a session then expires.
    pub(crate) fn expiry_at(&mut self, client: &Client, ms: u64) -> u128 {
        self.until_ms(ms);
        self.expires_ms(client)
    }

    /// Returns the time from now until a session expires.
    pub(crate) fn expires_in(&self, client: &Client) -> Duration {
        let at = Duration::from_millis(u64::try_from(self.expires_ms(client)).unwrap());
        self.start + at - self.now
    }

    pub(crate) fn ping(&mut self, client: &Client) {
        self.call(client, &proto::Ping).unwrap();
    }

    pub(crate) fn drain(&mut self) {
        while let Some(output) = self.zk.poll_output() {
            match output {
                Output::Send(id, bytes) => {
                    self.received.entry(id).or_default().extend_from_slice(&bytes);
                    if !self.not_reading.contains(&id) {
                        self.zk.have_read(self.now, id, bytes.len());
                    }
                    self.pieces.push((id, bytes));
                }
                Output::Close(id, how) => {
                    self.closed.insert(id, how);
                }
            }
        }
    }

    pub(crate) fn create(&mut self, client: &Client, path: &str) -> Result<CreateReply, ErrorCode> {
        self.create_as(client, path, CreateMode::Persistent)
    }

    pub(crate) fn create_as(
        &mut self,
        client: &Client,
        path: &str,
        mode: CreateMode,
    ) -> Result<CreateReply, ErrorCode> {
        self.call(client, &create(path, mode))
    }

    pub(crate) fn create_with(
        &mut self,
        client: &Client,
        path: &str,
        acl: &[Acl],
    ) -> Result<CreateReply, ErrorCode> {
        let request = Create2 { acl: acl.into(), ..create(path, CreateMode::Persistent) };
        self.call(client, &request)
    }

    pub(crate) fn delete(&mut self, client: &Client, path: &str) -> Result<(), ErrorCode> {
        self.call(client, &Delete { path: path.into(), version: -1 })
    }

    pub(crate) fn set(
        &mut self,
        client: &Client,
        path: &str,
        version: i32,
    ) -> Result<Stat, ErrorCode> {
        self.call(client, &set(path, "new", version))
    }

    pub(crate) fn stat(&mut self, client: &Client, path: &str) -> Result<Stat, ErrorCode> {
        self.call(client, &Exists { path: path.into(), watch: false })
    }
}

pub(crate) fn create(path: &str, mode: CreateMode) -> Create2<'_> {
    Create2 { path: path.into(), data: Some(b"data"[..].into()), acl: OPEN_ACL_UNSAFE.into(), mode }
}

pub(crate) fn set<'a>(path: &'a str, data: &'a str, version: i32) -> SetData<'a> {
    SetData { path: path.into(), data: Some(data.as_bytes().into()), version }
}
