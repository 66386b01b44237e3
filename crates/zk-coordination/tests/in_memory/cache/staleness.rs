//! Lost connections, expired sessions, and the reads after them.

use std::sync::Arc;

use tokio::runtime::{Builder, Runtime};
use zk_coordination::session::{
    Acl, Client, CreateMode, ErrorCode, ErrorKind, Limit, Perms, RetryOn, SessionManager,
};
use zk_coordination::{Cache, CacheError, CacheStatus, Change, watch_value};
use zk_testing::{Op, Settings, TestServer};

use super::{
    Replay, assert_is_tree, cached, create, cut, disconnected, hide, set, show, synced, tree, words,
};
use crate::{T, client_of_all, config, config_of_all, manager, pass, settle};

const TREE: [&str; 3] = ["/app", "/app/a", "/app/b"];

#[tokio::test(start_paused = true)]
async fn cache_is_stale_from_the_loss_to_the_end_of_the_walk() {
    let (server, writer, sessions, cache) = cached(&TREE).await;
    let mut changes = cache.changes();
    let change = async {
        assert_eq!(cache.status(), CacheStatus::Stale, "before the reconnect");
        assert_eq!(words(&mut changes).await, ["stale"]);
        create(&writer, &["/app/c", "/app/c/d"]).await;
        set(&writer, "/app/b", b"new").await;
        writer.delete("/app/a", None).await.unwrap();
        assert_eq!(cache.snapshot().len(), 3, "the last known nodes");
    };
    disconnected(&server, &sessions, change).await;
    assert_eq!(cache.status(), CacheStatus::Synced);
    let seen = words(&mut changes).await;
    let expected =
        ["deleted /app/a", "changed /app/b", "created /app/c", "created /app/c/d", "synced"];
    assert_eq!(seen, expected);
    assert_is_tree(&cache.snapshot(), &server);
}

#[tokio::test(start_paused = true)]
async fn first_load_fails_if_no_watch_is_left() {
    let server = TestServer::in_memory();
    let sessions = manager(&server, config(1).max_watches(0)).await;
    let cache = Cache::tree(&sessions, "/app").open();
    let cache = tokio::time::timeout(T, cache).await.expect("an answer").map(drop);
    let value = watch_value(&sessions, "/app", |_| Some(()));
    let value = tokio::time::timeout(T, value).await.expect("an answer").map(drop);
    for opened in [cache, value] {
        let error = opened.unwrap_err();
        assert_eq!(error.retry_on(), RetryOn::SameSession);
        let CacheError::Client(error) = error else { panic!("{error}") };
        assert_eq!(*error.kind(), ErrorKind::LimitReached(Limit::Watches));
    }
}

/// Another watch takes the only place on the next session before the cache does.
#[tokio::test(start_paused = true)]
async fn stale_cache_waits_for_a_free_watch() {
    let server = TestServer::in_memory();
    let sessions = manager(&server, config(1).max_watches(1)).await;
    let cache = Cache::tree(&sessions, "/app").open().await.unwrap();
    server.on(Op::AddWatch).answer(ErrorCode::THROTTLED_OP);
    server.expire(sessions.client().session_id());
    settle().await;
    let next = sessions.open_client().await.unwrap();
    let (_, other) = next.exists_and_watch("/other").await.unwrap();
    pass(T).await; // in which the cache tries again
    assert_eq!(cache.status(), CacheStatus::Stale);
    drop(other);
    synced(&cache).await;
}

/// The pause after a failed read must not delay the report.
#[tokio::test(start_paused = true)]
async fn cache_is_stale_at_once_with_a_read_in_flight() {
    let (server, writer, sessions, cache) = cached(&TREE).await;
    server.on(Op::GetData).never_answer();
    set(&writer, "/app/a", b"new").await;
    settle().await;
    disconnected(&server, &sessions, async {
        assert_eq!(cache.status(), CacheStatus::Stale);
    })
    .await;
}

/// A read-only server opens a session without the leader, and may lag behind what the cache has shown. The
/// snapshot of a deleted root is empty, and is newer than the tree of the lagging server.
#[tokio::test(start_paused = true)]
async fn next_session_on_a_read_only_server_does_not_go_back() {
    for is_root_deleted in [false, true] {
        let server = TestServer::in_memory_with(Settings::new().servers(2));
        server.refuse_connects(1);
        let writer = client_of_all(&server, 1).await;
        create(&writer, &["/app"]).await;
        let sessions = manager(&server, config_of_all(&server, 2).allow_read_only()).await;
        let cache = Cache::tree(&sessions, "/app").open().await.unwrap();
        server.freeze_view(1);
        server.make_read_only(1);
        if is_root_deleted {
            writer.delete("/app", None).await.unwrap();
        } else {
            set(&writer, "/app", b"new").await;
            create(&writer, &["/app/b"]).await;
        }
        settle().await;
        let mut changes = cache.changes();
        server.accept_connects(1);
        server.refuse_connects(0);
        let first = sessions.client();
        server.expire(first.session_id());
        pass(4 * T).await; // in which the manager opens the next session
        assert!(sessions.client().is_read_only() && !sessions.client().is_same_session(&first));
        assert_eq!(words(&mut changes).await, ["stale"]);
        assert_eq!(cache.snapshot().is_empty(), is_root_deleted);
        server.accept_connects(0);
        pass(20 * T).await; // in which the session finds the other server
        assert_eq!(words(&mut changes).await, ["synced"]);
        assert_is_tree(&cache.snapshot(), &server);
    }
}

/// A cache whose nodes `a` and `b` have large data.
async fn cached_large() -> (TestServer, Client, SessionManager, Cache) {
    let (server, writer, sessions, cache) = cached(&TREE).await;
    for path in ["/app/a", "/app/b"] {
        set(&writer, path, vec![1; 50_000]).await;
    }
    settle().await;
    (server, writer, sessions, cache)
}

/// Returns the bytes that a cache receives after a disconnect with this change.
async fn received(server: &TestServer, sessions: &SessionManager, change: impl Future) -> u64 {
    let received = || sessions.client().stats().bytes_received;
    let before = received();
    disconnected(server, sessions, change).await;
    received() - before
}

/// The server sends the Stat of a node to everyone, and its data only to those who may read it.
#[tokio::test(start_paused = true)]
async fn gap_notices_a_changed_acl_of_a_node_with_much_data() {
    let (server, writer, sessions, cache) = cached_large().await;
    let mut changes = cache.changes();
    disconnected(&server, &sessions, hide(&writer, "/app/a")).await;
    assert_eq!(words(&mut changes).await, ["stale", "unreadable /app/a", "synced"]);
    disconnected(&server, &sessions, show(&writer, "/app/a")).await;
    assert_eq!(words(&mut changes).await, ["stale", "created /app/a", "synced"]);
    assert_is_tree(&cache.snapshot(), &server);
}

/// Unchanged data is not sent again if it is large, and stays the same in memory in any case.
#[tokio::test(start_paused = true)]
async fn gap_reads_large_data_again_only_if_it_changed() {
    let (server, writer, sessions, cache) = cached_large().await;
    let before = cache.snapshot();
    let bytes = received(&server, &sessions, async {}).await;
    assert!(bytes < 2_000, "{bytes} bytes");
    let after = cache.snapshot();
    assert!(before.iter().zip(after.iter()).all(|(old, new)| Arc::ptr_eq(old, new)));
    let change = set(&writer, "/app/b", vec![3; 50_000]);
    let bytes = received(&server, &sessions, change).await;
    assert!((50_000..52_000).contains(&bytes), "{bytes} bytes");
    assert_is_tree(&cache.snapshot(), &server);
}

/// The list of a node changes, and still permits to read it.
#[tokio::test(start_paused = true)]
async fn only_the_first_gap_after_set_acl_reads_large_data() {
    let (server, writer, sessions, cache) = cached_large().await;
    let mut changes = cache.changes();
    let before = cache.snapshot();
    let acl = [Acl::world(Perms::READ)];
    disconnected(&server, &sessions, writer.set_acl("/app/a", &acl, None)).await;
    let bytes = received(&server, &sessions, async {}).await;
    assert!(bytes < 2_000, "{bytes} bytes");
    let (old, after) = (before.get("/app/a").unwrap(), cache.snapshot());
    let new = after.get("/app/a").unwrap();
    assert_eq!((old.stat().aversion, new.stat().aversion), (0, 1));
    assert_eq!(old.data().as_ptr(), new.data().as_ptr(), "the data is not copied");
    assert_eq!(before.bytes(), after.bytes());
    assert_eq!(words(&mut changes).await, ["stale", "synced", "stale", "synced"]);
}

#[tokio::test(start_paused = true)]
async fn load_sends_many_reads_in_one_request() {
    let (_server, writer, sessions) = tree(&["/app"]).await;
    for number in 0..1_000 {
        let path = format!("/app/{number}");
        writer.create(&path, b"", CreateMode::Persistent).await.unwrap();
    }
    let start = sessions.client().stats().frames_sent;
    let cache = Cache::tree(&sessions, "/app").open().await.unwrap();
    assert_eq!(cache.snapshot().len(), 1_001);
    // The watch, the root, its children, and sixteen requests of at most 64 nodes.
    assert_eq!(sessions.client().stats().frames_sent - start, 19);
}

#[tokio::test(start_paused = true)]
async fn overflow_of_events_leads_to_another_walk() {
    let (server, writer, _sessions, cache) = cached(&["/app"]).await;
    let mut changes = cache.changes();
    let mut replay = Replay::new(&changes);
    // The task waits for a reply to its first read, and then for its pause, while events arrive.
    server.on(Op::GetData).never_answer();
    let names: Vec<String> = (0..9_000).map(|number| format!("/app/{number}")).collect();
    let created = names.iter().map(|path| writer.create(path, b"", CreateMode::Persistent));
    futures::future::try_join_all(created).await.unwrap();
    pass(3 * T).await; // in which the session gives up the silent connection
    synced(&cache).await;
    assert_is_tree(&cache.snapshot(), &server);
    replay.apply_all(&mut changes);
    replay.assert_same(&cache.snapshot());
}

#[tokio::test(start_paused = true)]
async fn cache_starts_before_its_session_is_connected() {
    let (server, _writer, sessions) = tree(&TREE).await;
    server.refuse_connects(0);
    cut(&server, &sessions);
    let cache = Cache::tree(&sessions, "/app").start().unwrap();
    let mut changes = cache.changes();
    settle().await;
    assert_eq!(cache.status(), CacheStatus::Loading);
    assert!(cache.snapshot().is_empty());
    server.accept_connects(0);
    synced(&cache).await;
    let seen = words(&mut changes).await;
    assert_eq!(seen, ["created /app", "created /app/a", "created /app/b", "synced"]);
}

#[tokio::test(start_paused = true)]
async fn closed_manager_stops_the_cache() {
    let (_server, _writer, sessions, cache) = cached(&TREE).await;
    let mut changes = cache.changes();
    sessions.close().await;
    settle().await;
    let CacheStatus::Stopped(CacheError::Client(error)) = cache.status() else {
        panic!("{:?}", cache.status());
    };
    assert!(error.to_string().contains("closed"), "{error}");
    assert_eq!(changes.next().await, Some(Change::Stale));
    assert_eq!(changes.next().await, Some(Change::Stopped(CacheError::Client(error))));
    assert_eq!(changes.next().await, None);
    assert_eq!(cache.snapshot().len(), 3, "the last known nodes");
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// The task of the second cache is dropped before it has run.
#[test]
fn cache_stops_with_its_runtime() {
    let runtime = runtime();
    let (_server, _writer, sessions, cache) = runtime.block_on(cached(&TREE));
    drop(runtime);
    let late = Cache::tree(&sessions, "/app").start().unwrap();
    for cache in [cache, late] {
        assert_eq!(cache.status(), CacheStatus::Stopped(CacheError::TaskEnded));
    }
}

#[tokio::test(start_paused = true)]
async fn panicking_filter_stops_the_cache() {
    let (_server, _writer, sessions) = tree(&TREE).await;
    let filter = |path: &str| path != "/app/b" || panic!("the filter's own fault");
    let error = Cache::tree(&sessions, "/app").filter(filter).open().await.unwrap_err();
    assert_eq!(error, CacheError::TaskEnded);
}

/// The cache runs on the runtime of the session, also without a runtime of the caller.
#[test]
fn cache_outlives_the_runtime_that_started_it() {
    for has_own in [false, true] {
        let sessions_runtime = runtime();
        let (_server, writer, sessions) = sessions_runtime.block_on(tree(&TREE));
        let own = has_own.then(runtime);
        let cache = {
            let _own = own.as_ref().map(Runtime::enter);
            Cache::tree(&sessions, "/app").start().unwrap()
        };
        drop(own);
        sessions_runtime.block_on(async {
            cache.wait_until_synced().await.unwrap();
            let mut changes = cache.changes();
            set(&writer, "/app/a", b"new").await;
            assert!(matches!(changes.next().await, Some(Change::DataChanged { .. })));
        });
    }
}
