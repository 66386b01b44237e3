//! Lost connections, expired sessions, and the reads after them.

use std::time::Duration;

use zk_coordination::session::{
    Acl, Client, Config, CreateMode, ErrorCode, ErrorKind, Limit, OPEN_ACL_UNSAFE, Perms, RetryOn,
    SessionManager,
};
use zk_coordination::{Cache, CacheError, CacheStatus, Change, watch_value};
use zk_testing::{Cut, Op, Settings, TestServer};

use super::{Replay, assert_is_tree, create, synced, words};
use crate::{T, client, config, sessions, settle};

async fn with_cache(server: &TestServer) -> (Client, SessionManager, Cache) {
    let writer = client(server, 1).await;
    create(&writer, &["/app", "/app/a", "/app/b"]).await;
    let sessions = sessions(server, 2).await;
    let cache = Cache::tree(&sessions, "/app").open().await.unwrap();
    (writer, sessions, cache)
}

/// Returns a cache on the first of two servers. The second one is read-only, and its tree stays as it is.
async fn with_lagging_server(server: &TestServer) -> (SessionManager, Cache) {
    let hosts = Config::new("server-0:1,server-1:1").unwrap();
    let hosts = hosts.session_timeout(T).seed(2).allow_read_only();
    server.refuse_connects(1);
    let sessions = SessionManager::connect(hosts.connector(server.clone())).await.unwrap();
    let cache = Cache::tree(&sessions, "/app").open().await.unwrap();
    server.freeze_view(1);
    server.make_read_only(1);
    (sessions, cache)
}

/// Keeps the cache without a connection while `change` runs.
async fn disconnected(server: &TestServer, sessions: &SessionManager, change: impl Future) {
    server.refuse_connects(0);
    server.connection_of(sessions.client().session_id()).cut(Cut::Fin);
    settle().await;
    change.await;
    server.accept_connects(0);
    // reason: the client reconnects in virtual time
    tokio::time::sleep(T / 4).await;
}

#[tokio::test(start_paused = true)]
async fn cache_is_stale_from_the_loss_to_the_end_of_the_walk() {
    let server = TestServer::in_memory();
    let (writer, sessions, cache) = with_cache(&server).await;
    let mut changes = cache.changes();
    let change = async {
        assert_eq!(cache.status(), CacheStatus::Stale, "before the reconnect");
        assert_eq!(words(&mut changes).await, ["stale"]);
        create(&writer, &["/app/c", "/app/c/d"]).await;
        writer.set_data("/app/b", b"new", None).await.unwrap();
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
    let full = config(1).max_watches(0).connector(server.clone());
    let sessions = SessionManager::connect(full).await.unwrap();
    let reached = |error: &CacheError| {
        let CacheError::Client(failed) = error else { return false };
        *failed.kind() == ErrorKind::LimitReached(Limit::Watches)
            && error.retry_on() == RetryOn::SameSession
    };
    let opened = tokio::time::timeout(T, Cache::tree(&sessions, "/app").open()).await;
    assert!(opened.expect("an answer").is_err_and(|error| reached(&error)));
    let opened = tokio::time::timeout(T, watch_value(&sessions, "/app", |_| Some(()))).await;
    assert!(opened.expect("an answer").is_err_and(|error| reached(&error)));
}

/// Another watch takes the only place on the next session before the cache does.
#[tokio::test(start_paused = true)]
async fn stale_cache_waits_for_a_free_watch() {
    let server = TestServer::in_memory();
    let one = config(1).max_watches(1).connector(server.clone());
    let sessions = SessionManager::connect(one).await.unwrap();
    let cache = Cache::tree(&sessions, "/app").open().await.unwrap();
    server.on(Op::AddWatch).answer(ErrorCode::THROTTLED_OP);
    server.expire(sessions.client().session_id());
    settle().await;
    let (_, other) =
        sessions.open_client().await.unwrap().exists_and_watch("/other").await.unwrap();
    // reason: virtual time, in which the cache tries again
    tokio::time::sleep(T).await;
    assert_eq!(cache.status(), CacheStatus::Stale);
    drop(other);
    synced(&cache).await;
}

/// The pause after a failed read must not delay the report.
#[tokio::test(start_paused = true)]
async fn cache_is_stale_at_once_with_a_read_in_flight() {
    let server = TestServer::in_memory();
    let (writer, sessions, cache) = with_cache(&server).await;
    server.on(Op::GetData).never_answer();
    writer.set_data("/app/a", b"new", None).await.unwrap();
    settle().await;
    server.refuse_connects(0);
    server.connection_of(sessions.client().session_id()).cut(Cut::Fin);
    settle().await;
    assert_eq!(cache.status(), CacheStatus::Stale);
}

#[tokio::test(start_paused = true)]
async fn next_session_continues_the_cache() {
    let server = TestServer::in_memory();
    let (writer, sessions, cache) = with_cache(&server).await;
    let mut changes = cache.changes();
    let first = sessions.client().session_id();
    server.expire(first);
    writer.set_data("/app/b", b"new", None).await.unwrap();
    // reason: the manager opens the next session in virtual time
    tokio::time::sleep(T).await;
    assert_eq!(words(&mut changes).await, ["stale", "changed /app/b", "synced"]);
    assert_ne!(sessions.client().session_id(), first);
    writer.set_data("/app/b", b"newer", None).await.unwrap();
    assert_eq!(words(&mut changes).await, ["changed /app/b"]);
}

/// A read-only server opens a session without the leader, and may lag behind what the cache has
/// shown.
#[tokio::test(start_paused = true)]
async fn next_session_on_a_read_only_server_does_not_go_back() {
    let server = TestServer::in_memory_with(Settings::new().servers(2));
    let writer = config(1).connector(server.clone()).connect().await.unwrap();
    create(&writer, &["/app", "/app/a"]).await;
    let (sessions, cache) = with_lagging_server(&server).await;
    writer.set_data("/app/a", b"new", None).await.unwrap();
    create(&writer, &["/app/b"]).await;
    settle().await;
    let mut changes = cache.changes();
    server.accept_connects(1);
    server.refuse_connects(0);
    let first = sessions.client();
    server.expire(first.session_id());
    // reason: the manager opens the next session in virtual time
    tokio::time::sleep(4 * T).await;
    assert!(sessions.client().is_read_only() && !sessions.client().is_same_session(&first));
    assert_eq!(words(&mut changes).await, ["stale"]);
    server.accept_connects(0);
    // reason: the session finds the other server in virtual time
    tokio::time::sleep(20 * T).await;
    assert_eq!(words(&mut changes).await, ["synced"]);
    assert_is_tree(&cache.snapshot(), &server);
}

/// The snapshot of a deleted root is empty, and is newer than the tree of the lagging server.
#[tokio::test(start_paused = true)]
async fn deleted_root_stays_deleted_on_a_lagging_server() {
    let server = TestServer::in_memory_with(Settings::new().servers(2));
    let writer = config(1).connector(server.clone()).connect().await.unwrap();
    create(&writer, &["/app"]).await;
    let (sessions, cache) = with_lagging_server(&server).await;
    writer.delete("/app", None).await.unwrap();
    settle().await;
    assert!(cache.snapshot().is_empty());
    let mut changes = cache.changes();
    server.accept_connects(1);
    server.refuse_connects(0);
    server.expire(sessions.client().session_id());
    // reason: the manager opens the next session in virtual time
    tokio::time::sleep(4 * T).await;
    assert!(sessions.client().is_read_only());
    assert_eq!(words(&mut changes).await, ["stale"]);
    assert!(cache.snapshot().is_empty());
}

/// The server sends the Stat of a node to everyone, and its data only to those who may read it.
#[tokio::test(start_paused = true)]
async fn gap_notices_a_changed_acl_of_a_node_with_much_data() {
    let server = TestServer::in_memory();
    let (writer, sessions, cache) = with_cache(&server).await;
    writer.set_data("/app/a", vec![1; 50_000], None).await.unwrap();
    settle().await;
    let mut changes = cache.changes();
    let hidden = [Acl { perms: Perms::ADMIN, ..OPEN_ACL_UNSAFE[0].clone() }];
    disconnected(&server, &sessions, writer.set_acl("/app/a", &hidden, None)).await;
    assert_eq!(words(&mut changes).await, ["stale", "unreadable /app/a", "synced"]);
    disconnected(&server, &sessions, writer.set_acl("/app/a", OPEN_ACL_UNSAFE, None)).await;
    assert_eq!(words(&mut changes).await, ["stale", "created /app/a", "synced"]);
    assert_is_tree(&cache.snapshot(), &server);
}

/// Unchanged data is not sent again if it is large, and stays the same in memory in any case.
#[tokio::test(start_paused = true)]
async fn gap_reads_large_data_again_only_if_it_changed() {
    let server = TestServer::in_memory();
    let (writer, sessions, cache) = with_cache(&server).await;
    writer.set_data("/app/a", vec![1; 50_000], None).await.unwrap();
    writer.set_data("/app/b", vec![2; 50_000], None).await.unwrap();
    settle().await;
    let before = cache.snapshot();
    let received = || sessions.client().stats().bytes_received;
    let start = received();
    disconnected(&server, &sessions, async {}).await;
    assert!(received() - start < 2_000, "{} bytes", received() - start);
    let after = cache.snapshot();
    assert!(before.iter().zip(after.iter()).all(|(old, new)| std::sync::Arc::ptr_eq(old, new)));
    let start = received();
    disconnected(&server, &sessions, writer.set_data("/app/b", vec![3; 50_000], None)).await;
    assert!((50_000..52_000).contains(&(received() - start)), "{} bytes", received() - start);
    assert_is_tree(&cache.snapshot(), &server);
}

/// The list of a node changes, and still permits to read it.
#[tokio::test(start_paused = true)]
async fn only_the_first_gap_after_set_acl_reads_large_data() {
    let server = TestServer::in_memory();
    let (writer, sessions, cache) = with_cache(&server).await;
    writer.set_data("/app/a", vec![1; 50_000], None).await.unwrap();
    settle().await;
    let mut changes = cache.changes();
    let before = cache.snapshot();
    let acl = [Acl::world(Perms::READ)];
    disconnected(&server, &sessions, writer.set_acl("/app/a", &acl, None)).await;
    let received = || sessions.client().stats().bytes_received;
    let start = received();
    disconnected(&server, &sessions, async {}).await;
    assert!(received() - start < 2_000, "{} bytes", received() - start);
    let (old, after) = (before.get("/app/a").unwrap(), cache.snapshot());
    let new = after.get("/app/a").unwrap();
    assert_eq!((old.stat().aversion, new.stat().aversion), (0, 1));
    assert_eq!(old.data().as_ptr(), new.data().as_ptr(), "the data is not copied");
    assert_eq!(before.bytes(), after.bytes());
    assert_eq!(words(&mut changes).await, ["stale", "synced", "stale", "synced"]);
}

#[tokio::test(start_paused = true)]
async fn load_sends_many_reads_in_one_request() {
    let server = TestServer::in_memory();
    let writer = client(&server, 1).await;
    create(&writer, &["/app"]).await;
    for number in 0..1_000 {
        let path = format!("/app/{number}");
        writer.create(&path, b"", CreateMode::Persistent).await.unwrap();
    }
    let sessions = sessions(&server, 2).await;
    let sent = || sessions.client().stats().frames_sent;
    let start = sent();
    let cache = Cache::tree(&sessions, "/app").open().await.unwrap();
    assert_eq!(cache.snapshot().len(), 1_001);
    // The watch, the root, its children, and sixteen requests of at most 64 nodes.
    assert_eq!(sent() - start, 19);
}

#[tokio::test(start_paused = true)]
async fn overflow_of_events_leads_to_another_walk() {
    let server = TestServer::in_memory();
    let writer = client(&server, 1).await;
    create(&writer, &["/app"]).await;
    let sessions = sessions(&server, 2).await;
    let cache = Cache::tree(&sessions, "/app").open().await.unwrap();
    let mut changes = cache.changes();
    let mut replay = Replay::new(changes.snapshot().unwrap());
    // The task waits for a reply to its first read, and then for its pause, while events arrive.
    server.on(Op::GetData).never_answer();
    let names: Vec<String> = (0..9_000).map(|number| format!("/app/{number}")).collect();
    let created: Vec<_> =
        names.iter().map(|path| writer.create(path, b"", CreateMode::Persistent)).collect();
    for created in created {
        created.await.unwrap();
    }
    // reason: the session gives up the silent connection in virtual time
    tokio::time::sleep(3 * T).await;
    synced(&cache).await;
    assert_is_tree(&cache.snapshot(), &server);
    while let Some(Some(change)) = futures::FutureExt::now_or_never(changes.next()) {
        replay.apply(&changes, &change);
    }
    replay.assert_same(&cache.snapshot());
}

#[tokio::test(start_paused = true)]
async fn cache_starts_before_its_session_is_connected() {
    let server = TestServer::in_memory();
    let (_writer, sessions, first) = with_cache(&server).await;
    drop(first);
    server.refuse_connects(0);
    server.connection_of(sessions.client().session_id()).cut(Cut::Fin);
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
    let server = TestServer::in_memory();
    let (_writer, sessions, cache) = with_cache(&server).await;
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

#[test]
fn cache_stops_with_its_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let cache = runtime.block_on(async {
        let server = TestServer::in_memory();
        let (_writer, _sessions, cache) = with_cache(&server).await;
        cache
    });
    drop(runtime);
    assert_eq!(cache.status(), CacheStatus::Stopped(CacheError::TaskEnded));
}

/// Its task is dropped before it has run.
#[test]
fn cache_of_sessions_without_a_runtime_has_stopped() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = runtime.block_on(async { TestServer::in_memory() });
    let (_writer, sessions, _first) = runtime.block_on(with_cache(&server));
    drop(runtime);
    let cache = Cache::tree(&sessions, "/app").start().unwrap();
    assert_eq!(cache.status(), CacheStatus::Stopped(CacheError::TaskEnded));
}

#[tokio::test(start_paused = true)]
async fn panicking_filter_stops_the_cache() {
    let server = TestServer::in_memory();
    let (_writer, sessions, _) = with_cache(&server).await;
    let filter = |path: &str| path != "/app/b" || panic!("the filter's own fault");
    let error = Cache::tree(&sessions, "/app").filter(filter).open().await.unwrap_err();
    assert_eq!(error, CacheError::TaskEnded);
}

/// Without a runtime of the caller, the cache runs on that of the session.
#[test]
fn cache_starts_outside_a_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = runtime.block_on(async { TestServer::in_memory() });
    let (_writer, sessions, first) = runtime.block_on(with_cache(&server));
    let cache = Cache::tree(&sessions, "/app").start().unwrap();
    runtime.block_on(cache.wait_until_synced()).unwrap();
    assert_eq!(cache.snapshot().len(), first.snapshot().len());
}

#[test]
fn cache_outlives_the_runtime_that_started_it() {
    let sessions_runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = sessions_runtime.block_on(async { TestServer::in_memory() });
    let (writer, sessions, first) = sessions_runtime.block_on(with_cache(&server));
    drop(first);
    let callers_runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let cache = {
        let _callers = callers_runtime.enter();
        Cache::tree(&sessions, "/app").start().unwrap()
    };
    drop(callers_runtime);
    sessions_runtime.block_on(async {
        cache.wait_until_synced().await.unwrap();
        let mut changes = cache.changes();
        writer.set_data("/app/a", b"new", None).await.unwrap();
        assert!(matches!(changes.next().await, Some(Change::DataChanged { .. })));
    });
}

#[tokio::test(start_paused = true)]
async fn cache_goes_on_after_a_long_outage() {
    let server = TestServer::in_memory();
    let (writer, sessions, cache) = with_cache(&server).await;
    let change = async {
        // reason: the outage, in virtual time
        tokio::time::sleep(20 * T).await;
        create(&writer, &["/app/late"]).await;
    };
    disconnected(&server, &sessions, change).await;
    // reason: the manager pauses between its attempts, in virtual time
    tokio::time::sleep(Duration::from_secs(30)).await;
    synced(&cache).await;
    assert_is_tree(&cache.snapshot(), &server);
}
