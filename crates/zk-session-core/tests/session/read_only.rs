//! Sessions on a read-only server, which has no quorum.

use proto::{
    AddWatchMode, AddWatchReply, ConnectResponse, ErrorCode, OpCode, SessionId, SetWatches,
    SetWatches2, Zxid,
};
use zk_session_core::limits::{PROBE_PAUSE_MAX, PROBE_PAUSE_MIN};
use zk_session_core::{DisconnectReason, ErrorKind, Host, Outcome, ProbeAnswer, SessionEvent};
use zk_session_core::{WatchKind, WatchStreamItem};

use crate::harness::{Seen, T, World, ms};
use crate::script::{ID, acceptance};

/// Id of a read-only server's local session.
const LOCAL: SessionId = SessionId(0x2_0000_0009);

fn read_only() -> ConnectResponse {
    ConnectResponse { session_id: LOCAL, read_only: Some(true), ..acceptance(6000) }
}

fn world(hosts: u16) -> World {
    let mut world = World::with(|settings| {
        settings.hosts = (1..=hosts).map(|port| Host::new("h", port)).collect();
        settings.allow_read_only = true;
    });
    world.answered.insert(OpCode::Ping.code());
    world
}

/// Creates a session that is connected to a read-only server.
fn connected(hosts: u16) -> World {
    let mut world = world(hosts);
    world.open();
    world.respond(&read_only());
    assert!(world.session.is_connected() && world.session.is_read_only());
    world
}

fn probes(world: &World) -> Vec<(std::time::Duration, Host)> {
    let probe = |(at, seen): &(std::time::Duration, Seen)| match seen {
        Seen::Probe(host) => Some((*at, host.clone())),
        _ => None,
    };
    world.log.iter().filter_map(probe).collect()
}

#[test]
fn reads_are_served_and_quorum_requests_rejected_at_once() {
    let mut world = world(1);
    let (queued, read) = (world.create("/a"), world.get("/a"));
    world.open();
    assert_eq!(world.last_connect().read_only, Some(true));
    world.respond(&read_only());
    let refused = (ErrorKind::NotReadOnly, Outcome::NotApplied);
    assert_eq!(*world.failure(queued), refused);
    world.reject(OpCode::GetData, ErrorCode::NO_NODE);
    assert!(world.reply(read).is_some());
    assert_eq!(world.try_submit(&crate::harness::create("/a"), None), Err(refused.clone()));
    let sync = proto::Sync { path: "/".into() };
    assert_eq!(world.try_submit(&sync, None), Err(refused));
    assert!(world.session.is_connected());
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
    world.take(OpCode::Multi);
    world.take(OpCode::Delete);
}

#[test]
fn read_only_session_is_not_presented_and_does_not_expire() {
    let mut world = connected(1);
    let n = world.watch(WatchKind::Data, "/a");
    let frame = world.take(OpCode::GetData);
    let reply = proto::DataReply { data: None, stat: proto::Stat::default() };
    world.answer(&frame, Zxid(9), ErrorCode::OK, &reply);
    assert!(world.is_ok(n));
    world.cut();
    world.servers = crate::harness::Servers::Refuse;
    world.advance(T * 5);
    assert!(world.end().is_none());
    world.servers = crate::harness::Servers::Scripted;
    world.open();
    assert_eq!(world.last_connect().session_id, SessionId::NONE);
    assert_eq!(world.last_connect().password[..], [0; 16]);
    world.respond(&acceptance(6000));
    assert!(!world.session.is_read_only());
    assert!(matches!(world.events().last(), Some(SessionEvent::Connected { session_id: ID, .. })));
    let rearmed = world.take(OpCode::SetWatches);
    // The server without a quorum may have been ahead. Its answers are no part of the session, and the
    // watch fires if the node exists.
    assert_eq!(rearmed.read::<SetWatches<'_>>().relative_zxid, Zxid::ZERO);
    world.answer(&rearmed, Zxid(4), ErrorCode::OK, &());
    world.watch(WatchKind::Data, "/b");
    world.answer_next(OpCode::GetData, Zxid(5), ErrorCode::OK, &reply);
    world.reconnect();
    let chunk = world.take(OpCode::SetWatches);
    assert_eq!(chunk.read::<SetWatches<'_>>().relative_zxid, Zxid(5));
}

#[test]
fn existing_session_rejects_a_read_only_server() {
    let mut world = world(1);
    world.bring_up();
    world.reopen();
    world.respond(&read_only());
    assert!(!world.session.is_connected());
    assert_eq!((world.cause(), world.session.session_id()), (DisconnectReason::ReadOnly, ID));
}

#[test]
fn probes_slow_down_and_the_first_writable_server_is_used() {
    let mut world = connected(3);
    let (own, start) = (world.attempts()[0].1.clone(), world.now());
    let mut before = start;
    for n in 0..14 {
        while probes(&world).len() == n {
            world.advance(ms(50));
        }
        let (at, host) = probes(&world)[n].clone();
        assert_ne!(host, own);
        assert!(at - before <= PROBE_PAUSE_MAX + ms(1000), "{:?}", at - before);
        before = at;
        world.session.handle_probed(world.instant(), &host, ProbeAnswer::Other);
        world.settle();
    }
    assert_eq!(probes(&world)[0].0, start + PROBE_PAUSE_MIN);
    let hosts: std::collections::BTreeSet<u16> =
        probes(&world).iter().map(|(_, host)| host.port()).collect();
    assert_eq!(hosts.len(), 2, "both of them, in turn");
    assert!(before > start + PROBE_PAUSE_MAX, "the pauses grow");

    // Without an answer to the last probe, the session still probes the next server.
    world.advance(PROBE_PAUSE_MAX * 3);
    let asked = probes(&world);
    assert!(asked.len() >= 16, "{}", asked.len());
    let (_, host) = asked.last().unwrap().clone();
    let late = asked[asked.len() - 2].1.clone();
    world.session.handle_probed(world.instant(), &late, ProbeAnswer::ReadWrite);
    world.settle();
    assert!(world.session.is_connected(), "too late");
    world.session.handle_probed(world.instant(), &host, ProbeAnswer::ReadWrite);
    world.settle();
    world.bring_up();
    assert_eq!(world.attempts().last().unwrap().1, host);
    let suspended =
        SessionEvent::Suspended { session_id: SessionId::NONE, cause: DisconnectReason::ReadOnly };
    assert!(world.events().contains(&suspended));
    let count = probes(&world).len();
    world.advance(T);
    assert_eq!(probes(&world).len(), count, "the search is over");
}

/// Watches need no quorum. They are set, re-registered and removed on a read-only server as on any
/// other.
#[test]
fn streams_are_set_and_removed_on_a_read_only_server() {
    let mut world = connected(1);
    let [one, all] = [AddWatchMode::Persistent, AddWatchMode::PersistentRecursive]
        .map(|mode| world.stream(mode, if mode == AddWatchMode::Persistent { "/a" } else { "/b" }));
    for n in [one, all] {
        world.answer_next(
            OpCode::AddWatch,
            Zxid(9),
            ErrorCode::OK,
            &AddWatchReply { err: ErrorCode::OK },
        );
        assert!(world.is_ok(n));
    }
    world.drop_watch(one, "/a");
    world.advance(ms(100));
    let frame = world.take(OpCode::RemoveWatches);
    assert_eq!(frame.path(), "/a");
    world.answer(&frame, Zxid(9), ErrorCode::OK, &());
    world.notify(proto::EventType::NODE_CREATED, "/b/c");
    world.cut();

    // The next server has a quorum and does not hold the watches.
    world.bring_up();
    let rearmed: SetWatches2<'_> = world.frames[0].read();
    assert_eq!(rearmed.persistent_recursive, ["/b"]);
    assert!(rearmed.persistent.is_empty());
    let told = world.told(all);
    assert!(
        matches!(told[..], [Ok(WatchStreamItem::Changed(_)), Ok(WatchStreamItem::Gap)]),
        "{told:?}"
    );
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

/// A read-only server may have logged transactions that no quorum has agreed to. All other servers
/// would reject a session with such a zxid forever.
#[test]
fn zxid_of_a_read_only_server_is_not_kept() {
    let mut world = World::with(|settings| settings.allow_read_only = true);
    world.open();
    world.respond(&read_only());
    world.get("/a");
    let frame = world.take(OpCode::GetData);
    world.answer(&frame, Zxid(1 << 50), ErrorCode::NO_NODE, &());
    world.reopen();
    let connect = world.last_connect();
    assert_eq!((connect.session_id, connect.last_zxid_seen), (SessionId::NONE, Zxid::ZERO));
    world.respond(&acceptance(6000));
    world.get("/a");
    world.reject(OpCode::GetData, ErrorCode::NO_NODE);
    world.reopen();
    assert_eq!(world.last_connect().last_zxid_seen, Zxid(9));
    assert_eq!(world.session.credentials().map(|it| it.last_zxid()), Some(Zxid(9)));
}
