//! Caches and watched values whose operations are dropped.

use zk_coordination::{Cache, CacheStatus, watch_value};
use zk_testing::{Cut, TestServer};

use super::{drop_after_every_poll, polled_with_yields};
use crate::cache::{assert_is_tree, create, synced, tree, words};
use crate::{client, polled, sessions, settle, settle_watches, watches};

/// A call that is dropped while it opens leaves no watch, and the next one returns the value.
#[tokio::test(start_paused = true)]
async fn dropped_watch_value_leaves_no_watch() {
    for exists in [true, false] {
        drop_after_every_poll(&format!("watch_value, node: {exists}"), async |polls, what| {
            let server = TestServer::in_memory();
            if exists {
                create(&client(&server, 1).await, &["/n"]).await;
            }
            let sessions = sessions(&server, 2).await;
            let expected = exists.then_some(2);
            let open = || watch_value(&sessions, "/n", |data| Some(data.len()));
            let opened = polled_with_yields(polls, open()).await.map(Result::unwrap);
            assert!(opened.as_ref().is_none_or(|value| *value.borrow() == expected), "{what}");
            let is_open = opened.is_some();
            drop(opened);
            settle_watches().await;
            assert_eq!(watches(&server), 0, "{what}");
            assert_eq!(*open().await.unwrap().borrow(), expected, "{what}");
            is_open
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_wait_until_synced_has_no_effect() {
    drop_after_every_poll("wait_until_synced", async |polls, what| {
        let (server, writer, sessions) = tree(&["/app", "/app/a"]).await;
        let cache = Cache::tree(&sessions, "/app").open().await.unwrap();
        let watches_before = watches(&server);
        server.refuse_connects(0);
        server.connection_of(sessions.client().session_id()).cut(Cut::Fin);
        settle().await;
        assert_eq!(cache.status(), CacheStatus::Stale);
        writer.delete("/app/a", None).await.unwrap();
        server.accept_connects(0);

        let done = polled(polls, cache.wait_until_synced()).await;
        assert!(done.as_ref().is_none_or(Result::is_ok), "{done:?}");
        assert!(done.is_none() || cache.status() == CacheStatus::Synced);
        synced(&cache).await;
        assert_is_tree(&cache.snapshot(), &server);
        assert_eq!(watches(&server), watches_before, "{what}");
        done.is_some()
    })
    .await;
}

/// The futures are dropped before, during and after the arrival of each change.
#[tokio::test(start_paused = true)]
async fn dropped_next_loses_no_change() {
    for polls in 0..12 {
        let (server, writer, sessions) = tree(&["/app"]).await;
        let cache = Cache::tree(&sessions, "/app").open().await.unwrap();
        let watches_before = watches(&server);
        let mut changes = cache.changes();
        let (mut seen, mut expected) = (Vec::new(), Vec::new());
        for number in 0..8 {
            let path = format!("/app/{number}");
            create(&writer, &[&path]).await;
            let next = polled_with_yields(polls, changes.next()).await;
            seen.extend(next.map(|change| format!("created {}", change.unwrap().path().unwrap())));
            expected.push(format!("created {path}"));
        }
        assert_eq!(polls > 0, !seen.is_empty(), "{polls} polls: {seen:?}");
        seen.extend(words(&mut changes).await);
        assert_eq!(seen, expected, "{polls} polls");
        settle_watches().await;
        assert_eq!(watches(&server), watches_before, "{polls} polls");
    }
}
