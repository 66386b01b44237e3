//! The session lease: its proof, its renewal and its end.

use std::time::Duration;

use proto::{ErrorCode, EventType, MultiReply, OpCode, SyncReply, Zxid};
use zk_session_core::LeaseState;
use zk_session_core::{LeaseAssumptions, SessionEnd};

use crate::harness::{Servers, T, World, ms, pong};

/// Safety margin by which the lease ends early: a twelfth of the timeout, and 1,000 ppm of it.
const EARLY: Duration = Duration::from_millis(506);
/// Length of a lease, from the touch that it counts from.
pub(crate) const LEASE: Duration = Duration::from_millis(6000 - 506);

fn lapsed(term: u64) -> LeaseState {
    LeaseState { term, closing: None, ended: None, paused: None }
}

#[test]
fn lease_is_invalid_before_a_quorum_answers() {
    let mut world = World::up();
    assert_eq!(world.lease(), None);
    world.answered.extend([OpCode::Ping, OpCode::Sync].map(OpCode::code));
    world.advance(T * 3);
    assert_eq!(world.lease(), None, "neither the handshake nor pings prove it");
    assert_eq!(world.standings(), [], "a lease that never began cannot end");
    world.finish();
}

#[test]
fn quorum_write_proves_the_last_touch_before_the_flush_bound() {
    type Ask = fn(&mut World) -> u32;
    let asks: [(Ask, OpCode); 4] = [
        (|w| w.create("/a"), OpCode::Create2),
        (|w| w.delete("/a"), OpCode::Delete),
        (|w| w.set("/a"), OpCode::SetData),
        (|w| w.prove(), OpCode::Multi),
    ];
    for (ask, op) in asks {
        let mut world = World::up();
        world.advance(ms(2000));
        let ping = world.take(OpCode::Ping);
        world.advance(ms(300));
        world.serve(&ping); // sent at 2000, answered at 2300
        world.advance(ms(1999));
        world.take(OpCode::Ping);
        ask(&mut world); // a millisecond too early to prove the ping
        let early = world.take(op);
        world.advance(ms(1));
        ask(&mut world);
        let late = world.take(op);
        world.advance(ms(600));
        world.answer(&early, Zxid(9), ErrorCode::OK, &());
        assert_eq!(world.lease(), Some(LEASE), "{op:?}: from the handshake");
        world.answer(&late, Zxid(9), ErrorCode::OK, &());
        assert_eq!(world.lease(), Some(ms(2000) + LEASE), "{op:?}");
        world.finish();
    }
}

/// A follower forwards touches to the leader with its next flush, and may hang before it.
#[test]
fn write_after_silence_does_not_prolong_the_lease() {
    let mut world = World::up();
    world.create("/a");
    let create = world.take(OpCode::Create2);
    world.answer(&create, Zxid(9), ErrorCode::OK, &());
    assert_eq!(world.lease(), Some(LEASE));
    world.freeze(T * 6 / 10);
    world.create("/b");
    let create = world.take(OpCode::Create2);
    world.answer(&create, Zxid(10), ErrorCode::OK, &());
    assert_eq!(world.lease(), Some(LEASE), "counted from before the silence");
    world.finish();
}

#[test]
fn sync_proof_is_bounded_by_the_last_quorum_write() {
    let mut world = World::up();
    world.answered.extend([OpCode::Ping.code(), OpCode::Sync.code()]);
    world.prove();
    let proof = world.take(OpCode::Multi);
    world.answer(&proof, Zxid(9), ErrorCode::OK, &());
    world.advance(ms(4000));
    world.sync();
    assert_eq!(world.lease(), Some(LEASE), "a new leader may have started at 0");
    world.prove();
    let proof = world.take(OpCode::Multi);
    world.answer(&proof, Zxid(10), ErrorCode::OK, &());
    assert_eq!(world.lease(), Some(ms(2000) + LEASE), "from the ping");
    world.advance(ms(2000));
    world.sync();
    assert_eq!(world.lease(), Some(ms(4000) + LEASE), "from the first proof");
    world.finish();
}

#[test]
fn error_reply_proves_the_lease_only_if_a_quorum_agreed() {
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
        world.answer(&frame, Zxid(9), code, &());
        assert_eq!(world.lease().is_some(), fed.contains(&code), "{code}");
        world.finish();
    }
}

#[test]
fn reads_events_and_replies_without_zxid_prove_no_lease() {
    let mut world = World::up();
    world.sync(); // a replaced leader answers a sync as well
    let frame = world.take(OpCode::Sync);
    world.answer(&frame, Zxid(9), ErrorCode::OK, &SyncReply { path: None });
    world.get("/a");
    let frame = world.take(OpCode::GetData);
    world.answer(&frame, Zxid(9), ErrorCode::OK, &());
    world.notify(EventType::NODE_CREATED, "/a");
    world.deliver(&pong());
    world.auth("digest");
    let frame = world.take(OpCode::Auth);
    world.answer(&frame, Zxid(9), ErrorCode::OK, &());
    for zxid in [0, -1] {
        world.prove();
        let frame = world.take(OpCode::Multi);
        world.answer(&frame, Zxid(zxid), ErrorCode::OK, &MultiReply { results: vec![] });
    }
    assert_eq!(world.lease(), None);
    world.finish();
}

#[test]
fn claimed_lease_sends_quorum_writes_and_syncs_on_schedule() {
    let mut world = World::served();
    world.advance(T);
    assert_eq!(world.times(OpCode::Multi), []);
    let idle = T - T / 8 - T / 1000; // with the drift of the clocks
    assert_eq!(world.times(OpCode::Sync), [idle], "it proves a ping before the evidence has a gap");
    world.claim();
    world.claim();
    world.advance(T);
    let quorum: Vec<_> = [0, 2250, 4500].map(|at| T + ms(at)).into();
    assert_eq!(world.times(OpCode::Multi), quorum, "three logged writes in a timeout");
    let leader: Vec<_> = [750, 1500, 3000, 3750, 5250, 6000].map(|at| T + ms(at)).into();
    assert_eq!(world.times(OpCode::Sync), [&[idle], &leader[..]].concat());
    let sent: Vec<_> = world.seen.iter().map(|(at, _)| *at).filter(|at| *at >= T).collect();
    assert!(sent.windows(2).all(|pair| pair[1] - pair[0] <= T / 16), "{sent:?}");
    for asked in quorum.iter().chain(&leader) {
        assert!(world.times(OpCode::Ping).contains(asked), "a ping in front of each, {asked:?}");
    }
    world.session.unclaim_lease();
    world.advance(ms(750));
    assert_eq!(world.times(OpCode::Multi).len(), 4, "one claim is left");
    world.session.unclaim_lease();
    world.advance(T);
    assert_eq!(world.times(OpCode::Multi).len(), 4);
    assert!(world.times(OpCode::Sync).len() <= 7 + 4, "an idle session needs less");
    world.finish();
}

/// The documented minimum of the time that a lease has left when replies stop.
#[test]
fn claimed_lease_always_has_a_third_of_the_timeout_left() {
    let mut world = World::served();
    world.claim();
    world.advance(T);
    let mut least = T;
    while world.now() < T * 20 {
        world.advance(ms(7));
        least = least.min(world.lease().unwrap() - world.now());
    }
    assert_eq!(world.standings(), []);
    assert!(least >= T * 39 / 100, "{least:?}");
    world.finish();
}

/// After a long silence, the session proves its first touches as early as possible.
#[test]
fn lapsed_lease_is_renewed_after_the_expiry_pass() {
    let mut world = World::served();
    world.claim();
    world.advance(T);
    world.freeze(T);
    world.tick();
    let resumed = world.now();
    assert_eq!(world.lease(), None);
    while world.lease().is_none() {
        world.advance_to_deadline();
    }
    // The first touch is proven after the flush bound. Then a leader may need two seconds for the
    // sessions of a bucket.
    let longest = T / 3 + ms(2000) + T / 16;
    assert!(world.now() - resumed <= longest, "{:?}", world.now() - resumed);
    world.finish();
}

#[test]
fn writes_rejected_before_the_quorum_do_not_starve_the_lease() {
    let mut world = World::up();
    world.answered.extend([OpCode::Multi, OpCode::Ping, OpCode::Sync].map(OpCode::code));
    world.claim();
    for _ in 0..100 {
        world.advance(ms(100));
        world.set("/a");
        let frame = world.take(OpCode::SetData);
        world.answer(&frame, Zxid(9), ErrorCode::NO_AUTH, &());
    }
    assert_eq!(world.standings(), []);
    assert!(world.lease().is_some());
    world.finish();
}

#[test]
fn lease_lapses_at_its_deadline_and_reports_it() {
    let mut world = World::up();
    world.answered.insert(OpCode::Ping.code());
    world.prove();
    let frame = world.take(OpCode::Multi);
    world.answer(&frame, Zxid(9), ErrorCode::OK, &());
    world.advance(LEASE - ms(1));
    assert_eq!(world.lease(), Some(LEASE));
    world.advance(ms(1));
    assert_eq!(world.lease(), None);
    assert_eq!(world.standings(), [(LEASE, lapsed(1))]);
    assert!(world.session.is_connected());
    world.finish();
}

#[test]
fn lease_assumptions_determine_the_end_of_the_lease() {
    let assumptions = LeaseAssumptions::new().margin(ms(1000)).clock_drift_ppm(0);
    let assumptions = assumptions.flush_bound(ms(1200));
    let mut world = World::with(|settings| settings.lease_assumptions = assumptions);
    world.bring_up();
    world.answered.insert(OpCode::Ping.code());
    world.advance(ms(3200)); // a ping at 2000
    world.prove();
    let frame = world.take(OpCode::Multi);
    world.answer(&frame, Zxid(9), ErrorCode::OK, &());
    assert_eq!(world.lease(), Some(ms(2000) + T - ms(1000)));
    world.finish();
}

#[test]
fn lapsed_term_is_never_valid_again() {
    let mut world = World::up();
    world.answered.insert(OpCode::Ping.code());
    world.prove();
    let frame = world.take(OpCode::Multi);
    world.answer(&frame, Zxid(9), ErrorCode::OK, &());
    let (term, _) = world.session.lease(world.instant()).unwrap();

    world.advance(LEASE - ms(100));
    world.prove(); // sent within the term, answered after it
    let late = world.take(OpCode::Multi);
    world.advance(ms(200));
    world.answer(&late, Zxid(9), ErrorCode::OK, &());
    let (next, until) = world.session.lease(world.instant()).unwrap();
    assert_eq!(next, term + 1);
    assert_eq!(world.lease(), Some(ms(2000) + LEASE), "from the ping");
    assert!(until > world.instant());
    world.finish();
}

#[test]
fn reconnect_prolongs_the_lease_once_a_quorum_has_agreed() {
    let mut world = World::up();
    world.prove();
    let frame = world.take(OpCode::Multi);
    world.answer(&frame, Zxid(9), ErrorCode::OK, &());
    world.advance(ms(1000));
    world.cut();
    assert_eq!(world.lease(), Some(LEASE));
    world.open();
    let connected = world.now();
    world.respond(&crate::script::acceptance(6000));
    assert_eq!(world.lease(), Some(LEASE), "a leader that was replaced accepts it as well");
    world.sync();
    let frame = world.take(OpCode::Sync);
    world.answer(&frame, Zxid(9), ErrorCode::OK, &SyncReply { path: None });
    assert_eq!(world.lease(), Some(LEASE));
    world.prove();
    let frame = world.take(OpCode::Multi);
    world.answer(&frame, Zxid(10), ErrorCode::OK, &());
    assert_eq!(world.lease(), Some(connected + LEASE), "the handshake is a touch at the leader");
    assert_eq!(world.standings(), []);
    world.finish();
}

/// The server may have shortened the timeout in a reply that the client never received.
#[test]
fn unanswered_handshake_limits_the_lease_to_half_the_timeout() {
    let mut world = World::up();
    world.prove();
    let frame = world.take(OpCode::Multi);
    world.answer(&frame, Zxid(9), ErrorCode::OK, &());
    world.advance(ms(1000));
    world.cut();
    world.open();
    let asked = world.now();
    assert_eq!(world.lease(), Some(asked + T / 2 - EARLY));
    world.advance(ms(100));
    world.cut();
    world.bring_up();
    let again = world.now();
    assert_eq!(world.lease(), Some(asked + T / 2 - EARLY), "until a quorum has agreed");
    world.prove();
    let frame = world.take(OpCode::Multi);
    world.answer(&frame, Zxid(10), ErrorCode::OK, &());
    assert_eq!(world.lease(), Some(again + T / 2 - EARLY), "the first may still take effect");
    world.advance(ms(100));
    world.delete("/no-node");
    let frame = world.take(OpCode::Delete);
    world.answer(&frame, Zxid(11), ErrorCode::NO_NODE, &());
    assert_eq!(world.lease(), Some(again + ms(100) + T / 2 - EARLY), "the owner was checked");
    world.finish();
}

#[test]
fn claimed_lease_sends_a_quorum_write_first_after_reconnect() {
    let mut world = World::served();
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

/// A slow commit delays all later replies of the session.
#[test]
fn slow_commit_keeps_the_connection_and_the_lease() {
    let mut world = World::up();
    world.answered.insert(OpCode::Ping.code());
    world.claim();
    let proof = world.take(OpCode::Multi);
    world.serve(&proof);
    world.advance(T / 8);
    let slow = world.take(OpCode::Sync);
    world.answered.clear(); // pings wait behind it
    world.advance(T * 35 / 100);
    assert!(world.session.is_connected() && world.lease().is_some());
    world.serve(&slow);
    assert_eq!(world.standings(), []);
    world.finish();
}

/// The connected server is cut off from the leader. It keeps answering pings long after the leader
/// has expired the session.
#[test]
fn answered_pings_do_not_keep_the_lease() {
    let mut world = World::served();
    world.claim();
    world.advance(ms(2500));
    let cut = world.now();
    let end = world.lease().unwrap();
    world.unanswered.extend([OpCode::Multi.code(), OpCode::Sync.code()]);
    world.advance(T);
    let (at, lease_state) = world.standings()[0];
    assert_eq!(lease_state, lapsed(1));
    assert_eq!(at, end);
    assert!(at < cut + T);
    assert!(world.session.is_connected(), "a follower answers pings");
    world.finish();
}

/// The process stops for twice the timeout, and replies from before are still in the receive
/// buffer.
#[test]
fn lease_lapses_before_buffered_replies_are_read() {
    let mut world = World::up();
    world.advance(ms(1000));
    world.claim();
    let frame = world.take(OpCode::Multi);
    world.answer(&frame, Zxid(9), ErrorCode::OK, &());
    world.advance(ms(3000));
    world.frames.retain(|frame| frame.op == OpCode::Multi);
    let frame = world.take(OpCode::Multi);
    let write = world.create("/a");
    let create = world.take(OpCode::Create2);
    world.freeze(T * 2);

    assert_eq!(world.lease(), None, "by the clock alone");
    let before = world.log.len();
    world.answer(&frame, Zxid(10), ErrorCode::OK, &());
    let paused = Some(T * 2 - T / 16);
    let lease_state = crate::harness::Seen::LeaseState(LeaseState { paused, ..lapsed(1) });
    assert_eq!(world.log[before].1, lease_state);
    assert_eq!(world.lease(), None, "too late even for a lease of its own");
    world.answer(&create, Zxid(11), ErrorCode::OK, &());
    assert!(world.is_ok(write));
    world.tick();
    assert_eq!(world.session.end_reason(), None, "whether it is, a server has to say");
    assert_eq!(world.lease(), None);
    world.finish();
}

#[test]
fn end_of_the_session_ends_the_lease() {
    let mut world = World::served();
    world.advance(ms(1000));
    world.claim();
    assert!(world.lease().is_some());
    world.close();
    assert_eq!(world.lease(), None);
    let end = Some(SessionEnd::Closed);
    assert_eq!(
        world.session.lease_state(),
        LeaseState { term: 1, closing: None, ended: end, paused: None }
    );
    world.finish();
}

#[test]
fn close_ends_the_lease_before_the_server_answers() {
    let mut world = World::up();
    world.claim();
    world.prove();
    let heartbeat = world.take(OpCode::Multi);
    world.serve(&heartbeat);
    assert!(world.lease().is_some());
    world.close();
    assert_eq!(world.lease(), None, "the server may give the lock away from now on");
    let (_, lease_state) = world.standings().pop().unwrap();
    assert_eq!(
        lease_state,
        LeaseState { term: 1, closing: Some(SessionEnd::Closed), ended: None, paused: None }
    );
    world.finish();
}

/// An event does not prove the lease, and must not keep a dead connection open until the lease ends.
#[test]
fn silent_connection_is_replaced_before_the_lease_ends() {
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
        assert!(left >= T / 8, "{left:?} left, after an event at {heard}");
        world.bring_up();
        let proof = world.take(OpCode::Multi);
        world.serve(&proof);
        assert!(world.lease() > Some(end));
        assert_eq!(world.standings().len(), standings, "unbroken");
        world.finish();
    }
}

/// Only the leader answers a sync. A follower that is cut off from it answers reads.
#[test]
fn answered_reads_do_not_prolong_the_lease() {
    let mut world = World::up();
    world.answered.extend([OpCode::Ping.code(), OpCode::GetData.code()]);
    world.prove();
    let proof = world.take(OpCode::Multi);
    world.serve(&proof);
    world.advance(ms(4000)); // the ping at 2000 could be proven now
    world.prove();
    let proof = world.take(OpCode::Multi);
    world.serve(&proof);
    let end = world.lease();
    for _ in 0..6 {
        world.advance(ms(500));
        world.get("/a");
    }
    assert_eq!(world.lease(), end);
    assert_eq!(world.session.stats(world.instant()).lease.leader_answered, Some(ms(3000)));
    world.finish();
}

/// A lock that depends on such a lease would be lost although all is well.
#[test]
fn lease_that_ends_before_its_renewal_is_not_bound() {
    let mut world = World::with(|settings| {
        settings.lease_assumptions = LeaseAssumptions::new().flush_bound(ms(3300));
    });
    world.bring_up();
    let pinged = T - ms(3300) - T / 8 - T / 16;
    world.advance(pinged);
    let ping = world.take(OpCode::Ping);
    world.advance_to(ms(2200));
    world.serve(&ping);
    world.answered.insert(OpCode::Ping.code());
    assert_eq!(world.session.term_to_bind(world.instant()), None, "no quorum has agreed yet");
    world.prove();
    let proof = world.take(OpCode::Multi);
    world.serve(&proof);
    // The ping can be proven at 5500, after the end of the lease.
    assert_eq!(world.lease(), Some(LEASE));
    assert_eq!(world.session.term_to_bind(world.instant()), None);
    let base = world.instant() - world.now();
    assert_eq!(world.session.lease_proof_due(), Some(base + ms(5500)));
    world.advance_to(ms(5500));
    world.prove();
    let proof = world.take(OpCode::Multi);
    world.serve(&proof);
    assert_eq!(world.lease(), Some(ms(2200) + LEASE), "from the request before");
    assert!(world.session.term_to_bind(world.instant()).is_some());
    world.finish();
}

#[test]
fn slow_replies_prevent_a_binding_that_fast_ones_allow() {
    for (round_trip, binds) in [(1, true), (600, false)] {
        let mut world = World::up();
        world.advance(ms(2900 - round_trip));
        world.prove();
        let proof = world.take(OpCode::Multi);
        world.advance(ms(round_trip));
        world.serve(&proof);
        assert_eq!(world.lease(), Some(LEASE));
        let bound = world.session.term_to_bind(world.instant());
        assert_eq!(bound.is_some(), binds, "with a round trip of {round_trip} ms");
        world.finish();
    }
}

#[test]
fn lease_is_claimed_until_every_claim_is_released() {
    let mut world = World::up();
    assert!(!world.session.is_lease_claimed());
    world.session.claim_lease();
    world.session.claim_lease();
    world.session.unclaim_lease();
    assert!(world.session.is_lease_claimed());
    world.session.unclaim_lease();
    assert!(!world.session.is_lease_claimed());
}

#[test]
fn lease_without_a_claim_does_not_hasten_the_reconnect() {
    let mut world = World::up();
    world.answered.insert(OpCode::Ping.code());
    world.prove();
    let proof = world.take(OpCode::Multi);
    world.serve(&proof);
    world.advance(ms(2100)); // a ping at 2000, and its answer
    world.answered.clear();
    world.get("/a");
    while world.session.is_connected() {
        world.advance_to_deadline();
    }
    assert_eq!(world.now(), ms(2000) + T * 2 / 3, "and not before the end of the lease");
    world.finish();
}

/// A reply to a read is delayed only by the server itself, a reply to a write or a sync also by the
/// commits of others. Another connection would not be faster then.
#[test]
fn reconnect_before_the_lease_ends_needs_a_silent_server() {
    type Ask = fn(&mut World) -> u32;
    let asks: [(Ask, bool); 3] =
        [(|w| w.get("/a"), true), (|w| w.sync(), false), (|w| w.create("/a"), false)];
    for (ask, is_hasty) in asks {
        let mut world = World::served();
        world.claim();
        world.advance(T * 3);
        world.servers = Servers::Scripted;
        let begun = world.now();
        ask(&mut world);
        while world.session.is_connected() {
            world.advance_to_deadline();
        }
        let after = world.now() - begun;
        assert_eq!(after < T / 2, is_hasty, "{after:?}");
        world.finish();
    }
}
