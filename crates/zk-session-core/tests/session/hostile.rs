//! A peer that sends arbitrary bytes. A panic is a bug of the client. The worst effect of the peer
//! is the loss of the connection.

use bytes::BufMut;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use proto::{KeeperState, ReplyHeader, WatcherEvent};

use crate::harness::prelude::*;
use crate::script;

const FRAME_LEN_MAX: usize = 4096;

/// Next action of the peer. Requests are those at a position in the queue of unanswered ones.
#[derive(Clone, Debug)]
enum Act {
    /// The first bytes of the correct answer, in pieces with pauses between them.
    Answer {
        at: usize,
        len: usize,
        piece: usize,
    },
    /// A reply to a request with this header and body.
    Reply {
        at: usize,
        zxid: i64,
        code: i32,
        body: Vec<u8>,
    },
    /// A frame with this xid and body, to no request: a stray reply, an event or a pong.
    Stray(i32, Vec<u8>),
    Bytes(Vec<u8>),
    Accept {
        timeout: i32,
        id: i64,
    },
    Reject,
    Wait(u64),
    Close,
    Open,
}

fn act() -> impl Strategy<Value = Act> {
    let at = 0_usize..8;
    let bytes = || vec(any::<u8>(), 0..80);
    let code = prop_oneof![Just(0), Just(-101), Just(-112), Just(-115), Just(-127), any::<i32>()];
    let xids = prop_oneof![-9_i32..40, any::<i32>()];
    let timeouts = prop_oneof![Just(6000), Just(1), Just(0), any::<i32>()];
    let ids = prop_oneof![4 => Just(ID.0), 1 => any::<i64>()];
    // A list that announces a count, and a name of some length.
    let list = |(at, count, len): (usize, i32, i32)| {
        let body = [count.to_be_bytes(), len.to_be_bytes(), *b"name"].concat();
        Act::Reply { at, zxid: 1, code: 0, body }
    };
    let event = |(event, path): (i32, String)| {
        let state = KeeperState::SYNC_CONNECTED;
        let mut out = BytesMut::new();
        WatcherEvent { event_type: EventType(event), state, path }.encode(&mut out);
        Act::Stray(xid::NOTIFICATION, out.to_vec())
    };
    let whole = usize::MAX;
    prop_oneof![
        6 => at.clone().prop_map(move |at| Act::Answer { at, len: whole, piece: whole }),
        1 => (at.clone(), 0_usize..60).prop_map(move |(at, len)| Act::Answer { at, len, piece: whole }),
        2 => (at.clone(), 1_usize..30).prop_map(move |(at, piece)| Act::Answer { at, len: whole, piece }),
        3 => (at.clone(), any::<i64>(), code, bytes())
            .prop_map(|(at, zxid, code, body)| Act::Reply { at, zxid, code, body }),
        1 => (xids, bytes()).prop_map(|(xid, body)| Act::Stray(xid, body)),
        1 => bytes().prop_map(|body| Act::Stray(xid::NOTIFICATION, body)),
        2 => (at, any::<i32>(), any::<i32>()).prop_map(list),
        1 => (-2_i32..9, "/[a-c]").prop_map(event),
        1 => bytes().prop_map(Act::Bytes),
        1 => any::<i32>().prop_map(|len| Act::Bytes(len.to_be_bytes().to_vec())),
        4 => (timeouts, ids).prop_map(|(timeout, id)| Act::Accept { timeout, id }),
        1 => Just(Act::Reject),
        2 => Just(Act::Stray(xid::PING, vec![])),
        4 => (0_u64..2500).prop_map(Act::Wait),
        1 => Just(Act::Close),
        6 => Just(Act::Open),
    ]
}

/// Encodes a reply with this header and body.
fn frame(xid: i32, zxid: i64, code: i32, body: &[u8]) -> BytesMut {
    let mut header = BytesMut::new();
    ReplyHeader { xid, zxid: Zxid(zxid), err: ErrorCode(code) }.encode(&mut header);
    let mut out = BytesMut::new();
    out.put_i32(i32::try_from(header.len() + body.len()).unwrap());
    out.unsplit(header);
    out.put_slice(body);
    out
}

fn perform(world: &mut World, act: Act) {
    let mut bytes = BytesMut::new();
    let mut piece = usize::MAX;
    match act {
        Act::Answer { at, len, piece: of } => {
            if let Some(frame) = world.frames.remove(at) {
                world.server.answer(&frame, &mut bytes);
            }
            bytes.truncate(len);
            piece = of;
        }
        Act::Reply { at, zxid, code, body } => {
            if let Some(request) = world.frames.remove(at) {
                bytes = frame(request.xid, zxid, code, &body);
            }
        }
        Act::Stray(xid, body) => bytes = frame(xid, 1, 0, &body),
        Act::Bytes(raw) => bytes = raw.as_slice().into(),
        Act::Accept { timeout, id } => {
            let session_id = SessionId(id);
            let response = ConnectResponse { session_id, ..acceptance(timeout) };
            proto::encode_record(&response, &mut bytes);
        }
        Act::Reject => proto::encode_record(&rejection(), &mut bytes),
        Act::Wait(by) => world.advance(ms(by)),
        Act::Close => world.cut_if_open(),
        Act::Open if world.end().is_none() && !world.is_open() => world.open(),
        Act::Open => {}
    }
    for piece in bytes.chunks(piece) {
        if world.is_open() {
            world.deliver(piece);
            world.advance(ms(if piece.len() < bytes.len() { 5 } else { 0 }));
        }
    }
}

/// Submits a request, so that the session waits for an answer.
fn ask(world: &mut World, turn: usize) {
    if world.end().is_some() {
        return;
    }
    match turn % 9 {
        0 => drop(world.create("/a")),
        1 => drop(world.watch(WatchKind::Children, "/")),
        2 => drop(world.watch(WatchKind::Data, "/a")),
        3 => drop(world.set("/b")),
        4 => drop(world.delete_guaranteed("/c")),
        5 => world.sweep("/", "n"),
        6 => drop(world.watch(WatchKind::Exists, "/b")),
        7 => drop(world.auth("digest")),
        _ => drop(world.sync()),
    }
}

fn config() -> Config {
    let mut config = Config { cases: 250, failure_persistence: None, ..Config::default() };
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(0x5e56);
    }
    config
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn hostile_peer_can_only_close_the_connection(
        acts in vec(act(), 1..80),
        claimed in any::<bool>(),
    ) {
        let mut world = World::with(|settings| settings.max_frame_len = FRAME_LEN_MAX);
        world.server.missing.insert("/b".to_owned());
        world.server.names = vec!["n1".to_owned(), "o2".to_owned()];
        if claimed {
            world.session.claim_lease();
        }
        let count = acts.len();
        for (turn, act) in acts.into_iter().enumerate() {
            ask(&mut world, turn);
            perform(&mut world, act);
            world.check_contract();
            prop_assert!(world.incoming.len() <= FRAME_LEN_MAX + 4);
            prop_assert!(world.ops().len() <= 4 * count + 64, "what we send is bounded");
        }
        let attempts = u128::try_from(world.attempts().len()).unwrap();
        prop_assert!(attempts <= 2 + u128::try_from(count).unwrap() + world.now().as_millis() / 100);
    }
}

/// All replies of a dialogue arrive in two pieces, split at every byte in turn. The session accepts
/// them and stays connected.
#[test]
fn replies_split_at_any_byte_are_accepted() {
    let dialogue = |cut: usize| {
        let mut world = World::new();
        world.server.names = vec!["old".to_owned()];
        world.open();
        let split = |world: &mut World, out: &[u8]| {
            let (head, tail) = out.split_at(cut.min(out.len()));
            world.deliver(head);
            world.deliver(tail);
        };
        let asked =
            [world.create("/n/new"), world.watch(WatchKind::Children, "/n"), world.set("/n/old")];
        let mut out = BytesMut::new();
        proto::encode_record(&acceptance(6000), &mut out);
        split(&mut world, &out);
        let frames: Vec<_> = world.frames.drain(..).collect();
        let mut out = BytesMut::new();
        for frame in &frames {
            world.server.answer(frame, &mut out);
        }
        let len = out.len();
        split(&mut world, &out);
        assert!(asked.iter().all(|n| world.is_ok(*n)), "{cut}");
        assert!(world.session.is_connected());
        len
    };
    let len = dialogue(0);
    for cut in 1..=len {
        dialogue(cut);
    }
}

#[test]
fn absurd_frame_lengths_fail_requests_and_buffer_nothing() {
    for len in [i32::MAX, i32::MIN, -1, 1 << 24] {
        let mut world = World::up();
        let read = world.get("/a");
        world.deliver(&(if len == 1 << 24 { len + 1 } else { len }).to_be_bytes());
        assert!(world.reply(read).is_some(), "{len}");
        assert!(world.incoming.is_empty());
    }
}

#[test]
fn garbled_event_closes_the_connection_and_keeps_the_watch() {
    let mut world = World::up();
    let watch = world.set_watch(WatchKind::Data, "/a");
    let mut out = BytesMut::new();
    script::reply(&mut out, xid::NOTIFICATION, Zxid(-1), ErrorCode::OK, &());
    world.deliver(&out);
    assert!(matches!(world.cause(), DisconnectReason::ProtocolError(_)));
    world.bring_up();
    world.notify(EventType::NODE_DELETED, "/a");
    assert!(world.fired(watch).is_some());
}

#[test]
fn undecodable_sweep_list_deletes_no_node() {
    let mut world = World::up();
    world.sweep("/", "n");
    world.accept(OpCode::Sync);
    world.accept(OpCode::GetChildren2);
    assert_eq!(world.ops(), []);
    assert!(world.session.is_connected());
}

#[test]
fn session_with_a_one_millisecond_timeout_ends_without_looping() {
    let mut world = World::new();
    world.open();
    world.claim();
    world.respond(&acceptance(1));
    world.servers = Servers::Close;
    world.advance(T);
    assert!(world.end().is_some());
    assert!(world.seen.len() < 100, "{}", world.seen.len());
}
