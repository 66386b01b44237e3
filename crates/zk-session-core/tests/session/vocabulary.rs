//! Servers that lack operations: what stands in for these, and what is refused.

use proto::{
    AddWatch, Create, CreateContainer, CreateMode, CreatePathReply, CreateReply, Decode, Multi,
    MultiOp, MultiReply, Request, WhoAmI,
};
use zk_session_core::ServerKind;

use crate::harness::prelude::*;

/// Features of ClickHouse Keeper 25.8: those of numbers 0 to 6.
const OLD: &[u8] = &[0b1111_1110, 0];

/// The same, with persistent watches and create2.
const NEW: &[u8] = &[0b1111_1111, 0b1000_0000];

/// Connects to a Keeper that has these features; `None` for one without the node.
fn connect(world: &mut World, features: Option<&[u8]>) {
    world.open_with(greet);
    assert!(!world.session.is_connected());
    let asked = world.take(OpCode::GetData);
    assert_eq!(asked.read::<proto::GetData<'_>>().path, "/keeper/feature_flags");
    let data = features.map(Bytes::copy_from_slice);
    let code = if data.is_some() { ErrorCode::OK } else { ErrorCode::NO_NODE };
    world.answer(&asked, Zxid(1), code, &DataReply { data, stat: Stat::default() });
    assert!(world.session.is_connected());
}

fn greet(response: &mut ConnectResponse) {
    (response.read_only, response.password) = (None, Bytes::from_static(&[0; 16]));
}

fn keeper(features: Option<&[u8]>) -> World {
    let mut world = World::new();
    connect(&mut world, features);
    assert_eq!(world.session.server_kind(), ServerKind::Keeper);
    world
}

fn ephemeral(path: &str) -> proto::Create2<'_> {
    proto::Create2 { mode: CreateMode::EphemeralSequential, ..create(path) }
}

fn created(path: &str) -> CreatePathReply {
    CreatePathReply { path: path.to_owned() }
}

fn reply<R: Request>(world: &World, n: u32, _: &R) -> R::Reply {
    R::Reply::from_frame(&world.reply(n).unwrap().as_ref().unwrap().body).unwrap()
}

#[test]
fn create_and_exists_stand_in_for_create2() {
    for features in [None, Some(OLD)] {
        let mut world = keeper(features);
        let n = world.submit(&ephemeral("/a-"), None);
        let Create { path, mode, .. } = world.frames[0].read::<Create<'_>>();
        assert_eq!((path.as_ref(), mode), ("/a-", CreateMode::EphemeralSequential));
        world.answer_next(OpCode::Create, Zxid(9), ErrorCode::OK, &created("/a-0000000001"));
        assert!(world.reply(n).is_none());
        let stat = Stat { czxid: Zxid(9), ctime_ms: 7, ..Stat::default() };
        world.answer_next(OpCode::Exists, Zxid(12), ErrorCode::OK, &stat);
        assert_eq!(world.reply(n).unwrap().as_ref().unwrap().zxid, Zxid(9));
        let path = "/a-0000000001".to_owned();
        assert_eq!(reply(&world, n, &ephemeral("/a-")), CreateReply { path, stat });
    }
}

#[test]
fn create2_is_sent_to_servers_that_have_it() {
    let mut world = keeper(Some(NEW));
    world.create("/a");
    world.stream(AddWatchMode::Persistent, "/a");
    let refused = world.stream(AddWatchMode::PersistentRecursive, "/a");
    assert_eq!(world.failure(refused).0, ErrorKind::Unsupported(OpCode::AddWatch));
    assert_eq!(world.ops(), [OpCode::Create2, OpCode::AddWatch]);
}

#[test]
fn created_node_that_is_gone_has_the_stat_that_is_known() {
    let mut world = keeper(None);
    let n = world.submit(&ephemeral("/a-"), None);
    world.answer_next(OpCode::Create, Zxid(9), ErrorCode::OK, &created("/a-0000000001"));
    world.reject(OpCode::Exists, ErrorCode::NO_NODE);
    let stat = reply(&world, n, &ephemeral("/a-")).stat;
    assert_eq!((stat.czxid, stat.ephemeral_owner), (Zxid(9), world.session.session_id()));
}

#[test]
fn newer_node_of_the_same_path_is_not_the_created_one() {
    let mut world = keeper(None);
    let n = world.create("/a");
    world.answer_next(OpCode::Create, Zxid(9), ErrorCode::OK, &created("/a"));
    let foreign = Stat { czxid: Zxid(11), ephemeral_owner: SessionId(7), ..Stat::default() };
    world.answer_next(OpCode::Exists, Zxid(12), ErrorCode::OK, &foreign);
    let stat = reply(&world, n, &create("/a")).stat;
    assert_eq!((stat.czxid, stat.ephemeral_owner), (Zxid(9), world.session.session_id()));
}

#[test]
fn keeper_that_does_not_tell_its_features_has_none() {
    let mut world = World::new();
    world.open_with(greet);
    world.reject(OpCode::GetData, ErrorCode::NO_AUTH);
    assert!(world.session.is_connected());
    world.create("/a");
    assert_eq!(world.ops(), [OpCode::Create]);
}

/// The next connection may be to a server of another version.
#[test]
fn create2_is_proven_by_a_transaction_for_its_connection() {
    let mut world = World::up();
    let multi = [create("/a").into()];
    world.submit(&Multi::new(&multi), None);
    let results = vec![proto::MultiResult::Created { path: "/a".to_owned(), stat: None }];
    world.answer_next(OpCode::Multi, Zxid(9), ErrorCode::OK, &MultiReply { results });
    world.reconnect();
    let n = world.create("/c");
    world.reject(OpCode::Create2, ErrorCode::UNIMPLEMENTED);
    assert!(world.reply(n).is_none());
    world.bring_up();
    assert_eq!(world.ops(), [OpCode::Create]);
}

#[test]
fn operation_of_every_server_is_never_refused() {
    let mut world = World::up();
    world.get("/a");
    world.reject(OpCode::GetData, ErrorCode::UNIMPLEMENTED);
    world.get("/a");
    assert_eq!(world.ops(), [OpCode::GetData]);
}

#[test]
fn rejected_stand_in_is_a_rejected_create() {
    let mut world = keeper(None);
    let n = world.create("/a");
    world.reject(OpCode::Create, ErrorCode::NODE_EXISTS);
    assert_eq!(world.reply(n).unwrap().as_ref().map(|_| ()), Err(&server(ErrorCode::NODE_EXISTS)));
    assert_eq!(world.ops(), []);
}

fn server(code: ErrorCode) -> Failure {
    (ErrorKind::Server(code), Outcome::NotApplied)
}

#[test]
fn connection_lost_before_the_stat_leaves_the_outcome_unknown() {
    for is_sent in [true, false] {
        let mut world = keeper(None);
        let n = world.create("/a");
        if !is_sent {
            world.room = 0;
        }
        world.answer_next(OpCode::Create, Zxid(9), ErrorCode::OK, &created("/a"));
        world.cut();
        assert_eq!(world.outcome(n), Outcome::Unknown, "{is_sent}");
    }
}

#[test]
fn container_becomes_a_persistent_node() {
    let mut world = keeper(Some(NEW));
    let proto::Create2 { path, data, acl, .. } = create("/a");
    world.submit(&CreateContainer { path, data, acl, mode: CreateMode::Container }, None);
    assert_eq!(world.frames[0].read::<Create<'_>>().mode, CreateMode::Persistent);
}

#[test]
fn requests_without_a_stand_in_are_refused() {
    let mut world = keeper(Some(OLD));
    let unsupported = |op| (ErrorKind::Unsupported(op), Outcome::NotApplied);
    let refused = world.submit(&WhoAmI, None);
    assert_eq!(*world.failure(refused), unsupported(OpCode::WhoAmI));
    let mode = AddWatchMode::Persistent;
    let refused = world.submit(&AddWatch { path: "/a".into(), mode }, None);
    assert_eq!(*world.failure(refused), unsupported(OpCode::AddWatch));
    let error = Error::new(ErrorKind::Unsupported(OpCode::WhoAmI), Outcome::NotApplied);
    assert_eq!(error.code(), Some(ErrorCode::UNIMPLEMENTED));
    assert_eq!(world.ops(), []);
}

#[test]
fn operations_of_a_transaction_are_replaced() {
    let mut world = keeper(None);
    let container = || {
        let proto::Create2 { path, data, acl, .. } = create("/b");
        CreateContainer { path, data, acl, mode: CreateMode::Container }
    };
    world.submit(&Multi::new(&[ephemeral("/a-").into(), container().into()]), None);
    let multi = world.take(OpCode::Multi);
    let multi = multi.read::<Multi<'_>>();
    let modes = multi.ops.iter().map(|op| match op {
        MultiOp::Create(op) => op.mode,
        op => panic!("{op:?}"),
    });
    let modes: Vec<_> = modes.collect();
    assert_eq!(modes, [CreateMode::EphemeralSequential, CreateMode::Persistent]);
}

#[test]
fn deletion_of_nothing_stands_in_for_an_empty_transaction() {
    let mut world = keeper(Some(NEW));
    let n = world.prove();
    assert_eq!(world.ops(), [OpCode::Delete]);
    world.reject(OpCode::Delete, ErrorCode::NO_NODE);
    assert_eq!(reply(&world, n, &Multi::new(&[])), MultiReply { results: Vec::new() });
    world.claim();
    assert!(world.advance_to_next(OpCode::Delete) < T / 2, "the lease is renewed by it");
}

#[test]
fn lost_connection_to_a_keeper_ends_the_session() {
    let mut world = keeper(Some(NEW));
    let (id, attempts) = (world.session.session_id(), world.attempts().len());
    world.cut();
    assert_eq!(world.end(), Some(SessionEnd::NotResumed));
    world.advance(2 * T);
    assert_eq!((world.session.session_id(), world.attempts().len()), (id, attempts));
}

#[test]
fn another_session_ends_the_session_at_once() {
    let mut world = World::up();
    let id = world.session.session_id();
    world.cut();
    world.open_with(|response| response.session_id = SessionId(id.0 + 1));
    assert_eq!(world.end(), Some(SessionEnd::NotResumed));
}

/// RaftKeeper resumes sessions, and reports nodes as deleted that exist, when their watches are set again.
#[test]
fn session_is_not_resumed_at_a_keeper() {
    let mut world = World::up();
    world.cut();
    world.open_with(greet);
    assert_eq!(world.end(), Some(SessionEnd::NotResumed));
    let nodes = [("/a", WatchKind::Data)];
    let refused = keeper(Some(NEW)).watch_nodes(&nodes).err();
    assert_eq!(refused, Some((ErrorKind::Unsupported(OpCode::SetWatches), Outcome::NotApplied)));
}

#[test]
fn keeper_without_a_leader_is_passed_over() {
    let mut world = World::new();
    world.open_with(|response| {
        greet(response);
        (response.protocol_version, response.session_id) = (42, SessionId(-1));
    });
    assert_eq!(world.cause(), DisconnectReason::NoLeader);
    assert_eq!(world.session.session_id(), SessionId::NONE);
    connect(&mut world, None);
}

#[test]
fn old_server_gets_a_create_after_it_has_refused_create2() {
    let mut world = World::up();
    let n = world.submit(&ephemeral("/a-"), None);
    world.reject(OpCode::Create2, ErrorCode::UNIMPLEMENTED);
    assert_eq!(world.wire, Wire::Down, "the server closes it, too");
    assert!(world.reply(n).is_none());
    world.bring_up();
    world.answer_next(OpCode::Create, Zxid(9), ErrorCode::OK, &created("/a-0000000001"));
    world.answer_next(OpCode::Exists, Zxid(9), ErrorCode::OK, &Stat::default());
    assert!(world.is_ok(n));
    world.create("/b");
    assert_eq!(world.ops(), [OpCode::Create]);
}

#[test]
fn old_server_gets_another_transaction_after_it_has_refused_one() {
    let mut world = World::up();
    let n = world.submit(&Multi::new(&[create("/a").into()]), None);
    world.reject(OpCode::Multi, ErrorCode::MARSHALLING_ERROR);
    let multi = world.take(OpCode::Multi);
    assert!(matches!(multi.read::<Multi<'_>>().ops.first(), Some(MultiOp::Create(_))));
    world.answer(&multi, Zxid(9), ErrorCode::MARSHALLING_ERROR, &Stat::default());
    assert_eq!(*world.failure(n), server(ErrorCode::MARSHALLING_ERROR));
}

#[test]
fn operation_is_refused_after_a_server_has_not_known_it() {
    let mut world = World::up();
    world.submit(&WhoAmI, None);
    world.reject(OpCode::WhoAmI, ErrorCode::UNIMPLEMENTED);
    let refused = world.submit(&WhoAmI, None);
    assert_eq!(world.failure(refused).0, ErrorKind::Unsupported(OpCode::WhoAmI));
    world.reconnect();
    world.submit(&WhoAmI, None);
    assert_eq!(world.ops(), [OpCode::WhoAmI], "the next server may be newer");
}

#[test]
fn time_to_live_may_be_switched_on_later() {
    let mut world = World::up();
    let proto::Create2 { path, data, acl, .. } = create("/a");
    let with_ttl = proto::CreateTtl { path, data, acl, sequential: false, ttl_ms: 1 };
    world.submit(&with_ttl, None);
    world.reject(OpCode::CreateTtl, ErrorCode::UNIMPLEMENTED);
    world.submit(&with_ttl, None);
    assert_eq!(world.ops(), [OpCode::CreateTtl]);
}
