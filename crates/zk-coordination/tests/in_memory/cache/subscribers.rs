//! Subscribers, and the end of a cache.

use std::sync::{Arc, Weak};

use zk_coordination::session::{Client, SessionManager};
use zk_coordination::{Cache, CacheBuilder, Change, Changes};
use zk_testing::{Op, TestServer};

use super::{Replay, create, disconnected, set, tree, words};
use crate::cancelled::polled_with_yields;
use crate::{settle, settle_watches, watches};

/// A cache of `/app`, and a subscriber.
struct App {
    _server: TestServer,
    _sessions: SessionManager,
    writer: Client,
    cache: Cache,
    changes: Changes,
}

async fn app(options: impl FnOnce(CacheBuilder) -> CacheBuilder) -> App {
    let (server, writer, sessions) = tree(&["/app"]).await;
    let cache = options(Cache::tree(&sessions, "/app")).open().await.unwrap();
    let changes = cache.changes();
    App { _server: server, _sessions: sessions, writer, cache, changes }
}

#[tokio::test(start_paused = true)]
async fn slow_subscriber_starts_again_from_a_snapshot() {
    drop(app(|cache| cache.changes_kept(usize::MAX)).await); // the limit is bounded
    let mut app = app(|cache| cache.changes_kept(4)).await;
    let (writer, changes) = (&app.writer, &mut app.changes);
    let mut replay = Replay::new(changes);
    for number in 0..10 {
        create(writer, &[&format!("/app/{number}")]).await;
        settle().await;
    }
    let Some(missed @ Change::Missed(6)) = changes.next().await else { panic!() };
    assert_eq!(changes.snapshot().unwrap().len(), 11);
    replay.apply(changes, &missed);
    create(writer, &["/app/next"]).await;
    let next = changes.next().await.unwrap();
    assert_eq!(next.path(), Some("/app/next"), "no change is repeated");
    replay.apply(changes, &next);
    replay.assert_same(&app.cache.snapshot());
}

/// The nodes that the cache has replaced count toward its limit as long as a subscriber waits to see
/// them.
#[tokio::test(start_paused = true)]
async fn idle_subscriber_keeps_no_more_than_max_bytes() {
    const MAX: usize = 1 << 20;
    let App { cache, writer, changes: mut idle, .. } = app(|cache| cache.max_bytes(MAX)).await;
    let mut busy = cache.changes();
    let mut seen = Vec::new();
    for number in 0..100_u32 {
        let mut data = vec![0; MAX / 4];
        data[..4].copy_from_slice(&number.to_be_bytes());
        set(&writer, "/app", &data).await;
        assert_eq!(words(&mut busy).await, ["changed /app"]);
        seen.push(Arc::downgrade(cache.snapshot().get("/app").unwrap()));
    }
    let kept = seen.iter().filter_map(Weak::upgrade).map(|node| node.data().len()).sum::<usize>();
    assert!(kept <= MAX + MAX / 4, "{kept} bytes are kept, with the snapshot");
    let Some(Change::Missed(missed @ 90..)) = idle.next().await else { panic!() };
    assert_eq!(idle.snapshot().unwrap().len(), 1, "after {missed} changes");
    set(&writer, "/app", b"small").await;
    assert_eq!(words(&mut idle).await, ["changed /app"]);
    let kept = seen.iter().filter_map(Weak::upgrade).count();
    assert_eq!(kept, 1, "only the snapshot of the subscriber");
}

/// A cache that nobody has any more has not failed.
#[tokio::test(start_paused = true)]
async fn slow_subscriber_of_a_stopped_cache_learns_the_reason() {
    for is_dropped in [false, true] {
        let max = if is_dropped { 100 } else { 3 };
        let mut app = app(|cache| cache.changes_kept(1).max_nodes(max)).await;
        create(&app.writer, &["/app/a", "/app/b", "/app/c"]).await;
        settle().await;
        if is_dropped {
            drop(app.cache);
        } else {
            assert!(matches!(app.changes.next().await, Some(Change::Missed(_))));
            assert!(matches!(app.changes.next().await, Some(Change::Stopped(_))));
        }
        assert!(app.changes.next().await.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn subscriber_keeps_its_snapshot_until_the_first_change() {
    let mut app = app(|cache| cache).await;
    let first = Arc::downgrade(app.changes.snapshot().unwrap());
    create(&app.writer, &["/app/a"]).await;
    settle().await;
    assert!(first.upgrade().is_some());
    app.changes.next().await.unwrap();
    assert!(app.changes.snapshot().is_none() && first.upgrade().is_none());
}

#[tokio::test(start_paused = true)]
async fn change_has_the_node_before_and_after_it() {
    let mut app = app(|cache| cache).await;
    let set = app.writer.set_data("/app", b"new", None).await.unwrap();
    let change = app.changes.next().await.unwrap();
    assert_eq!(&change.old_node().unwrap().data()[..], b"/app");
    assert_eq!(&change.new_node().unwrap().data()[..], b"new");
    assert_eq!((change.mzxid(), *change.new_node().unwrap().stat()), (Some(set.mzxid), set));
    app.writer.delete("/app", None).await.unwrap();
    let change = app.changes.next().await.unwrap();
    assert!(change.new_node().is_none() && change.mzxid() == Some(set.mzxid));
    assert_eq!(Change::Stale.path(), None);
}

#[tokio::test(start_paused = true)]
async fn changes_end_with_the_last_handle() {
    let App { cache, mut changes, writer, .. } = app(|cache| cache).await;
    drop(cache.clone());
    settle().await;
    create(&writer, &["/app/a"]).await;
    assert_eq!(words(&mut changes).await, ["created /app/a"]);
    drop(cache);
    assert_eq!(changes.next().await, None);
}

/// An `open` that is dropped at any await leaves no watch behind.
#[tokio::test(start_paused = true)]
async fn dropped_open_leaves_no_watch() {
    let (server, _writer, sessions) = tree(&["/app", "/app/a", "/app/a/b"]).await;
    for polls in 1..40 {
        drop(polled_with_yields(polls, Cache::tree(&sessions, "/app").open()).await);
        settle_watches().await;
        assert_eq!(watches(&server), 0, "after {polls} polls");
    }
}

#[tokio::test(start_paused = true)]
async fn cache_dropped_without_a_connection_leaves_no_watch() {
    let (server, _writer, sessions) = tree(&[]).await;
    let cache = Cache::tree(&sessions, "/app").open().await.unwrap();
    server.on(Op::GetData).drop_before_applying();
    disconnected(&server, &sessions, async {
        drop(cache);
        settle().await;
    })
    .await;
    settle_watches().await;
    assert!(sessions.client().is_connected());
    assert_eq!(watches(&server), 0);
}
