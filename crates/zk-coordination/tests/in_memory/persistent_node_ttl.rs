//! Persistent nodes with a time to live.

use std::time::Duration;

use zk_coordination::session::CreateMode;
use zk_coordination::{NodeMode, NodeState, PersistentNode};
use zk_testing::server::NodeKind;
use zk_testing::{Cut, ErrorCode, Op, Settings, TestServer};

use crate::persistent_node::found;
use crate::{T, client, sessions, settle};

const TTL: Duration = Duration::from_secs(2);

/// Lets time pass, in which the server removes expired nodes often.
async fn pass(server: &TestServer, length: Duration) {
    let step = TTL / 8;
    for _ in 0..length.as_millis() / step.as_millis() {
        tokio::time::sleep(step).await; // reason: virtual time between two checks of the server
        server.reap_containers();
    }
}

#[tokio::test(start_paused = true)]
async fn ttl_node_is_renewed_until_it_is_closed() {
    let server = TestServer::in_memory();
    let sessions = sessions(&server, 1).await;
    let builder = PersistentNode::builder(&sessions, "/n").mode(NodeMode::Ttl(TTL)).data("a");
    let node = builder.start().unwrap();
    let stat = node.wait_until_present(T).await.unwrap();
    let kind = server.with(|ensemble| ensemble.tree().node("/n").unwrap().kind());
    assert_eq!(kind, NodeKind::Ttl(2_000));
    pass(&server, 20 * TTL).await;
    let now = node.wait_until_present(T).await.unwrap();
    assert_eq!(now.czxid, stat.czxid, "it was never removed");
    assert!((38..=41).contains(&now.version), "{} renewals in 20 times to live", now.version);
    node.close().await.unwrap();
    assert!(found(&server, "/n").is_none());
}

#[tokio::test(start_paused = true)]
async fn ttl_node_expires_with_its_process_and_outlives_a_session() {
    let server = TestServer::in_memory();
    let sessions = sessions(&server, 1).await;
    let builder = PersistentNode::builder(&sessions, "/n").mode(NodeMode::Ttl(TTL)).data("a");
    let node = builder.start().unwrap();
    let stat = node.wait_until_present(T).await.unwrap();
    server.expire(sessions.client().session_id());
    pass(&server, 3 * TTL).await;
    assert_eq!(node.wait_until_present(T).await.unwrap().czxid, stat.czxid);

    server.refuse_connects(0);
    server.connections().cut(Cut::Rst);
    pass(&server, 2 * TTL).await;
    assert!(found(&server, "/n").is_none());
    server.accept_connects(0);
    pass(&server, 2 * T).await;
    assert!(node.wait_until_present(T).await.unwrap().czxid > stat.czxid);
}

#[tokio::test(start_paused = true)]
async fn renewal_keeps_data_of_another_client() {
    let server = TestServer::in_memory();
    let (sessions, operator) = (sessions(&server, 1).await, client(&server, 2).await);
    let builder = PersistentNode::builder(&sessions, "/n").mode(NodeMode::Ttl(TTL)).data("a");
    let node = builder.start().unwrap();
    node.wait_until_present(T).await.unwrap();
    operator.set_data("/n", b"other", None).await.unwrap();
    pass(&server, 5 * TTL).await;
    assert_eq!(found(&server, "/n").unwrap().data, b"other");
    assert!(node.state().is_present());
}

/// The pauses between the attempts become longer than half of the time to live.
#[tokio::test(start_paused = true)]
async fn ttl_node_outlives_a_refused_restoration() {
    let server = TestServer::in_memory();
    let (sessions, operator) = (sessions(&server, 1).await, client(&server, 2).await);
    let builder = PersistentNode::builder(&sessions, "/n").mode(NodeMode::Ttl(8 * TTL)).data("a");
    let node = builder.keep_data().start().unwrap();
    let stat = node.wait_until_present(T).await.unwrap();
    let refused = server.on(Op::SetData).session(sessions.client().session_id());
    let refused = refused.always().answer(ErrorCode::NO_AUTH);
    operator.set_data("/n", b"other", None).await.unwrap();
    pass(&server, 27 * TTL / 4).await;
    assert!(matches!(node.state(), NodeState::Refused { .. }));
    refused.cancel();
    pass(&server, 3 * TTL).await;
    assert_eq!(node.wait_until_present(T).await.unwrap().czxid, stat.czxid);
}

/// Curator's `PersistentTtlNode` has a container with a child `touch`.
#[tokio::test(start_paused = true)]
async fn container_of_curator_is_adopted_and_then_replaced() {
    let server = TestServer::in_memory();
    let (sessions, curator) = (sessions(&server, 1).await, client(&server, 2).await);
    curator.create("/n", b"curator", CreateMode::Container).await.unwrap();
    let touch = curator.create_builder("/n/touch").ttl(TTL).create().await.unwrap();
    let builder = PersistentNode::builder(&sessions, "/n").mode(NodeMode::Ttl(TTL)).data("a");
    let node = builder.start().unwrap();
    let stat = node.wait_until_present(T).await.unwrap();
    assert_eq!(
        (stat.czxid < touch.stat.czxid, found(&server, "/n").unwrap().data),
        (true, b"a".to_vec())
    );
    pass(&server, 4 * TTL).await; // the child expires, and then the container
    settle().await;
    assert!(node.wait_until_present(T).await.unwrap().czxid > stat.czxid);
    let kind = server.with(|ensemble| ensemble.tree().node("/n").unwrap().kind());
    assert_eq!(kind, NodeKind::Ttl(2_000));
}

#[tokio::test(start_paused = true)]
async fn server_without_ttl_nodes_refuses_with_advice() {
    let server = TestServer::in_memory_with(Settings::new().without_extended_types());
    let sessions = sessions(&server, 1).await;
    let builder = PersistentNode::builder(&sessions, "/n").mode(NodeMode::Ttl(TTL));
    let node = builder.start().unwrap();
    let error = node.wait_until_present(T).await.unwrap_err();
    let NodeState::Refused { error: cause } = error.state() else { panic!("{error}") };
    assert_eq!(cause.code(), Some(ErrorCode::UNIMPLEMENTED));
    assert!(error.to_string().contains("extendedTypesEnabled"), "{error}");
}
