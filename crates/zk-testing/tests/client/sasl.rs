//! Tests of SASL with DIGEST-MD5, and of servers that require authentication.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::in_memory::cut_and_reconnect;

use zk_session::limits::{SASL_CLOSES_MAX, SASL_REJECTION_TIME};
use zk_session::{
    Acl, Client, Config, CreateMode, DigestMd5, DisconnectReason, Error, ErrorCode, ErrorKind,
    ErrorOrigin, Host, Perms, RetryOn, Sasl, SaslFailure, SaslPreparation, SessionChange,
    SessionEnd, SessionEvent, SessionManager,
};
use zk_testing::{Cut, Fault, Op, SaslFault, Settings, TestServer};

fn with_alice() -> Settings {
    Settings::new().sasl_user("alice", "sesame").sasl_user("bób", "p€")
}

fn config(seed: u128) -> Config {
    Config::new("server-0").unwrap().session_timeout(Duration::from_secs(6)).seed(seed)
}

async fn connect(server: &TestServer, user: &str, password: &str) -> Result<Client, Error> {
    config(1).sasl(DigestMd5::new(user, password)).connector(server.clone()).connect().await
}

#[tokio::test(start_paused = true)]
async fn right_password_gives_the_users_identity() {
    let server = TestServer::in_memory_with(with_alice());
    for (user, password) in [("alice", "sesame"), ("bób", "p€")] {
        let client = connect(&server, user, password).await.unwrap();
        let own = Acl { perms: Perms::ALL, scheme: "sasl".into(), id: user.to_owned().into() };
        let path = format!("/{user}");
        client.create_with_acl(&path, b"", CreateMode::Persistent, &[own]).await.unwrap();
        assert!(client.get_data(&path).await.is_ok());
        let other = config(2).connector(server.clone()).connect().await.unwrap();
        assert_eq!(other.get_data(&path).await.unwrap_err().code(), Some(ErrorCode::NO_AUTH));
    }
}

#[tokio::test(start_paused = true)]
async fn wrong_password_or_user_ends_the_attempt() {
    let server = TestServer::in_memory_with(with_alice());
    for (user, password) in [("alice", "sesamE"), ("alicE", "sesame"), ("", "sesame")] {
        let error = connect(&server, user, password).await.unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::SessionEnded(SessionEnd::AuthFailed), "{user}");
        assert_eq!(error.retry_on(), RetryOn::Never);
        assert!(!format!("{error} {error:#?}").contains(password));
    }
}

#[tokio::test(start_paused = true)]
async fn servers_without_sasl_and_lying_servers_are_refused() {
    let lying = |fault| with_alice().sasl_fault(fault);
    for (settings, failure) in [
        (Settings::new(), SaslFailure::NotOffered),
        (lying(SaslFault::WrongProof), SaslFailure::ServerNotProven),
        (lying(SaslFault::NoProof), SaslFailure::NotOffered),
        (lying(SaslFault::Garbage), SaslFailure::UnfitToken("a quoted value has no end")),
    ] {
        let server = TestServer::in_memory_with(settings);
        let error = connect(&server, "alice", "sesame").await.unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::NoSession(DisconnectReason::Sasl(failure)));
        assert_eq!(error.retry_on(), RetryOn::Never);
    }
}

#[tokio::test(start_paused = true)]
#[allow(clippy::disallowed_methods, reason = "tokio's clock, which the test has stopped")]
async fn close_without_a_word_is_the_rejection_of_old_servers() {
    let server = TestServer::in_memory_with(with_alice());
    let _old = close_after_proofs(&server, 64);
    let begun = tokio::time::Instant::now();
    let error = connect(&server, "alice", "sesamE").await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::SessionEnded(SessionEnd::AuthFailed));
    assert!(begun.elapsed() >= SASL_REJECTION_TIME);
}

/// Closes this number of connections after the client's proof.
fn close_after_proofs(server: &TestServer, closes: u64) -> Vec<Fault> {
    // Each connection has two tokens, of which the second one is the proof. A fault does not count
    // the requests of the faults before it.
    (1..=closes).map(|at| server.on(Op::Sasl).nth(at + 1).drop_before_applying()).collect()
}

#[tokio::test(start_paused = true)]
async fn first_connect_survives_a_close_after_the_proof() {
    let server = TestServer::in_memory_with(with_alice());
    let closed = close_after_proofs(&server, 1);
    assert!(connect(&server, "alice", "sesame").await.is_ok());
    assert_eq!(closed[0].count(), 1);
}

/// A server that restarts between proof and answer looks like an old one that rejects the password.
#[tokio::test(start_paused = true)]
async fn manager_stops_after_closes_for_a_while() {
    // The first attempt at a session may be short: the attempts at the next sessions are not.
    let short = |config: Config| {
        config.connect_timeout(Duration::from_secs(3)).refused_timeout(Duration::from_secs(1))
    };
    for (closes, is_last, config) in
        [(SASL_CLOSES_MAX, false, config(1)), (64, true, config(1)), (64, true, short(config(1)))]
    {
        let server = TestServer::in_memory_with(with_alice());
        let config = config.sasl(DigestMd5::new("alice", "sesame"));
        let sessions = SessionManager::connect(config.connector(server.clone())).await.unwrap();
        let mut changes = sessions.changes();
        let closed = close_after_proofs(&server, u64::from(closes));
        server.expire(sessions.client().session_id());
        let stopped = loop {
            match changes.next().await.unwrap() {
                SessionChange::Opened { .. } => break false,
                SessionChange::Stopped(_) => break true,
                _ => {}
            }
        };
        assert!(closed.iter().map(Fault::count).sum::<u64>() >= u64::from(SASL_CLOSES_MAX));
        let failed = sessions.totals().failed_attempts;
        assert_eq!((stopped, failed), (is_last, u64::from(is_last)), "the last attempt counts");
    }
}

#[tokio::test(start_paused = true)]
async fn session_outlives_a_cut_in_mid_exchange() {
    let server = TestServer::in_memory_with(with_alice());
    let client = connect(&server, "alice", "sesame").await.unwrap();
    for nth in [1, 2] {
        let _cut = server.on(Op::Sasl).nth(nth).by(Cut::Rst).drop_before_applying();
        cut_and_reconnect(&server, &client).await;
        client.create("/e-", b"", CreateMode::EphemeralSequential).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn protected_watch_is_set_again_after_a_reconnect() {
    let server = TestServer::in_memory_with(with_alice());
    let client = connect(&server, "alice", "sesame").await.unwrap();
    let own = Acl { perms: Perms::ALL, scheme: "sasl".into(), id: "alice".into() };
    client.create_with_acl("/a", b"", CreateMode::Persistent, &[own]).await.unwrap();
    let (_, watch) = client.get_data_and_watch("/a").await.unwrap();
    cut_and_reconnect(&server, &client).await;
    client.set_data("/a", b"x", None).await.unwrap();
    assert_eq!(watch.await.unwrap().path, "/a");
}

#[tokio::test(start_paused = true)]
async fn password_is_read_for_each_connection() {
    let server = TestServer::in_memory_with(with_alice());
    let reads = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&reads);
    let read = move || match counted.fetch_add(1, Ordering::SeqCst) {
        1 => Err(io::Error::from(io::ErrorKind::PermissionDenied)),
        _ => Ok(b"sesame\n".to_vec()),
    };
    let sasl = DigestMd5::reading("alice", read);
    let client = config(1).sasl(sasl).connector(server.clone()).connect().await.unwrap();
    cut_and_reconnect(&server, &client).await;
    assert_eq!(reads.load(Ordering::SeqCst), 3);
}

#[tokio::test(start_paused = true)]
async fn password_ends_before_one_newline() {
    let server = TestServer::in_memory_with(with_alice());
    for (text, is_right) in
        [("sesame", true), ("sesame\n", true), ("sesame\r\n", true), ("sesame\n\n", false)]
    {
        let sasl = DigestMd5::reading("alice", move || Ok(text.into()));
        let connected = config(1).sasl(sasl).connector(server.clone()).connect().await;
        assert_eq!(connected.is_ok(), is_right, "{text:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn unreadable_password_ends_the_attempt() {
    let server = TestServer::in_memory_with(with_alice());
    let absent = || io::Error::new(io::ErrorKind::NotFound, "/run/secrets/zk is absent");
    let sasl = DigestMd5::reading("alice", move || Err(absent()));
    let error = config(1).sasl(sasl).connector(server.clone()).connect().await.unwrap_err();
    let failure = SaslFailure::NotPrepared(absent().into());
    assert_eq!(*error.kind(), ErrorKind::NoSession(DisconnectReason::Sasl(failure)));
    assert_eq!(error.origin(), ErrorOrigin::Caller);
    assert!(error.to_string().contains("/run/secrets/zk is absent"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn unusable_password_ends_no_session_and_is_not_sent() {
    let server = TestServer::in_memory_with(with_alice());
    for unusable in [&b""[..], b"\n", &[0xff, 0xfe]] {
        let rejected = server.on(Op::Sasl).always().never_answer();
        let sasl = DigestMd5::reading("alice", move || Ok(unusable.to_vec()));
        let error = config(1).sasl(sasl).connector(server.clone()).connect().await.unwrap_err();
        let ErrorKind::NoSession(DisconnectReason::Sasl(failure)) = error.kind() else {
            panic!("{error:?}")
        };
        assert!(matches!(failure, SaslFailure::NotPrepared(_)), "{failure:?}");
        assert_eq!(rejected.count(), 0);
        rejected.cancel();
    }
    let reads = Arc::new(AtomicUsize::new(0));
    let read = move || match reads.fetch_add(1, Ordering::SeqCst) {
        1 => Ok(Vec::new()),
        _ => Ok(b"sesame".to_vec()),
    };
    let config = config(1).sasl(DigestMd5::reading("alice", read));
    let client = config.connector(server.clone()).connect().await.unwrap();
    cut_and_reconnect(&server, &client).await;
}

#[tokio::test(start_paused = true)]
async fn panic_while_reading_a_password_shows_nothing_of_it() {
    let server = TestServer::in_memory();
    let sasl = DigestMd5::reading("alice", || panic!("sesame"));
    let error = config(1).sasl(sasl).connector(server).connect().await.unwrap_err();
    assert!(error.to_string().contains("panicked"), "{error}");
    assert!(!format!("{error} {error:?}").contains("sesame"), "{error:?}");
}

/// Credentials whose preparation takes this many seconds, or fails with this kind.
#[derive(Debug)]
struct Late(u64, Option<io::ErrorKind>);

impl Sasl for Late {
    fn prepare(&self, _host: &Host, _address: Option<IpAddr>) -> SaslPreparation {
        let Self(seconds, failure) = *self;
        Box::pin(async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await; // reason: virtual time
            match failure {
                Some(kind) => Err(kind.into()),
                None => DigestMd5::new("alice", "sesame").prepare(&Host::new("", 1), None).await,
            }
        })
    }
}

#[tokio::test(start_paused = true)]
async fn slow_preparation_is_not_blamed_on_the_server() {
    let server = TestServer::in_memory_with(Settings::new().sasl_user("alice", "sesame"));
    assert!(config(1).sasl(Late(1, None)).connector(server.clone()).connect().await.is_ok());
    let error = config(1).sasl(Late(100, None)).connector(server).connect().await.unwrap_err();
    let failure = SaslFailure::NotPrepared(io::ErrorKind::TimedOut.into());
    assert_eq!(*error.kind(), ErrorKind::NoSession(DisconnectReason::Sasl(failure)));
    assert_eq!((error.origin(), error.retry_on()), (ErrorOrigin::Network, RetryOn::NewSession));
}

#[tokio::test(start_paused = true)]
async fn unreachable_ticket_server_is_tried_until_the_timeout() {
    let server = TestServer::in_memory();
    let config = config(1).sasl(Late(0, Some(io::ErrorKind::HostUnreachable)));
    let first = config.clone().connector(server.clone()).connect();
    assert!(tokio::time::timeout(Duration::from_secs(5), first).await.is_err(), "gave up at once");
    let error = config.connector(server).connect().await.unwrap_err();
    assert_eq!(error.retry_on(), RetryOn::NewSession, "{error}");
}

#[tokio::test(start_paused = true)]
async fn required_authentication_is_missed_or_presented() {
    let required = with_alice().require_auth(["sasl"]);
    let server = TestServer::in_memory_with(required);
    assert!(connect(&server, "alice", "sesame").await.unwrap().exists("/").await.is_ok());
    let error = connect(&server, "alice", "wrong").await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::SessionEnded(SessionEnd::AuthFailed));
    let client = config(2).connector(server.clone()).connect().await.unwrap();
    let error = client.exists("/").await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::SessionEnded(SessionEnd::AuthRequired));
    assert_eq!(error.retry_on(), RetryOn::Never);

    let server = TestServer::in_memory_with(Settings::new().require_auth(["digest"]));
    let presented = config(3).auth("digest", "alice:sesame");
    assert!(presented.connector(server.clone()).connect().await.unwrap().exists("/").await.is_ok());
    let idle = config(4).connector(server).connect().await.unwrap();
    let mut events = idle.events();
    // The first ping is refused.
    let told = events.next().await;
    let cause = SessionEnd::AuthRequired;
    assert_eq!(told, Some(SessionEvent::AuthFailed { session_id: idle.session_id(), cause }));
}

#[test]
fn debug_shows_no_password() {
    let config = config(1).sasl(DigestMd5::new("alice", "sesame")).auth("digest", "a:opensesame");
    let shown = format!("{config:?} {config:#?}");
    assert!(shown.contains("alice") && !shown.contains("sesame"), "{shown}");

    let shown = format!("{:?}", with_alice());
    assert!(shown.contains("alice") && !shown.contains("sesame"), "{shown}");
}
