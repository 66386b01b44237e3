//! Handing a session over from one client to another.

use std::collections::HashSet;

use crate::harness::prelude::*;

const DETACHED: Option<SessionEnd> = Some(SessionEnd::Detached);

fn resuming() -> World {
    World::with(|settings| {
        settings.resume = Some(SessionCredentials::new(ID, *PASSWORD, Zxid(77)));
    })
}

fn detach(world: &mut World) {
    world.session.detach(world.instant());
    world.tick();
}

#[test]
fn detach_ends_the_client_and_leaves_the_session_open() {
    let mut world = World::served();
    world.claim();
    world.prove();
    assert!(world.lease().is_some());
    world.unanswered.extend([OpCode::Create2.code(), OpCode::Delete.code()]);
    let open = world.create("/n/a");
    let late = world.delete_guaranteed("/n/b");
    world.session.detach(world.instant());
    let credentials = world.session.credentials().unwrap();
    assert_eq!((credentials.session_id(), credentials.password()), (ID, &PASSWORD[..]));
    assert!(credentials.last_zxid() >= Zxid(100));
    assert_eq!(world.lease(), None, "whoever holds a lock is told at once");
    world.close(); // has no effect
    let refused = world.try_submit(&get("/n", false), None).unwrap_err();
    assert_eq!(refused.1, Outcome::NotApplied);
    world.tick();
    assert_eq!(world.end(), DETACHED);
    assert_eq!(*world.failure(open), (ended(SessionEnd::Detached), Outcome::Unknown));
    assert!(world.reply(late).is_some());
    assert_eq!(world.events().pop(), Some(SessionEvent::Detached { session_id: ID }));
    assert_eq!(world.session.credentials(), Some(credentials));
    world.close();
    world.advance(T);
    assert!(world.times(OpCode::CloseSession).is_empty());
}

#[test]
fn unsent_request_is_not_applied_after_detach() {
    let mut world = World::up();
    world.room = 0;
    let unsent = world.create("/a");
    detach(&mut world);
    assert_eq!(world.outcome(unsent), Outcome::NotApplied);
}

#[test]
fn detach_while_connecting_ends_as_detached() {
    let mut world = World::up();
    world.reopen();
    world.session.detach(world.instant());
    world.respond(&acceptance(6000));
    world.tick();
    assert_eq!(world.end(), DETACHED);
    assert!(world.times(OpCode::CloseSession).is_empty());

    // The connection attempt fails before the driver handles the timeout that ends the session.
    let mut world = World::new();
    world.tick();
    world.session.detach(world.instant());
    world.cut();
    assert_eq!((world.end(), world.now()), (DETACHED, ms(0)));
}

#[test]
fn resumed_session_presents_its_id_password_and_zxid() {
    let mut world = resuming();
    world.create("/a");
    world.open();
    let asked = world.last_connect();
    assert_eq!((asked.session_id, &asked.password[..]), (ID, &PASSWORD[..]));
    assert_eq!(asked.last_zxid_seen, Zxid(77));
    world.respond(&acceptance(6000));
    assert!(matches!(world.events()[..], [SessionEvent::Connected { session_id: ID, .. }]));
    world.take(OpCode::Create2);
    world.reconnect();
    assert!(matches!(world.events().last(), Some(SessionEvent::Reconnected { .. })));
}

/// A server that has a write of both clients under way tells them apart by their numbers alone.
#[test]
fn resumed_session_counts_from_a_number_of_its_own() {
    let first_xid = |seed, resume| {
        let mut world = World::with(|settings| (settings.seed, settings.resume) = (seed, resume));
        world.bring_up();
        world.create("/a");
        world.take(OpCode::Create2).xid
    };
    assert_eq!([1, 2].map(|seed| first_xid(seed, None)), [1, 1]);
    let credentials = || Some(SessionCredentials::new(ID, *PASSWORD, Zxid(77)));
    let xids: HashSet<i32> = (0..100).map(|seed| first_xid(seed, credentials())).collect();
    assert!(xids.len() == 100 && xids.iter().all(|xid| *xid > 1000), "{xids:?}");
}

/// The program that stores the credentials must take them again.
#[test]
fn resumed_session_tells_of_a_timeout_that_its_credentials_lack() {
    for (granted, is_told) in [(10_000, false), (6_000, true), (12_000, true)] {
        let text = "zk-session-1 100000001 30313233343536373839616263646566 4d 10000 10000";
        let mut world = World::with(|settings| settings.resume = text.parse().ok());
        world.open_with(|response| response.timeout_ms = granted);
        let changed = |event: &SessionEvent| match event {
            SessionEvent::TimeoutChanged { before, .. } => *before == ms(10_000),
            _ => false,
        };
        assert_eq!(world.events().iter().any(changed), is_told, "{granted}");
    }
}

#[test]
fn expired_session_cannot_be_resumed() {
    let mut world = resuming();
    world.open();
    world.respond(&rejection());
    assert_eq!((world.end(), world.session.credentials()), (Some(SessionEnd::Expired), None));
}

#[test]
fn resumed_session_does_not_expire_before_first_contact() {
    let mut world = resuming();
    world.servers = Servers::Refuse;
    world.advance(T * 10);
    assert_eq!(world.end(), None, "its last sign of life is not known here");
    detach(&mut world);
    assert_eq!(world.end(), DETACHED);
}

#[test]
fn detach_after_close_returns_no_credentials() {
    let mut world = World::up();
    world.close();
    detach(&mut world);
    assert_eq!(world.session.credentials(), None);
    world.advance_to_end();
    assert_eq!(world.end(), Some(SessionEnd::Closed));
}
