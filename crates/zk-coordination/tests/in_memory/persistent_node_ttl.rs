//! Persistent nodes with a time to live.

use std::time::Duration;

use zk_coordination::session::CreateMode;
use zk_coordination::{NodeMode, NodeState, PersistentNode};
use zk_testing::server::NodeKind;
use zk_testing::{ErrorCode, Op, Settings, TestServer};

use crate::persistent_node::{Kept, PATH, is_missing, is_refused, kept_on, restoring, text};
use crate::{T, accept, children, cut_off, kind, sessions, sessions_and_client, settle};

const TTL: Duration = Duration::from_secs(2);

/// Lets time pass, in which the server removes expired nodes often.
async fn pass(server: &TestServer, length: Duration) {
    let step = TTL / 8;
    for _ in 0..length.as_millis() / step.as_millis() {
        crate::pass(step).await;
        server.reap_containers();
    }
}

/// Keeps a node with a time to live.
async fn kept() -> Kept {
    kept_on(TestServer::in_memory(), |node| node.mode(NodeMode::Ttl(TTL))).await
}

#[tokio::test(start_paused = true)]
async fn ttl_node_is_renewed_until_it_is_closed() {
    let (server, _sessions, _, node) = kept().await;
    let stat = node.wait_until_present(T).await.unwrap();
    assert_eq!(kind(&server, PATH), NodeKind::Ttl(2_000));
    pass(&server, 20 * TTL).await;
    let now = node.wait_until_present(T).await.unwrap();
    assert_eq!(now.czxid, stat.czxid, "it was never removed");
    assert!((38..=41).contains(&now.version), "{} renewals in 20 times to live", now.version);
    node.close().await.unwrap();
    assert!(is_missing(&server, PATH));
}

#[tokio::test(start_paused = true)]
async fn ttl_node_expires_with_its_process_and_outlives_a_session() {
    let (server, sessions, _, node) = kept().await;
    let stat = node.wait_until_present(T).await.unwrap();
    server.expire(sessions.client().session_id());
    pass(&server, 3 * TTL).await;
    assert_eq!(node.wait_until_present(T).await.unwrap().czxid, stat.czxid);

    cut_off(&server);
    pass(&server, 2 * TTL).await;
    assert!(is_missing(&server, PATH));
    accept(&server);
    pass(&server, 2 * T).await;
    assert!(node.wait_until_present(T).await.unwrap().czxid > stat.czxid);
}

#[tokio::test(start_paused = true)]
async fn renewal_keeps_data_of_another_client() {
    let (server, _sessions, operator, node) = kept().await;
    operator.set_data(PATH, b"other", None).await.unwrap();
    pass(&server, 5 * TTL).await;
    assert_eq!(text(&server, PATH), "other");
    assert!(node.state().is_present());
}

/// The pauses between the attempts become longer than half of the time to live.
#[tokio::test(start_paused = true)]
async fn ttl_node_outlives_a_refused_restoration() {
    let (server, sessions, operator, node) =
        kept_on(TestServer::in_memory(), |node| restoring(node).mode(NodeMode::Ttl(8 * TTL))).await;
    let stat = node.wait_until_present(T).await.unwrap();
    let refused = server.on(Op::SetData).session(sessions.client().session_id());
    let refused = refused.always().answer(ErrorCode::NO_AUTH);
    operator.set_data(PATH, b"other", None).await.unwrap();
    pass(&server, 27 * TTL / 4).await;
    assert!(is_refused(&node.state()));
    refused.cancel();
    pass(&server, 3 * TTL).await;
    assert_eq!(node.wait_until_present(T).await.unwrap().czxid, stat.czxid);
}

/// Curator's `PersistentTtlNode` has a container with a child `touch`.
#[tokio::test(start_paused = true)]
async fn container_of_curator_is_adopted_and_then_replaced() {
    let (server, sessions, curator) = sessions_and_client().await;
    curator.create("/n", b"curator", CreateMode::Container).await.unwrap();
    let touch = curator.create_builder("/n/touch").ttl(TTL).create().await.unwrap();
    let builder = PersistentNode::builder(&sessions, "/n").mode(NodeMode::Ttl(TTL)).data("a");
    let node = builder.start().unwrap();
    let stat = node.wait_until_present(T).await.unwrap();
    assert!(stat.czxid < touch.stat.czxid);
    assert_eq!(text(&server, "/n"), "a");
    pass(&server, 4 * TTL).await; // the child expires, and then the container
    settle().await;
    assert!(node.wait_until_present(T).await.unwrap().czxid > stat.czxid);
    assert_eq!(children(&server, "/n"), [""; 0]);
    assert_eq!(kind(&server, "/n"), NodeKind::Ttl(2_000));
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
