//! Request timeouts, and stalled servers.

use crate::harness::prelude::*;

/// Timeout of requests.
const LIMIT: Duration = Duration::from_millis(1000);
const CANCELLED: Failure = (ErrorKind::TimedOut, Outcome::NotApplied);
const STALLED: Failure =
    (ErrorKind::ConnectionLost(DisconnectReason::RequestTimeout), Outcome::Unknown);

fn patient() -> World {
    World::with(|settings| settings.request_timeout = Some(LIMIT))
}

fn patient_up() -> World {
    let mut world = patient();
    world.bring_up();
    world
}

/// Advances until this request has an answer. Returns when.
fn answered(world: &mut World, n: u32) -> Duration {
    world.advance_until(|world| world.reply(n).is_some())
}

#[test]
fn queued_request_is_cancelled_at_its_deadline() {
    let mut world = patient();
    let (to, deadline) = (world.number(), world.instant() + ms(300));
    let waiter = ReplyTo { to: to.clone(), deadline: Some(deadline) };
    let result = world.session.submit(world.instant(), &create("/n"), waiter, None);
    let own = world.admitted(to, result.map(drop)).unwrap();
    let all = world.create("/a");
    for (n, limit) in [(own, ms(300)), (all, LIMIT)] {
        assert_eq!(answered(&mut world, n), limit);
        assert_eq!(*world.failure(n), CANCELLED);
    }
    world.bring_up();
    assert!(world.times(OpCode::Create2).is_empty(), "nothing is sent for them");
}

#[test]
fn sent_request_times_out_and_its_late_reply_is_ignored() {
    let mut world = patient_up();
    let (write, read) = (world.create("/a"), world.watch(WatchKind::Data, "/a"));
    world.advance(LIMIT - ms(1));
    let later = world.create("/b");
    assert_eq!(answered(&mut world, write), LIMIT);
    assert_eq!(*world.failure(write), (ErrorKind::TimedOut, Outcome::Unknown));
    assert_eq!(*world.failure(read), CANCELLED);
    assert!(world.reply(later).is_none());
    // The session still matches the late replies, and no caller gets a second answer.
    for op in [OpCode::Create2, OpCode::GetData, OpCode::Create2] {
        world.serve_next(op);
    }
    assert!(world.is_ok(later) && world.session.is_connected());
    world.reconnect();
    assert!(world.times(OpCode::SetWatches).is_empty(), "the watch is not kept");
    assert!(world.fired(read).is_none());
}

#[test]
fn deadline_of_a_queued_request_stays_after_it_is_sent() {
    let mut world = patient();
    let n = world.create("/a");
    world.bring_up();
    assert_eq!(answered(&mut world, n), LIMIT);
    assert_eq!(world.outcome(n), Outcome::Unknown);
    world.cut();
}

#[test]
fn clean_up_continues_after_its_caller_timed_out() {
    let mut world = patient();
    let n = world.delete_guaranteed("/n/a");
    assert_eq!(answered(&mut world, n), LIMIT);
    assert_eq!(*world.failure(n), (ErrorKind::TimedOut, Outcome::Unknown));
    world.bring_up();
    world.take(OpCode::Delete);
}

#[test]
fn forgotten_requests_do_not_count_toward_the_limit() {
    let mut world = World::new();
    let to = world.number();
    let ticket = world.session.submit(world.instant(), &get("/a", false), to, None).unwrap();
    assert!(world.session.forget(ticket).is_some());
    assert!(world.session.forget(ticket).is_none(), "once");
    world.submit_most();
    assert!(world.try_submit(&get("/a", false), None).is_err());
}

/// Connects to a server that answers pings by itself, and other requests only when the test does.
fn stalled(hosts: u16) -> World {
    let mut world = World::up_with(|settings| {
        settings.hosts = (1..=hosts).map(|port| Host::new("h", port)).collect();
    });
    world.answered.insert(OpCode::Ping.code());
    world
}

#[test]
fn server_that_answers_only_pings_is_left_for_another() {
    let mut world = stalled(2);
    let n = world.create("/a");
    assert_eq!(world.advance_to_disconnect(), T);
    assert_eq!(*world.failure(n), STALLED);
    let next = world.advance_to_attempt();
    assert_ne!(world.attempts()[0].1, next);
    assert!(world.now() < T + ms(100));
}

#[test]
fn unanswered_request_fails_though_throttled_replies_arrive() {
    let mut world = stalled(1);
    let lost = world.create("/a");
    world.take(OpCode::Create2); // its reply is lost
    while world.session.is_connected() {
        let n = world.get("/b");
        let throttled = ErrorCode::THROTTLED_OP; // these replies may overtake others
        world.answer_next(OpCode::GetData, Zxid(-1), throttled, &());
        assert_eq!(world.failure(n).0, ErrorKind::Server(throttled));
        world.advance(T / 10);
    }
    assert!(world.now() <= T * 11 / 10);
    assert_eq!(*world.failure(lost), STALLED, "also if there is no other server");
}

#[test]
fn slow_server_is_kept_while_it_answers_within_the_timeout() {
    let mut world = stalled(2);
    for _ in 0..10 {
        world.create("/a");
    }
    for _ in 0..9 {
        world.advance(T - ms(1));
        world.serve_next(OpCode::Create2);
    }
    assert!(world.session.is_connected(), "the last one has waited for nine timeouts");
}

#[test]
fn pings_and_heartbeats_stop_after_close_is_sent() {
    let mut world = World::up_with(|settings| settings.close_timeout = T);
    world.claim();
    world.close();
    let last = world.seen.len();
    world.advance(T / 2);
    assert_eq!(world.seen.len(), last, "no pings, no heartbeats: {:?}", world.seen);
}

/// Each answered request would otherwise wake the driver once more, and stay in memory until then.
#[test]
fn deadline_of_an_answered_call_is_forgotten() {
    let mut world = patient_up();
    assert_eq!(world.session.request_timeout(), Some(LIMIT));
    let calls = [world.get("/a"), world.auth("digest"), world.delete_guaranteed("/b")];
    assert_eq!(world.deadline(), Some(LIMIT));
    for op in [OpCode::GetData, OpCode::Auth, OpCode::Delete] {
        world.serve_next(op);
    }
    assert!(calls.iter().all(|call| world.is_ok(*call)));
    assert!(world.deadline() > Some(LIMIT), "only that of the next ping");
    world.get("/a");
    world.auth("digest");
    world.delete_guaranteed("/b"); // the end of the session leaves no deadline of them
}

/// Their tasks go on, and nobody waits for ever for a session that never opens.
#[test]
fn callers_without_a_limit_do_not_wait_for_a_first_session() {
    let mut world = World::with(|settings| settings.unopened_timeout = Some(LIMIT));
    world.servers = Servers::Refuse;
    for n in [world.auth("digest"), world.delete_guaranteed("/a")] {
        assert_eq!(answered(&mut world, n), LIMIT);
        assert_eq!(world.failure(n).0, ErrorKind::TimedOut);
    }
    world.servers = Servers::Serve;
    world.advance(ms(2_000));
    assert_eq!(world.times(OpCode::Delete).len(), 1, "the task goes on");
}
