//! A peer that sends arbitrary bytes. A panic is a bug of the client. The worst effect of the peer
//! is the loss of the connection.

use bytes::{BufMut, BytesMut};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use proto::{ErrorCode, EventType, KeeperState, SessionId, WatcherEvent, Zxid, xid};
use zk_session_core::WatchKind;

use crate::harness::{Servers, T, Wire, World, ms};
use crate::script;
use crate::script::{acceptance, rejection};

const FRAME_LEN_MAX: usize = 4096;

/// Next action of the peer.
#[derive(Clone, Debug)]
enum Act {
    /// The correct answer to the request at this position.
    Answer(usize),
    /// The first bytes of the correct answer, without the rest.
    Truncated(usize, usize),
    /// The correct answer in pieces, with pauses between them.
    Pieces(usize, usize),
    /// A reply with this header and body to the request at this position.
    Reply(usize, i64, i32, Vec<u8>),
    /// A reply to no request.
    Stray(i32, Vec<u8>),
    /// A notification with this body.
    Event(Vec<u8>),
    /// A list that announces this count, and a name of this length.
    List(usize, i32, i32),
    Notify(i32, String),
    Garbage(Vec<u8>),
    /// A frame that announces this length.
    Length(i32),
    Accept(i32, i64),
    Reject,
    Pong,
    Wait(u64),
    Close,
    Open,
}

fn act() -> impl Strategy<Value = Act> {
    let at = 0_usize..8;
    let bytes = || prop::collection::vec(any::<u8>(), 0..80);
    let code = prop_oneof![Just(0), Just(-101), Just(-112), Just(-115), Just(-127), any::<i32>()];
    let xids = prop_oneof![-9_i32..40, any::<i32>()];
    let timeouts = prop_oneof![Just(6000), Just(1), Just(0), any::<i32>()];
    prop_oneof![
        6 => at.clone().prop_map(Act::Answer),
        1 => (at.clone(), 0_usize..60).prop_map(|(at, len)| Act::Truncated(at, len)),
        2 => (at.clone(), 1_usize..30).prop_map(|(at, len)| Act::Pieces(at, len)),
        3 => (at.clone(), any::<i64>(), code, bytes())
            .prop_map(|(at, zxid, code, body)| Act::Reply(at, zxid, code, body)),
        1 => (xids, bytes()).prop_map(|(xid, body)| Act::Stray(xid, body)),
        1 => bytes().prop_map(Act::Event),
        2 => (at, any::<i32>(), any::<i32>()).prop_map(|(at, n, len)| Act::List(at, n, len)),
        1 => (-2_i32..9, "/[a-c]").prop_map(|(event, path)| Act::Notify(event, path)),
        1 => bytes().prop_map(Act::Garbage),
        1 => any::<i32>().prop_map(Act::Length),
        4 => (timeouts, prop_oneof![4 => Just(script::ID.0), 1 => any::<i64>()])
            .prop_map(|(timeout, id)| Act::Accept(timeout, id)),
        1 => Just(Act::Reject),
        2 => Just(Act::Pong),
        4 => (0_u64..2500).prop_map(Act::Wait),
        1 => Just(Act::Close),
        6 => Just(Act::Open),
    ]
}

/// Returns the correct answer to the request at this position.
fn answer(world: &mut World, at: usize) -> Option<BytesMut> {
    let frame = world.frames.remove(at)?;
    let mut out = BytesMut::new();
    world.server.answer(&frame, &mut out);
    Some(out)
}

fn frame(body: &[u8]) -> BytesMut {
    let mut out = BytesMut::new();
    out.put_i32(i32::try_from(body.len()).unwrap());
    out.put_slice(body);
    out
}

fn perform(world: &mut World, act: &Act) {
    let header = |xid: i32, zxid: Zxid, code: i32, body: &[u8]| {
        let mut out = BytesMut::new();
        script::reply(&mut out, xid, zxid, ErrorCode(code), &());
        let mut frame = frame(&[&out[4..], body].concat());
        std::mem::take(&mut frame)
    };
    let bytes = match act.clone() {
        Act::Answer(at) => answer(world, at),
        Act::Truncated(at, len) => answer(world, at).map(|mut out| {
            out.truncate(len);
            out
        }),
        Act::Pieces(at, len) => {
            if let Some(out) = answer(world, at) {
                for piece in out.chunks(len) {
                    if world.wire == Wire::Open {
                        world.deliver(piece);
                        world.advance(ms(5));
                    }
                }
            }
            None
        }
        Act::Reply(at, zxid, code, body) => {
            let request = world.frames.remove(at);
            request.map(|request| header(request.xid, Zxid(zxid), code, &body))
        }
        Act::List(at, count, len) => {
            let body = [count.to_be_bytes(), len.to_be_bytes(), *b"name"].concat();
            let request = world.frames.remove(at);
            request.map(|request| header(request.xid, Zxid(1), 0, &body))
        }
        Act::Stray(xid, body) => Some(header(xid, Zxid(1), 0, &body)),
        Act::Event(body) => Some(header(xid::NOTIFICATION, Zxid(-1), 0, &body)),
        Act::Notify(event, path) => {
            let mut out = BytesMut::new();
            let event = WatcherEvent {
                event_type: EventType(event),
                state: KeeperState::SYNC_CONNECTED,
                path,
            };
            script::reply(&mut out, xid::NOTIFICATION, Zxid(-1), ErrorCode::OK, &event);
            Some(out)
        }
        Act::Garbage(bytes) => Some(bytes.as_slice().into()),
        Act::Length(len) => Some(len.to_be_bytes()[..].into()),
        Act::Accept(timeout, id) => {
            let mut out = BytesMut::new();
            let response =
                proto::ConnectResponse { session_id: SessionId(id), ..acceptance(timeout) };
            proto::encode_record(&response, &mut out);
            Some(out)
        }
        Act::Reject => {
            let mut out = BytesMut::new();
            proto::encode_record(&rejection(), &mut out);
            Some(out)
        }
        Act::Pong => Some(crate::harness::pong()),
        Act::Wait(by) => {
            world.advance(ms(by));
            None
        }
        Act::Close => {
            world.cut_if_open();
            None
        }
        Act::Open => {
            if world.end().is_none() && world.wire != Wire::Open {
                world.open();
            }
            None
        }
    };
    if let Some(bytes) = bytes.filter(|_| world.wire == Wire::Open) {
        world.deliver(&bytes);
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
        acts in prop::collection::vec(act(), 1..80),
        claimed in any::<bool>(),
    ) {
        let mut world = World::with(|settings| settings.max_frame_len = FRAME_LEN_MAX);
        world.server.missing.insert("/b".to_owned());
        world.server.names = vec!["n1".to_owned(), "o2".to_owned()];
        if claimed {
            world.session.claim_lease();
        }
        for (turn, act) in acts.iter().enumerate() {
            ask(&mut world, turn);
            perform(&mut world, act);
            world.check_contract();
            prop_assert!(world.incoming.len() <= FRAME_LEN_MAX + 4);
            prop_assert!(world.ops().len() <= 4 * acts.len() + 64, "what we send is bounded");
        }
        let attempts = u128::try_from(world.attempts().len()).unwrap();
        prop_assert!(attempts <= 2 + u128::try_from(acts.len()).unwrap() + world.now().as_millis() / 100);
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
        let mut out = BytesMut::new();
        proto::encode_record(&acceptance(6000), &mut out);
        let asked =
            [world.create("/n/new"), world.watch(WatchKind::Children, "/n"), world.set("/n/old")];
        let head = cut.min(out.len());
        world.deliver(&out[..head]);
        world.deliver(&out[head..]);
        let frames: Vec<_> = world.frames.drain(..).collect();
        let mut out = BytesMut::new();
        for frame in &frames {
            world.server.answer(frame, &mut out);
        }
        let len = out.len();
        let head = cut.min(len);
        world.deliver(&out[..head]);
        world.deliver(&out[head..]);
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
    let watch = world.watch(WatchKind::Data, "/a");
    let frame = world.frames.pop_front().unwrap();
    world.answer(&frame, Zxid(5), ErrorCode::OK, &());
    let mut out = BytesMut::new();
    script::reply(&mut out, xid::NOTIFICATION, Zxid(-1), ErrorCode::OK, &());
    world.deliver(&out);
    assert!(matches!(world.cause(), zk_session_core::DisconnectReason::ProtocolError(_)));
    world.bring_up();
    world.notify(EventType::NODE_DELETED, "/a");
    assert!(world.fired(watch).is_some());
}

#[test]
fn undecodable_sweep_list_deletes_no_node() {
    let mut world = World::up();
    world.sweep("/", "n");
    let sync = world.frames.pop_front().unwrap();
    world.answer(&sync, Zxid(5), ErrorCode::OK, &());
    let list = world.frames.pop_front().unwrap();
    world.answer(&list, Zxid(5), ErrorCode::OK, &());
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
