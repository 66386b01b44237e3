//! Tests of credentials.

use std::time::Duration;

use zk_recipes::session::{
    Acl, Config, CreateMode, ErrorCode, ErrorKind, Perms, SessionEnd, SessionEvent,
};
use zk_tests::{open, shared_zookeeper};

use crate::LIMIT;

#[tokio::test(flavor = "multi_thread")]
async fn creator_only_acl_admits_clients_with_same_credentials() {
    let Some(server) = shared_zookeeper() else { return };
    let address = server.connect_string();
    let owner = open(&address).await;
    owner.add_auth("digest", "alice:secret").await.unwrap();
    let creator_only = Acl { perms: Perms::ALL, scheme: "auth".into(), id: "".into() };
    let mode = CreateMode::Persistent;
    owner.create_with_acl("/hers", b"x", mode, &[creator_only]).await.unwrap();
    assert_eq!(owner.get_data("/hers").await.unwrap().data, &b"x"[..]);

    let stranger = open(&address).await;
    let refused = stranger.get_data("/hers").await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::NO_AUTH));
    stranger.add_auth("digest", "alice:wrong").await.unwrap();
    assert_eq!(stranger.get_data("/hers").await.unwrap_err().code(), Some(ErrorCode::NO_AUTH));
    stranger.add_auth("digest", "alice:secret").await.unwrap();
    stranger.get_data("/hers").await.unwrap();

    let config = Config::new(&address).unwrap().auth("digest", "alice:secret");
    let from_the_start = config.connect().await.unwrap();
    from_the_start.delete("/hers", None).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_auth_scheme_ends_session() {
    let Some(server) = shared_zookeeper() else { return };
    let client = open(&server.connect_string()).await;
    let mut events = client.events();
    let error = client.add_auth("no-such-scheme", "x").await.unwrap_err();
    let over = ErrorKind::SessionEnded(SessionEnd::AuthFailed);
    assert_eq!(error.kind(), &over);
    let session_id = client.session_id();
    let told = tokio::time::timeout(LIMIT, events.next()).await.unwrap();
    assert_eq!(told, Some(SessionEvent::AuthFailed { session_id, cause: SessionEnd::AuthFailed }));
    assert_eq!(events.next().await, None);
    assert_eq!(client.get_data("/").await.unwrap_err().kind(), &over);
    assert_eq!(client.end_reason(), Some(SessionEnd::AuthFailed));
}

#[tokio::test(flavor = "multi_thread")]
async fn connect_fails_with_unknown_auth_scheme() {
    let Some(server) = shared_zookeeper() else { return };
    let config = Config::new(&server.connect_string()).unwrap().auth("no-such-scheme", "x");
    let connected = tokio::time::timeout(Duration::from_secs(5), config.connect()).await;
    let error = connected.expect("it does not wait for what will not come").unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::SessionEnded(SessionEnd::AuthFailed));
}
