//! Contents of a cache, and its limits.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use zk_coordination::session::{Config, CreateMode, ErrorCode, ErrorKind, RetryOn};
use zk_coordination::{Cache, CacheError, CacheStatus, Change, Snapshot};
use zk_testing::Op;

use super::{
    assert_is_tree, cached, create, create_hidden, cut, disconnected, hide, paths, set, show,
    synced, tree, words,
};
use crate::{T, config, manager, pass, settle, settle_watches, watches};

const TREE: [&str; 7] = ["/app", "/app/b", "/app/a", "/app/a/x", "/app/a/x/y", "/app-2", "/apple"];

#[tokio::test(start_paused = true)]
async fn tree_cache_has_everything_below_its_root() {
    let (server, writer, sessions, cache) = cached(&TREE).await;
    let snapshot = cache.snapshot();
    assert_eq!(paths(&snapshot), ["/app", "/app/a", "/app/a/x", "/app/a/x/y", "/app/b"]);
    assert_is_tree(&snapshot, &server);
    assert_eq!(&snapshot.get("/app/a/x").unwrap().data()[..], b"/app/a/x");
    assert!(snapshot.get("/app-2").is_none() && snapshot.get("/app/c").is_none());
    assert!(snapshot.children("/app").map(|node| node.path()).eq(["/app/a", "/app/b"]));
    let czxid = server.with(|ensemble| ensemble.tree().node("/app/a/x/y").unwrap().stat().czxid);
    assert_eq!(snapshot.zxid(), czxid);
    let all = Cache::tree(&sessions, "/").open().await.unwrap();
    create(&writer, &["/app/new"]).await;
    settle().await;
    assert_is_tree(&all.snapshot(), &server);
}

#[tokio::test(start_paused = true)]
async fn children_cache_ignores_what_is_deeper() {
    let (_server, writer, sessions) = tree(&TREE).await;
    let cache = Cache::children(&sessions, "/app").open().await.unwrap();
    assert_eq!(paths(&cache.snapshot()), ["/app", "/app/a", "/app/b"]);
    let mut changes = cache.changes();
    create(&writer, &["/app/a/z"]).await;
    set(&writer, "/app/a/x", b"1").await;
    set(&writer, "/app/a", b"1").await;
    assert_eq!(words(&mut changes).await, ["changed /app/a"]);
}

#[tokio::test(start_paused = true)]
async fn node_cache_follows_one_node_alone() {
    let (_server, writer, sessions) = tree(&TREE).await;
    let cache = Cache::node(&sessions, "/app/b").open().await.unwrap();
    let mut changes = cache.changes();
    create(&writer, &["/app/b/child"]).await;
    set(&writer, "/app/b", b"1").await;
    writer.delete("/app/b/child", None).await.unwrap();
    writer.delete("/app/b", None).await.unwrap();
    settle().await;
    create(&writer, &["/app/b"]).await;
    assert_eq!(words(&mut changes).await, ["changed /app/b", "deleted /app/b", "created /app/b"]);
    assert_eq!(paths(&cache.snapshot()), ["/app/b"]);
}

#[tokio::test(start_paused = true)]
async fn depth_and_filter_limit_a_tree() {
    let (_server, writer, sessions) = tree(&TREE).await;
    let shallow = Cache::tree(&sessions, "/app").depth(2).open().await.unwrap();
    assert_eq!(paths(&shallow.snapshot()), ["/app", "/app/a", "/app/a/x", "/app/b"]);
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
    let (_server, writer, sessions) = tree(&TREE).await;
    let slot: Arc<OnceLock<Cache>> = Arc::default();
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
    let (server, writer, _) = tree(&TREE).await;
    let sessions = manager(&server, Config::new("server:1/app").unwrap().seed(3)).await;
    let cache = Cache::tree(&sessions, "/a").open().await.unwrap();
    let all = Cache::tree(&sessions, "/").open().await.unwrap();
    create(&writer, &["/app/a/x/z"]).await;
    settle().await;
    assert_eq!(paths(&cache.snapshot()), ["/a", "/a/x", "/a/x/y", "/a/x/z"]);
    assert_eq!(paths(&all.snapshot()), ["/", "/a", "/a/x", "/a/x/y", "/a/x/z", "/b"]);
}

#[tokio::test(start_paused = true)]
async fn unreadable_node_is_reported_and_the_rest_is_cached() {
    let (server, writer, sessions) = tree(&TREE).await;
    create_hidden(&writer, "/app/s").await;
    let cache = Cache::tree(&sessions, "/app").open().await.unwrap();
    assert!(cache.snapshot().unreadable().eq(["/app/s"]));
    assert!(cache.snapshot().get("/app/s").is_none() && cache.snapshot().get("/app/b").is_some());
    let mut changes = cache.changes();
    hide(&writer, "/app/b").await;
    show(&writer, "/app/s").await;
    // No event reports an access control list. The cache reads an unreadable node again soon.
    assert_eq!(words(&mut changes).await, ["created /app/s"]);
    cut(&server, &sessions);
    assert_eq!(words(&mut changes).await, ["stale", "unreadable /app/b", "synced"]);
    writer.delete("/app/b", None).await.unwrap();
    cut(&server, &sessions);
    assert_eq!(words(&mut changes).await, ["stale", "deleted /app/b", "synced"]);
}

#[tokio::test(start_paused = true)]
async fn children_of_an_unreadable_node_are_checked_again() {
    let (server, writer, sessions, cache) = cached(&TREE).await;
    let mut changes = cache.changes();
    hide(&writer, "/app/a").await;
    let change = async {
        writer.delete("/app/a/x/y", None).await.unwrap();
        writer.delete("/app/a/x", None).await.unwrap();
    };
    disconnected(&server, &sessions, change).await;
    let expected =
        ["stale", "unreadable /app/a", "deleted /app/a/x/y", "deleted /app/a/x", "synced"];
    assert_eq!(words(&mut changes).await, expected);
}

/// Data of a large reply is copied, so that a node does not keep the data of others in memory.
#[tokio::test(start_paused = true)]
async fn data_is_shared_between_snapshots_alone() {
    let (_server, writer, sessions) = tree(&TREE).await;
    for path in ["/app/a", "/app/b"] {
        set(&writer, path, vec![7; 10_000]).await;
    }
    let cache = Cache::tree(&sessions, "/app").open().await.unwrap();
    let before = cache.snapshot();
    assert!(before.iter().all(|node| node.data().is_empty() || node.data().is_unique()));
    create(&writer, &["/app/c"]).await;
    settle().await;
    let after = cache.snapshot();
    assert!(before.get("/app/c").is_none() && after.get("/app/c").is_some());
    let address = |snapshot: &Snapshot| snapshot.get("/app/b").unwrap().data().as_ptr();
    assert_eq!(address(&before), address(&after));
}

#[tokio::test(start_paused = true)]
async fn too_many_nodes_stop_the_cache() {
    let (server, writer, sessions) = tree(&TREE).await;
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
    settle_watches().await;
    assert_eq!(watches(&server), 0, "a stopped cache watches nothing");
}

#[tokio::test(start_paused = true)]
async fn too_many_bytes_stop_the_cache() {
    let (_server, writer, sessions) = tree(&TREE).await;
    let cache = Cache::tree(&sessions, "/app").max_bytes(50_000).open().await.unwrap();
    assert!(cache.snapshot().bytes() < 5_000);
    set(&writer, "/app/b", vec![7; 60_000]).await;
    settle().await;
    let error = CacheError::TooManyBytes { path: "/app".to_owned(), max: 50_000 };
    assert_eq!(cache.status(), CacheStatus::Stopped(error));
}

#[tokio::test(start_paused = true)]
async fn server_without_persistent_watches_is_an_error() {
    let (server, _writer, sessions) = tree(&TREE).await;
    for code in [ErrorCode::UNIMPLEMENTED, ErrorCode::MARSHALLING_ERROR] {
        server.on(Op::AddWatch).answer(code);
        let error = Cache::tree(&sessions, "/app").open().await.unwrap_err();
        assert_eq!(error, CacheError::Unsupported { path: "/app".to_owned() });
        assert!(error.to_string().contains("3.6"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn server_without_multi_reads_is_read_node_by_node() {
    let (server, _writer, sessions) = tree(&TREE).await;
    let refused = server.on(Op::MultiRead).always().answer(ErrorCode::UNIMPLEMENTED);
    let cache = Cache::tree(&sessions, "/app").open().await.unwrap();
    assert_is_tree(&cache.snapshot(), &server);
    assert_eq!(refused.count(), 1, "the cache has learned it");
    refused.cancel();
    let newer = server.on(Op::MultiRead).always().delay(Duration::ZERO);
    disconnected(&server, &sessions, async {}).await;
    cache.wait_until_synced().await.unwrap();
    assert!(newer.count() > 0, "the next server may be newer");
}

#[tokio::test(start_paused = true)]
async fn nodes_too_large_for_one_message_are_read_one_by_one() {
    let (server, writer, sessions) = tree(&TREE).await;
    for number in 0..60 {
        let path = format!("/app-2/{}{number}", "x".repeat(20_000));
        writer.create(&path, b"", CreateMode::Persistent).await.unwrap();
    }
    let cache = Cache::tree(&sessions, "/app-2").open().await.unwrap();
    assert_is_tree(&cache.snapshot(), &server);

    for path in ["/app/a", "/app/b", "/app/a/x"] {
        set(&writer, path, vec![7; 30_000]).await;
    }
    let sessions = manager(&server, config(3).max_frame_len(40_000)).await;
    let cache = Cache::tree(&sessions, "/app").open().await.unwrap();
    assert_is_tree(&cache.snapshot(), &server);
    // One node that does not fit into a frame cannot be cached at all.
    set(&writer, "/app/b", vec![7; 50_000]).await;
    pass(T).await; // in which the cache loses a connection over it, and reads the node again
    let CacheStatus::Stopped(CacheError::Client(error)) = cache.status() else {
        panic!("{:?}", cache.status());
    };
    assert!(matches!(error.kind(), ErrorKind::ReplyTooLarge { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn invalid_path_is_an_error() {
    let (_server, _writer, sessions) = tree(&[]).await;
    let error = Cache::tree(&sessions, "app").open().await.unwrap_err();
    let CacheError::Client(error) = error else { panic!("{error}") };
    assert!(matches!(error.kind(), ErrorKind::InvalidPath(_)));
}
