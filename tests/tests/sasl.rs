//! SASL with DIGEST-MD5 against a real server, and authentication that the server requires.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::time::Duration;

use xtask::zookeeper::Standalone;
use zk_recipes::Mutex;
use zk_recipes::session::{
    Acl, Client, Config, CreateMode, DigestMd5, DisconnectReason, Error, ErrorCode, ErrorKind,
    Perms, SaslFailure, SessionEnd, SessionEvent,
};
use zk_tests::{identities, release, skip, zookeeper, zookeeper_with};

fn config(server: &Standalone) -> Config {
    let config = Config::new(&server.connect_string()).unwrap();
    config.session_timeout(Duration::from_secs(20)).connect_timeout(Duration::from_secs(30))
}

async fn connect(server: &Standalone, user: &str, password: &str) -> Result<Client, Error> {
    config(server).sasl(DigestMd5::new(user, password)).connect().await
}

/// Limit for steps that take milliseconds on an idle machine.
const LIMIT: Duration = Duration::from_secs(30);

fn ended(error: &Error) -> Option<SessionEnd> {
    match error.kind() {
        ErrorKind::SessionEnded(end) => Some(*end),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn digest_md5_authenticates_and_protects_nodes() {
    let settings = Standalone::builder().sasl_user("alice", "sesame").sasl_user("bob", "pässword");
    let Some(server) = zookeeper_with(&settings) else { return };
    let alice = connect(&server, "alice", "sesame").await.unwrap();
    if let Some(known) = identities(&alice, &server).await {
        assert!(
            known.iter().any(|identity| identity.scheme == "sasl" && identity.user == "alice"),
            "{known:?}"
        );
    }

    let own = Acl { perms: Perms::ALL, scheme: "sasl".into(), id: "alice".into() };
    alice.create_with_acl("/hers", b"", CreateMode::Persistent, &[own]).await.unwrap();
    let bob = connect(&server, "bob", "pässword").await.unwrap();
    let refused = bob.get_data("/hers").await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::NO_AUTH));
    let nobody = config(&server).connect().await.unwrap();
    assert_eq!(nobody.get_data("/hers").await.unwrap_err().code(), Some(ErrorCode::NO_AUTH));

    // For an unknown user a server takes the password of the user before
    // (`SaslServerCallbackHandler.userName`), so this password is nobody's.
    for (user, password) in [("alice", "wrong"), ("mallory", "wrong")] {
        let error = connect(&server, user, password).await.unwrap_err();
        assert_eq!(ended(&error), Some(SessionEnd::AuthFailed), "{user}: {error}");
    }

    let lock = Mutex::new(&alice, "/lock").unwrap();
    let held = lock.acquire().await.unwrap();
    let mut events = alice.events();
    let (_, watch) = alice.get_data_and_watch("/hers").await.unwrap();
    server.restart().unwrap();
    while !matches!(events.next().await.unwrap(), SessionEvent::Reconnected { .. }) {}
    alice.set_data("/hers", b"x", None).await.unwrap();
    assert_eq!(watch.await.unwrap().path, "/hers", "set again, with her identity");
    assert!(held.check().await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn server_without_sasl_is_never_taken_for_success() {
    let Some(server) = zookeeper() else { return };
    let error = connect(&server, "alice", "sesame").await.unwrap_err();
    let expected = DisconnectReason::Sasl(SaslFailure::NotOffered);
    assert_eq!(error.kind(), &ErrorKind::NoSession(expected), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn required_sasl_is_presented_or_reported() {
    let settings = Standalone::builder()
        .sasl_user("alice", "sesame")
        .jvm_flag("-Dzookeeper.sessionRequireClientSASLAuth=true");
    let Some(server) = zookeeper_with(&settings) else { return };
    let alice = connect(&server, "alice", "sesame").await.unwrap();
    alice.create("/a", b"", CreateMode::Persistent).await.unwrap();
    let error = connect(&server, "alice", "wrong").await.unwrap_err();
    assert_eq!(ended(&error), Some(SessionEnd::AuthFailed), "{error}");

    let nobody = config(&server).connect().await.unwrap();
    let error = nobody.exists("/a").await.unwrap_err();
    assert_eq!(ended(&error), Some(SessionEnd::AuthRequired), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn required_digest_is_presented_or_reported_to_an_idle_client() {
    let settings = Standalone::builder()
        .jvm_flag("-Dzookeeper.enforce.auth.enabled=true")
        .jvm_flag("-Dzookeeper.enforce.auth.schemes=digest");
    let Some(server) = zookeeper_with(&settings) else { return };
    if release(&server) < (3, 7) {
        return skip("enforce.auth.enabled needs ZooKeeper 3.7");
    }
    let alice = config(&server).auth("digest", "alice:sesame").connect().await.unwrap();
    alice.exists("/").await.unwrap();

    let idle = Config::new(&server.connect_string()).unwrap();
    let idle = idle.session_timeout(Duration::from_secs(4)).connect().await.unwrap();
    let told = tokio::time::timeout(LIMIT, idle.events().next()).await.unwrap();
    let cause = SessionEnd::AuthRequired;
    assert_eq!(told, Some(SessionEvent::AuthFailed { session_id: idle.session_id(), cause }));
}
