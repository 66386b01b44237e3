//! TLS against servers of zk-testing.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod lying_peers;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, UNIX_EPOCH};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use zk_session::limits::INFLIGHT_BYTES_MAX;
use zk_session::{
    Acl, Client, Config, Connector, CreateMode, DisconnectReason, Error, ErrorCode, ErrorKind,
    Host, PeerProtocol, Perms, RetryOn, SessionEvent, TlsFailure,
};
use zk_testing::{Settings, TestServer, TlsPort, TlsSettings};
use zk_tls::{Tls, TlsBuilder};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/certificates").join(name)
}

fn pem(name: &str) -> Vec<u8> {
    fs::read(file(name)).unwrap()
}

fn settings(name: &str) -> TlsSettings {
    TlsSettings::new(pem(name))
}

fn trusting(ca: &str) -> TlsBuilder {
    Tls::builder().ca_file(file(ca))
}

async fn port(settings: &TlsSettings) -> (TestServer, TlsPort) {
    let server = TestServer::in_memory();
    let port = TlsPort::listen(&server, 0, settings).await.unwrap();
    (server, port)
}

/// Connects to a server that presents this certificate.
async fn connect_to(certificate: &str, tls: TlsBuilder) -> Result<Client, Error> {
    let (_server, port) = port(&settings(certificate)).await;
    connect(&port.address().to_string(), tls).await
}

async fn connect(to: &str, tls: TlsBuilder) -> Result<Client, Error> {
    let config = Config::new(to)?.session_timeout(Duration::from_secs(10));
    config.connect_timeout(Duration::from_secs(30)).connector(tls.build().unwrap()).connect().await
}

fn failure(connected: Result<Client, Error>) -> TlsFailure {
    let error = connected.unwrap_err();
    assert_eq!(error.retry_on(), RetryOn::Never, "{error}");
    match error.kind() {
        ErrorKind::NoSession(DisconnectReason::Tls(failure)) => failure.clone(),
        kind => panic!("{kind:?}"),
    }
}

#[tokio::test]
async fn session_works_over_both_versions_of_tls() {
    for settings in [settings("server.pem").only_tls_1_2(), settings("server.pem").only_tls_1_3()] {
        let (_server, port) = port(&settings).await;
        for to in [port.address().to_string(), format!("tls://{}/zookeeper", port.address())] {
            let client = connect(&to, trusting("ca.pem")).await.unwrap();
            let data = vec![7; 500_000];
            client.create("/a", &data, CreateMode::Persistent).await.unwrap();
            assert_eq!(client.get_data("/a").await.unwrap().data, data);
            assert!(client.local_address().is_some_and(|address| address.is_loopback()));
            client.close().await;
        }
    }
}

#[tokio::test]
async fn server_certificates_are_checked() {
    let wrong_name = |presented: &str| TlsFailure::WrongName {
        expected: "127.0.0.1".into(),
        presented: presented.into(),
    };
    let is_years = |failure| matches!(failure, TlsFailure::Expired(ago) if ago.as_secs() > 1 << 29);
    for (certificate, ca, expected) in [
        ("server.pem", "other-ca.pem", TlsFailure::UnknownIssuer),
        ("stranger.pem", "ca.pem", TlsFailure::UnknownIssuer),
        ("misnamed.pem", "ca.pem", wrong_name("elsewhere.example")),
        ("unnamed.pem", "authority.pem", wrong_name("")),
    ] {
        let connected = connect_to(certificate, trusting(ca)).await;
        assert_eq!(failure(connected), expected, "{certificate}");
    }
    assert!(is_years(failure(connect_to("expired.pem", trusting("ca.pem")).await)));
}

#[tokio::test]
async fn unusable_certificate_is_reported_with_its_reason() {
    for (certificate, expected) in [
        ("authority.pem", "it is the certificate of an authority"),
        ("for-clients.pem", "needs serverAuth"),
    ] {
        let failure = failure(connect_to(certificate, trusting("authority.pem")).await);
        assert!(matches!(failure, TlsFailure::BadCertificate(_)), "{failure:?}");
        assert!(failure.to_string().contains(expected), "{failure}");
    }
}

#[tokio::test]
async fn certificates_of_a_server_are_examined() {
    let examined = async |server: &str, ca: &str| {
        let (_server, port) = port(&settings(server).only_tls_1_3()).await;
        let address = port.address();
        let host = Host::new("127.0.0.1", address.port());
        trusting(ca).examine(&host).await.unwrap()
    };
    let right = examined("server.pem", "ca.pem").await;
    assert_eq!((right.names.join(" ").as_str(), right.sent), ("localhost 127.0.0.1", 1));
    assert!(right.is_tls13);
    let until = right.valid_until.unwrap().duration_since(UNIX_EPOCH).unwrap();
    assert_eq!(until.as_secs(), SERVER_EXPIRES);
    // A session would refuse the others.
    assert_eq!(examined("misnamed.pem", "ca.pem").await.names, ["elsewhere.example"]);
    let unnamed = examined("unnamed.pem", "authority.pem").await;
    assert!(unnamed.names.is_empty() && unnamed.valid_until.is_ok(), "{unnamed:?}");
    for (server, ca, reason) in [
        ("expired.pem", "ca.pem", "expired"),
        ("server.pem", "other-ca.pem", "unknown authority"),
        ("for-clients.pem", "authority.pem", "serverAuth"),
    ] {
        let refused = examined(server, ca).await;
        assert_eq!((refused.names.len(), refused.sent), (0, 1));
        let failure = refused.valid_until.unwrap_err();
        assert!(failure.to_string().contains(reason), "{failure}");
    }
    let (_server, port) = port(&settings("server.pem")).await;
    let host = Host::new("127.0.0.1", port.address().port());
    let unknown = Tls::builder().examine(&host).await.unwrap();
    assert_eq!((unknown.sent, unknown.valid_until), (1, Err(TlsFailure::UnknownIssuer)));
    let closed = Host::new("127.0.0.2", 1);
    assert!(trusting("ca.pem").examine(&closed).await.is_err());
}

#[test]
fn expiry_of_the_clients_own_certificate_is_read() {
    let expiry = |name: &str| {
        let own = trusting("ca.pem").client_certificate_files(file(name), file(name));
        let end = own.client_certificate_expiry().unwrap().unwrap();
        end.duration_since(UNIX_EPOCH).unwrap().as_secs()
    };
    assert_eq!(expiry("server.pem"), SERVER_EXPIRES);
    assert!(expiry("client.pem") > 1 << 32);
    assert!(expiry("expired.pem") < 1 << 30);
    assert_eq!(trusting("ca.pem").client_certificate_expiry().unwrap(), None);
    let own = Tls::builder().client_certificate_files(file("client.pem"), file("client.pem"));
    assert!(own.client_certificate_expiry().unwrap().is_some(), "its issuer does not matter");
}

#[test]
fn client_certificate_that_cannot_be_used_is_reported() {
    let garbage = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let presenting =
        |chain: Vec<u8>, key: &str| trusting("ca.pem").client_certificate_pem(chain, pem(key));
    for (chain, key, is_certificate, expected) in [
        (pem("version-1.pem"), "version-1.pem", true, "X.509 version 1"),
        (garbage.into(), "client.pem", true, "certificate cannot be used"),
        (pem("client.pem"), "stranger.pem", false, "the key does not fit"),
    ] {
        let own = presenting(chain, key);
        let expiry = own.client_certificate_expiry();
        assert_eq!(expiry.is_err(), is_certificate, "{expected}: {expiry:?}");
        let failure = own.build().unwrap_err().to_string();
        assert!(failure.contains(&expected.replace("the key", "the client's key")), "{failure}");
    }
}

/// The end of `server.pem`, in seconds since 1970, by `openssl x509 -enddate`.
const SERVER_EXPIRES: u64 = 4_949_005_159;

#[tokio::test]
async fn name_can_be_set_or_explicitly_skipped() {
    let (_server, port) = port(&settings("misnamed.pem")).await;
    let to = port.address().to_string();
    let named = trusting("ca.pem").server_name("elsewhere.example");
    assert!(connect(&to, named).await.is_ok());
    assert!(connect(&to, trusting("ca.pem").dangerous_skip_name_check()).await.is_ok());
    // The chain is checked all the same.
    let other = trusting("other-ca.pem").dangerous_skip_name_check();
    assert_eq!(failure(connect(&to, other).await), TlsFailure::UnknownIssuer);
    assert!(connect(&to, Tls::builder().dangerous_skip_all_checks()).await.is_ok());
}

#[tokio::test]
async fn host_that_no_certificate_can_have_is_reported() {
    let (_server, port) = port(&settings("server.pem")).await;
    let to = |name: &str| format!("tls://{name}:{}", port.address().port());
    for name in ["127.1", "zk..1"] {
        let failure = failure(connect(&to(name), trusting("ca.pem")).await);
        assert_eq!(failure, TlsFailure::NoServerName(name.into()));
        assert!(failure.to_string().contains("--tls-name"), "{failure}");
    }
    let named = trusting("ca.pem").server_name("localhost");
    assert!(connect(&to("127.1"), named).await.is_ok());
}

#[tokio::test]
async fn client_certificate_is_presented_required_or_refused() {
    for only in [TlsSettings::only_tls_1_2, TlsSettings::only_tls_1_3] {
        let need = only(settings("server.pem").need_client_certificate(pem("ca.pem")));
        let (_server, port) = port(&need).await;
        let to = port.address().to_string();
        let with = |name| trusting("ca.pem").client_certificate_files(file(name), file(name));
        assert!(connect(&to, with("client.pem")).await.is_ok());
        let none = failure(connect(&to, trusting("ca.pem")).await);
        assert_eq!(none, TlsFailure::CertificateRequired);
        let refused = failure(connect(&to, with("stranger.pem")).await);
        assert_eq!(refused, TlsFailure::CertificateRefused);
    }
}

#[tokio::test]
async fn client_certificate_is_an_identity_in_acls() {
    let subject = "O=example,OU=shop,CN=app";
    let want = settings("server.pem").want_client_certificate(pem("ca.pem"));
    let (_server, port) = port(&want.subject_of(pem("client.pem"), subject)).await;
    let to = port.address().to_string();
    let own = trusting("ca.pem").client_certificate_files(file("client.pem"), file("client.pem"));
    let client = connect(&to, own).await.unwrap();
    let known = client.who_am_i().await.unwrap();
    assert!(
        known.iter().any(|identity| identity.scheme == "x509" && identity.user == subject),
        "{known:?}"
    );
    let acl = [Acl::auth(Perms::ALL)];
    client.create_with_acl("/own", b"", CreateMode::Persistent, &acl).await.unwrap();
    assert_eq!(client.get_acl("/own").await.unwrap().acl[0].id, subject);

    let nobody = connect(&to, trusting("ca.pem")).await.unwrap();
    let denied = nobody.get_data("/own").await.unwrap_err();
    assert_eq!(denied.code(), Some(ErrorCode::NO_AUTH));
    let named = Acl { perms: Perms::ALL, scheme: "x509".into(), id: subject.into() };
    nobody.create_with_acl("/gift", b"", CreateMode::Persistent, &[named]).await.unwrap();
    assert!(client.get_data("/gift").await.is_ok());
}

#[tokio::test]
async fn plain_and_tls_ports_are_told_apart() {
    let server = TestServer::start().await.unwrap();
    let plain = server.connect_string();
    let config = Config::new(&plain).unwrap().refused_timeout(Duration::ZERO);
    let connected = config.connector(trusting("ca.pem").build().unwrap()).connect().await;
    let expected = DisconnectReason::Tls(TlsFailure::ClosedByServer);
    assert_eq!(*connected.unwrap_err().kind(), ErrorKind::NoSession(expected));
    let port = TlsPort::listen(&server, 0, &settings("server.pem")).await.unwrap();
    // A client without TLS.
    let config = Config::new(&port.address().to_string()).unwrap();
    let error = config.connect().await.unwrap_err();
    assert!(error.to_string().contains("zk-tls"), "{error}");
    let error = Config::new(&format!("tls://{plain}")).unwrap().connect().await.unwrap_err();
    let expected = DisconnectReason::Tls(TlsFailure::NotConfigured);
    assert_eq!(*error.kind(), ErrorKind::NoSession(expected));
    // The same among hosts with TLS.
    let error = connect(&format!("tcp://{}", port.address()), trusting("ca.pem")).await;
    let expected = DisconnectReason::NotZooKeeper(PeerProtocol::Tls);
    assert_eq!(*error.unwrap_err().kind(), ErrorKind::NoSession(expected));
    // Each server with its own transport.
    let mixed = format!("tcp://{plain},tls://{}", port.address());
    for _ in 0..4 {
        assert!(connect(&mixed, trusting("ca.pem")).await.is_ok());
    }
}

#[tokio::test]
async fn first_connect_outlasts_servers_that_close_in_the_handshake() {
    let (_server, port) = port(&settings("server.pem")).await;
    port.break_handshakes();
    let to = port.address().to_string();
    let connecting = tokio::spawn(async move { connect(&to, trusting("ca.pem")).await });
    eventually(|| port.broken_handshakes() >= 3).await;
    port.replace(&settings("server.pem")).unwrap();
    connecting.await.unwrap().unwrap();
}

#[tokio::test]
async fn session_outlives_rotation_and_broken_handshakes() {
    let (_server, port) = port(&settings("server.pem")).await;
    let client = connect(&port.address().to_string(), trusting("ca.pem")).await.unwrap();
    let (_, watch) = client.get_data_and_watch("/").await.unwrap();
    let mut events = client.events();

    port.replace(&settings("expired.pem")).unwrap();
    port.cut_all();
    assert!(matches!(events.next().await, Some(SessionEvent::Suspended { .. })));
    let last = || client.last_disconnect();
    eventually(|| matches!(last(), Some(DisconnectReason::Tls(TlsFailure::Expired(_))))).await;
    port.replace(&settings("server.pem")).unwrap();
    while !matches!(events.next().await, Some(SessionEvent::Reconnected { .. })) {}

    port.break_handshakes();
    port.cut_all();
    assert!(matches!(events.next().await, Some(SessionEvent::Suspended { .. })));
    port.replace(&settings("server.pem")).unwrap();
    while !matches!(events.next().await, Some(SessionEvent::Reconnected { .. })) {}
    client.set_data("/", b"x", None).await.unwrap();
    assert_eq!(watch.await.unwrap().path, "/");
}

/// Each text has the command that mends the file.
#[test]
fn unfit_file_is_told_with_what_mends_it() {
    let folder = Folder::new();
    let file = |name: &str, content: &[u8]| {
        let path = folder.0.join(name);
        fs::write(&path, content).unwrap();
        path
    };
    let whole = pem("client.pem");
    let half = &whole[..whole.len() - 40];
    let stores: [(&str, Vec<u8>, &str); 7] = [
        ("bom.pem", b"\xef\xbb\xbf-----BEGIN".to_vec(), "byte-order mark"),
        (
            "trusted.pem",
            b"-----BEGIN TRUSTED CERTIFICATE-----\nAA==\n-----END TRUSTED CERTIFICATE-----\n"
                .to_vec(),
            "openssl x509 -in ",
        ),
        ("half.pem", half.to_vec(), "the file ends in the middle of an item in PEM"),
        (
            "store.jks",
            vec![0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2],
            "keytool -importkeystore -srckeystore",
        ),
        ("store.p12", vec![0x30, 0x82, 1, 2, 3], "openssl pkcs12 -in"),
        ("empty.pem", Vec::new(), "there is no certificate in PEM (BEGIN CERTIFICATE)"),
        (
            "wrong.pem",
            b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n".to_vec(),
            "PEM",
        ),
    ];
    for (name, content, says) in stores {
        let path = file(name, &content);
        let failure = Tls::builder().ca_file(&path).build().unwrap_err().to_string();
        assert!(failure.contains(says) && failure.contains(name), "{failure}");
    }
    let der = file("der", &[0x30, 0x82, 1, 2, 3]);
    let list = trusting("ca.pem").crl_file(&der).build().unwrap_err().to_string();
    assert!(list.contains("openssl crl -inform DER -in "), "{list}");
    let key = trusting("ca.pem").client_certificate_files(file("chain.pem", &whole), &der).build();
    let key = key.unwrap_err().to_string();
    assert!(key.contains("openssl pkey -inform DER -in "), "{key}");
    for (name, says) in [
        ("encrypted-key.pem", "the private key is encrypted; decrypt it: openssl pkey -in "),
        ("ca.pem", "there is no private key in PEM (BEGIN PRIVATE KEY)"),
        ("p521.pem", "ECDSA with P-256 or P-384, and Ed25519 can be used"),
    ] {
        let key = file(name, &pem(name));
        let tls = trusting("ca.pem")
            .client_certificate_files(file("p521-chain.pem", &pem("p521.pem")), &key);
        let failure = tls.build().unwrap_err().to_string();
        assert!(failure.contains(says) && failure.contains(name), "{failure}");
    }
}

#[tokio::test]
async fn ca_file_is_read_for_each_connection() {
    let (_server, port) = port(&settings("server.pem")).await;
    let folder = Folder::new();
    let ca = folder.0.join("ca.pem");
    fs::write(&ca, pem("ca.pem")).unwrap();
    let tls = Tls::builder().ca_file(&ca).build().unwrap();
    let config = Config::new(&port.address().to_string()).unwrap();
    let config = config.connect_timeout(Duration::from_secs(30));
    assert!(config.clone().connector(tls.clone()).connect().await.is_ok());
    fs::write(&ca, pem("other-ca.pem")).unwrap();
    let error = config.clone().connector(tls.clone()).connect().await;
    assert_eq!(failure(error), TlsFailure::UnknownIssuer);
    fs::remove_file(&ca).unwrap();
    let error = config.connector(tls).connect().await;
    assert_missing(&failure(error), ca.to_str().unwrap());
}

#[tokio::test]
async fn live_session_presents_a_replaced_client_certificate() {
    let need = settings("server.pem").need_client_certificate(pem("ca.pem"));
    let (_server, port) = port(&need).await;
    let folder = Folder::new();
    let own = folder.0.join("own.pem");
    fs::write(&own, pem("client.pem")).unwrap();
    let tls = trusting("ca.pem").client_certificate_files(&own, &own);
    let client = connect(&port.address().to_string(), tls).await.unwrap();
    let session_id = client.session_id();
    let mut events = client.events();

    fs::write(&own, pem("stranger.pem")).unwrap();
    port.cut_all();
    assert!(matches!(events.next().await, Some(SessionEvent::Suspended { .. })));
    let last = || client.last_disconnect();
    eventually(|| matches!(last(), Some(DisconnectReason::Tls(TlsFailure::CertificateRefused))))
        .await;
    fs::write(&own, pem("client.pem")).unwrap();
    while !matches!(events.next().await, Some(SessionEvent::Reconnected { .. })) {}
    assert_eq!(client.session_id(), session_id);
}

#[tokio::test]
async fn read_only_session_finds_a_writable_server_over_tls() {
    let server = TestServer::in_memory_with(Settings::new().servers(3));
    let settings = settings("server.pem");
    let read_only = TlsPort::listen(&server, 1, &settings).await.unwrap();
    let writable = TlsPort::listen(&server, 2, &settings).await.unwrap();
    server.make_read_only(1);
    let config = Config::new(&read_only.address().to_string()).unwrap().allow_read_only();
    let tls = trusting("ca.pem").build().unwrap();
    let client = config.connector(tls).connect().await.unwrap();
    assert!(client.is_read_only());
    let mut events = client.events();
    let both = format!("{},{}", read_only.address(), writable.address());
    client.update_servers(&both).unwrap();
    while !matches!(events.next().await, Some(SessionEvent::Connected { .. })) {}
    assert!(!client.is_read_only());
    client.set_data("/", b"x", None).await.unwrap();
}

/// Otherwise a client that writes the ensemble's configuration could read the passwords of others.
#[tokio::test]
async fn session_over_tls_takes_no_plain_server() {
    let server = TestServer::in_memory();
    let port = TlsPort::listen(&server, 0, &settings("server.pem")).await.unwrap();
    let client = connect(&port.address().to_string(), trusting("ca.pem")).await.unwrap();
    for servers in
        ["tcp://127.0.0.1:1".to_owned(), format!("tls://{},tcp://127.0.0.1:1", port.address())]
    {
        let error = client.update_servers(&servers).unwrap_err();
        let ErrorKind::InvalidConnectString(why) = error.kind() else { panic!("{error}") };
        assert!(why.contains("the session uses TLS, and tcp://127.0.0.1:1 does not"), "{why}");
    }
    // A server that runs alone has no addresses in its configuration.
    let config = client.get_config().await.unwrap();
    let error = client.update_servers_from(&config).unwrap_err();
    assert!(error.to_string().contains("no address for clients with TLS"), "{error}");
    client.set_data("/", b"x", None).await.unwrap();
    client.update_servers(&port.address().to_string()).unwrap();
    client.update_servers_allowing_plaintext("tcp://127.0.0.1:1").unwrap();
}

/// A session that also had a plain server from the start may have another one.
#[tokio::test]
async fn session_with_a_plain_server_takes_another_one() {
    let server = TestServer::in_memory();
    let port = TlsPort::listen(&server, 0, &settings("server.pem")).await.unwrap();
    let servers = format!("tls://{},tcp://127.0.0.1:1", port.address());
    let client = connect(&servers, trusting("ca.pem")).await.unwrap();
    // The list has not grown, so the session does not move.
    client.update_servers(&format!("tls://{},tcp://127.0.0.1:2", port.address())).unwrap();
    let config = client.get_config().await.unwrap();
    let error = client.update_servers_from(&config).unwrap_err();
    assert!(error.to_string().contains("with TLS and without"), "{error}");
}

/// A ping overtakes everything but the bytes that the stream has accepted.
#[tokio::test]
async fn stalled_stream_accepts_few_bytes() {
    let (tls, acceptor, far) = piped();
    let host = Host::new("127.0.0.1", 1);
    let (client, server) = tokio::join!(tls.connect(&host), acceptor.accept(far));
    let (mut client, _server) = (client.unwrap(), server.unwrap());

    let mut cx = Context::from_waker(Waker::noop());
    let mut accepted = 0;
    while let Poll::Ready(len) = Pin::new(&mut client).poll_write(&mut cx, &[0; 1024]) {
        accepted += len.unwrap();
        assert!(accepted <= 32 * 1024, "{accepted} bytes");
    }
    assert!(accepted > 0);
}

#[tokio::test(start_paused = true)]
async fn ping_overtakes_bulk_data_over_tls() {
    const WRITE: usize = 50_000;
    const WRITES: usize = 200;
    /// The xid of every ping.
    const PING: i32 = -2;
    let (tls, acceptor, far) = piped();
    let server = async {
        let mut stream = acceptor.accept(far).await.unwrap();
        next_frame(&mut stream).await;
        stream.write_all(&accepted_session()).await.unwrap();
        stream
    };
    let config = Config::new("127.0.0.1").unwrap().session_timeout(Duration::from_secs(10));
    let (client, mut server) = tokio::join!(config.connector(tls).connect(), server);
    let client = client.unwrap();
    for _ in 0..WRITES {
        let client = client.clone();
        tokio::spawn(async move { client.set_data("/bulk", [7; WRITE], None).await });
    }
    // The server reads nothing until the client has had to ping.
    tokio::time::sleep(Duration::from_secs(4)).await; // reason: virtual time

    let mut before_the_ping = 0;
    loop {
        let frame = next_frame(&mut server).await;
        if frame.starts_with(&PING.to_be_bytes()) {
            break;
        }
        before_the_ping += frame.len();
        assert!(before_the_ping < INFLIGHT_BYTES_MAX + 2 * WRITE, "{before_the_ping} bytes");
    }
    assert!(before_the_ping > WRITE, "the ping overtook nothing");
}

/// Returns a connector of one connection in memory, and the far end with the server's part of TLS.
fn piped() -> (Tls<Piped>, TlsAcceptor, DuplexStream) {
    let (near, far) = tokio::io::duplex(4096);
    let tls = trusting("ca.pem").build().unwrap().over(Piped(Mutex::new(Some(near))));
    let provider = Arc::new(ring::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let chain = CertificateDer::pem_slice_iter(&pem("server.pem")).map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_slice(&pem("server.pem")).unwrap();
    let config = builder.unwrap().with_no_client_auth().with_single_cert(chain, key).unwrap();
    (tls, TlsAcceptor::from(Arc::new(config)), far)
}

#[tokio::test]
async fn server_name_is_sent_and_an_address_is_not() {
    for (host, expected) in [("localhost", Some("localhost")), ("127.0.0.1", None)] {
        let (tls, acceptor, far) = piped();
        let host = Host::new(host, 2281);
        let (near, far) = tokio::join!(tls.connect(&host), acceptor.accept(far));
        near.unwrap();
        assert_eq!(far.unwrap().get_ref().1.server_name(), expected);
    }
}

async fn next_frame(stream: &mut (impl AsyncRead + Unpin)) -> Vec<u8> {
    let len = stream.read_u32().await.unwrap();
    let mut frame = vec![0; len.try_into().unwrap()];
    stream.read_exact(&mut frame).await.unwrap();
    frame
}

/// Answer of a server that opens a session with a timeout of 10 s.
fn accepted_session() -> Vec<u8> {
    let (protocol, timeout_ms, id, password) = (0_i32, 10_000_i32, 1_i64, [0; 16]);
    let mut record = [protocol.to_be_bytes(), timeout_ms.to_be_bytes()].concat();
    record.extend(id.to_be_bytes());
    record.extend(16_i32.to_be_bytes());
    record.extend(password);
    record.push(0); // not read-only
    let len = u32::try_from(record.len()).unwrap();
    [len.to_be_bytes().to_vec(), record].concat()
}

/// Connector of one connection in memory.
struct Piped(Mutex<Option<DuplexStream>>);

impl Connector for Piped {
    type Stream = DuplexStream;

    fn connect(
        &self,
        _host: &Host,
    ) -> impl Future<Output = io::Result<DuplexStream>> + Send + 'static {
        let stream = self.0.lock().unwrap().take();
        async move { stream.ok_or_else(|| io::ErrorKind::NotFound.into()) }
    }
}

/// Checks that the failure names a file that does not exist.
fn assert_missing(failure: &TlsFailure, file: &str) {
    let TlsFailure::FileUnreadable(reason) = failure else { panic!("{failure:?}") };
    assert_eq!(reason.kind(), io::ErrorKind::NotFound);
    assert!(failure.to_string().contains(file), "{failure}");
}

#[test]
fn unusable_files_are_reported_by_build() {
    let inner = |built: Result<Tls, TlsFailure>| built.unwrap_err();
    let missing = Tls::builder().ca_file("/nowhere/ca.pem").build();
    let missing = inner(missing);
    assert_missing(&missing, "/nowhere/ca.pem");
    assert_eq!(format!("{missing:?}"), missing.to_string(), "`main` prints it so");
    for unfit in [
        Tls::builder(),
        Tls::builder().ca_pem("nothing"),
        Tls::builder().ca_file(env!("CARGO_MANIFEST_DIR")),
        trusting("ca.pem").client_certificate_files(file("client.pem"), file("ca.pem")),
    ] {
        assert!(matches!(inner(unfit.build()), TlsFailure::FileUnfit(_)));
    }
    let other = trusting("ca.pem").client_certificate_files(file("client.pem"), file("server.pem"));
    let TlsFailure::FileUnfit(reason) = inner(other.build()) else { panic!("it fits") };
    assert!(reason.contains("server.pem: the client's key"), "{reason}");
    let invalid = trusting("ca.pem").server_name("not a name");
    assert_eq!(inner(invalid.build()), TlsFailure::NoServerName("not a name".into()));
}

#[test]
fn debug_prints_no_key() {
    let tls = trusting("ca.pem").client_certificate_pem(pem("client.pem"), pem("client.pem"));
    let settings = settings("server.pem").need_client_certificate(pem("ca.pem"));
    let shown = format!("{tls:?} {:?} {settings:?}", tls.clone().build().unwrap());
    assert!(!shown.contains("PRIVATE") && !shown.contains("MIG"), "{shown}");
    // Bytes are printed as numbers: "-----BEGIN".
    assert!(!shown.contains("45, 45, 45, 45, 45, 66"), "{shown}");
}

/// Waits until a condition holds that wakes nobody.
async fn eventually(holds: impl Fn() -> bool) {
    while !holds() {
        tokio::time::sleep(Duration::from_millis(1)).await; // reason: between two looks
    }
}

/// A folder of one test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let name = format!("zk-tls-{}-{:?}", std::process::id(), std::thread::current().id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
