//! A session on virtual time, with a server that answers when the test says so or by itself.
//!
//! The tests of this crate run with a [`Script`], those of `zk-testing` with its servers.
//!
//! Time is a base instant and a duration that only the test advances. The harness logs every
//! output of the session with its time, and checks the session's contract at every output.

mod caller;
mod inside;
mod outcome;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use proto::{
    AddWatchMode, ConnectRequest, ConnectResponse, Create2, CreateMode, Decode, Delete, Encode,
    ErrorCode, EventType, Exists, GetChildren2, GetData, Multi, OPEN_ACL_UNSAFE, OpCode, Request,
    SetData, SetWatches, Sync, Zxid, split_frame, xid,
};
use zk_session_core::limits::REQUESTS_MAX;
use zk_session_core::{DisconnectReason, ErrorKind, Host, Outcome, SessionEnd, SessionEvent};
use zk_session_core::{
    Failure, Handle, Handles, LeaseState, Output, Reply, Session, Settings, Stats, WatchEvent,
    WatchKind, WatchStreamItem,
};

use crate::script::{Frame, Script, acceptance, notify, reply};

/// The names that most tests use.
#[allow(unused_imports, reason = "shared with zk-testing's tests of the core")]
pub(crate) mod prelude {
    pub(crate) use bytes::{Bytes, BytesMut};
    pub(crate) use proto::{
        AddWatchMode, ConnectResponse, DataReply, Delete, Encode, ErrorCode, EventType, OpCode,
        SessionId, SetData, SetWatches, SetWatches2, Stat, Zxid, xid,
    };
    pub(crate) use std::collections::BTreeSet;
    pub(crate) use std::time::Duration;
    pub(crate) use zk_session_core::{
        DisconnectReason, Error, ErrorKind, Failure, Host, LeaseAssumptions, LeaseState, Limit,
        Outcome, ProbeAnswer, ReplyTo, SaslFailure, SessionCredentials, SessionEnd, SessionEvent,
        TlsFailure, WatchKind, WatchStreamItem,
    };

    pub(crate) use super::{
        SINCE, Seen, Servers, T, Wire, World, create, ended, get, hosts, ms, pong, unreachable,
    };
    pub(crate) use crate::script::{ID, PASSWORD, acceptance, rejection};
}

/// Session timeout of the tests. The fractions of it that they use are whole milliseconds.
pub(crate) const T: Duration = Duration::from_millis(6000);

/// Transaction since which [`World::watch_nodes`] reports changes.
pub(crate) const SINCE: Zxid = Zxid(3);

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[derive(Debug)]
pub(crate) struct Numbers;

impl Handles for Numbers {
    type Reply = Number;
    type Watch = Number;
    type Stream = Number;
}

/// Handle of a request or a watch: a number, and a flag that is set when its caller stops waiting.
#[derive(Clone, Debug)]
pub(crate) struct Number {
    n: u32,
    abandoned: Rc<Cell<bool>>,
}

impl Handle for Number {
    fn is_abandoned(&self) -> bool {
        self.abandoned.get()
    }
}

/// An output of the session, as the harness logs it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Seen {
    Connect(Host),
    Disconnect,
    Probe(Host),
    ProbeTls(Host),
    Reply(u32, Result<Reply, Failure>),
    Watch(u32, Result<WatchEvent, SessionEnd>),
    Stream(u32, Result<WatchStreamItem, SessionEnd>),
    Refused(DisconnectReason),
    Event(SessionEvent),
    LeaseState(LeaseState),
}

/// Behaviour of the servers without a call from the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Servers {
    /// Wait for the test to accept the connection and to send every answer.
    Scripted,
    /// Accept the connection and close it at once.
    Close,
    /// Accept the connection, answer the handshake, and close the connection.
    Greet,
    /// Refuse the connection.
    Refuse,
    /// Accept the connection and send nothing.
    Silent,
    /// Answer the handshake and all requests.
    Serve,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    Down,
    Asked,
    Open,
}

/// Answers of a server, and its decisions to close the connection.
pub(crate) trait Peer {
    /// Answers the first frame of a connection. Returns false if the server closes the connection.
    fn connect(&mut self, now: Instant, frame: &Bytes, out: &mut BytesMut) -> bool;

    /// Answers a request. Returns false if the server closes the connection after the answer.
    fn answer(&mut self, now: Instant, frame: &Frame, out: &mut BytesMut) -> bool;
}

impl Peer for Script {
    fn connect(&mut self, _now: Instant, frame: &Bytes, out: &mut BytesMut) -> bool {
        Self::connect(self, frame, out)
    }

    fn answer(&mut self, _now: Instant, frame: &Frame, out: &mut BytesMut) -> bool {
        Self::answer(self, frame, out)
    }
}

pub(crate) struct World<P: Peer = Script> {
    pub(crate) session: Session<Numbers>,
    base: Instant,
    now: Duration,
    pub(crate) log: Vec<(Duration, Seen)>,
    pub(crate) wire: Wire,
    pub(crate) servers: Servers,
    /// Codes of the operations that a server leaves unanswered, even one that serves.
    pub(crate) unanswered: BTreeSet<i32>,
    /// Codes of the operations that a server answers by itself, even one that does not serve.
    pub(crate) answered: BTreeSet<i32>,
    pub(crate) server: P,
    /// Makes the SASL mechanism of each connection.
    pub(crate) sasl: Option<fn() -> Box<dyn zk_session_core::SaslMechanism>>,
    /// Number of bytes that the socket still accepts.
    pub(crate) room: usize,
    /// Number of bytes that still reach the server, before the connection breaks.
    pub(crate) to_server: usize,
    /// Number of bytes that still reach the client, before the connection breaks.
    pub(crate) to_client: usize,
    /// All bytes that the server received on this connection.
    pub(crate) transmitted: BytesMut,
    outgoing: BytesMut,
    arrived: BytesMut,
    greeted: bool,
    /// Received requests that neither the server has answered nor the test has removed.
    pub(crate) frames: VecDeque<Frame>,
    /// All requests that the server received, with their times, over all connections.
    pub(crate) seen: Vec<(Duration, Frame)>,
    pub(crate) incoming: BytesMut,
    asked: BTreeMap<u32, Number>,
    answers: BTreeMap<u32, Result<Reply, Failure>>,
    fired: BTreeMap<u32, Result<WatchEvent, SessionEnd>>,
    /// Numbers of the `exists` requests with a watch.
    exists: BTreeSet<u32>,
    /// Numbers of the watches that may fire before the reply to their request.
    set_at_once: BTreeSet<u32>,
    /// Zxids of the events that have fired one-shot watches.
    event_zxids: BTreeMap<u32, Option<Zxid>>,
    streams: BTreeMap<u32, Vec<Result<WatchStreamItem, SessionEnd>>>,
    next: u32,
    pub(crate) closing: bool,
    terminal: bool,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut Settings)) -> Self {
        Self::of(Script::new(), change)
    }

    /// Creates a session that is connected to a server that answers when the test says so.
    pub(crate) fn up() -> Self {
        let mut world = Self::new();
        world.bring_up();
        world
    }

    /// Creates a connected session, as [`up`](Self::up), whose server answers these operations by itself.
    pub(crate) fn up_answering(ops: &[OpCode]) -> Self {
        let mut world = Self::up();
        world.answered.extend(ops.iter().map(|op| op.code()));
        world
    }

    /// Creates a session with other settings, and connects it as [`up`](Self::up) does.
    pub(crate) fn up_with(change: impl FnOnce(&mut Settings)) -> Self {
        let mut world = Self::with(change);
        world.bring_up();
        world
    }

    /// Creates a session that is connected to a server that answers all requests.
    pub(crate) fn served() -> Self {
        let mut world = Self::new();
        world.start_serving();
        world
    }
}

impl<P: Peer> World<P> {
    #[allow(clippy::disallowed_methods, reason = "virtual time needs some instant to count from")]
    pub(crate) fn of(server: P, change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings::new(vec![Host::new("a", 1)], T);
        change(&mut settings);
        let base = Instant::now();
        Self {
            session: Session::new(settings, base),
            base,
            now: Duration::ZERO,
            log: Vec::new(),
            wire: Wire::Down,
            servers: Servers::Scripted,
            unanswered: BTreeSet::new(),
            answered: BTreeSet::new(),
            server,
            sasl: None,
            room: usize::MAX,
            to_server: usize::MAX,
            to_client: usize::MAX,
            transmitted: BytesMut::new(),
            outgoing: BytesMut::new(),
            arrived: BytesMut::new(),
            greeted: false,
            frames: VecDeque::new(),
            seen: Vec::new(),
            incoming: BytesMut::new(),
            asked: BTreeMap::new(),
            answers: BTreeMap::new(),
            fired: BTreeMap::new(),
            exists: BTreeSet::new(),
            set_at_once: BTreeSet::new(),
            event_zxids: BTreeMap::new(),
            streams: BTreeMap::new(),
            next: 0,
            closing: false,
            terminal: false,
        }
    }

    /// Connects the session to a server that answers all requests from now on.
    pub(crate) fn start_serving(&mut self) {
        self.servers = Servers::Serve;
        self.tick();
        assert!(self.session.is_connected());
    }

    // ---- time

    pub(crate) fn now(&self) -> Duration {
        self.now
    }

    pub(crate) fn instant(&self) -> Instant {
        self.base + self.now
    }

    pub(crate) fn deadline(&mut self) -> Option<Duration> {
        self.session.poll_timeout().map(|at| at.saturating_duration_since(self.base))
    }

    /// Handles all timeouts that are due.
    pub(crate) fn tick(&mut self) {
        self.session.handle_turn(self.instant());
        for _ in 0..16 {
            if self.deadline().is_none_or(|at| at > self.now) {
                return;
            }
            self.session.handle_timeout(self.instant());
            self.settle();
        }
        panic!("a busy loop: still due after 16 calls: {:?}", self.session);
    }

    /// Advances time as a driver does, and handles every deadline when it is due.
    pub(crate) fn advance(&mut self, by: Duration) {
        let end = self.now + by;
        self.tick();
        while let Some(at) = self.deadline().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.tick();
        }
        self.now = end;
    }

    pub(crate) fn advance_to(&mut self, at: Duration) {
        self.advance(at.checked_sub(self.now).unwrap());
    }

    pub(crate) fn advance_to_deadline(&mut self) -> Duration {
        let at = self.deadline().unwrap();
        self.now = self.now.max(at);
        self.tick();
        self.now
    }

    /// Handles one deadline after the other until this holds. Returns the time of the last one.
    pub(crate) fn advance_until(&mut self, is_reached: impl Fn(&Self) -> bool) -> Duration {
        self.tick();
        while !is_reached(self) {
            self.advance_to_deadline();
        }
        self.now
    }

    /// Advances until one more request with this operation is sent. Returns when.
    pub(crate) fn advance_to_next(&mut self, op: OpCode) -> Duration {
        let before = self.times(op).len();
        self.advance_until(|world| world.times(op).len() > before)
    }

    /// Advances until the session sends its next ping. Returns when.
    pub(crate) fn advance_to_ping(&mut self) -> Duration {
        self.advance_to_next(OpCode::Ping)
    }

    /// Advances until the connection is lost. Returns when.
    pub(crate) fn advance_to_disconnect(&mut self) -> Duration {
        self.advance_until(|world| !world.session.is_connected())
    }

    pub(crate) fn is_open(&self) -> bool {
        self.wire == Wire::Open
    }

    /// Advances until the next connection attempt. Returns its server.
    pub(crate) fn advance_to_attempt(&mut self) -> Host {
        self.advance_until(|world| world.wire == Wire::Asked);
        self.attempts().pop().unwrap().1
    }

    /// Advances until the session ends. Returns when.
    pub(crate) fn advance_to_end(&mut self) -> Duration {
        self.advance_until(|world| world.end().is_some())
    }

    /// Advances time without handling any deadline, as if the process were stopped.
    pub(crate) fn freeze(&mut self, by: Duration) {
        self.now += by;
    }

    /// Stops the process, as [`freeze`](Self::freeze). Returns by how much its next turn is late.
    pub(crate) fn pause(&mut self, by: Duration) -> Duration {
        let due = self.deadline().unwrap();
        self.freeze(by);
        self.now - due
    }

    // ---- the connection

    /// Advances to the next connection attempt and lets it succeed, unless the session ends before.
    pub(crate) fn open(&mut self) {
        self.tick();
        while self.wire != Wire::Asked {
            if self.session.end_reason().is_some() {
                return;
            }
            self.advance_to_deadline();
        }
        self.opened();
        self.settle();
    }

    pub(crate) fn bring_up(&mut self) {
        self.open();
        self.respond(&acceptance(6000));
        assert!(self.session.is_connected());
    }

    /// Opens the next connection, whose server accepts the session with another response than usual.
    pub(crate) fn open_with(&mut self, change: impl FnOnce(&mut ConnectResponse)) {
        let mut response = acceptance(6000);
        change(&mut response);
        self.open();
        self.respond(&response);
    }

    /// Loses the connection and opens the next one.
    pub(crate) fn reopen(&mut self) {
        self.cut();
        self.open();
    }

    /// Loses the connection and resumes the session on the next one.
    pub(crate) fn reconnect(&mut self) {
        self.cut();
        self.bring_up();
    }

    pub(crate) fn respond(&mut self, response: &ConnectResponse) {
        let mut out = BytesMut::new();
        proto::encode_record(response, &mut out);
        self.deliver(&out);
    }

    fn opened(&mut self) {
        self.wire = Wire::Open;
        self.greeted = false;
        for buffer in
            [&mut self.transmitted, &mut self.arrived, &mut self.outgoing, &mut self.incoming]
        {
            buffer.clear();
        }
        self.frames.clear();
        match self.sasl {
            Some(mechanism) => self.session.handle_connected_with(self.instant(), mechanism()),
            None => self.session.handle_connected(self.instant()),
        }
    }

    pub(crate) fn cut(&mut self) {
        self.cut_for(DisconnectReason::ClosedByServer);
    }

    pub(crate) fn cut_for(&mut self, cause: DisconnectReason) {
        self.session.handle_turn(self.instant());
        self.wire = Wire::Down;
        self.session.handle_disconnected(self.instant(), cause);
        self.settle();
    }

    /// Delivers bytes to the client.
    pub(crate) fn deliver(&mut self, bytes: &[u8]) {
        self.session.handle_turn(self.instant());
        self.receive(bytes);
        self.settle();
    }

    fn receive(&mut self, bytes: &[u8]) {
        let len = bytes.len().min(self.to_client);
        self.incoming.extend_from_slice(&bytes[..len]);
        self.session.handle_received(self.instant(), &mut self.incoming);
        if self.to_client != usize::MAX {
            self.to_client -= len;
            if self.to_client == 0 {
                self.used_up();
            }
        }
    }

    pub(crate) fn cut_if_open(&mut self) {
        if self.wire == Wire::Open {
            self.cut();
        }
    }

    /// Breaks the connection, because no more bytes may pass. The servers refuse another one until
    /// the test lets them serve.
    fn used_up(&mut self) {
        self.servers = Servers::Refuse;
        self.broken();
    }

    fn broken(&mut self) {
        (self.to_client, self.to_server) = (usize::MAX, usize::MAX);
        if self.wire == Wire::Open {
            self.wire = Wire::Down;
            self.session.handle_disconnected(self.instant(), DisconnectReason::ClosedByServer);
        }
    }

    // ---- the scripted server

    /// Removes and returns the oldest unanswered request, which must have this operation. Pings in
    /// front of any other operation are removed and stay unanswered. The `sync`s of an idle session are
    /// answered.
    pub(crate) fn take(&mut self, op: OpCode) -> Frame {
        while let Some(front) = self.frames.front().filter(|it| it.op != op).cloned() {
            match front.op {
                OpCode::Ping => self.frames.pop_front(),
                OpCode::Sync => {
                    self.frames.pop_front();
                    self.serve(&front);
                    continue;
                }
                _ => break,
            };
        }
        let frame = self.frames.pop_front().unwrap_or_else(|| panic!("no {op:?} came"));
        assert_eq!(frame.op, op, "{frame:?}");
        frame
    }

    pub(crate) fn ops(&self) -> Vec<OpCode> {
        self.frames.iter().map(|frame| frame.op).collect()
    }

    pub(crate) fn answer<E: Encode>(&mut self, to: &Frame, zxid: Zxid, err: ErrorCode, body: &E) {
        let mut out = BytesMut::new();
        reply(&mut out, to.xid, zxid, err, body);
        self.deliver(&out);
    }

    /// Answers a request as the server does by itself.
    pub(crate) fn serve(&mut self, frame: &Frame) {
        let mut out = BytesMut::new();
        self.server.answer(self.instant(), frame, &mut out);
        self.deliver(&out);
    }

    /// Takes the next request and answers it as the server does by itself.
    pub(crate) fn serve_next(&mut self, op: OpCode) {
        let frame = self.take(op);
        self.serve(&frame);
    }

    /// Takes the next request and answers it with this header and body.
    pub(crate) fn answer_next<E: Encode>(
        &mut self,
        op: OpCode,
        zxid: Zxid,
        err: ErrorCode,
        body: &E,
    ) {
        let frame = self.take(op);
        self.answer(&frame, zxid, err, body);
    }

    /// Takes the next request and answers it with success.
    pub(crate) fn accept(&mut self, op: OpCode) {
        self.reject(op, ErrorCode::OK);
    }

    /// Takes the next request and answers it with this code.
    pub(crate) fn reject(&mut self, op: OpCode, code: ErrorCode) {
        let zxid = if op == OpCode::Auth { Zxid::ZERO } else { Zxid(9) };
        self.answer_next(op, zxid, code, &());
    }

    pub(crate) fn notify(&mut self, event: EventType, path: &str) {
        self.notify_of(Zxid(-1), event, path);
    }

    /// Sends the event of a transaction.
    pub(crate) fn notify_of(&mut self, zxid: Zxid, event: EventType, path: &str) {
        let mut out = BytesMut::new();
        notify(&mut out, zxid, event, path);
        self.deliver(&out);
    }

    /// Returns the times at which the server received requests with this operation.
    pub(crate) fn times(&self, op: OpCode) -> Vec<Duration> {
        let of_kind = self.seen.iter().filter(|(_, frame)| frame.op == op);
        of_kind.map(|(at, _)| *at).collect()
    }

    pub(crate) fn attempts(&self) -> Vec<(Duration, Host)> {
        let attempt = |(at, seen): &(Duration, Seen)| match seen {
            Seen::Connect(host) => Some((*at, host.clone())),
            _ => None,
        };
        self.log.iter().filter_map(attempt).collect()
    }

    pub(crate) fn last_connect(&self) -> ConnectRequest {
        let frame = split_frame(&mut self.transmitted.clone(), 1000).unwrap().unwrap();
        ConnectRequest::from_frame(&frame).unwrap()
    }
}

pub(crate) fn create(path: &str) -> Create2<'_> {
    Create2 {
        path: path.into(),
        data: None,
        acl: OPEN_ACL_UNSAFE.into(),
        mode: CreateMode::Ephemeral,
    }
}

pub(crate) fn get(path: &str, watch: bool) -> GetData<'_> {
    GetData { path: path.into(), watch }
}

pub(crate) fn ended(end: SessionEnd) -> ErrorKind {
    ErrorKind::SessionEnded(end)
}

/// Returns this number of servers, with ports from 1 on.
pub(crate) fn hosts(count: u16) -> Vec<Host> {
    (1..=count).map(|port| Host::new("h", port)).collect()
}

/// Returns the cause of an attempt at a server that is not there.
pub(crate) fn unreachable() -> DisconnectReason {
    DisconnectReason::Unreachable(std::io::ErrorKind::ConnectionRefused)
}

/// Encodes the reply to a ping.
pub(crate) fn pong() -> BytesMut {
    let mut out = BytesMut::new();
    reply(&mut out, xid::PING, Zxid(1), ErrorCode::OK, &());
    out
}
