//! Contents of a cache, and its limits.

use std::sync::Arc;
use std::time::Duration;

use zk_coordination::session::{
    Acl, Client, CreateMode, ErrorCode, ErrorKind, Perms, RetryOn, SessionManager,
};
use zk_coordination::{Cache, CacheError, CacheStatus, Change};
use zk_testing::{Cut, Op, TestServer};

use super::{assert_is_tree, create, paths, synced, words};
use crate::{client, config, sessions, settle};

const TREE: [&str; 7] = ["/app", "/app/b", "/app/a", "/app/a/x", "/app/a/x/y", "/app-2", "/apple"];

async fn with_tree(server: &TestServer) -> (Client, SessionManager) {
    let writer = client(server, 1).await;
    create(&writer, &TREE).await;
    (writer, sessions(server, 2).await)
}

#[tokio::test(start_paused = true)]
async fn tree_cache_has_everything_below_its_root() {
    let server = TestServer::in_memory();
    let (_writer, sessions) = with_tree(&server).await;
    let cache = Cache::tree(&sessions, "/app").open().await.unwrap();
    let snapshot = cache.snapshot();
    assert_eq!(paths(&snapshot), ["/app", "/app/a", "/app/a/x", "/app/a/x/y", "/app/b"]);
    assert_is_tree(&snapshot, &server);
    assert_eq!(&snapshot.get("/app/a/x").unwrap().data()[..], b"/app/a/x");
    assert!(snapshot.get("/app-2").is_none() && snapshot.get("/app/c").is_none());
    assert!(snapshot.children("/app").map(|node| node.path()).eq(["/app/a", "/app/b"]));
    assert_eq!(
        snapshot.zxid(),
        server.with(|ensemble| ensemble.tree().node("/app/a/x/y").unwrap().stat().czxid)
    );
}

#[tokio::test(start_paused = true)]
async fn root_of_the_ensemble_can_be_cached() {
    let server = TestServer::in_memory();
    let (writer, sessions) = with_tree(&server).await;
    let cache = Cache::tree(&sessions, "/").open().await.unwrap();
    create(&writer, &["/app/new"]).await;
    settle().await;
    assert_is_tree(&cache.snapshot(), &server);
}

#[tokio::test(start_paused = true)]
async fn children_cache_ignores_what_is_deeper() {
    let server = TestServer::in_memory();
    let (writer, sessions) = with_tree(&server).await;
    let cache = Cache::children(&sessions, "/app").open().await.unwrap();
    assert_eq!(paths(&cache.snapshot()), ["/app", "/app/a", "/app/b"]);
    let mut changes = cache.changes();
    create(&writer, &["/app/a/z"]).await;
    writer.set_data("/app/a/x", b"1", None).await.unwrap();
    writer.set_data("/app/a", b"1", None).await.unwrap();
    assert_eq!(words(&mut changes).await, ["changed /app/a"]);
}

#[tokio::test(start_paused = true)]
async fn node_cache_follows_one_node_alone() {
    let server = TestServer::in_memory();
    let (writer, sessions) = with_tree(&server).await;
    let cache = Cache::node(&sessions, "/app/b").open().await.unwrap();
    let mut changes = cache.changes();
    create(&writer, &["/app/b/child"]).await;
    writer.set_data("/app/b", b"1", None).await.unwrap();
    writer.delete("/app/b/child", None).await.unwrap();
    writer.delete("/app/b", None).await.unwrap();
    settle().await;
    create(&writer, &["/app/b"]).await;
    assert_eq!(words(&mut changes).await, ["changed /app/b", "deleted /app/b", "created /app/b"]);
    assert_eq!(paths(&cache.snapshot()), ["/app/b"]);
}

#[tokio::test(start_paused = true)]
async fn depth_limits_the_levels_of_a_tree() {
    let server = TestServer::in_memory();
    let (_writer, sessions) = with_tree(&server).await;
    let cache = Cache::tree(&sessions, "/app").depth(2).open().await.unwrap();
    assert_eq!(paths(&cache.snapshot()), ["/app", "/app/a", "/app/a/x", "/app/b"]);
}

#[tokio::test(start_paused = true)]
async fn filter_hides_a_node_and_everything_below_it() {
    let server = TestServer::in_memory();
    let (writer, sessions) = with_tree(&server).await;
    let filter = |path: &str| !path.ends_with("/x");
    let cache = Cache::tree(&sessions, "/app").filter(filter).open().await.unwrap();
    assert_eq!(paths(&cache.snapshot()), ["/app", "/app/a", "/app/b"]);
    create(&writer, &["/app/a/x/z", "/app/b/c", "/app/b/x"]).await;
    settle().await;
    assert_eq!(paths(&cache.snapshot()), ["/app", "/app/a", "/app/b", "/app/b/c"]);
}

/// A filter that takes a snapshot would deadlock if it ran while the nodes are locked.
#[tokio::test(start_paused = true)]
async fn filter_may_use_the_cache() {
    let server = TestServer::in_memory();
    let (writer, sessions) = with_tree(&server).await;
    let slot: Arc<std::sync::OnceLock<Cache>> = Arc::default();
    let own = Arc::clone(&slot);
    let filter = move |_: &str| own.get().is_none_or(|cache| cache.snapshot().len() < 5);
    let cache = Cache::tree(&sessions, "/app").filter(filter).start().unwrap();
    slot.set(cache.clone()).unwrap();
    synced(&cache).await;
    create(&writer, &["/app/late"]).await;
    settle().await;
    assert_eq!(cache.status(), CacheStatus::Synced);
}

#[tokio::test(start_paused = true)]
async fn paths_below_a_chroot_have_no_chroot() {
    let server = TestServer::in_memory();
    let (writer, _) = with_tree(&server).await;
    let config = zk_coordination::session::Config::new("server:1/app").unwrap().seed(3);
    let sessions = SessionManager::connect(config.connector(server.clone())).await.unwrap();
    let cache = Cache::tree(&sessions, "/a").open().await.unwrap();
    let all = Cache::tree(&sessions, "/").open().await.unwrap();
    create(&writer, &["/app/a/x/z"]).await;
    settle().await;
    assert_eq!(paths(&cache.snapshot()), ["/a", "/a/x", "/a/x/y", "/a/x/z"]);
    assert_eq!(paths(&all.snapshot()), ["/", "/a", "/a/x", "/a/x/y", "/a/x/z", "/b"]);
}

#[tokio::test(start_paused = true)]
async fn unreadable_node_is_reported_and_the_rest_is_cached() {
    let server = TestServer::in_memory();
    let (writer, sessions) = with_tree(&server).await;
    let secret = [Acl::digest(Perms::ALL, "alice", "secret")];
    writer.create_with_acl("/app/s", b"s", CreateMode::Persistent, &secret).await.unwrap();
    let cache = Cache::tree(&sessions, "/app").open().await.unwrap();
    assert!(cache.snapshot().unreadable().eq(["/app/s"]));
    assert!(cache.snapshot().get("/app/s").is_none() && cache.snapshot().get("/app/b").is_some());
    let mut changes = cache.changes();
    writer.add_auth("digest", "alice:secret").await.unwrap();
    writer.set_acl("/app/b", &secret, None).await.unwrap();
    writer.set_acl("/app/s", &[Acl::open()], None).await.unwrap();
    // No event reports an access control list. The cache reads an unreadable node again soon.
    assert_eq!(words(&mut changes).await, ["created /app/s"]);
    server.connection_of(sessions.client().session_id()).cut(Cut::Fin);
    assert_eq!(words(&mut changes).await, ["stale", "unreadable /app/b", "synced"]);
    writer.delete("/app/b", None).await.unwrap();
    server.connection_of(sessions.client().session_id()).cut(Cut::Fin);
    assert_eq!(words(&mut changes).await, ["stale", "deleted /app/b", "synced"]);
}

/// The children of an unreadable node cannot be listed, so they are found when it becomes readable.
#[tokio::test(start_paused = true)]
async fn children_appear_when_their_parent_becomes_readable() {
    let server = TestServer::in_memory();
    let (writer, sessions) = with_tree(&server).await;
    let secret = [Acl::digest(Perms::ALL, "alice", "secret")];
    writer.set_acl("/app/a", &secret, None).await.unwrap();
    let cache = Cache::tree(&sessions, "/app").open().await.unwrap();
    assert_eq!(paths(&cache.snapshot()), ["/app", "/app/b"]);
    writer.add_auth("digest", "alice:secret").await.unwrap();
    writer.set_acl("/app/a", &[Acl::open()], None).await.unwrap();
    writer.set_data("/app/a", b"new", None).await.unwrap();
    settle().await;
    assert_is_tree(&cache.snapshot(), &server);
}

#[tokio::test(start_paused = true)]
async fn children_of_an_unreadable_node_are_checked_again() {
    let server = TestServer::in_memory();
    let (writer, sessions) = with_tree(&server).await;
    let cache = Cache::tree(&sessions, "/app").open().await.unwrap();
    let mut changes = cache.changes();
    let hidden = [Acl::digest(Perms::ALL, "alice", "secret"), Acl::world(Perms::DELETE)];
    writer.set_acl("/app/a", &hidden, None).await.unwrap();
    server.refuse_connects(0);
    server.connection_of(sessions.client().session_id()).cut(Cut::Fin);
    writer.delete("/app/a/x/y", None).await.unwrap();
    writer.delete("/app/a/x", None).await.unwrap();
    server.accept_connects(0);
    // reason: the client reconnects in virtual time
    tokio::time::sleep(crate::T / 4).await;
    let seen = words(&mut changes).await;
    assert_eq!(
        seen[1..],
        ["unreadable /app/a", "deleted /app/a/x/y", "deleted /app/a/x", "synced"]
    );
}

#[tokio::test(start_paused = true)]
async fn data_is_shared_between_snapshots() {
    let server = TestServer::in_memory();
    let (writer, sessions) = with_tree(&server).await;
    writer.set_data("/app/b", vec![7; 100_000], None).await.unwrap();
    let cache = Cache::tree(&sessions, "/app").open().await.unwrap();
    let before = cache.snapshot();
    create(&writer, &["/app/c"]).await;
    settle().await;
    let after = cache.snapshot();
    assert!(before.get("/app/c").is_none() && after.get("/app/c").is_some());
    let address = |snapshot: &zk_coordination::Snapshot| {
        snapshot.get("/app/b").unwrap().data().clone().as_ptr()
    };
    assert_eq!(address(&before), address(&after));
}

/// Data of a large reply is copied, so that a node does not keep the data of others in memory.
#[tokio::test(start_paused = true)]
async fn node_keeps_its_own_data_alone_in_memory() {
    let server = TestServer::in_memory();
    let (writer, sessions) = with_tree(&server).await;
    for path in ["/app/a", "/app/b"] {
        writer.set_data(path, vec![7; 10_000], None).await.unwrap();
    }
    let cache = Cache::tree(&sessions, "/app").open().await.unwrap();
    let snapshot = cache.snapshot();
    assert!(snapshot.iter().all(|node| node.data().is_empty() || node.data().is_unique()));
}

#[tokio::test(start_paused = true)]
async fn too_many_nodes_stop_the_cache() {
    let server = TestServer::in_memory();
    let (writer, sessions) = with_tree(&server).await;
    let expected = |max| CacheError::TooManyNodes { path: "/app".to_owned(), max };
    let error = Cache::tree(&sessions, "/app").max_nodes(4).open().await.unwrap_err();
    assert_eq!(error, expected(4));
    assert_eq!(error.retry_on(), RetryOn::Never);
    let cache = Cache::tree(&sessions, "/app").max_nodes(5).open().await.unwrap();
    let mut changes = cache.changes();
    create(&writer, &["/app/one-more"]).await;
    settle().await;
    assert_eq!(cache.status(), CacheStatus::Stopped(expected(5)));
    assert_eq!(words(&mut changes).await.len(), 2, "the node, and the end");
    assert!(changes.next().await.is_none());
    let mut later = cache.changes();
    assert_eq!(later.next().await, Some(Change::Stopped(expected(5))));
    assert!(later.next().await.is_none());
    assert_eq!(cache.wait_until_synced().await, Err(expected(5)));
    settle().await;
    // reason: the session removes watches a moment after they are dropped
    tokio::time::sleep(zk_coordination::session::limits::REMOVAL_DELAY * 2).await;
    assert_eq!(server.with(|ensemble| ensemble.watches(0)), 0, "a stopped cache watches nothing");
}

#[tokio::test(start_paused = true)]
async fn too_many_bytes_stop_the_cache() {
    let server = TestServer::in_memory();
    let (writer, sessions) = with_tree(&server).await;
    let cache = Cache::tree(&sessions, "/app").max_bytes(50_000).open().await.unwrap();
    assert!(cache.snapshot().bytes() < 5_000);
    writer.set_data("/app/b", vec![7; 60_000], None).await.unwrap();
    settle().await;
    let error = CacheError::TooManyBytes { path: "/app".to_owned(), max: 50_000 };
    assert_eq!(cache.status(), CacheStatus::Stopped(error));
}

#[tokio::test(start_paused = true)]
async fn server_without_persistent_watches_is_an_error() {
    let server = TestServer::in_memory();
    let (_writer, sessions) = with_tree(&server).await;
    for code in [ErrorCode::UNIMPLEMENTED, ErrorCode::MARSHALLING_ERROR] {
        server.on(Op::AddWatch).answer(code);
        let error = Cache::tree(&sessions, "/app").open().await.unwrap_err();
        assert_eq!(error, CacheError::Unsupported { path: "/app".to_owned() });
        assert!(error.to_string().contains("3.6"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn server_without_multi_reads_is_read_node_by_node() {
    let server = TestServer::in_memory();
    let (_writer, sessions) = with_tree(&server).await;
    let refused = server.on(Op::MultiRead).always().answer(ErrorCode::UNIMPLEMENTED);
    let cache = Cache::tree(&sessions, "/app").open().await.unwrap();
    assert_is_tree(&cache.snapshot(), &server);
    assert_eq!(refused.count(), 1, "the cache has learned it");
    refused.cancel();
    let newer = server.on(Op::MultiRead).always().delay(Duration::ZERO);
    server.connection_of(sessions.client().session_id()).cut(Cut::Fin);
    // reason: the client reconnects in virtual time
    tokio::time::sleep(crate::T / 4).await;
    cache.wait_until_synced().await.unwrap();
    assert!(newer.count() > 0, "the next server may be newer");
}

#[tokio::test(start_paused = true)]
async fn nodes_too_large_for_one_reply_are_read_one_by_one() {
    let server = TestServer::in_memory();
    let (writer, _) = with_tree(&server).await;
    for path in ["/app/a", "/app/b", "/app/a/x"] {
        writer.set_data(path, vec![7; 30_000], None).await.unwrap();
    }
    let config = config(3).max_frame_len(40_000);
    let sessions = SessionManager::connect(config.connector(server.clone())).await.unwrap();
    let cache = Cache::tree(&sessions, "/app").open().await.unwrap();
    assert_is_tree(&cache.snapshot(), &server);
    // One node that does not fit into a frame cannot be cached at all.
    writer.set_data("/app/b", vec![7; 50_000], None).await.unwrap();
    // reason: the cache loses a connection over it, and reads the node again, in virtual time
    tokio::time::sleep(crate::T).await;
    let CacheStatus::Stopped(CacheError::Client(error)) = cache.status() else {
        panic!("{:?}", cache.status());
    };
    assert!(matches!(error.kind(), ErrorKind::ReplyTooLarge { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn paths_too_long_for_one_request_are_read_one_by_one() {
    let server = TestServer::in_memory();
    let (writer, sessions) = with_tree(&server).await;
    for number in 0..60 {
        let path = format!("/app/{}{number}", "x".repeat(20_000));
        writer.create(&path, b"", CreateMode::Persistent).await.unwrap();
    }
    let cache = Cache::tree(&sessions, "/app").open().await.unwrap();
    assert_is_tree(&cache.snapshot(), &server);
}

#[tokio::test(start_paused = true)]
async fn invalid_path_is_an_error() {
    let server = TestServer::in_memory();
    let error = Cache::tree(&sessions(&server, 1).await, "app").open().await.unwrap_err();
    assert!(
        matches!(&error, CacheError::Client(error) if matches!(error.kind(), ErrorKind::InvalidPath(_)))
    );
}
