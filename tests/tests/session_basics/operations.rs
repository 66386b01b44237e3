//! Tests of the typed operations, and of the errors that the server returns.

use std::time::Duration;

use zk_recipes::session::{
    CreateMode, Error, ErrorCode, ErrorKind, ErrorOrigin, Outcome, RetryOn, SessionId, Zxid,
};
use zk_tests::{raw, shared_zookeeper};

use crate::{client, own_client};

#[tokio::test(flavor = "multi_thread")]
async fn create_supports_every_mode() {
    let Some(client) = own_client("modes").await else { return };
    let create = |path: &str, mode| client.create(path, b"x", mode);
    let persistent = create("/p", CreateMode::Persistent).await.unwrap();
    assert_eq!(
        (persistent.path.as_str(), persistent.stat.ephemeral_owner),
        ("/p", SessionId::NONE)
    );
    let ephemeral = create("/e", CreateMode::Ephemeral).await.unwrap();
    assert_eq!(ephemeral.path, "/e");
    assert_eq!(ephemeral.stat.ephemeral_owner, client.session_id());
    let numbered = create("/n-", CreateMode::PersistentSequential).await.unwrap();
    assert_eq!(numbered.path, "/n-0000000002");
    let numbered = create("/n-", CreateMode::EphemeralSequential).await.unwrap();
    assert_eq!(numbered.path, "/n-0000000003");
    assert_eq!(numbered.stat.ephemeral_owner, client.session_id());
    let container = create("/c", CreateMode::Container).await.unwrap();
    assert_eq!((container.path.as_str(), container.stat.ephemeral_owner), ("/c", SessionId::NONE));
    let minute = Duration::from_secs(60);
    let fleeting = client.create_builder("/t").data(b"x").ttl(minute).create().await.unwrap();
    assert_eq!((fleeting.path.as_str(), fleeting.stat.ephemeral_owner), ("/t", SessionId::NONE));
    let fleeting = client.create_builder("/t-").data(b"x").ttl(minute).sequential();
    let fleeting = fleeting.create().await.unwrap();
    assert_eq!(fleeting.path, "/t-0000000006");

    for path in ["/p", "/e", "/c", "/t"] {
        let node = client.get_data(path).await.unwrap();
        assert_eq!(node.data, &b"x"[..], "{path}");
    }
    assert_eq!(client.get_children("/").await.unwrap().names.len(), 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn batched_requests_are_answered_in_order() {
    let Some(client) = client("order").await else { return };
    let (created, listed, deleted, looked) = {
        let _one_write = client.batch();
        (
            client.create("/a-", b"", CreateMode::EphemeralSequential),
            client.get_children("/"),
            client.delete("/a-0000000000", None),
            client.exists("/a-0000000000"),
        )
    };
    let created = created.await.unwrap();
    let listed = listed.await.unwrap();
    let names: Vec<_> = listed.names.names().collect();
    assert_eq!(names, ["a-0000000000"]);
    assert_eq!(listed.stat.pzxid, created.stat.czxid, "the number of the transaction");
    deleted.await.unwrap();
    assert_eq!(looked.await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn czxid_grows_with_each_recreated_node() {
    let Some(client) = client("czxid").await else { return };
    let mut last = Zxid::ZERO;
    for _ in 0..10 {
        let created = client.create("/a", b"", CreateMode::Persistent).await.unwrap();
        assert!(created.stat.czxid > last);
        last = created.stat.czxid;
        let changed = client.set_data("/a", b"x", None).await.unwrap();
        assert_eq!(changed.czxid, last, "a change leaves it alone");
        assert!(changed.mzxid > last);
        client.delete("/a", None).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn null_data_differs_from_empty_data() {
    let (Some(server), Some(client)) = (shared_zookeeper(), client("null").await) else { return };
    raw::create_with_null_data(server, "/null/null");
    let null = client.get_data("/null").await.unwrap();
    assert_eq!((null.nullable(), null.data.len(), null.stat.data_length), (None, 0, 0));
    client.create("/empty", b"", CreateMode::Persistent).await.unwrap();
    let empty = client.get_data("/empty").await.unwrap();
    assert_eq!((empty.nullable(), empty.stat.data_length), (Some(&b""[..]), 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn version_mismatch_rejects_set_and_delete() {
    let Some(client) = client("versions").await else { return };
    let created = client.create("/a", b"0", CreateMode::Persistent).await.unwrap();
    assert_eq!(created.stat.version, 0);
    assert_eq!(client.set_data("/a", b"1", Some(0)).await.unwrap().version, 1);
    declined(client.set_data("/a", b"2", Some(0)).await, ErrorCode::BAD_VERSION);
    assert_eq!(client.set_data("/a", b"2", None).await.unwrap().version, 2);
    declined(client.delete("/a", Some(1)).await, ErrorCode::BAD_VERSION);
    client.delete("/a", Some(2)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_requests_report_not_applied() {
    let Some(client) = client("declined").await else { return };
    client.create("/a", b"", CreateMode::Persistent).await.unwrap();
    client.create("/a/b", b"", CreateMode::Persistent).await.unwrap();
    client.create("/e", b"", CreateMode::Ephemeral).await.unwrap();
    let create = |path: &str| client.create(path, b"", CreateMode::Persistent);
    declined(create("/a").await, ErrorCode::NODE_EXISTS);
    declined(create("/none/a").await, ErrorCode::NO_NODE);
    declined(create("/e/a").await, ErrorCode::NO_CHILDREN_FOR_EPHEMERALS);
    declined(client.delete("/a", None).await, ErrorCode::NOT_EMPTY);
    declined(client.delete("/none", None).await, ErrorCode::NO_NODE);
    declined(client.get_data("/none").await, ErrorCode::NO_NODE);
    declined(client.set_data("/none", b"", None).await, ErrorCode::NO_NODE);
    declined(client.get_children("/none").await, ErrorCode::NO_NODE);
    assert_eq!(client.exists("/none").await.unwrap(), None);

    let message = client.get_data("/none").await.unwrap_err().to_string();
    assert_eq!(message, "getData /none: NoNode (-101)");
    assert!(client.is_connected(), "an error of a request is none of the connection");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_requests_are_not_sent() {
    let Some(client) = client("not-sent").await else { return };
    for path in ["", "a", "/a/", "/a//b", "/a/../b", "/\0"] {
        let error = client.get_data(path).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::InvalidPath(_)), "{path}: {error}");
        assert_eq!((error.origin(), error.outcome()), (ErrorOrigin::Caller, Outcome::NotApplied));
    }
    let error = client.create("/big", vec![0; 2 << 20], CreateMode::Persistent).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::TooLarge { .. }), "{error}");
    assert_eq!(error.outcome(), Outcome::NotApplied);
    // The largest data are accepted, and the same connection has survived all errors.
    let largest = vec![1; 1_000_000];
    client.create("/large", &largest, CreateMode::Persistent).await.unwrap();
    assert_eq!(client.get_data("/large").await.unwrap().data, largest);
}

fn declined<T: std::fmt::Debug>(result: Result<T, Error>, code: ErrorCode) {
    let error = result.unwrap_err();
    assert_eq!(error.code(), Some(code), "{error}");
    assert_eq!(
        (error.origin(), error.outcome()),
        (ErrorOrigin::Server, Outcome::NotApplied),
        "{error}"
    );
    assert!(error.retry_on() != RetryOn::SameSession, "{error}");
}
