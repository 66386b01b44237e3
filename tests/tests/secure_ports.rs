//! TLS against real servers: 1.2 with those before 3.9, and 1.3 with those after. `guide` has
//! DIGEST-MD5 over TLS.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use xtask::zookeeper::{Settings, Standalone, certificate, ensure_openssl};
use zk_recipes::session::{
    Acl, Client, Config, CreateMode, DisconnectReason, Error, ErrorCode, ErrorKind, PeerProtocol,
    Perms, SessionEvent, TlsFailure,
};
use zk_recipes::{LossReason, Mutex};
use zk_tests::{contenders, identities, now, or_skip, zookeeper, zookeeper_with};
use zk_tls::{Tls, TlsBuilder};

fn serving(key_store: &str, client_auth: &str) -> Settings {
    let settings = Settings::default().tls(&certificate(key_store), &certificate("ca.pem"));
    settings.config("ssl.clientAuth", client_auth)
}

/// The certificates have no name for the address of the test.
fn trusting(ca: &str) -> TlsBuilder {
    Tls::builder().ca_file(certificate(ca)).server_name("localhost")
}

fn with_certificate(name: &str) -> TlsBuilder {
    trusting("ca.pem").client_certificate_files(certificate(name), certificate(name))
}

fn tls_port(server: &Standalone) -> String {
    server.tls_address().unwrap().to_string()
}

fn config(to: &str) -> Config {
    let config = Config::new(to).unwrap().session_timeout(Duration::from_secs(20));
    config.connect_timeout(Duration::from_secs(30))
}

async fn connect(to: &str, tls: TlsBuilder) -> Result<Client, Error> {
    config(to).connector(tls.build().unwrap()).connect().await
}

fn failure(connected: Result<Client, Error>) -> TlsFailure {
    match connected.unwrap_err().kind() {
        ErrorKind::NoSession(DisconnectReason::Tls(failure)) => failure.clone(),
        kind => panic!("{kind:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn session_lock_and_watch_survive_a_reconnect_over_tls() {
    let Some(server) = zookeeper_with(&serving("server.pem", "none")) else { return };
    let client = connect(&tls_port(&server), trusting("ca.pem")).await.unwrap();
    let other = connect(&tls_port(&server), trusting("ca.pem")).await.unwrap();
    let held = Mutex::new(&client, "/lock").unwrap().acquire().await.unwrap();
    let waiting = tokio::spawn(async move {
        let lock = Mutex::new(&other, "/lock").unwrap();
        lock.acquire().await.unwrap().release().await.unwrap();
    });
    let (_, watch) = client.get_data_and_watch("/lock").await.unwrap();
    let mut events = client.events();
    server.restart().unwrap();
    while !matches!(events.next().await.unwrap(), SessionEvent::Reconnected { .. }) {}
    client.set_data("/lock", b"x", None).await.unwrap();
    assert_eq!(watch.await.unwrap().path, "/lock");
    held.check().await.unwrap();
    held.release().await.unwrap();
    waiting.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn certificate_is_an_identity_in_acls() {
    let Some(server) = zookeeper_with(&serving("server.pem", "need")) else { return };
    let to = tls_port(&server);
    let client = connect(&to, with_certificate("client.pem")).await.unwrap();
    let subject = "O=example,OU=shop,CN=app"; // the last part is first, as in RFC 2253
    if let Some(known) = identities(&client, &server).await {
        let is_known =
            known.iter().any(|identity| identity.scheme == "x509" && identity.user == subject);
        assert!(is_known, "{known:?}");
    }
    let own = Acl { perms: Perms::ALL, scheme: "x509".into(), id: subject.into() };
    client.create_with_acl("/own", b"", CreateMode::Persistent, &[own]).await.unwrap();
    assert!(client.get_data("/own").await.is_ok());
    // Without TLS, on the port that serves both, nobody is that user.
    let plain = config(&server.connect_string()).connect().await.unwrap();
    assert_eq!(plain.get_data("/own").await.unwrap_err().code(), Some(ErrorCode::NO_AUTH));

    let none = failure(connect(&to, trusting("ca.pem")).await);
    assert_eq!(none, TlsFailure::CertificateRequired);
    let refused = failure(connect(&to, with_certificate("stranger.pem")).await);
    assert_eq!(refused, TlsFailure::CertificateRefused);
}

/// The cryptography of ring has neither.
#[tokio::test(flavor = "multi_thread")]
async fn server_with_a_key_of_another_kind_is_told() {
    for key_store in ["p521.pem", "rsa-1024.pem"] {
        let Some(server) = zookeeper_with(&serving(key_store, "none")) else { return };
        let failure = failure(connect(&tls_port(&server), trusting("authority.pem")).await);
        let told = failure.to_string();
        assert!(told.contains("P-256") && told.contains("2048"), "{key_store}: {told}");
    }
}

/// OpenSSL answers a missing certificate with the alert `handshake_failure` under TLS 1.2.
#[tokio::test(flavor = "multi_thread")]
async fn openssl_requires_or_refuses_a_client_certificate() {
    let Some(openssl) = or_skip(ensure_openssl()) else { return };
    for version in ["-tls1_2", "-tls1_3"] {
        let mut command = Command::new(&openssl);
        command.args(["s_server", version, "-accept", "127.0.0.1:0"]);
        command.args(["-Verify", "1", "-verify_return_error"]);
        for (option, file) in
            [("-cert", "server.pem"), ("-key", "server.pem"), ("-CAfile", "ca.pem")]
        {
            command.arg(option).arg(certificate(file));
        }
        // It ends with its input.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut server = Ended(command.spawn().unwrap());
        let mut lines = BufReader::new(server.0.stdout.take().unwrap()).lines();
        let to = lines.find_map(|line| Some(line.unwrap().strip_prefix("ACCEPT ")?.to_owned()));
        let to = to.unwrap();
        let none = failure(connect(&to, trusting("ca.pem")).await);
        assert_eq!(none, TlsFailure::CertificateRequired, "{version}");
        let refused = failure(connect(&to, with_certificate("stranger.pem")).await);
        assert_eq!(refused, TlsFailure::CertificateRefused, "{version}");
    }
}

/// A program that is killed when it is dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn server_that_wants_a_certificate_takes_clients_without() {
    let Some(server) = zookeeper_with(&serving("server.pem", "want")) else { return };
    let client = connect(&tls_port(&server), trusting("ca.pem")).await.unwrap();
    let with = connect(&tls_port(&server), with_certificate("client.pem")).await.unwrap();
    for (client, has_one) in [(client, false), (with, true)] {
        let Some(known) = identities(&client, &server).await else { return };
        assert_eq!(known.iter().any(|identity| identity.scheme == "x509"), has_one, "{known:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_tls_and_unified_ports_are_told_apart() {
    let Some(server) = zookeeper_with(&serving("server.pem", "none")) else { return };
    let tls = tls_port(&server);
    let error = config(&tls).connect().await.unwrap_err();
    let expected = DisconnectReason::NotZooKeeper(PeerProtocol::Tls);
    assert_eq!(*error.kind(), ErrorKind::NoSession(expected), "{error}");
    // The client port serves both.
    let both = server.connect_string();
    config(&both).connect().await.unwrap();
    connect(&both, trusting("ca.pem")).await.unwrap();
    connect(&format!("tcp://{both},tls://{tls}"), trusting("ca.pem")).await.unwrap();

    let Some(plain) = zookeeper() else { return };
    let config = config(&plain.connect_string()).refused_timeout(Duration::ZERO);
    let missing = failure(config.connector(trusting("ca.pem").build().unwrap()).connect().await);
    assert_eq!(missing, TlsFailure::ClosedByServer);
}

/// The server of the holder is cut off from the leader; see `follower_cut.rs`.
#[tokio::test(flavor = "multi_thread")]
async fn guard_reports_loss_before_next_grant_over_tls() {
    let settings = serving("server.pem", "none").tick_ms(2000);
    let Some(ensemble) = or_skip(settings.start_in_namespaces()) else { return };
    let (leader, follower) = (ensemble.leader().unwrap(), ensemble.follower().unwrap());
    let connect_to = async |at: usize| {
        let config = Config::new(&ensemble.server(at).connect_string()).unwrap();
        let config = config.session_timeout(Duration::from_secs(4));
        config.connector(trusting("ca.pem").build().unwrap()).connect().await.unwrap()
    };
    let (holder, next) = (connect_to(follower).await, connect_to(leader).await);
    let guard = Mutex::new(&holder, "/lock").unwrap().acquire().await.unwrap();
    let lock = Mutex::new(&next, "/lock").unwrap();
    let acquired = tokio::spawn(async move { (lock.acquire().await.unwrap(), now()) });
    contenders(&next, "/lock", 2).await;

    let lost = guard.lost();
    let lost = tokio::spawn(async move { (lost.await, now()) });
    ensemble.cut(follower, leader).unwrap();
    let (reason, lost_at) = lost.await.unwrap();
    let (next_guard, acquired_at) = acquired.await.unwrap();
    assert_eq!(reason, LossReason::LeaseDeadlinePassed);
    assert!(lost_at < acquired_at, "late by {:?}", lost_at - acquired_at);
    assert!(!guard.is_held() && next_guard.is_held());
}
