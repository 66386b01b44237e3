//! The SASL exchange: alone on the connection, bounded, and never taken for a success.

use std::collections::HashSet;

use proto::{Sasl, SaslReply};
use zk_session_core::limits::{SASL_CLOSES_MAX, SASL_REJECTION_TIME, SASL_TOKEN_LEN_MAX};
use zk_session_core::{RetryOn, SaslMechanism, SaslStep};

use crate::addresses::{address, reach};
use crate::harness::prelude::*;

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

/// Returns a world in which a session of half a minute is to be opened at this number of servers.
pub(crate) fn world_of(servers: u16) -> World {
    let mut world = World::with(|settings| {
        settings.hosts = (0..servers).map(|port| Host::new("a", port)).collect();
        settings.session_timeout = Duration::from_secs(30);
    });
    world.sasl = Some(names);
    world
}

/// Opens the next connection, on which the server accepts the session and waits for the first token.
fn open(world: &mut World) {
    world.open();
    let timeout = world.last_connect().timeout_ms;
    world.respond(&acceptance(timeout));
}

/// Returns a world in which the server has accepted a session, and waits for the first token.
fn accepted() -> World {
    let mut world = World::new();
    world.sasl = Some(names);
    open(&mut world);
    world
}

/// Answers the client's next token, which must be this one.
fn exchange(world: &mut World, token: &[u8], reply: Option<&'static [u8]>) {
    let frame = world.take(OpCode::Sasl);
    assert_eq!(frame.read::<Sasl<'_>>().token, token);
    let reply = SaslReply { token: reply.map(Bytes::from_static) };
    world.answer(&frame, Zxid::ZERO, ErrorCode::OK, &reply);
}

/// Lets the client send its proof.
fn ask_who(world: &mut World) {
    exchange(world, b"", Some(b"who?"));
}

fn authenticate(world: &mut World) {
    ask_who(world);
    exchange(world, b"alice", Some(b"server"));
}

/// Opens the session, or resumes it. Returns the server.
fn establish(world: &mut World) -> Host {
    open(world);
    authenticate(world);
    assert!(world.session.is_connected());
    world.attempts().last().unwrap().1.clone()
}

/// Opens the session, and loses the connection. Returns the server.
fn interrupted(world: &mut World) -> Host {
    let server = establish(world);
    world.cut();
    server
}

/// The server rejects the proof of the session that it has accepted.
pub(crate) fn reject(world: &mut World) {
    ask_who(world);
    refuse(world, ErrorCode::AUTH_FAILED);
}

/// Answers the next token with this code.
fn refuse(world: &mut World, code: ErrorCode) {
    world.answer_next(OpCode::Sasl, Zxid::ZERO, code, &());
}

fn is_refused(world: &World) -> bool {
    world.log.iter().any(|(_, seen)| matches!(seen, Seen::Refused(_)))
}

/// Waits for the next attempt, and returns its server, unless the session ends first.
fn next_attempt(world: &mut World) -> Option<Host> {
    let before = world.attempts().len();
    world.advance_until(|world| world.attempts().len() > before || world.end().is_some());
    world.attempts().get(before).map(|(_, host)| host.clone())
}

/// What a server does with an attempt.
#[derive(Clone, Copy, PartialEq)]
enum Act {
    /// Refuses the connection.
    Refuse,
    /// Accepts the connection and does nothing.
    Hang,
    /// Closes the connection after the proof.
    Close,
    /// Rejects the proof.
    Reject,
}

/// Makes attempts while the condition holds and the session goes on.
fn attempt_while(
    world: &mut World,
    goes_on: impl Fn(&World) -> bool,
    mut act: impl FnMut(&Host) -> Act,
) {
    while goes_on(world) {
        let Some(server) = next_attempt(world) else { return };
        match act(&server) {
            Act::Refuse => world.cut_for(unreachable()),
            Act::Hang => drop(world.advance_to_deadline()),
            act => {
                open(world);
                ask_who(world);
                if act == Act::Close {
                    world.cut();
                } else {
                    refuse(world, ErrorCode::AUTH_FAILED);
                }
            }
        }
    }
}

/// Makes this number of attempts. Returns the last server.
fn attempts(world: &mut World, count: u32, act: impl Fn(&Host) -> Act) -> Host {
    for _ in 0..count {
        let before = world.attempts().len();
        attempt_while(world, |world| world.attempts().len() == before, &act);
    }
    world.attempts().pop().unwrap().1
}

#[test]
fn exchange_is_alone_and_first_on_each_connection() {
    let mut world = accepted();
    let auth = world.auth("digest");
    let watch = world.watch(WatchKind::Data, "/a");
    let created = world.create("/a");
    world.claim();
    world.advance(T / 4);
    assert!(!world.session.is_connected() && !world.session.is_established());
    assert_eq!(world.events(), []);
    ask_who(&mut world);
    assert_eq!(world.ops(), [OpCode::Sasl], "and no ping");
    exchange(&mut world, b"alice", Some(b"server"));
    assert!(matches!(world.events()[..], [SessionEvent::Connected { .. }]));
    for op in [OpCode::Auth, OpCode::Multi, OpCode::GetData, OpCode::Create2] {
        world.serve_next(op);
    }
    assert!([auth, watch, created].into_iter().all(|n| world.is_ok(n)));

    world.session.unclaim_lease();
    world.cut();
    open(&mut world);
    assert_eq!(world.ops(), [OpCode::Sasl]);
    authenticate(&mut world);
    assert_eq!(world.ops(), [OpCode::Auth, OpCode::SetWatches]);
    assert!(matches!(world.events().last(), Some(SessionEvent::Reconnected { .. })));
}

#[test]
fn exchange_has_the_time_of_one_handshake() {
    let mut world = accepted();
    let left = world.advance_until(|world| world.session.last_disconnect().is_some());
    assert_eq!((left, world.cause()), (T / 3, DisconnectReason::IdleTimeout));
}

#[test]
fn missing_token_in_mid_exchange_is_never_success() {
    for (before, token) in [(None, &b""[..]), (Some(&b"who?"[..]), b"alice")] {
        let mut world = accepted();
        if before.is_some() {
            exchange(&mut world, b"", before);
        }
        exchange(&mut world, token, None);
        assert!(!world.session.is_connected());
        assert_eq!(world.cause(), DisconnectReason::Sasl(SaslFailure::NotOffered));
        assert!(is_refused(&world), "a first connect fails at once");
    }
}

#[test]
fn failed_exchange_ends_the_attempt_and_not_the_session() {
    type Script = fn(&mut World);
    let scripts: [(Script, SaslFailure); 4] = [
        (|it| refuse(it, ErrorCode::AUTH_FAILED), SaslFailure::MechanismRefused),
        (
            |it| refuse(it, ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH),
            SaslFailure::MechanismRefused,
        ),
        (
            |it| {
                ask_who(it);
                refuse(it, ErrorCode::UNIMPLEMENTED);
            },
            SaslFailure::Refused(ErrorCode::UNIMPLEMENTED),
        ),
        (
            |it| {
                ask_who(it);
                exchange(it, b"alice", Some(b"mallory"));
            },
            SaslFailure::ServerNotProven,
        ),
    ];
    for (script, failure) in scripts {
        let mut world = accepted();
        script(&mut world);
        assert_eq!(world.cause(), DisconnectReason::Sasl(failure));
        assert!(is_refused(&world), "a first connect fails at once");
        assert!(world.end().is_none() && !world.session.is_established());
        world.open();
        assert_eq!(world.last_connect().session_id, SessionId::NONE);
    }
}

#[test]
fn rejection_ends_the_session() {
    for code in [ErrorCode::AUTH_FAILED, ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH] {
        for is_established in [false, true] {
            let mut world = accepted();
            if is_established {
                authenticate(&mut world);
                world.cut();
                open(&mut world);
            }
            let waiting = world.create("/a");
            ask_who(&mut world);
            refuse(&mut world, code); // the server has proven nothing: `SECURITY.md` says so
            assert_eq!(world.end(), Some(SessionEnd::AuthFailed));
            assert_eq!(world.failure(waiting).0, ended(SessionEnd::AuthFailed));
        }
    }
}

#[test]
fn rejection_by_one_server_of_a_name_does_not_end_the_session() {
    let found = [address(1), address(2)];
    let accept = |world: &mut World| {
        reach(world, &found);
        world.respond(&acceptance(30_000));
    };
    for rejects in [true, false] {
        let mut world = world_of(1);
        accept(&mut world);
        reject(&mut world);
        assert_eq!(world.end(), None);
        accept(&mut world);
        if rejects {
            reject(&mut world);
        } else {
            authenticate(&mut world);
        }
        assert_eq!(world.end().is_some(), rejects);
        assert_eq!(world.session.is_connected(), !rejects);
    }
}

/// A close, and a reset by a server that had not read everything.
const CLOSES: [DisconnectReason; 2] =
    [DisconnectReason::ClosedByServer, DisconnectReason::Io(std::io::ErrorKind::ConnectionReset)];

#[test]
fn close_after_the_proof_is_a_rejection_of_old_servers() {
    let mut world = accepted();
    world.cut();
    assert_eq!(world.cause(), DisconnectReason::Sasl(SaslFailure::ClosedBeforeProof));
    assert!(!is_refused(&world), "the server may not serve yet");
    for cause in CLOSES {
        open(&mut world);
        ask_who(&mut world);
        world.cut_for(cause);
        assert_eq!(world.cause(), DisconnectReason::Sasl(SaslFailure::ClosedByServer));
    }
    assert!(!is_refused(&world), "the server may restart");
    attempt_while(&mut world, |_| true, |_| Act::Close);
    assert_eq!(world.end(), Some(SessionEnd::AuthFailed));
    assert!(world.now() >= SASL_REJECTION_TIME);
}

#[test]
fn closes_after_the_proof_end_an_established_session() {
    for (servers, cause) in [(1, CLOSES[0].clone()), (1, CLOSES[1].clone()), (3, CLOSES[0].clone())]
    {
        let mut world = world_of(servers);
        interrupted(&mut world);
        let mut closes = 0;
        while next_attempt(&mut world).is_some() {
            open(&mut world);
            ask_who(&mut world);
            world.cut_for(cause.clone());
            closes += 1;
        }
        assert_eq!(world.end(), Some(SessionEnd::AuthFailed));
        assert!(closes >= SASL_CLOSES_MAX);
        assert!((SASL_REJECTION_TIME..2 * SASL_REJECTION_TIME).contains(&world.now()));
    }
}

#[test]
fn session_waits_for_a_server_that_restarts() {
    let mut world = world_of(3);
    let updated = interrupted(&mut world);
    let act = |host: &Host| if *host == updated { Act::Refuse } else { Act::Close };
    attempt_while(&mut world, |world| world.now() < 2 * SASL_REJECTION_TIME, act);
    let is_back = |world: &World| world.attempts().pop().unwrap().1 == updated;
    attempt_while(&mut world, |world| !is_back(world), |_| Act::Close);
    attempts(&mut world, 2 * SASL_CLOSES_MAX, act);
    establish(&mut world);
}

#[test]
fn session_waits_for_unreachable_servers() {
    for is_established in [false, true] {
        let mut world = world_of(3);
        let bad = if is_established { interrupted(&mut world) } else { Host::new("a", 1) };
        let act = |host: &Host| if *host == bad { Act::Close } else { Act::Refuse };
        attempt_while(&mut world, |world| world.now() < 4 * SASL_REJECTION_TIME, act);
        assert!(world.end().is_none() && !is_refused(&world));
    }
}

#[test]
fn session_tries_the_servers_behind_a_balancer_for_a_while() {
    for closes in [SASL_CLOSES_MAX, 2 * SASL_CLOSES_MAX] {
        let mut world = world_of(1);
        interrupted(&mut world);
        attempts(&mut world, closes, |_| Act::Close);
        assert!(world.now() < SASL_REJECTION_TIME);
        establish(&mut world);
    }
}

#[test]
fn established_connection_restarts_the_count_of_closes() {
    let mut world = world_of(1);
    for _ in 0..2 * SASL_CLOSES_MAX {
        interrupted(&mut world);
        attempts(&mut world, 1, |_| Act::Close);
    }
    establish(&mut world);
}

#[test]
fn unproven_server_changes_neither_session_nor_timeout() {
    let mut world = accepted();
    authenticate(&mut world);
    let timeout = world.session.session_timeout();
    for proof in [Some(&b"mallory"[..]), None] {
        world.cut_if_open();
        world.open();
        let forged = ConnectResponse { password: "forged".into(), ..acceptance(100) };
        world.respond(&forged);
        ask_who(&mut world);
        exchange(&mut world, b"alice", proof);
        assert_eq!((world.session.session_timeout(), world.end()), (timeout, None));
    }
    world.open();
    assert_eq!(world.last_connect().password, PASSWORD[..]);
    world.respond(&acceptance(6000));
    authenticate(&mut world);
    assert!(world.session.is_connected());
}

/// Its list of users may be wrong, or out of date.
#[test]
fn rejection_by_one_server_leaves_the_session_to_others() {
    let mut world = world_of(3);
    interrupted(&mut world);
    let wrong = attempts(&mut world, 1, |_| Act::Reject);
    assert_eq!(world.cause(), DisconnectReason::Sasl(SaslFailure::Rejected));
    assert_eq!(world.end(), None);
    assert_ne!(interrupted(&mut world), wrong);
    // Each server counts since the last connection: the others may accept the proof.
    attempts(&mut world, 2, |_| Act::Reject);
    assert_eq!(world.end(), None);
}

/// An unreachable server refuses connections, or nothing answers at all.
#[test]
fn rejections_by_every_reachable_server_end_the_session() {
    for dead_does in [Act::Refuse, Act::Hang] {
        let mut world = world_of(3);
        let right = interrupted(&mut world);
        let dead = Host::new("a", (right.port() + 1) % 3);
        let mut rejecting = HashSet::new();
        attempt_while(
            &mut world,
            |_| true,
            |server| {
                if *server == dead {
                    return dead_does;
                }
                rejecting.insert(server.clone());
                Act::Reject
            },
        );
        assert_eq!(world.end(), Some(SessionEnd::AuthFailed));
        assert_eq!(rejecting.len(), 2);
    }
}

/// Another server with an old list of users is tried meanwhile.
#[test]
fn restart_of_the_server_that_accepts_does_not_end_the_session() {
    let mut world = world_of(2);
    let right = interrupted(&mut world);
    let now = world.instant();
    world.session.update_servers(now, [0, 1].map(|port| Host::new("a", port)).into());
    let rejections = std::cell::Cell::new(0);
    attempt_while(
        &mut world,
        |_| rejections.get() < 3,
        |server| {
            if *server == right {
                return Act::Refuse;
            }
            rejections.set(rejections.get() + 1);
            Act::Reject
        },
    );
    assert_eq!(world.end(), None);
}

/// The error of a first session names the server that tells most.
#[test]
fn rejection_outweighs_later_failures_of_other_servers() {
    let mut world = world_of(2);
    attempts(&mut world, 1, |_| Act::Reject);
    attempts(&mut world, 1, |_| Act::Close);
    let cause = world.session.connect_failure();
    assert_eq!(cause, Some(DisconnectReason::Sasl(SaslFailure::Rejected)));
    let error = Error::not_applied(ErrorKind::NoSession(cause.unwrap()));
    assert_eq!(error.retry_on(), RetryOn::NewSession, "the other server may accept them");
    assert_eq!(world.end(), None);
}

#[test]
fn server_that_requires_authentication_ends_the_session() {
    let required = ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH;
    let mut world = World::up();
    let created = world.create("/a");
    world.reject(OpCode::Create2, required);
    assert_eq!(world.failure(created).0, ended(SessionEnd::AuthRequired));
    let last = world.events().pop();
    assert!(
        matches!(last, Some(SessionEvent::AuthFailed { cause: SessionEnd::AuthRequired, .. })),
        "{last:?}"
    );

    // An idle session meets it with its first ping.
    let mut world = World::up();
    world.advance_to_ping();
    world.reject(OpCode::Ping, required);
    assert_eq!(world.end(), Some(SessionEnd::AuthRequired));
}

#[test]
fn last_token_is_accepted_with_and_without_an_answer_token() {
    for reply in [None, Some(&b""[..]), Some(b"x")] {
        let mut world = World::new();
        world.sasl = Some(|| Box::new(OneToken(1)));
        open(&mut world);
        exchange(&mut world, b"x", reply);
        assert!(world.session.is_connected());
    }
}

#[test]
fn long_tokens_are_rejected_in_both_directions() {
    let mut world = World::new();
    world.sasl = Some(|| Box::new(OneToken(SASL_TOKEN_LEN_MAX)));
    open(&mut world);
    assert_eq!(world.ops(), [OpCode::Sasl], "the longest one");
    world.sasl = Some(|| Box::new(OneToken(SASL_TOKEN_LEN_MAX + 1)));
    world.cut();
    open(&mut world);
    assert_eq!(world.cause(), DisconnectReason::Sasl(SaslFailure::TokenTooLong));

    let mut world = accepted();
    let len = i32::try_from(SASL_TOKEN_LEN_MAX + 1000).unwrap();
    world.deliver(&len.to_be_bytes());
    assert_eq!(world.cause(), DisconnectReason::FrameTooLarge);
}

#[test]
fn other_frames_during_the_exchange_end_the_connection() {
    let mut world = accepted();
    world.notify(EventType::NODE_CREATED, "/a");
    assert_eq!(world.cause(), DisconnectReason::UnknownXid(xid::NOTIFICATION));
}

#[test]
fn session_can_be_closed_during_the_exchange() {
    let mut world = accepted();
    world.close();
    world.servers = Servers::Refuse;
    world.advance(T);
    assert_eq!(world.end(), Some(SessionEnd::Closed));
}
