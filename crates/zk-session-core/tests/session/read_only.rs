//! Sessions on a read-only server, which has no quorum.

use zk_session_core::limits::{PROBE_PAUSE_MAX, PROBE_PAUSE_MIN, REMOVAL_DELAY};

use crate::harness::prelude::*;

/// Id of a read-only server's local session.
const LOCAL: SessionId = SessionId(0x2_0000_0009);

pub(crate) fn world(hosts: Vec<Host>) -> World {
    let mut world = World::with(|settings| {
        settings.hosts = hosts;
        settings.allow_read_only = true;
    });
    world.answered.insert(OpCode::Ping.code());
    world
}

/// Opens the next connection, to a read-only server.
pub(crate) fn open(world: &mut World) {
    world.open_with(|response| {
        response.session_id = LOCAL;
        response.read_only = Some(true);
    });
}

/// Creates a session that is connected to a read-only server.
fn connected(count: u16) -> World {
    let mut world = world(hosts(count));
    open(&mut world);
    assert!(world.session.is_connected() && world.session.is_read_only());
    world
}

/// Returns the servers that were probed for writes.
pub(crate) fn probes(world: &World) -> Vec<(Duration, Host)> {
    let probe = |(at, seen): &(Duration, Seen)| match seen {
        Seen::Probe(host) => Some((*at, host.clone())),
        _ => None,
    };
    world.log.iter().filter_map(probe).collect()
}

pub(crate) fn probed(world: &mut World, host: &Host, answer: ProbeAnswer) {
    world.session.handle_probed(world.instant(), host, answer);
    world.settle();
    world.tick();
}

#[test]
fn reads_are_served_and_quorum_requests_rejected_at_once() {
    let mut world = world(hosts(1));
    let (queued, read) = (world.create("/a"), world.get("/a"));
    open(&mut world);
    assert_eq!(world.last_connect().read_only, Some(true));
    let refused = (ErrorKind::NotReadOnly, Outcome::NotApplied);
    assert_eq!(*world.failure(queued), refused);
    world.serve_next(OpCode::GetData);
    assert!(world.is_ok(read));
    assert_eq!(world.try_submit(&create("/a"), None), Err(refused.clone()));
    let sync = proto::Sync { path: "/".into() };
    assert_eq!(world.try_submit(&sync, None), Err(refused));
    let SessionEvent::ReadOnly { session_id, timeout, .. } = world.events()[0].clone() else {
        panic!("{:?}", world.events());
    };
    assert_eq!((session_id, timeout), (LOCAL, T));
}

#[test]
fn read_only_server_gives_no_lease_and_clean_up_waits() {
    let mut world = connected(1);
    world.claim();
    let n = world.delete_guaranteed("/a");
    world.advance(T * 3);
    assert!(world.session.is_connected(), "pings keep the connection");
    assert_eq!(world.lease(), None);
    assert!(world.times(OpCode::Multi).is_empty(), "a heartbeat would be refused");
    assert!(world.times(OpCode::Delete).is_empty() && world.reply(n).is_none());
    assert_eq!((world.session.session_id(), world.session.credentials()), (SessionId::NONE, None));
    world.reconnect();
    assert_eq!(world.ops(), [OpCode::Multi, OpCode::Delete]);
}

/// A read-only server may have logged transactions that no quorum has agreed to. All other servers
/// would reject a session with such a zxid forever.
#[test]
fn read_only_session_is_not_presented_and_does_not_expire() {
    let mut world = connected(1);
    world.watch(WatchKind::Data, "/a");
    world.answer_next(OpCode::GetData, Zxid(1 << 50), ErrorCode::OK, &());
    world.servers = Servers::Refuse;
    world.cut();
    world.advance(T * 5);
    assert!(world.end().is_none());
    world.servers = Servers::Scripted;
    world.bring_up();
    let connect = world.last_connect();
    assert_eq!((connect.session_id, connect.last_zxid_seen), (SessionId::NONE, Zxid::ZERO));
    assert_eq!(connect.password[..], [0; 16]);
    assert!(!world.session.is_read_only());
    assert!(matches!(world.events().last(), Some(SessionEvent::Connected { session_id: ID, .. })));
    // Its answers are no part of the session, and the watch fires if the node exists.
    assert_eq!(world.rearmed(), [(Zxid::ZERO, "/a |  | ".to_owned())]);
    world.answer_next(OpCode::SetWatches, Zxid(4), ErrorCode::OK, &());
    world.watch(WatchKind::Data, "/b");
    world.answer_next(OpCode::GetData, Zxid(5), ErrorCode::OK, &());
    world.reconnect();
    assert_eq!(world.last_connect().last_zxid_seen, Zxid(5));
    assert_eq!(world.session.credentials().map(|it| it.last_zxid()), Some(Zxid(5)));
    assert_eq!(world.rearmed(), [(Zxid(5), "/a /b |  | ".to_owned())]);
}

#[test]
fn existing_session_rejects_a_read_only_server() {
    let mut world = world(hosts(1));
    world.bring_up();
    world.cut();
    open(&mut world);
    assert!(!world.session.is_connected());
    assert_eq!((world.cause(), world.session.session_id()), (DisconnectReason::ReadOnly, ID));
}

#[test]
fn probes_slow_down_and_the_first_writable_server_is_used() {
    let mut world = connected(3);
    let (own, start) = (world.attempts()[0].1.clone(), world.now());
    for n in 0..14 {
        let before = world.now();
        world.advance_until(|world| probes(world).len() > n);
        let (at, host) = probes(&world)[n].clone();
        assert!(host != own && at - before <= PROBE_PAUSE_MAX + ms(1000), "{:?}", at - before);
        probed(&mut world, &host, ProbeAnswer::Other);
    }
    assert_eq!(probes(&world)[0].0, start + PROBE_PAUSE_MIN);
    let ports: BTreeSet<u16> = probes(&world).iter().map(|(_, host)| host.port()).collect();
    assert_eq!(ports.len(), 2, "both of them, in turn");
    assert!(world.now() > start + PROBE_PAUSE_MAX, "the pauses grow");

    // Without an answer to the last probe, the session still probes the next server.
    world.advance(PROBE_PAUSE_MAX * 3);
    let asked = probes(&world);
    let [.., (_, late), (_, host)] = &asked[14..] else { panic!("{}", asked.len()) };
    probed(&mut world, late, ProbeAnswer::ReadWrite);
    assert!(world.session.is_connected(), "too late");
    probed(&mut world, host, ProbeAnswer::ReadWrite);
    world.bring_up();
    assert_eq!(world.attempts().last().unwrap().1, *host);
    let suspended =
        SessionEvent::Suspended { session_id: SessionId::NONE, cause: DisconnectReason::ReadOnly };
    assert!(world.events().contains(&suspended));
    world.advance(T);
    assert_eq!(probes(&world).len(), asked.len(), "the search is over");
}

/// Watches need no quorum. They are set, re-registered and removed on a read-only server as on any
/// other.
#[test]
fn streams_are_set_and_removed_on_a_read_only_server() {
    let mut world = connected(1);
    world.answered.insert(OpCode::AddWatch.code());
    let one = world.stream(AddWatchMode::Persistent, "/a");
    let all = world.stream(AddWatchMode::PersistentRecursive, "/b");
    assert!(world.is_ok(one) && world.is_ok(all));
    world.drop_watch(one, "/a");
    world.advance(REMOVAL_DELAY);
    assert_eq!(world.frames[0].path(), "/a");
    world.accept(OpCode::RemoveWatches);
    world.notify(EventType::NODE_CREATED, "/b/c");
    world.reconnect(); // to a server that has a quorum and does not hold the watches
    let rearmed: SetWatches2<'_> = world.frames[0].read();
    assert_eq!(rearmed.persistent_recursive, ["/b"]);
    assert!(rearmed.persistent.is_empty());
    let told = world.told(all);
    let [Ok(WatchStreamItem::Changed(_)), Ok(WatchStreamItem::Gap)] = told[..] else {
        panic!("{told:?}")
    };
}

#[test]
fn probes_are_not_sent_without_other_servers() {
    let mut world = connected(1);
    world.advance(PROBE_PAUSE_MAX * 5);
    assert!(probes(&world).is_empty() && world.session.is_connected());
    world.close();
    world.accept(OpCode::CloseSession);
    assert!(world.end().is_some());
}
