//! Request timeouts, stalled servers, and limits on pending requests and credentials.

use proto::{ErrorCode, OpCode, Stat, Zxid};
use zk_session_core::limits::{CREDENTIALS_MAX, REQUESTS_MAX};
use zk_session_core::{DisconnectReason, ErrorKind, Limit, Outcome, SessionEvent};
use zk_session_core::{ReplyTo, WatchKind};

use crate::harness::{Servers, T, World, create, get, ms};

fn patient(timeout: u64) -> World {
    World::with(|settings| settings.request_timeout = Some(ms(timeout)))
}

/// Submits a request with its own deadline.
fn within(world: &mut World, timeout: u64) -> u32 {
    let (to, deadline) = (world.number(), world.instant() + ms(timeout));
    let waiter = ReplyTo { to: to.clone(), deadline: Some(deadline) };
    let result = world.session.submit(world.instant(), &create("/n"), waiter, None);
    world.admitted(to, result.map(drop)).unwrap()
}

#[test]
fn queued_request_is_cancelled_at_its_deadline() {
    let mut world = patient(1000);
    let (own, all) = (within(&mut world, 300), world.create("/a"));
    world.advance(ms(299));
    assert!(world.reply(own).is_none());
    world.advance(ms(1));
    assert_eq!(*world.failure(own), (ErrorKind::TimedOut, Outcome::NotApplied));
    world.advance(ms(699));
    assert!(world.reply(all).is_none());
    world.advance(ms(1));
    assert_eq!(*world.failure(all), (ErrorKind::TimedOut, Outcome::NotApplied));
    world.bring_up();
    assert!(world.times(OpCode::Create2).is_empty(), "nothing is sent for them");
    world.finish();
}

#[test]
fn sent_request_times_out_and_its_late_reply_is_ignored() {
    let mut world = patient(1000);
    world.bring_up();
    let (write, read) = (world.create("/a"), world.get("/a"));
    world.advance(ms(999));
    let later = world.create("/b");
    world.advance(ms(1));
    assert_eq!(*world.failure(write), (ErrorKind::TimedOut, Outcome::Unknown));
    assert_eq!(*world.failure(read), (ErrorKind::TimedOut, Outcome::NotApplied));
    assert!(world.reply(later).is_none());
    // The session still matches the late replies, and no caller gets a second answer.
    for op in [OpCode::Create2, OpCode::GetData, OpCode::Create2] {
        let frame = world.take(op);
        world.answer(&frame, Zxid(7), ErrorCode::OK, &());
    }
    assert!(world.is_ok(later) && world.session.is_connected());
    world.advance(ms(5000));
    world.finish();
}

#[test]
fn deadline_of_a_queued_request_stays_after_it_is_sent() {
    let mut world = patient(1000);
    let n = world.create("/a");
    world.bring_up();
    world.advance(ms(1000) - world.now());
    assert_eq!(world.outcome(n), Outcome::Unknown);
    world.cut();
    world.advance(ms(5000));
    world.finish();
}

#[test]
fn watch_of_a_timed_out_request_is_not_kept() {
    let mut world = patient(1000);
    world.bring_up();
    let n = world.watch(WatchKind::Data, "/a");
    world.advance(ms(1000));
    assert_eq!(world.outcome(n), Outcome::NotApplied);
    let frame = world.take(OpCode::GetData);
    world.answer(
        &frame,
        Zxid(9),
        ErrorCode::OK,
        &proto::DataReply { data: None, stat: Stat::default() },
    );
    world.cut();
    world.bring_up();
    assert!(world.times(OpCode::SetWatches).is_empty(), "nothing to re-arm");
    assert!(world.fired(n).is_none());
    world.finish();
}

#[test]
fn answered_request_has_no_deadline() {
    let mut world = patient(1000);
    world.start_serving();
    let asked = [world.create("/n/a"), world.delete_guaranteed("/n/a"), world.auth("digest")];
    world.advance(ms(1900));
    assert!(asked.iter().all(|n| world.is_ok(*n)));
    let ping = world.deadline().unwrap();
    assert!(ping >= ms(1999), "{ping:?}: the next thing due is a ping");
    world.finish();
}

#[test]
fn clean_up_continues_after_its_caller_timed_out() {
    let mut world = patient(1000);
    let n = world.delete_guaranteed("/n/a");
    world.advance(ms(1000));
    assert_eq!(*world.failure(n), (ErrorKind::TimedOut, Outcome::Unknown));
    world.bring_up();
    world.take(OpCode::Delete);
    world.finish();
}

#[test]
fn forgotten_requests_do_not_count_toward_the_limit() {
    let mut world = World::new();
    let now = world.instant();
    let mut tickets = Vec::new();
    for _ in 0..REQUESTS_MAX {
        let to = world.number();
        tickets.push(world.session.submit(now, &get("/a", false), to, None).unwrap());
    }
    let to = world.number();
    assert!(world.session.submit(now, &get("/a", false), to, None).is_err());
    assert!(world.session.forget(tickets[7]).is_some());
    assert!(world.session.forget(tickets[7]).is_none(), "once");
    let to = world.number();
    world.session.submit(now, &get("/a", false), to, None).unwrap();
    let to = world.number();
    assert!(world.session.submit(now, &get("/a", false), to, None).is_err());
}

/// Connects to a server that answers pings by itself, and other requests only when the test does.
fn stalled(hosts: u16) -> World {
    let mut world = World::with(|settings| {
        settings.hosts = (1..=hosts).map(|port| zk_session_core::Host::new("h", port)).collect();
    });
    world.bring_up();
    world.answered.insert(OpCode::Ping.code());
    world
}

#[test]
fn server_that_answers_only_pings_is_left_for_another() {
    let mut world = stalled(2);
    let asked = world.now();
    let n = world.create("/a");
    world.advance(T - ms(1));
    assert!(world.session.is_connected());
    world.advance(ms(1));
    assert_eq!(
        *world.failure(n),
        (ErrorKind::ConnectionLost(DisconnectReason::RequestTimeout), Outcome::Unknown)
    );
    let suspended = |event: &SessionEvent| {
        matches!(event, SessionEvent::Suspended { cause: DisconnectReason::RequestTimeout, .. })
    };
    assert!(world.events().iter().any(suspended));
    world.open();
    let attempts = world.attempts();
    assert_ne!(attempts[0].1, attempts.last().unwrap().1);
    assert!(world.now() < asked + T + ms(100));
    world.finish();
}

#[test]
fn unanswered_request_fails_though_throttled_replies_arrive() {
    let mut world = stalled(1);
    let lost = world.create("/a");
    world.take(OpCode::Create2); // its reply is lost
    let asked = world.now();
    while world.now() < asked + T - ms(1) {
        let n = world.get("/b");
        let get = world.take(OpCode::GetData);
        world.answer(&get, Zxid(-1), ErrorCode::THROTTLED_OP, &()); // throttled replies may overtake
        assert_eq!(world.failure(n).0, ErrorKind::Server(ErrorCode::THROTTLED_OP));
        world.advance(ms(599));
    }
    assert!(world.now() < asked + T + ms(600));
    assert_eq!(
        *world.failure(lost),
        (ErrorKind::ConnectionLost(DisconnectReason::RequestTimeout), Outcome::Unknown),
        "also if there is no other server: a new connection tells what became of it"
    );
    world.finish();
}

#[test]
fn slow_server_is_kept_while_it_answers_within_the_timeout() {
    let mut world = stalled(2);
    for _ in 0..10 {
        world.create("/a");
    }
    for _ in 0..9 {
        world.advance(T - ms(1));
        let frame = world.take(OpCode::Create2);
        world.answer(&frame, Zxid(7), ErrorCode::OK, &());
    }
    assert!(world.session.is_connected(), "the last one has waited for nine timeouts");
    world.finish();
}

#[test]
fn credentials_are_limited_and_duplicates_do_not_count() {
    let mut world = World::new();
    world.start_serving();
    for _ in 0..3 * CREDENTIALS_MAX {
        let n = world.auth("digest");
        assert!(world.is_ok(n));
    }
    world.cut();
    let before = world.times(OpCode::Auth).len();
    world.advance(ms(100));
    assert_eq!(world.times(OpCode::Auth).len(), before + 1);
    for n in 1..CREDENTIALS_MAX {
        world.auth(&format!("scheme-{n}"));
    }
    let (now, to) = (world.instant(), world.number());
    let refused = world.session.add_credential(now, "one-more", bytes::Bytes::new(), to);
    assert!(matches!(refused, Err((ErrorKind::LimitReached(Limit::Credentials), _))));
    world.finish();
}

#[test]
fn pings_and_heartbeats_stop_after_close_is_sent() {
    let mut world = World::with(|settings| settings.close_timeout = T);
    world.bring_up();
    world.claim();
    world.close();
    let last = world.seen.len();
    world.advance(T / 2);
    assert_eq!(world.seen.len(), last, "no pings, no heartbeats: {:?}", world.seen);
    world.finish();
}

/// Each answered request would otherwise wake the driver once more, and stay in memory until then.
#[test]
fn deadline_of_an_answered_call_is_forgotten() {
    let mut world = patient(500);
    world.bring_up();
    assert_eq!(world.session.request_timeout(), Some(ms(500)));
    let calls = [world.get("/a"), world.auth("digest"), world.delete_guaranteed("/b")];
    assert_eq!(world.deadline(), Some(world.now() + ms(500)));
    for op in [OpCode::GetData, OpCode::Auth, OpCode::Delete] {
        let frame = world.take(op);
        world.serve(&frame);
    }
    assert!(calls.iter().all(|call| world.is_ok(*call)));
    assert!(world.deadline() > Some(world.now() + ms(500)), "only that of the next ping");
    world.finish();
}

#[test]
fn session_end_leaves_no_deadline_of_a_call() {
    let mut world = patient(500);
    world.bring_up();
    world.get("/a");
    world.auth("digest");
    world.delete_guaranteed("/b");
    world.finish(); // ends the session, and checks its invariants
}

/// Their tasks go on, and nobody waits for ever for a session that never opens.
#[test]
fn callers_without_a_limit_do_not_wait_for_a_first_session() {
    let mut world = World::with(|settings| settings.unopened_timeout = Some(ms(10_000)));
    world.servers = Servers::Refuse;
    let (credential, delete) = (world.auth("digest"), world.delete_guaranteed("/a"));
    world.advance(ms(9_999));
    assert!(world.reply(credential).is_none() && world.reply(delete).is_none());
    world.advance(ms(1));
    for waits in [credential, delete] {
        assert_eq!(world.failure(waits).0, ErrorKind::TimedOut);
    }
    world.servers = Servers::Serve;
    world.advance(ms(2_000));
    assert_eq!(world.times(OpCode::Delete).len(), 1, "the task goes on");
    world.finish();
}
