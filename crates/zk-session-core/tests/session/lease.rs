//! The session lease: its proof, its renewal and its end.

use crate::harness::prelude::*;

/// Safety margin by which the lease ends early: a twelfth of the timeout, and 1,000 ppm of it.
const EARLY: Duration = Duration::from_millis(506);
/// Length of a lease, from the touch that it counts from.
pub(crate) const LEASE: Duration = Duration::from_millis(6000 - 506);
/// Longest time until a follower forwards a touch to the leader.
const FLUSH: Duration = Duration::from_millis(2000);

fn lapsed(term: u64) -> LeaseState {
    LeaseState { term, closing: None, ended: None, paused: None }
}

/// Returns a world whose session has claimed the lease, and proven it once.
fn claimed() -> World {
    let mut world = World::up();
    world.claim();
    world.serve_next(OpCode::Multi);
    world
}

#[test]
fn lease_is_invalid_before_a_quorum_answers() {
    let mut world = World::up_answering(&[OpCode::Ping, OpCode::Sync]);
    world.advance(T * 3);
    assert_eq!(world.lease(), None, "neither the handshake nor pings prove it");
    assert_eq!(world.standings(), [], "a lease that never began cannot end");
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
        let touched = world.advance_to_ping();
        let ping = world.take(OpCode::Ping);
        world.advance(ms(300));
        world.serve(&ping);
        world.advance(FLUSH - ms(1));
        ask(&mut world); // a millisecond too early to prove the ping
        let early = world.take(op);
        world.advance(ms(1));
        ask(&mut world);
        let late = world.take(op);
        world.advance(ms(600));
        world.answer(&early, Zxid(9), ErrorCode::OK, &());
        assert_eq!(world.lease(), Some(LEASE), "{op:?}: from the handshake");
        world.answer(&late, Zxid(9), ErrorCode::OK, &());
        assert_eq!(world.lease(), Some(touched + LEASE), "{op:?}");
    }
}

/// A follower forwards touches to the leader with its next flush, and may hang before it.
#[test]
fn write_after_silence_does_not_prolong_the_lease() {
    let mut world = World::up();
    world.renew();
    assert_eq!(world.lease(), Some(LEASE));
    world.freeze(T * 6 / 10);
    world.renew();
    assert_eq!(world.lease(), Some(LEASE), "counted from before the silence");
}

/// Only the leader answers a sync. A follower that is cut off from it answers reads.
#[test]
fn sync_proof_is_bounded_by_the_last_quorum_write() {
    let mut world = World::up_answering(&[OpCode::Ping, OpCode::Sync, OpCode::GetData]);
    world.renew();
    let touched = world.advance_to_ping();
    world.advance(FLUSH);
    world.sync();
    assert_eq!(world.lease(), Some(LEASE), "a new leader may have started at 0");
    world.renew();
    assert_eq!(world.lease(), Some(touched + LEASE), "from the ping");
    let proven = world.now();
    world.advance(FLUSH);
    world.get("/a");
    assert_eq!(world.lease(), Some(touched + LEASE), "a read proves nothing");
    world.sync();
    assert_eq!(world.lease(), Some(proven + LEASE), "from the first proof");
}

#[test]
fn error_reply_proves_the_lease_only_if_a_quorum_agreed() {
    use ErrorCode as E;
    let fed =
        [E::NO_NODE, E::NODE_EXISTS, E::BAD_VERSION, E::NOT_EMPTY, E::NO_CHILDREN_FOR_EPHEMERALS];
    let unfed = [E::NO_AUTH, E::NOT_READ_ONLY, E::THROTTLED_OP, E::UNIMPLEMENTED];
    let unfed = unfed.into_iter().chain([E::MARSHALLING_ERROR, E::SESSION_MOVED, E::INVALID_ACL]);
    for code in fed.into_iter().chain(unfed).chain([ErrorCode(-4711)]) {
        let mut world = World::up();
        world.create("/a");
        world.reject(OpCode::Create2, code);
        assert_eq!(world.lease().is_some(), fed.contains(&code), "{code}");
    }
}

#[test]
fn reads_events_and_replies_without_zxid_prove_no_lease() {
    let mut world = World::up();
    world.sync(); // a replaced leader answers a sync as well
    world.accept(OpCode::Sync);
    world.get("/a");
    world.accept(OpCode::GetData);
    world.notify(EventType::NODE_CREATED, "/a");
    world.deliver(&pong());
    world.auth("digest");
    world.answer_next(OpCode::Auth, Zxid(9), ErrorCode::OK, &());
    for zxid in [0, -1] {
        world.prove();
        world.answer_next(OpCode::Multi, Zxid(zxid), ErrorCode::OK, &());
    }
    assert_eq!(world.lease(), None);
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
    let quorum = [0, 3, 6].map(|eighths| T + eighths * T / 8);
    assert_eq!(world.times(OpCode::Multi), quorum, "three logged writes in a timeout");
    let leader = [1, 2, 4, 5, 7, 8].map(|eighths| T + eighths * T / 8);
    assert_eq!(world.times(OpCode::Sync), [&[idle], &leader[..]].concat());
    let sent: Vec<_> = world.seen.iter().map(|(at, _)| *at).filter(|at| *at >= T).collect();
    assert!(sent.windows(2).all(|pair| pair[1] - pair[0] <= T / 16), "{sent:?}");
    for asked in quorum.iter().chain(&leader) {
        assert!(world.times(OpCode::Ping).contains(asked), "a ping in front of each, {asked:?}");
    }
    world.session.unclaim_lease();
    world.advance(T / 8);
    assert_eq!(world.times(OpCode::Multi).len(), 4, "one claim is left");
    world.session.unclaim_lease();
    assert!(!world.session.is_lease_claimed());
    world.advance(T);
    assert_eq!(world.times(OpCode::Multi).len(), 4);
    assert!(world.times(OpCode::Sync).len() <= 7 + 4, "an idle session needs less");
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
    let renewed = world.advance_until(|world| world.lease().is_some());
    // The first touch is proven after the flush bound. Then a leader may need two seconds for the
    // sessions of a bucket.
    let longest = FLUSH + ms(2000) + T / 16;
    assert!(renewed - resumed <= longest, "{:?}", renewed - resumed);
}

#[test]
fn writes_rejected_before_the_quorum_do_not_starve_the_lease() {
    let mut world = World::up_answering(&[OpCode::Multi, OpCode::Ping, OpCode::Sync]);
    world.claim();
    for _ in 0..100 {
        world.advance(ms(100));
        world.set("/a");
        world.reject(OpCode::SetData, ErrorCode::NO_AUTH);
    }
    assert_eq!(world.standings(), []);
    assert!(world.lease().is_some());
}

#[test]
fn lapsed_term_is_never_valid_again() {
    let mut world = World::up_answering(&[OpCode::Ping]);
    world.renew();
    let (term, _) = world.session.lease(world.instant()).unwrap();
    world.advance(LEASE - ms(1));
    assert_eq!(world.lease(), Some(LEASE));
    world.prove(); // sent within the term, answered after it
    let late = world.take(OpCode::Multi);
    world.advance(ms(1));
    assert_eq!((world.lease(), world.standings()), (None, vec![(LEASE, lapsed(1))]));
    assert!(world.session.is_connected());
    world.answer(&late, Zxid(9), ErrorCode::OK, &());
    let (next, until) = world.session.lease(world.instant()).unwrap();
    assert_eq!(next, term + 1, "from a ping");
    assert!(until > world.instant());
}

#[test]
fn lease_assumptions_determine_the_end_of_the_lease() {
    let (margin, flush) = (ms(1000), ms(1200));
    let assumptions = LeaseAssumptions::new().margin(margin).clock_drift_ppm(0);
    let assumptions = assumptions.flush_bound(flush);
    let mut world = World::up_with(|settings| settings.lease_assumptions = assumptions);
    world.answered.insert(OpCode::Ping.code());
    let touched = world.advance_to_ping();
    world.advance(flush);
    world.renew();
    assert_eq!(world.lease(), Some(touched + T - margin));
}

#[test]
fn reconnect_prolongs_the_lease_once_a_quorum_has_agreed() {
    let mut world = World::up();
    world.renew();
    world.advance(ms(1000));
    world.cut();
    assert_eq!(world.lease(), Some(LEASE));
    world.bring_up();
    let connected = world.now();
    assert_eq!(world.lease(), Some(LEASE), "a leader that was replaced accepts it as well");
    world.sync();
    world.accept(OpCode::Sync);
    assert_eq!(world.lease(), Some(LEASE));
    world.renew();
    assert_eq!(world.lease(), Some(connected + LEASE), "the handshake is a touch at the leader");
    assert_eq!(world.standings(), []);
}

/// The server may have shortened the timeout in a reply that the client never received.
#[test]
fn unanswered_handshake_limits_the_lease_to_half_the_timeout() {
    let half = T / 2 - EARLY;
    let mut world = World::up();
    world.renew();
    world.advance(ms(1000));
    world.reopen();
    let asked = world.now();
    assert_eq!(world.lease(), Some(asked + half));
    world.advance(ms(100));
    world.reconnect();
    let again = world.now();
    assert_eq!(world.lease(), Some(asked + half), "until a quorum has agreed");
    world.renew();
    assert_eq!(world.lease(), Some(again + half), "the first may still take effect");
    world.advance(ms(100));
    world.delete("/no-node");
    world.reject(OpCode::Delete, ErrorCode::NO_NODE);
    assert_eq!(world.lease(), Some(again + ms(100) + half), "the owner was checked");
}

#[test]
fn claimed_lease_sends_a_quorum_write_first_after_reconnect() {
    let mut world = World::served();
    world.claim();
    world.advance(ms(100));
    world.cut();
    let queued = world.get("/a");
    let before = world.now();
    world.advance(ms(100));
    let asked = world.times(OpCode::Multi);
    assert_eq!(asked.len(), 2);
    assert!(asked[1] - before < ms(20));
    assert!(world.reply(queued).is_some());
}

/// A slow commit delays all later replies of the session.
#[test]
fn slow_commit_keeps_the_connection_and_the_lease() {
    let mut world = claimed();
    world.answered.insert(OpCode::Ping.code());
    world.advance(T / 8);
    let slow = world.take(OpCode::Sync);
    world.answered.clear(); // pings wait behind it
    world.advance(T * 35 / 100);
    assert!(world.session.is_connected() && world.lease().is_some());
    world.serve(&slow);
    assert_eq!(world.standings(), []);
}

/// The connected server is cut off from the leader. It keeps answering pings long after the leader
/// has expired the session.
#[test]
fn answered_pings_do_not_keep_the_lease() {
    let mut world = World::served();
    world.claim();
    world.advance(ms(2500));
    let (cut, end) = (world.now(), world.lease().unwrap());
    world.unanswered.extend([OpCode::Multi.code(), OpCode::Sync.code()]);
    world.advance(T);
    assert_eq!(world.standings(), [(end, lapsed(1))]);
    assert!(end < cut + T);
    assert!(world.session.is_connected(), "a follower answers pings");
}

/// The process stops for twice the timeout, and replies from before are still in the receive
/// buffer.
#[test]
fn lease_lapses_before_buffered_replies_are_read() {
    let mut world = claimed();
    world.advance(ms(3000));
    world.frames.retain(|frame| frame.op == OpCode::Multi);
    let frame = world.take(OpCode::Multi);
    let write = world.create("/a");
    let create = world.take(OpCode::Create2);
    let paused = Some(world.pause(T * 2));
    assert_eq!(world.lease(), None, "by the clock alone");
    let before = world.log.len();
    world.answer(&frame, Zxid(10), ErrorCode::OK, &());
    let lease_state = Seen::LeaseState(LeaseState { paused, ..lapsed(1) });
    assert_eq!(world.log[before].1, lease_state);
    assert_eq!(world.lease(), None, "too late even for a lease of its own");
    world.answer(&create, Zxid(11), ErrorCode::OK, &());
    assert!(world.is_ok(write));
    world.tick();
    assert_eq!(world.end(), None, "whether it is, a server has to say");
    assert_eq!(world.lease(), None);
}

#[test]
fn close_ends_the_lease_before_the_server_answers() {
    let mut world = claimed();
    assert!(world.lease().is_some());
    world.close();
    assert_eq!(world.lease(), None, "the server may give the lock away from now on");
    let closing = LeaseState { closing: Some(SessionEnd::Closed), ..lapsed(1) };
    assert_eq!(world.standings().pop().unwrap().1, closing);
    world.accept(OpCode::CloseSession);
    let ended = LeaseState { ended: Some(SessionEnd::Closed), ..lapsed(1) };
    assert_eq!(world.session.lease_state(), ended);
}

/// An event does not prove the lease, and must not keep a dead connection open until the lease ends.
#[test]
fn silent_connection_is_replaced_before_the_lease_ends() {
    for heard in [0, 250, 500, 750, 990] {
        let mut world = claimed();
        let (end, standings) = (world.lease().unwrap(), world.standings().len());
        world.advance(ms(heard));
        world.notify(EventType::NODE_CREATED, "/x");
        world.frames.clear();
        let left = end - world.advance_to_disconnect();
        assert!(left >= T / 8, "{left:?} left, after an event at {heard}");
        world.bring_up();
        world.serve_next(OpCode::Multi);
        assert!(world.lease() > Some(end));
        assert_eq!(world.standings().len(), standings, "unbroken");
    }
}

/// A lock that depends on such a lease would be lost although all is well.
#[test]
fn lease_that_ends_before_its_renewal_is_not_bound() {
    let (flush, answered) = (ms(3300), ms(2200));
    let mut world = World::up_with(|settings| {
        settings.lease_assumptions = LeaseAssumptions::new().flush_bound(flush);
    });
    world.advance_to_ping();
    let ping = world.take(OpCode::Ping);
    world.advance_to(answered);
    world.serve(&ping);
    world.answered.insert(OpCode::Ping.code());
    assert_eq!(world.session.term_to_bind(world.instant()), None, "no quorum has agreed yet");
    world.renew();
    // The ping can only be proven after the end of the lease.
    assert_eq!(world.lease(), Some(LEASE));
    assert_eq!(world.session.term_to_bind(world.instant()), None);
    let base = world.instant() - world.now();
    assert_eq!(world.session.lease_proof_due(), Some(base + answered + flush));
    world.advance_to(answered + flush);
    world.renew();
    assert_eq!(world.lease(), Some(answered + LEASE), "from the request before");
    assert!(world.session.term_to_bind(world.instant()).is_some());
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
    }
}

#[test]
fn lease_without_a_claim_does_not_hasten_the_reconnect() {
    let mut world = World::up_answering(&[OpCode::Ping]);
    world.renew();
    let heard = world.advance_to_ping();
    world.advance(ms(100));
    world.answered.clear();
    world.get("/a");
    let left = world.advance_to_disconnect();
    assert_eq!(left, heard + T * 2 / 3, "and not before the end of the lease");
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
        let after = world.advance_to_disconnect() - begun;
        assert_eq!(after < T / 2, is_hasty, "{after:?}");
    }
}
