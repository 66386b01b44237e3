//! Fuzz target for the session as a state machine, with callers, clock and peer in any order.
//!
//! Input: steps, a byte for each, followed by its arguments. The peer remembers the requests, so that its
//! replies pass the first check. Otherwise its behaviour is arbitrary.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use zk_proto::{
    AddWatchMode, ConnectRequest, ConnectResponse, Create2, CreateMode, Decode, Delete, Encode,
    ErrorCode, Exists, FRAME_LEN_MAX_SERVER, GetChildren, GetData, OPEN_ACL_UNSAFE, OpCode,
    ReplyHeader, RequestHeader, SaslReply, SessionId, WatcherEvent, Zxid, encode_record,
    encode_reply, split_frame, xid,
};
use zk_session_core::digest_md5::{Challenge, DigestMd5Mechanism, Exchange, Secret};
use zk_session_core::{DisconnectReason, ErrorKind, Host};
use zk_session_core::{Handle, Handles, Output, ProbeAnswer, Session, Settings, WatchKind};

use crate::Input;
use crate::build::Build;
use crate::records::{Side, body_decodes};

/// Runs a session.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let mut world = World::new(&mut input);
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        world.step(&mut input);
        world.settle();
    }
    world.session.abort();
    world.settle();
    assert!(world.session.end_reason().is_some());
    assert_eq!(world.session.poll_timeout(), None);
    let waits = world.waiting.values().find(|request| !request.to.abandoned);
    assert!(waits.is_none(), "{waits:?} is not told");
    let watches = world.armed.values().find(|on| !on.abandoned);
    assert!(watches.is_none(), "{watches:?} is not told");
}

const STEPS_MAX: usize = 200;

/// User, password and random number of DIGEST-MD5.
const USER: &str = "alice";
const PASSWORD: &[u8] = b"sesame";
const RANDOM: u128 = 7;

/// Handle of a waiting caller: its number, and whether it no longer needs the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ticket {
    number: u32,
    abandoned: bool,
}

impl Handle for Ticket {
    fn is_abandoned(&self) -> bool {
        self.abandoned
    }
}

struct Tickets;

impl Handles for Tickets {
    type Reply = Ticket;
    type Watch = Ticket;
    type Stream = Ticket;
}

/// A request and the watch that it sets.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    to: Ticket,
    watch: Option<(WatchKind, Ticket)>,
}

/// A session and its environment.
struct World {
    now: Instant,
    session: Session<Tickets>,
    last_ticket: u32,
    /// Requests without a reply.
    waiting: BTreeMap<u32, Waiting>,
    /// Watches that are set and have not fired.
    armed: BTreeMap<u32, Ticket>,
    /// Persistent watches that have not ended, with the number of the request that sets each of them.
    streams: BTreeMap<u32, u32>,
    claims: u32,
    /// Whether connections authenticate with DIGEST-MD5.
    has_sasl: bool,
    peer: Peer,
}

/// The peer of the current connection.
#[derive(Default)]
struct Peer {
    open: bool,
    /// The peer reads no bytes at present.
    stalled: bool,
    /// Bytes received that are no complete frame yet.
    arrived: BytesMut,
    /// The session id in the client's connect request; `None` before that request.
    greeted: Option<SessionId>,
    /// The peer has not yet proven that it knows the password of SASL.
    is_unproven: bool,
    /// Requests without a reply, by xid.
    asked: Vec<(i32, OpCode)>,
    /// Bytes in flight to the client.
    leaving: BytesMut,
}

impl World {
    fn new(input: &mut Input<'_>) -> Self {
        static START: OnceLock<Instant> = OnceLock::new();
        #[allow(clippy::disallowed_methods, reason = "an instant to count from, the same for all")]
        let now = *START.get_or_init(Instant::now);
        let hosts = (0..=input.below(3)).map(|at| Host::new(format!("h{at}"), 2181)).collect();
        let timeout = Duration::from_millis(u64::from(input.byte()) * 100);
        let mut settings = Settings::new(hosts, timeout);
        let seed = input.byte();
        settings.seed = seed.into();
        settings.allow_read_only = seed.is_multiple_of(3);
        settings.max_frame_len = 4096;
        Self {
            now,
            session: Session::new(settings, now),
            last_ticket: 0,
            waiting: BTreeMap::new(),
            armed: BTreeMap::new(),
            streams: BTreeMap::new(),
            claims: 0,
            has_sasl: seed.is_multiple_of(5),
            peer: Peer::default(),
        }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.below(23) {
            0..=3 => self.submit(input),
            4 => self.delete_guaranteed(input),
            5 => {
                let prefix = format!("_c_{}-", input.below(4));
                let _ = self.session.delete_protected_guaranteed(self.now, &path(input), &prefix);
            }
            6 => self.add_credential(input),
            7 => {
                self.session.claim_lease();
                self.claims += 1;
            }
            8 if self.claims > 0 => {
                self.session.unclaim_lease();
                self.claims -= 1;
            }
            9 if input.byte().is_multiple_of(2) => {
                self.session.prune_watches(self.now, &path(input));
            }
            9 => self.add_stream(input),
            10 if input.byte() == 0 => self.session.close(self.now),
            11 => self.advance(Duration::from_millis(u64::from(input.byte()) * 16)),
            8 | 10 | 12..=14 => {
                if let Some(due) = self.session.poll_timeout() {
                    self.advance(due.saturating_duration_since(self.now));
                }
            }
            15 => self.lose(),
            16 => self.greet(input),
            17..=19 => self.answer(input),
            20 => self.notify(input),
            21 => self.peer.stalled = !self.peer.stalled,
            _ => {
                let bytes = input.bytes();
                self.peer.leaving.extend_from_slice(bytes);
                self.deliver(bytes.len());
            }
        }
        let len = self.peer.leaving.len();
        self.deliver(len);
    }

    fn ticket(&mut self, input: &mut Input<'_>) -> Ticket {
        self.last_ticket += 1;
        Ticket { number: self.last_ticket, abandoned: input.byte() == 255 }
    }

    fn submit(&mut self, input: &mut Input<'_>) {
        let (to, on) = (self.ticket(input), self.ticket(input));
        let (path, now) = (path(input), self.now);
        let watches = input.byte() % 2 == 1;
        let kind = input.below(5);
        let watch = match kind {
            2 if watches => Some((WatchKind::Data, on)),
            3 if watches => Some((WatchKind::Exists, on)),
            4 if watches => Some((WatchKind::Children, on)),
            _ => None,
        };
        let path = path.into();
        let accepted = match kind {
            0 => {
                let (mode, acl) = (CreateMode::EphemeralSequential, OPEN_ACL_UNSAFE.into());
                self.session.submit(now, &Create2 { path, data: None, acl, mode }, to, watch)
            }
            1 => self.session.submit(now, &Delete { path, version: -1 }, to, watch),
            2 => self.session.submit(now, &GetData { path, watch: watches }, to, watch),
            3 => self.session.submit(now, &Exists { path, watch: watches }, to, watch),
            _ => self.session.submit(now, &GetChildren { path, watch: watches }, to, watch),
        };
        match accepted {
            Ok(_) => {
                self.waiting.insert(to.number, Waiting { to, watch });
            }
            Err(refused) => assert_eq!(refused.1, zk_session_core::Outcome::NotApplied),
        }
    }

    fn add_stream(&mut self, input: &mut Input<'_>) {
        let (to, on) = (self.ticket(input), self.ticket(input));
        let modes = [AddWatchMode::Persistent, AddWatchMode::PersistentRecursive];
        let mode = modes[usize::from(input.below(2))];
        if self.session.add_watch(self.now, &path(input), mode, to, on).is_ok() {
            self.waiting.insert(to.number, Waiting { to, watch: None });
            self.streams.insert(on.number, to.number);
        }
    }

    fn delete_guaranteed(&mut self, input: &mut Input<'_>) {
        let to = self.ticket(input);
        let path = path(input);
        if self.session.delete_guaranteed(self.now, &path, Some(to.into())).is_ok() {
            self.waiting.insert(to.number, Waiting { to, watch: None });
        }
    }

    fn add_credential(&mut self, input: &mut Input<'_>) {
        let to = self.ticket(input);
        let auth = Bytes::copy_from_slice(input.bytes());
        if self.session.add_credential(self.now, "digest", auth, to).is_ok() {
            self.waiting.insert(to.number, Waiting { to, watch: None });
        }
    }

    fn advance(&mut self, by: Duration) {
        self.now += by;
        self.session.handle_timeout(self.now);
    }

    fn lose(&mut self) {
        if self.peer.open {
            self.peer = Peer::default();
            self.session.handle_disconnected(self.now, DisconnectReason::ClosedByServer);
        }
    }

    /// Replies to the connect request, with an arbitrary result.
    fn greet(&mut self, input: &mut Input<'_>) {
        let known = self.peer.greeted.unwrap_or_default();
        let session_id = match known {
            SessionId::NONE => SessionId(input.byte().into()),
            known => known,
        };
        let mut response = ConnectResponse {
            protocol_version: 0,
            timeout_ms: i32::from(input.byte()) * 100,
            session_id,
            password: Bytes::from_static(&[7; 16]),
            read_only: Some(false),
        };
        if input.byte() == 255 {
            response = ConnectResponse::build(input);
        }
        encode_record(&response, &mut self.peer.leaving);
    }

    /// Replies to one of the requests, not always the oldest, with an arbitrary result.
    fn answer(&mut self, input: &mut Input<'_>) {
        if self.peer.asked.is_empty() {
            return;
        }
        let at = usize::from(input.byte()) % self.peer.asked.len();
        let (xid, op) = self.peer.asked.remove(at);
        let err = match input.below(8) {
            0..4 => ErrorCode::OK,
            4 => ErrorCode::NO_NODE,
            5 => ErrorCode::THROTTLED_OP,
            6 => ErrorCode::CONNECTION_LOSS,
            _ => ErrorCode(-i32::from(input.byte())),
        };
        let header = ReplyHeader { xid, zxid: Zxid(input.byte().into()), err };
        let body = match op {
            OpCode::Sasl => Raw(self.peer.token(err, input)),
            _ => Raw(Bytes::copy_from_slice(input.bytes())),
        };
        encode_reply(&header, Some(&body), &mut self.peer.leaving);
    }

    fn notify(&mut self, input: &mut Input<'_>) {
        let header = ReplyHeader { xid: xid::NOTIFICATION, zxid: Zxid(-1), err: ErrorCode::OK };
        let mut event = WatcherEvent::build(input);
        event.event_type.0 %= 8;
        if event.path.len() < 4 {
            event.path = path(input);
        }
        encode_reply(&header, Some(&event), &mut self.peer.leaving);
    }

    /// Delivers bytes to the client.
    fn deliver(&mut self, len: usize) {
        if !self.peer.open || self.peer.leaving.is_empty() {
            self.peer.leaving.clear();
            return;
        }
        let len = len.min(self.peer.leaving.len());
        let mut bytes = self.peer.leaving.split_to(len);
        self.session.handle_received(self.now, &mut bytes);
        // The remaining bytes are the beginning of a frame.
        bytes.unsplit(std::mem::take(&mut self.peer.leaving));
        self.peer.leaving = bytes;
        self.settle();
    }

    /// Performs the session's outputs and checks its invariants.
    fn settle(&mut self) {
        loop {
            while let Some(output) = self.session.poll_output() {
                self.output(output);
            }
            let mut bytes = BytesMut::new();
            if !self.peer.stalled {
                self.session.poll_transmit(&mut bytes);
            }
            if bytes.is_empty() {
                self.session.check_invariants();
                break;
            }
            assert!(self.peer.open, "it writes only to a connection");
            self.session.handle_written(bytes.len());
            self.peer.arrived.unsplit(bytes);
            self.peer.read();
        }
        if let Some((_, until)) = self.session.lease(self.now) {
            assert!(until > self.now && until <= self.now + self.session.session_timeout());
            assert_eq!(self.session.end_reason(), None);
        }
    }

    fn output(&mut self, output: Output<Tickets>) {
        match output {
            Output::Connect(_) => {
                self.peer = Peer { open: true, is_unproven: self.has_sasl, ..Peer::default() };
                if self.has_sasl {
                    let password = Secret::new(PASSWORD.to_vec());
                    let mechanism = Box::new(DigestMd5Mechanism::new(USER, password, RANDOM));
                    self.session.handle_connected_with(self.now, mechanism);
                } else {
                    self.session.handle_connected(self.now);
                }
            }
            Output::Disconnect => self.peer = Peer::default(),
            Output::Reply { to, result } => {
                let request = self.waiting.remove(&to.number).expect("one answer for each");
                let absent = matches!(result, Err((ErrorKind::Server(ErrorCode::NO_NODE), _)));
                match request.watch {
                    Some((kind, on)) if result.is_ok() || absent && kind == WatchKind::Exists => {
                        self.armed.insert(on.number, on);
                    }
                    _ => {}
                }
            }
            Output::Watch { to, .. } => {
                assert!(self.armed.remove(&to.number).is_some(), "{to:?} was set and fires once");
            }
            Output::Stream { to, item } => {
                let asked = self.streams.get(&to.number).expect("nobody is told after the end");
                assert!(!self.waiting.contains_key(asked), "{to:?} was set");
                if item.is_err() {
                    self.streams.remove(&to.number);
                }
            }
            Output::Probe(host) => {
                let answer = match self.waiting.len().is_multiple_of(2) {
                    true => ProbeAnswer::ReadWrite,
                    false => ProbeAnswer::Other,
                };
                self.session.handle_probed(self.now, &host, answer);
            }
            Output::Event(_) | Output::ProbeTls(_) | Output::Refused(_) | Output::LeaseState(_) => {
            }
        }
    }
}

impl Peer {
    /// Returns the body of a reply in the exchange: tokens that fit, no token, or any bytes.
    fn token(&mut self, err: ErrorCode, input: &mut Input<'_>) -> Bytes {
        let (realm, nonce) = ("r", "n");
        let token = match input.below(4) {
            0 => Some(Challenge { realms: vec![realm.into()], nonce: nonce.into() }.encode()),
            1 => {
                let cnonce = format!("{RANDOM:032x}");
                let exchange = Exchange {
                    user: USER,
                    password: PASSWORD,
                    realm,
                    nonce,
                    cnonce: &cnonce,
                    authorization_id: None,
                };
                self.is_unproven &= !err.is_ok();
                Some(exchange.server_proof().encode())
            }
            2 => None,
            _ => return Bytes::copy_from_slice(input.bytes()),
        };
        let mut body = BytesMut::new();
        SaslReply { token: token.map(Bytes::from) }.encode(&mut body);
        body.freeze()
    }

    /// Reads all complete frames. The client must send only valid frames.
    fn read(&mut self) {
        while let Some(frame) =
            split_frame(&mut self.arrived, FRAME_LEN_MAX_SERVER).expect("no larger one is sent")
        {
            if self.greeted.is_none() {
                let request = ConnectRequest::from_frame(&frame).expect("the first is a greeting");
                self.greeted = Some(request.session_id);
                continue;
            }
            let (header, body) = RequestHeader::split(&frame).expect("requests have headers");
            let op = OpCode::from_code(header.op).expect("an operation that there is");
            assert!(body_decodes(op, Side::Request, &body));
            let is_exchange = matches!(op, OpCode::Sasl | OpCode::CloseSession);
            assert!(is_exchange || !self.is_unproven, "{op:?} before the server's proof");
            assert!(header.xid == xid::PING || header.xid > 0);
            assert!(self.asked.iter().all(|(asked, _)| *asked != header.xid || *asked < 0));
            self.asked.push((header.xid, op));
        }
        assert!(self.arrived.is_empty(), "whole frames are sent");
    }
}

/// Returns one of few paths, so that requests concern the same nodes.
fn path(input: &mut Input<'_>) -> String {
    format!("/n/{}", input.below(4))
}

/// A body of raw bytes.
struct Raw(Bytes);

impl Encode for Raw {
    fn encoded_len(&self) -> usize {
        self.0.len()
    }

    fn encode(&self, out: &mut BytesMut) {
        out.extend_from_slice(&self.0);
    }
}
