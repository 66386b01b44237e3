//! The lease: fed by what a quorum has agreed to, from when it was asked.

use std::time::Duration;

use proto::{ErrorCode, EventType, MultiReply, OpCode, SyncReply};
use zk_session::SessionEnd;
use zk_session::core::Standing;

use crate::harness::{Servers, T, World, ms, pong};

const LEASE: Duration = Duration::from_millis(4500);

fn lapsed(term: u64) -> Standing {
    Standing { term, closing: None, ended: None }
}

#[test]
fn there_is_none_before_a_quorum_has_answered() {
    let mut world = World::up();
    assert_eq!(world.lease(), None);
    world.answered.insert(OpCode::Ping.code());
    world.advance(T * 3);
    assert_eq!(world.lease(), None, "neither the handshake nor pings feed it");
    assert_eq!(world.standings(), [], "what never began cannot end");
    world.finish();
}

#[test]
fn a_write_feeds_it_from_the_time_it_was_sent() {
    type Ask = fn(&mut World) -> u32;
    let asks: [(Ask, OpCode); 4] = [
        (|w| w.create("/a"), OpCode::Create2),
        (|w| w.delete("/a"), OpCode::Delete),
        (|w| w.set("/a"), OpCode::SetData),
        (|w| w.prove(), OpCode::Multi),
    ];
    for (ask, op) in asks {
        let mut world = World::up();
        world.advance(ms(500));
        ask(&mut world);
        world.advance(ms(1300));
        let frame = world.take(op);
        world.answer(&frame, 9, ErrorCode::OK, &());
        assert_eq!(world.lease(), Some(ms(500) + LEASE), "{op:?}");
        world.finish();
    }
}

#[test]
fn a_refusal_counts_only_if_a_leader_must_have_spoken() {
    let fed = [
        ErrorCode::NO_NODE,
        ErrorCode::NODE_EXISTS,
        ErrorCode::BAD_VERSION,
        ErrorCode::NOT_EMPTY,
        ErrorCode::NO_CHILDREN_FOR_EPHEMERALS,
    ];
    let unfed = [
        ErrorCode::NO_AUTH,
        ErrorCode::NOT_READ_ONLY,
        ErrorCode::THROTTLED_OP,
        ErrorCode::UNIMPLEMENTED,
        ErrorCode::MARSHALLING_ERROR,
        ErrorCode::SESSION_MOVED,
        ErrorCode::INVALID_ACL,
        ErrorCode(-4711),
    ];
    for code in fed.into_iter().chain(unfed) {
        let mut world = World::up();
        world.create("/a");
        let frame = world.take(OpCode::Create2);
        world.answer(&frame, 9, code, &());
        assert_eq!(world.lease().is_some(), fed.contains(&code), "{code}");
        world.finish();
    }
}

#[test]
fn reads_events_pings_syncs_and_answers_without_a_zxid_do_not_feed_it() {
    let mut world = World::up();
    world.sync(); // a leader answers it alone that has been replaced
    let frame = world.take(OpCode::Sync);
    world.answer(&frame, 9, ErrorCode::OK, &SyncReply { path: None });
    world.get("/a");
    let frame = world.take(OpCode::GetData);
    world.answer(&frame, 9, ErrorCode::OK, &());
    world.notify(EventType::NODE_CREATED, "/a");
    world.deliver(&pong());
    world.auth("digest");
    let frame = world.take(OpCode::Auth);
    world.answer(&frame, 9, ErrorCode::OK, &());
    for zxid in [0, -1] {
        world.prove();
        let frame = world.take(OpCode::Multi);
        world.answer(&frame, zxid, ErrorCode::OK, &MultiReply { results: vec![] });
    }
    assert_eq!(world.lease(), None);
    world.finish();
}

#[test]
fn a_quorum_is_asked_every_sixth_of_the_timeout_while_it_is_claimed() {
    let mut world = World::served(&[]);
    world.advance(T);
    assert_eq!(world.times(OpCode::Multi), []);
    world.claim();
    world.claim();
    world.advance(ms(3000));
    assert_eq!(world.times(OpCode::Multi), [ms(6000), ms(7000), ms(8000), ms(9000)]);
    world.session.unclaim_lease();
    world.advance(ms(1000));
    assert_eq!(world.times(OpCode::Multi).len(), 5, "one claim is left");
    world.session.unclaim_lease();
    world.advance(T);
    assert_eq!(world.times(OpCode::Multi).len(), 5);
    world.finish();
}

#[test]
fn a_claimed_lease_holds_as_long_as_a_quorum_answers() {
    let mut world = World::served(&[]);
    world.claim();
    world.advance(T * 50);
    assert_eq!(world.standings(), []);
    assert!(world.lease().unwrap() > world.now() + T / 2);
    world.finish();
}

#[test]
fn writes_that_are_refused_on_the_way_do_not_starve_it() {
    let mut world = World::up();
    world.answered.insert(OpCode::Multi.code());
    world.answered.insert(OpCode::Ping.code());
    world.claim();
    for _ in 0..100 {
        world.advance(ms(100));
        world.set("/a");
        let frame = world.take(OpCode::SetData);
        world.answer(&frame, 9, ErrorCode::NO_AUTH, &());
    }
    assert_eq!(world.standings(), []);
    assert!(world.lease().is_some());
    world.finish();
}

#[test]
fn it_lapses_with_a_word_at_its_deadline() {
    let mut world = World::up();
    world.answered.insert(OpCode::Ping.code());
    world.prove();
    let frame = world.take(OpCode::Multi);
    world.answer(&frame, 9, ErrorCode::OK, &());
    world.advance(LEASE - ms(1));
    assert_eq!(world.lease(), Some(LEASE));
    world.advance(ms(1));
    assert_eq!(world.lease(), None);
    assert_eq!(world.standings(), [(LEASE, lapsed(1))]);
    assert!(world.session.is_connected());
    world.finish();
}

#[test]
fn the_margin_can_be_chosen_up_to_half_of_the_timeout() {
    let mut world = World::with(|settings| settings.lease_margin = Some(ms(1000)));
    world.bring_up();
    world.prove();
    let frame = world.take(OpCode::Multi);
    world.answer(&frame, 9, ErrorCode::OK, &());
    assert_eq!(world.lease(), Some(ms(5000)));

    // With more the lease would be over before it could be renewed.
    let mut most = World::with(|settings| settings.lease_margin = Some(T * 5));
    most.bring_up();
    most.prove();
    let frame = most.take(OpCode::Multi);
    most.answer(&frame, 9, ErrorCode::OK, &());
    assert_eq!(most.lease(), Some(T / 2));
    most.finish();
    world.finish();
}

#[test]
fn a_term_that_is_over_never_comes_back() {
    let mut world = World::up();
    world.answered.insert(OpCode::Ping.code());
    world.prove();
    let frame = world.take(OpCode::Multi);
    world.answer(&frame, 9, ErrorCode::OK, &());
    let (term, _) = world.session.lease(world.instant()).unwrap();

    world.advance(LEASE - ms(100));
    world.prove(); // sent within the term, answered after it
    let late = world.take(OpCode::Multi);
    world.advance(ms(200));
    world.answer(&late, 9, ErrorCode::OK, &());
    let (next, until) = world.session.lease(world.instant()).unwrap();
    assert_eq!(next, term + 1);
    assert_eq!(world.lease(), Some(LEASE - ms(100) + LEASE));
    assert!(until > world.instant());
    world.finish();
}

#[test]
fn losing_the_connection_or_having_it_again_changes_nothing() {
    let mut world = World::up();
    world.prove();
    let frame = world.take(OpCode::Multi);
    world.answer(&frame, 9, ErrorCode::OK, &());
    world.advance(ms(1000));
    world.cut();
    assert_eq!(world.lease(), Some(LEASE));
    world.bring_up();
    assert_eq!(world.lease(), Some(LEASE));
    assert_eq!(world.standings(), []);
    world.advance_to(LEASE);
    assert_eq!(world.lease(), None);
    world.finish();
}

#[test]
fn a_claimed_lease_is_fed_first_thing_on_a_new_connection() {
    let mut world = World::served(&[]);
    world.advance(ms(1000));
    world.claim();
    world.advance(ms(100));
    world.cut();
    let queued = world.get("/a");
    let before = world.now();
    world.servers = Servers::Serve;
    world.advance(ms(100));
    let asked = world.times(OpCode::Multi);
    assert_eq!(asked.len(), 2);
    assert!(asked[1] - before < ms(20));
    assert!(world.reply(queued).is_some());
    world.finish();
}

/// The server we are connected to is cut off from the leader: it goes on
/// answering pings, long after the leader has expired the session.
#[test]
fn pings_that_are_answered_do_not_keep_it_when_writes_are_not() {
    let mut world = World::served(&[]);
    world.claim();
    world.advance(ms(2500));
    let cut = world.now();
    let fed = *world.times(OpCode::Multi).last().unwrap();
    world.unanswered.insert(OpCode::Multi.code());
    world.advance(T);
    let (at, standing) = world.standings()[0];
    assert_eq!(standing, lapsed(1));
    assert_eq!(at, fed + LEASE);
    assert!(at < cut + T);
    assert!(world.session.is_connected(), "a follower answers pings");
    world.finish();
}

/// Everything came to a stop for twice the timeout, and the answers of before are
/// still in the buffer.
#[test]
fn it_has_lapsed_before_anything_that_waits_in_the_buffer_is_looked_at() {
    let mut world = World::up();
    world.advance(ms(1000));
    world.claim();
    let frame = world.take(OpCode::Multi);
    world.answer(&frame, 9, ErrorCode::OK, &());
    world.advance(ms(1000));
    let frame = world.take(OpCode::Multi);
    let write = world.create("/a");
    let create = world.take(OpCode::Create2);
    world.freeze(T * 2);

    assert_eq!(world.lease(), None, "by the clock alone");
    let before = world.log.len();
    world.answer(&frame, 10, ErrorCode::OK, &());
    let standing = crate::harness::Seen::Standing(lapsed(1));
    assert_eq!(world.log[before].1, standing);
    assert_eq!(world.lease(), None, "too late even for a lease of its own");
    world.answer(&create, 11, ErrorCode::OK, &());
    assert!(world.is_ok(write));
    world.tick();
    assert_eq!(world.session.ended(), None, "whether it is, a server has to say");
    assert_eq!(world.lease(), None);
    world.finish();
}

#[test]
fn the_end_of_the_session_ends_it() {
    let mut world = World::served(&[]);
    world.advance(ms(1000));
    world.claim();
    assert!(world.lease().is_some());
    world.close();
    assert_eq!(world.lease(), None);
    let end = Some(SessionEnd::Closed);
    assert_eq!(world.session.standing(), Standing { term: 1, closing: None, ended: end });
    world.finish();
}

#[test]
fn closing_ends_every_belief_before_the_server_has_the_request() {
    let mut world = World::up();
    world.claim();
    world.prove();
    let heartbeat = world.take(OpCode::Multi);
    world.serve(&heartbeat);
    assert!(world.lease().is_some());
    world.close();
    assert_eq!(world.lease(), None, "the server may give the lock away from now on");
    let (_, standing) = world.standings().pop().unwrap();
    assert_eq!(standing, Standing { term: 1, closing: Some(SessionEnd::Closed), ended: None });
    world.finish();
}

/// A quorum has agreed to it with the timeout of before; the new one is one server's word, and
/// a leader may be waiting for less.
#[test]
fn a_handshake_with_a_longer_timeout_does_not_prolong_it() {
    let mut world = World::up();
    world.prove();
    let proof = world.take(OpCode::Multi);
    world.serve(&proof);
    let before = world.lease().unwrap();
    world.advance(ms(1000));
    world.cut();
    world.open();
    world.respond(&crate::harness::acceptance(40_000));
    assert_eq!(world.lease(), Some(before));
    world.prove();
    let proof = world.take(OpCode::Multi);
    world.serve(&proof);
    assert_eq!(world.lease(), Some(world.now() + ms(30_000)), "agreed to by now");
    world.finish();
}

/// What else is heard, an event here, says nothing of the lease, and must not keep a connection
/// that is dead until the lease is over.
#[test]
fn a_connection_that_falls_silent_is_replaced_before_it_is_over() {
    for heard in [0, 250, 500, 750, 990] {
        let mut world = World::up();
        world.advance(ms(1000));
        world.claim();
        let proof = world.take(OpCode::Multi);
        world.serve(&proof);
        let (end, standings) = (world.lease().unwrap(), world.standings().len());
        world.advance(ms(heard));
        world.notify(EventType::NODE_CREATED, "/x");
        world.frames.clear();
        while world.session.is_connected() {
            world.advance_to_deadline();
        }
        let left = end - world.now();
        assert!(left >= T / 6, "{left:?} left, after an event at {heard}");
        world.bring_up();
        let proof = world.take(OpCode::Multi);
        world.serve(&proof);
        assert!(world.lease() > Some(end));
        assert_eq!(world.standings().len(), standings, "unbroken");
        world.finish();
    }
}
