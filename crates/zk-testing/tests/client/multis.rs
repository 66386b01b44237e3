//! Tests of multi and multiRead through the client.

use std::time::Duration;

use zk_session::{
    Acl, Client, CreateMode, ErrorCode, ErrorKind, ErrorOrigin, MultiOutcome, Outcome, Perms,
    ReadOutcome, RetryOn,
};
use zk_testing::{Op, Settings, TestServer, Version};

use crate::in_memory::client_of;

/// Returns a client, and a handle of it with the chroot `/a`.
async fn clients(server: &TestServer) -> (Client, Client) {
    let outside = client_of(server, 0).await;
    outside.create("/a", b"", CreateMode::Persistent).await.unwrap();
    let inside = outside.chroot("/a").unwrap();
    (outside, inside)
}

fn created(outcome: &MultiOutcome) -> &str {
    match outcome {
        MultiOutcome::Created { path, .. } => path,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn multi_outcomes_have_paths_relative_to_chroot() {
    for version in [Version::V3_8, Version::V3_9] {
        let settings = Settings::new().version(version);
        every_operation_has_its_outcome(&TestServer::in_memory_with(settings), version).await;
    }
}

async fn every_operation_has_its_outcome(server: &TestServer, version: Version) {
    let (outside, inside) = clients(server).await;
    let readable = [Acl::world(Perms::READ)];
    let outcomes = inside
        .multi()
        .create("/n", b"x", CreateMode::Persistent)
        .create("/s-", b"", CreateMode::EphemeralSequential)
        .create("/", b"", CreateMode::PersistentSequential)
        .create("/c", b"", CreateMode::Container)
        .create_with_acl("/r", b"", CreateMode::Persistent, &readable)
        .create_with_ttl("/t", b"", Duration::from_secs(9))
        .set_data("/n", b"y", Some(0))
        .check("/n", Some(1))
        .delete("/n", Some(1))
        .send()
        .await
        .unwrap();
    let paths: Vec<&str> = outcomes[..6].iter().map(created).collect();
    assert_eq!(paths, ["/n", "/s-0000000001", "/0000000002", "/c", "/r", "/t"]);
    let MultiOutcome::Created { stat, .. } = &outcomes[1] else { panic!() };
    let told = (version == Version::V3_9).then(|| outside.session_id());
    assert_eq!(stat.map(|stat| stat.ephemeral_owner), told, "older servers tell no Stat");
    let MultiOutcome::Set(stat) = &outcomes[6] else { panic!() };
    assert_eq!(stat.version, 1);
    assert_eq!(outcomes[7..], [MultiOutcome::Checked, MultiOutcome::Deleted]);
    assert_eq!(outside.get_children("/a").await.unwrap().names.len(), 5);
    assert_eq!(outside.get_acl("/a/r").await.unwrap().acl, readable);
}

#[tokio::test(start_paused = true)]
async fn rolled_back_multi_error_names_failed_operation() {
    let server = TestServer::in_memory();
    let (_, inside) = clients(&server).await;
    let multi = inside.multi().create("/n", b"", CreateMode::Persistent);
    let multi = multi.set_data("/n", b"", Some(7)).delete("/n", None);
    let error = multi.clone().send().await.unwrap_err();
    let ErrorKind::RolledBack { index, operation, path, code } = error.kind() else { panic!() };
    assert_eq!((*index, *operation, path.as_str()), (1, Op::SetData, "/n"));
    assert_eq!((*code, error.code()), (ErrorCode::BAD_VERSION, Some(ErrorCode::BAD_VERSION)));
    assert_eq!((error.outcome(), error.origin()), (Outcome::NotApplied, ErrorOrigin::Server));
    assert!(error.retry_on() != RetryOn::SameSession);
    assert_eq!(
        error.to_string(),
        "multi of 3 operations: operation [1], setData /n: BadVersion (-103); nothing was applied"
    );
    assert_eq!(inside.exists("/n").await.unwrap(), None, "nothing was applied");

    let first = inside.multi().check("/n", None).send().await.unwrap_err();
    assert_eq!(
        first.to_string(),
        "multi of 1 operation: operation [0], check /n: NoNode (-101); nothing was applied"
    );
    let root = inside.multi().delete("/", None).send().await.unwrap_err();
    let ErrorKind::RolledBack { operation: Op::Delete, path, code, .. } = root.kind() else {
        panic!("{root}")
    };
    assert_eq!((path.as_str(), *code), ("/", ErrorCode::BAD_ARGUMENTS));
}

#[tokio::test(start_paused = true)]
async fn empty_multi_succeeds_unless_session_has_ended() {
    let server = TestServer::in_memory();
    let (_, inside) = clients(&server).await;
    assert_eq!(inside.multi().send().await.unwrap(), []);
    assert_eq!(inside.multi_read().send().await.unwrap(), []);
    inside.close().await;
    let over = inside.multi().send().await.unwrap_err();
    assert_eq!(over.origin(), ErrorOrigin::Session, "and is asked for all the same");
}

#[tokio::test(start_paused = true)]
async fn multi_with_invalid_path_is_not_sent() {
    let server = TestServer::in_memory();
    let (_, inside) = clients(&server).await;
    let multi = inside.multi().create("/n", b"", CreateMode::Persistent);
    let error = multi.delete("/x/", None).check("y", None).send().await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::InvalidPath(_)), "{error}");
    assert_eq!(error.to_string(), r#"multi: path "/x/" ends with '/' (at byte 3)"#);
    assert_eq!((error.outcome(), error.origin()), (Outcome::NotApplied, ErrorOrigin::Caller));
    assert_eq!(inside.exists("/n").await.unwrap(), None);
    let error = inside.multi_read().get_data("/").get_children("").send().await.unwrap_err();
    assert!(error.to_string().starts_with("multiRead: path \"\" does"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn multi_with_lost_reply_has_unknown_outcome() {
    let server = TestServer::in_memory();
    let (_, inside) = clients(&server).await;
    server.on(Op::Multi).apply_then_drop_reply();
    let create = inside.multi().create("/n", b"", CreateMode::Persistent);
    let error = create.send().await.unwrap_err();
    assert_eq!((error.outcome(), error.retry_on()), (Outcome::Unknown, RetryOn::Never));
    assert!(inside.exists("/n").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn multi_read_results_are_independent() {
    let server = TestServer::in_memory();
    let (_, inside) = clients(&server).await;
    inside.create("/n", b"x", CreateMode::Persistent).await.unwrap();
    let reads = inside.multi_read().get_data("/n").get_data("/none").get_children("/");
    let outcomes = reads.send().await.unwrap();
    let [Ok(ReadOutcome::Data(node)), Err(code), Ok(ReadOutcome::Children(names))] =
        outcomes.as_slice()
    else {
        panic!("{outcomes:?}")
    };
    assert_eq!((&node.data[..], node.stat.version), (&b"x"[..], 0));
    assert_eq!((*code, names.len()), (ErrorCode::NO_NODE, 1));
}

#[tokio::test(start_paused = true)]
async fn multi_over_the_frame_limit_is_not_sent() {
    let server = TestServer::in_memory();
    let (outside, _) = clients(&server).await;
    let set = |len| outside.multi().set_data("/a", &vec![7; len], None).check_len();
    assert_eq!(set(1_000), Ok(()));
    let error = set(1 << 21).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::TooLarge { .. }), "{error}");
    assert!(error.to_string().starts_with("multi of 1 operation: "), "{error}");
}
