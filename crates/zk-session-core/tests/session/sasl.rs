//! The SASL exchange: alone on the connection, bounded, and never taken for a success.

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;
use proto::{ErrorCode, OpCode, Sasl, SaslReply, SessionId, Zxid};
use zk_session_core::limits::{SASL_CLOSES_MAX, SASL_REJECTION_TIME, SASL_TOKEN_LEN_MAX};
use zk_session_core::{
    DisconnectReason, Error, ErrorKind, Host, RetryOn, SaslFailure, SaslMechanism, SaslStep,
    SessionEnd, SessionEvent, WatchKind,
};

use crate::addresses::{address, reach};
use crate::harness::{Servers, T, World, ended, ms};
use crate::script::{PASSWORD, acceptance};

/// A mechanism in which each side sends its name: an empty token, `who?`, `alice`, `server`.
#[derive(Default)]
struct Names(u32);

impl SaslMechanism for Names {
    fn step(&mut self, token: &[u8]) -> Result<SaslStep, SaslFailure> {
        self.0 += 1;
        match (self.0, token) {
            (1, b"") => Ok(SaslStep::Send(Vec::new())),
            (2, b"who?") => Ok(SaslStep::Send(b"alice".to_vec())),
            (3, b"server") => Ok(SaslStep::Done),
            (3, _) => Err(SaslFailure::ServerNotProven),
            _ => Err(SaslFailure::UnfitToken("not a name")),
        }
    }
}

/// A mechanism whose only token completes the exchange, as the last one of Kerberos does.
struct OneToken(usize);

impl SaslMechanism for OneToken {
    fn step(&mut self, _token: &[u8]) -> Result<SaslStep, SaslFailure> {
        Ok(SaslStep::SendLast(vec![b'x'; self.0]))
    }
}

fn names() -> Box<dyn SaslMechanism> {
    Box::<Names>::default()
}

/// Returns a world in which the server has accepted a session, and waits for the first token.
fn accepted() -> World {
    let mut world = World::new();
    world.sasl = Some(names);
    world.open();
    world.respond(&acceptance(6000));
    world
}

/// Answers the client's next token, which must be this one.
fn exchange(world: &mut World, token: &[u8], reply: Option<&'static [u8]>) {
    let frame = world.take(OpCode::Sasl);
    assert_eq!(frame.read::<Sasl<'_>>().token, token);
    let reply = SaslReply { token: reply.map(Bytes::from_static) };
    world.answer(&frame, Zxid::ZERO, ErrorCode::OK, &reply);
}

fn is_refused(world: &World) -> bool {
    world.log.iter().any(|(_, seen)| format!("{seen:?}").starts_with("Refused"))
}

fn authenticate(world: &mut World) {
    exchange(world, b"", Some(b"who?"));
    exchange(world, b"alice", Some(b"server"));
}

#[test]
fn exchange_is_alone_and_first_on_each_connection() {
    let mut world = accepted();
    let auth = world.auth("digest");
    let watch = world.watch(WatchKind::Data, "/a");
    assert!(!world.session.is_connected() && !world.session.is_established());
    assert_eq!(world.events(), []);
    exchange(&mut world, b"", Some(b"who?"));
    assert_eq!(world.ops(), [OpCode::Sasl]);
    exchange(&mut world, b"alice", Some(b"server"));
    assert!(world.session.is_connected());
    assert!(matches!(world.events()[..], [SessionEvent::Connected { .. }]));
    let auth_frame = world.take(OpCode::Auth);
    world.answer(&auth_frame, Zxid::ZERO, ErrorCode::OK, &());
    let read = world.take(OpCode::GetData);
    world.serve(&read);
    assert!(world.is_ok(auth) && world.is_ok(watch));

    world.cut();
    world.open();
    world.respond(&acceptance(6000));
    assert_eq!(world.ops(), [OpCode::Sasl]);
    authenticate(&mut world);
    assert_eq!(world.ops(), [OpCode::Auth, OpCode::SetWatches]);
    assert!(matches!(world.events().last(), Some(SessionEvent::Reconnected { .. })));
    world.finish();
}

#[test]
fn requests_wait_for_the_exchange_and_no_ping_is_sent() {
    let mut world = accepted();
    let created = world.create("/a");
    world.claim();
    world.advance(ms(1900));
    assert_eq!(world.ops(), [OpCode::Sasl]);
    authenticate(&mut world);
    let ops = world.ops();
    assert!(ops.contains(&OpCode::Create2) && ops.contains(&OpCode::Multi), "{ops:?}");
    let frame = world.take(OpCode::Multi);
    world.serve(&frame);
    let frame = world.take(OpCode::Create2);
    world.serve(&frame);
    assert!(world.is_ok(created));
    world.finish();
}

#[test]
fn exchange_has_the_time_of_one_handshake() {
    let mut world = accepted();
    world.advance(T / 3 - ms(1));
    assert_eq!(world.session.last_disconnect(), None);
    world.advance(ms(1));
    assert_eq!(world.cause(), DisconnectReason::IdleTimeout);
    world.finish();
}

#[test]
fn missing_token_in_mid_exchange_is_never_success() {
    for after in [0, 1] {
        let mut world = accepted();
        if after == 1 {
            exchange(&mut world, b"", Some(b"who?"));
        }
        exchange(&mut world, if after == 0 { b"" } else { b"alice" }, None);
        assert!(!world.session.is_connected());
        assert_eq!(world.cause(), DisconnectReason::Sasl(SaslFailure::NotOffered));
        assert!(is_refused(&world), "a first connect fails at once");
        world.finish();
    }
}

#[test]
fn wrong_proof_of_the_server_ends_the_attempt() {
    let mut world = accepted();
    exchange(&mut world, b"", Some(b"who?"));
    exchange(&mut world, b"alice", Some(b"mallory"));
    assert_eq!(world.cause(), DisconnectReason::Sasl(SaslFailure::ServerNotProven));
    assert!(!world.session.is_established());
    world.finish();
}

#[test]
fn rejection_ends_the_session() {
    for code in [ErrorCode::AUTH_FAILED, ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH] {
        let mut world = accepted();
        let waiting = world.create("/a");
        exchange(&mut world, b"", Some(b"who?"));
        let frame = world.take(OpCode::Sasl);
        world.answer(&frame, Zxid::ZERO, code, &());
        assert_eq!(world.session.end_reason(), Some(SessionEnd::AuthFailed));
        assert_eq!(world.failure(waiting).0, ended(SessionEnd::AuthFailed));
        world.finish();
    }
}

/// The server rejects the proof of the session that it has accepted.
pub(crate) fn reject(world: &mut World) {
    exchange(world, b"", Some(b"who?"));
    let frame = world.take(OpCode::Sasl);
    world.answer(&frame, Zxid::ZERO, ErrorCode::AUTH_FAILED, &());
}

#[test]
fn rejection_by_one_server_of_a_name_does_not_end_the_session() {
    let found = [address(1), address(2)];
    for rejects in [true, false] {
        let mut world = world_of(1);
        reach(&mut world, &found);
        world.respond(&acceptance(30_000));
        reject(&mut world);
        assert_eq!(world.session.end_reason(), None);
        reach(&mut world, &found);
        world.respond(&acceptance(30_000));
        if rejects {
            reject(&mut world);
            assert_eq!(world.session.end_reason(), Some(SessionEnd::AuthFailed));
        } else {
            authenticate(&mut world);
            assert!(world.session.is_connected());
        }
        world.finish();
    }
}

#[test]
fn rejected_first_token_is_a_refused_mechanism() {
    for code in [ErrorCode::AUTH_FAILED, ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH] {
        let mut world = accepted();
        let frame = world.take(OpCode::Sasl);
        world.answer(&frame, Zxid::ZERO, code, &());
        assert_eq!(world.session.end_reason(), None);
        assert_eq!(world.cause(), DisconnectReason::Sasl(SaslFailure::MechanismRefused));
        assert!(is_refused(&world), "a first connect fails at once");
        world.finish();
    }
}

#[test]
fn other_codes_in_the_exchange_are_reported_at_once() {
    let mut world = accepted();
    exchange(&mut world, b"", Some(b"who?"));
    let frame = world.take(OpCode::Sasl);
    world.answer(&frame, Zxid::ZERO, ErrorCode::UNIMPLEMENTED, &());
    let expected = SaslFailure::Refused(ErrorCode::UNIMPLEMENTED);
    assert_eq!(world.cause(), DisconnectReason::Sasl(expected));
    assert!(is_refused(&world));
    world.finish();
}

#[test]
fn close_after_the_proof_is_a_rejection_of_old_servers() {
    let mut world = accepted();
    world.cut();
    assert_eq!(world.cause(), DisconnectReason::Sasl(SaslFailure::ClosedBeforeProof));
    assert!(!is_refused(&world), "the server may not serve yet");
    for cause in CLOSES {
        world.open();
        world.respond(&acceptance(6000));
        exchange(&mut world, b"", Some(b"who?"));
        world.cut_for(cause);
        assert_eq!(world.cause(), DisconnectReason::Sasl(SaslFailure::ClosedByServer));
    }
    assert!(!is_refused(&world), "the server may restart");
    while world.session.end_reason().is_none() {
        attempt(&mut world, |_| true);
    }
    assert_eq!(world.session.end_reason(), Some(SessionEnd::AuthFailed));
    assert!(world.now() >= SASL_REJECTION_TIME);
    world.finish();
}

/// A close, and a reset by a server that had not read everything.
const CLOSES: [DisconnectReason; 2] =
    [DisconnectReason::ClosedByServer, DisconnectReason::Io(std::io::ErrorKind::ConnectionReset)];

#[test]
fn closes_after_the_proof_end_an_established_session() {
    for cause in CLOSES {
        let mut world = accepted();
        authenticate(&mut world);
        world.cut();
        let mut closes = 0;
        while world.session.end_reason().is_none() {
            world.open();
            world.respond(&acceptance(6000));
            exchange(&mut world, b"", Some(b"who?"));
            world.cut_for(cause.clone());
            closes += 1;
        }
        assert_eq!(world.session.end_reason(), Some(SessionEnd::AuthFailed));
        assert!(closes >= SASL_CLOSES_MAX && world.now() >= SASL_REJECTION_TIME);
        world.finish();
    }
}

/// Returns a world in which a session of half a minute is to be opened at this number of servers.
pub(crate) fn world_of(servers: u16) -> World {
    let mut world = World::with(|settings| {
        settings.hosts = (0..servers).map(|port| Host::new("a", port)).collect();
        settings.session_timeout = LONG;
    });
    world.sasl = Some(names);
    world
}

const LONG: Duration = Duration::from_secs(30);

/// Opens the session, and loses the connection. Returns the server.
fn interrupted(world: &mut World) -> Host {
    world.open();
    world.respond(&acceptance(30_000));
    authenticate(world);
    assert!(world.session.is_connected());
    world.cut();
    world.attempts().last().unwrap().1.clone()
}

/// Waits for the next attempt, and returns its server, unless the session ends first.
fn next_attempt(world: &mut World) -> Option<Host> {
    let before = world.attempts().len();
    while world.attempts().len() == before {
        if world.session.end_reason().is_some() {
            return None;
        }
        world.advance_to_deadline();
    }
    Some(world.attempts().last().unwrap().1.clone())
}

/// Makes the next attempt. The server closes the connection after the proof, or is unreachable.
fn attempt(world: &mut World, closes: impl FnOnce(&Host) -> bool) {
    let Some(server) = next_attempt(world) else { return };
    if !closes(&server) {
        let cause = std::io::ErrorKind::ConnectionRefused;
        return world.cut_for(DisconnectReason::Unreachable(cause));
    }
    world.open();
    world.respond(&acceptance(30_000));
    exchange(world, b"", Some(b"who?"));
    world.cut();
}

#[test]
fn session_waits_for_a_server_that_restarts() {
    let mut world = world_of(3);
    let updated = interrupted(&mut world);
    while world.now() < ms(10_000) {
        attempt(&mut world, |host| *host != updated);
        assert_eq!(world.session.end_reason(), None);
    }
    while world.attempts().last().unwrap().1 != updated {
        attempt(&mut world, |_| true);
    }
    for _ in 0..2 * SASL_CLOSES_MAX {
        attempt(&mut world, |host| *host != updated);
    }
    world.open();
    world.respond(&acceptance(30_000));
    authenticate(&mut world);
    assert!(world.session.is_connected());
    world.finish();
}

#[test]
fn session_waits_for_unreachable_servers() {
    let mut world = world_of(3);
    let bad = interrupted(&mut world);
    while world.now() < ms(20_000) {
        attempt(&mut world, |host| *host == bad);
        assert_eq!(world.session.end_reason(), None);
    }
    world.finish();
}

#[test]
fn first_session_waits_for_unreachable_servers() {
    let mut world = world_of(3);
    let bad = Host::new("a", 1);
    while world.now() < ms(20_000) {
        attempt(&mut world, |host| *host == bad);
        assert_eq!(world.session.end_reason(), None);
    }
    assert!(!is_refused(&world));
    world.finish();
}

#[test]
fn session_tries_the_servers_behind_a_balancer_for_a_while() {
    for closes in [SASL_CLOSES_MAX, 2 * SASL_CLOSES_MAX] {
        let mut world = world_of(1);
        interrupted(&mut world);
        for _ in 0..closes {
            attempt(&mut world, |_| true);
        }
        assert!(world.now() < SASL_REJECTION_TIME);
        world.open();
        world.respond(&acceptance(30_000));
        authenticate(&mut world);
        assert!(world.session.is_connected());
        world.finish();
    }
}

#[test]
fn closes_at_every_server_end_an_established_session() {
    let mut world = world_of(3);
    interrupted(&mut world);
    while world.session.end_reason().is_none() {
        attempt(&mut world, |_| true);
    }
    assert_eq!(world.session.end_reason(), Some(SessionEnd::AuthFailed));
    assert!(world.now() < 2 * SASL_REJECTION_TIME);
    world.finish();
}

#[test]
fn first_session_is_tried_again_after_one_close() {
    let mut world = world_of(1);
    attempt(&mut world, |_| true);
    assert!(!is_refused(&world));
    interrupted(&mut world);
    world.finish();
}

#[test]
fn established_connection_restarts_the_count_of_closes() {
    let mut world = accepted();
    authenticate(&mut world);
    for _ in 0..2 * SASL_CLOSES_MAX {
        world.cut();
        world.open();
        world.respond(&acceptance(6000));
        exchange(&mut world, b"", Some(b"who?"));
        world.cut();
        world.open();
        world.respond(&acceptance(6000));
        authenticate(&mut world);
    }
    assert!(world.session.is_connected());
    world.finish();
}

#[test]
fn established_session_tries_again_after_a_failed_exchange() {
    let mut world = accepted();
    authenticate(&mut world);
    world.cut();
    world.open();
    world.respond(&acceptance(6000));
    exchange(&mut world, b"", None);
    assert_eq!(world.session.end_reason(), None);
    world.open();
    world.respond(&acceptance(6000));
    authenticate(&mut world);
    assert!(world.session.is_connected());
    world.finish();
}

#[test]
fn unproven_server_changes_neither_session_nor_timeout() {
    let mut world = accepted();
    authenticate(&mut world);
    let timeout = world.session.session_timeout();
    world.cut();
    world.open();
    let mut forged = acceptance(100);
    forged.password = Bytes::from_static(b"forged");
    world.respond(&forged);
    exchange(&mut world, b"", Some(b"who?"));
    exchange(&mut world, b"alice", Some(b"mallory"));
    assert_eq!(world.session.session_timeout(), timeout);
    world.open();
    assert_eq!(world.last_connect().password, PASSWORD[..]);
    world.respond(&acceptance(6000));
    authenticate(&mut world);
    assert!(world.session.is_connected());
    world.finish();
}

/// Makes the next attempt. The server rejects the proof.
fn rejected_attempt(world: &mut World) -> Host {
    let server = next_attempt(world).unwrap();
    world.open();
    world.respond(&acceptance(30_000));
    reject(world);
    server
}

/// Its list of users may be wrong, or out of date.
#[test]
fn rejection_by_one_server_leaves_the_session_to_others() {
    let mut world = world_of(3);
    interrupted(&mut world);
    let wrong = rejected_attempt(&mut world);
    assert_eq!(world.cause(), DisconnectReason::Sasl(SaslFailure::Rejected));
    assert_eq!(world.session.end_reason(), None);
    let right = interrupted(&mut world);
    assert_ne!(right, wrong);
    // Each server counts since the last connection: the others may accept the proof.
    for _ in 0..2 {
        rejected_attempt(&mut world);
        assert_eq!(world.session.end_reason(), None);
    }
    world.finish();
}

/// An unreachable server refuses connections, or nothing answers at all.
#[test]
fn rejections_by_every_reachable_server_end_the_session() {
    for answers in [true, false] {
        let mut world = world_of(3);
        let right = interrupted(&mut world);
        let dead = Host::new("a", (right.port() + 1) % 3);
        let mut rejecting = HashSet::new();
        while let Some(server) = next_attempt(&mut world) {
            if server != dead {
                rejecting.insert(server);
                world.open();
                world.respond(&acceptance(30_000));
                reject(&mut world);
            } else if answers {
                let cause = std::io::ErrorKind::ConnectionRefused;
                world.cut_for(DisconnectReason::Unreachable(cause));
            } else {
                world.advance_to_deadline();
            }
        }
        assert_eq!(world.session.end_reason(), Some(SessionEnd::AuthFailed), "{answers}");
        assert_eq!(rejecting.len(), 2);
        world.finish();
    }
}

/// Another server with an old list of users is tried meanwhile.
#[test]
fn restart_of_the_server_that_accepts_does_not_end_the_session() {
    let mut world = world_of(2);
    let right = interrupted(&mut world);
    let now = world.instant();
    world.session.update_servers(now, [0, 1].map(|port| Host::new("a", port)).into());
    let mut rejections = 0;
    while rejections < 3 {
        match next_attempt(&mut world).unwrap() == right {
            true => {
                let cause = std::io::ErrorKind::ConnectionRefused;
                world.cut_for(DisconnectReason::Unreachable(cause));
            }
            false => {
                rejections += 1;
                world.open();
                world.respond(&acceptance(30_000));
                reject(&mut world);
            }
        }
        assert_eq!(world.session.end_reason(), None);
    }
    world.finish();
}

/// The error of a first session names the server that tells most.
#[test]
fn rejection_outweighs_later_failures_of_other_servers() {
    let mut world = world_of(2);
    rejected_attempt(&mut world);
    attempt(&mut world, |_| true);
    let cause = world.session.connect_failure();
    assert_eq!(cause, Some(DisconnectReason::Sasl(SaslFailure::Rejected)));
    let error = Error::not_applied(ErrorKind::NoSession(cause.unwrap()));
    assert_eq!(error.retry_on(), RetryOn::NewSession, "the other server may accept them");
    assert_eq!(world.session.end_reason(), None);
    world.finish();
}

/// `SECURITY.md` says so.
#[test]
fn unproven_server_can_end_an_established_session() {
    let mut world = accepted();
    authenticate(&mut world);
    world.cut();
    world.open();
    world.respond(&acceptance(6000));
    exchange(&mut world, b"", Some(b"who?"));
    let frame = world.take(OpCode::Sasl);
    world.answer(&frame, Zxid::ZERO, ErrorCode::AUTH_FAILED, &());
    assert_eq!(world.session.end_reason(), Some(SessionEnd::AuthFailed));
    world.finish();
}

#[test]
fn unproven_server_leaves_a_first_session_to_be_created() {
    let mut world = accepted();
    exchange(&mut world, b"", Some(b"who?"));
    exchange(&mut world, b"alice", Some(b"mallory"));
    world.open();
    assert_eq!(world.last_connect().session_id, SessionId::NONE);
    world.finish();
}

#[test]
fn server_that_requires_authentication_ends_the_session() {
    let mut world = World::up();
    let created = world.create("/a");
    let frame = world.take(OpCode::Create2);
    world.answer(&frame, Zxid::ZERO, ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH, &());
    assert_eq!(world.failure(created).0, ended(SessionEnd::AuthRequired));
    let last = world.events().pop();
    assert!(
        matches!(last, Some(SessionEvent::AuthFailed { cause: SessionEnd::AuthRequired, .. })),
        "{last:?}"
    );
    world.finish();

    // An idle session meets it with its first ping.
    let mut world = World::up();
    world.advance(T / 3);
    let ping = world.take(OpCode::Ping);
    world.answer(&ping, Zxid::ZERO, ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH, &());
    assert_eq!(world.session.end_reason(), Some(SessionEnd::AuthRequired));
    world.finish();
}

#[test]
fn last_token_is_accepted_with_and_without_an_answer_token() {
    for reply in [None, Some(&b""[..]), Some(b"x")] {
        let mut world = World::new();
        world.sasl = Some(|| Box::new(OneToken(1)));
        world.open();
        world.respond(&acceptance(6000));
        exchange(&mut world, b"x", reply);
        assert!(world.session.is_connected());
        world.finish();
    }
}

#[test]
fn long_tokens_are_rejected_in_both_directions() {
    let mut world = World::new();
    world.sasl = Some(|| Box::new(OneToken(SASL_TOKEN_LEN_MAX + 1)));
    world.open();
    world.respond(&acceptance(6000));
    assert_eq!(world.cause(), DisconnectReason::Sasl(SaslFailure::TokenTooLong));
    world.finish();

    let mut world = accepted();
    let len = i32::try_from(SASL_TOKEN_LEN_MAX + 1000).unwrap();
    world.deliver(&len.to_be_bytes());
    assert_eq!(world.cause(), DisconnectReason::FrameTooLarge);
    world.finish();
}

#[test]
fn other_frames_during_the_exchange_end_the_connection() {
    let mut world = accepted();
    world.notify(proto::EventType::NODE_CREATED, "/a");
    assert_eq!(world.cause(), DisconnectReason::UnknownXid(proto::xid::NOTIFICATION));
    world.finish();
}

#[test]
fn session_can_be_closed_during_the_exchange() {
    let mut world = accepted();
    world.close();
    world.servers = Servers::Refuse;
    world.advance(T);
    assert_eq!(world.session.end_reason(), Some(SessionEnd::Closed));
    world.finish();
}
