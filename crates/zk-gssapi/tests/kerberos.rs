//! Kerberos against a real realm and real servers: `cargo xtask test kerberos`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use libgssapi::context::{SecurityContext, ServerCtx};
use libgssapi::credential::{Cred, CredUsage};
use libgssapi::oid::{GSS_MECH_KRB5, OidSet};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use xtask::zookeeper::{KerberosRealm, Settings, Standalone, certificate};
use zk_gssapi::Kerberos;
use zk_recipes::Mutex;
use zk_session::{
    Acl, Client, Config, CreateMode, DisconnectReason, Error, ErrorCode, ErrorKind, Host, Perms,
    Sasl, SaslFailure, SaslMechanism, SaslStep, SessionEnd, SessionEvent,
};
use zk_tls::Tls;

/// Credentials for the servers of the tests, whose addresses have no name.
fn alice() -> Kerberos {
    Kerberos::new().client("alice@ZK.TEST").server_principal("zookeeper/localhost@ZK.TEST")
}

fn server() -> Standalone {
    server_with(Standalone::builder())
}

fn server_with(settings: Settings) -> Standalone {
    let folder = std::env::var_os(KerberosRealm::FOLDER_VARIABLE);
    let folder = PathBuf::from(folder.expect("run this with `cargo xtask test kerberos`"));
    settings.kerberos(&folder).start().unwrap()
}

fn config(connect_string: &str) -> Config {
    let config = Config::new(connect_string).unwrap();
    config.session_timeout(Duration::from_secs(20)).connect_timeout(Duration::from_secs(30))
}

async fn connect(server: &Standalone, kerberos: Kerberos) -> Result<Client, Error> {
    config(&server.connect_string()).sasl(kerberos).connect().await
}

async fn identities(client: &Client) -> Vec<String> {
    let known = client.who_am_i().await.unwrap();
    known
        .into_iter()
        .filter(|identity| identity.scheme == "sasl")
        .map(|identity| identity.user)
        .collect()
}

/// Passes connections to 127.0.0.1, which has a name on every machine, on to the server.
async fn named_port(address: SocketAddr) -> String {
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let own = port.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = port.accept().await {
            tokio::spawn(async move {
                let mut server = TcpStream::connect(address).await?;
                copy_bidirectional(&mut client, &mut server).await
            });
        }
    });
    own.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn kerberos_authenticates_and_protects_locks() {
    let server = server();
    let client = connect(&server, alice()).await.unwrap();
    assert_eq!(identities(&client).await, ["alice@ZK.TEST"]);

    let own = Acl { perms: Perms::ALL, scheme: "sasl".into(), id: "alice@ZK.TEST".into() };
    client
        .create_with_acl("/hers", b"", CreateMode::Persistent, std::slice::from_ref(&own))
        .await
        .unwrap();
    let bob = connect(&server, alice().client("bob@ZK.TEST")).await.unwrap();
    assert_eq!(identities(&bob).await, ["bob@ZK.TEST"]);
    let refused = bob.get_data("/hers").await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::NO_AUTH));

    let lock = Mutex::new(&client, "/lock").unwrap().with_acl([own]);
    let held = lock.acquire().await.unwrap();
    let mut events = client.events();
    let (_, watch) = client.get_data_and_watch("/hers").await.unwrap();
    server.restart().unwrap();
    while !matches!(events.next().await, Some(SessionEvent::Reconnected { .. })) {}
    client.set_data("/hers", b"x", None).await.unwrap();
    assert_eq!(watch.await.unwrap().path, "/hers", "set again, with her identity");
    held.check().await.unwrap();
    held.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn server_principal_has_the_canonical_name() {
    let server = server();
    let port = named_port(server.address()).await;
    let by_name = config(&port).sasl(Kerberos::new()).connect().await.unwrap();
    assert_eq!(identities(&by_name).await, ["alice@ZK.TEST"], "the default of the keytab");

    let literal = config(&port).sasl(Kerberos::new().without_canonicalization()).connect().await;
    let failure = not_prepared(literal);
    assert!(failure.contains("zookeeper/127.0.0.1@"), "{failure}");
    assert!(failure.contains("not found in Kerberos database"), "{failure}");
}

#[tokio::test(flavor = "multi_thread")]
async fn canonical_name_is_found_below_tls_too() {
    let tls = Standalone::builder().tls(&certificate("server.pem"), &certificate("ca.pem"));
    let server = server_with(tls.config("ssl.clientAuth", "none"));
    let port = named_port(server.tls_address().unwrap().into()).await;
    let tls =
        Tls::builder().ca_file(certificate("ca.pem")).server_name("localhost").build().unwrap();
    let client = config(&port).sasl(Kerberos::new()).connector(tls).connect().await.unwrap();
    assert_eq!(identities(&client).await, ["alice@ZK.TEST"]);
}

fn not_prepared(result: Result<Client, Error>) -> String {
    let error = result.unwrap_err();
    let ErrorKind::NoSession(DisconnectReason::Sasl(SaslFailure::NotPrepared(failure))) =
        error.kind()
    else {
        panic!("{error}")
    };
    failure.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_credentials_are_reported_with_advice() {
    let server = server();
    let failure = not_prepared(connect(&server, alice().client("mallory@ZK.TEST")).await);
    assert!(failure.contains("check the keytab"), "{failure}");
}

#[tokio::test(flavor = "multi_thread")]
async fn server_without_the_key_refuses_the_client() {
    let server = server();
    let elsewhere = alice().server_principal("zookeeper/elsewhere@ZK.TEST");
    let error = connect(&server, elsewhere).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::SessionEnded(SessionEnd::AuthFailed), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn server_without_sasl_is_never_taken_for_success() {
    let server = Standalone::start().unwrap();
    let error = connect(&server, alice()).await.unwrap_err();
    let expected = DisconnectReason::Sasl(SaslFailure::NotOffered);
    assert_eq!(error.kind(), &ErrorKind::NoSession(expected), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn server_without_a_proof_is_left() {
    for lie in [&b""[..], b"garbage", &[0x60, 0x82, 0xff, 0xff], &[0; 4096]] {
        let mut mechanism = alice().prepare(&Host::new("localhost", 2181), None).await.unwrap();
        let SaslStep::Send(ticket) = mechanism.step(b"").unwrap() else { panic!() };
        assert!(ticket.len() > 100, "{} bytes", ticket.len());
        assert_eq!(mechanism.step(lie), Err(SaslFailure::ServerNotProven));
        assert!(matches!(mechanism.step(lie), Err(SaslFailure::UnfitToken(_))), "over");
        let mut own = alice().prepare(&Host::new("localhost", 2181), None).await.unwrap();
        own.step(b"").unwrap();
        assert_eq!(own.step(&ticket), Err(SaslFailure::ServerNotProven), "its own ticket");
    }
    assert_eq!(io::ErrorKind::NotFound, prepared_by_nobody().await);
}

/// Runs the exchange with a server that has its key, up to the offer of security layers.
async fn after_the_proof() -> (Box<dyn SaslMechanism>, ServerCtx) {
    let mut client = alice().prepare(&Host::new("localhost", 2181), None).await.unwrap();
    let mechanisms = OidSet::singleton(GSS_MECH_KRB5).unwrap();
    let key = Cred::acquire(None, None, CredUsage::Accept, Some(&mechanisms)).unwrap();
    let mut server = ServerCtx::new(Some(key));
    let SaslStep::Send(ticket) = client.step(b"").unwrap() else { panic!() };
    let proof = server.step(&ticket, None).unwrap().unwrap();
    assert_eq!(client.step(&proof), Ok(SaslStep::Send(Vec::new())));
    (client, server)
}

#[tokio::test(flavor = "multi_thread")]
async fn only_an_offer_without_layers_is_accepted() {
    let (mut client, mut server) = after_the_proof().await;
    let offer = server.wrap(false, &[7, 0, 16, 0]).unwrap();
    let Ok(SaslStep::SendLast(choice)) = client.step(&offer) else { panic!() };
    assert_eq!(*server.unwrap(&choice).unwrap(), [1, 0, 0, 0], "no layer, and no name");

    for offer in [&[6, 0, 16, 0][..], &[1, 0, 0], &[1, 0, 0, 0, 0], &[]] {
        let (mut client, mut server) = after_the_proof().await;
        let offer = server.wrap(false, offer).unwrap();
        assert!(matches!(client.step(&offer), Err(SaslFailure::UnfitToken(_))));
    }
    let (mut client, _) = after_the_proof().await;
    assert_eq!(client.step(&[1, 0, 0, 0]), Err(SaslFailure::ServerNotProven), "not wrapped");
}

/// The library reads its variables in a process of its own here: no KDC listens.
#[test]
fn unreachable_kdc_is_told_from_a_refusal() {
    const DEAD: &str = "ZK_TEST_DEAD_REALM";
    if std::env::var_os(DEAD).is_some() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let prepared = Kerberos::new().prepare(&Host::new("localhost", 2181), None);
        let error = runtime.block_on(prepared).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::HostUnreachable, "{error}");
        assert!(error.to_string().contains("Cannot contact any KDC"), "{error}");
        return;
    }
    let folder = std::env::temp_dir().join(format!("zk-dead-realm-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let settings = "default_realm = ZK.TEST\n dns_lookup_kdc = false\n udp_preference_limit = 1";
    let realm = format!("[libdefaults]\n {settings}\n[realms]\n ZK.TEST = {{ kdc = {nobody} }}\n");
    let config = folder.join("krb5.conf");
    std::fs::write(&config, realm.replace("{ kdc", "{\n kdc").replace(" }", "\n }")).unwrap();
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "unreachable_kdc_is_told_from_a_refusal"])
        .env(DEAD, "yes")
        .env("KRB5_CONFIG", config)
        .env("KRB5CCNAME", folder.join("tickets"))
        .output()
        .unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
}

async fn prepared_by_nobody() -> io::ErrorKind {
    let nobody = alice().client("mallory@ZK.TEST");
    match nobody.prepare(&Host::new("localhost", 2181), None).await {
        Ok(_) => panic!(),
        Err(error) => error.kind(),
    }
}
