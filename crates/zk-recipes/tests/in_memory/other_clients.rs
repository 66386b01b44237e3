//! Bugs of the other Rust clients, each by its number in the list of observed bugs.
//!
//! K stands for `zookeeper-client` 0.11, A for `zookeeper-async` 5.0. The bugs of their decoders
//! (K7 to K9, A6) are in `zk-proto/tests/other_clients.rs`. K10 is unsafe code, and there is none
//! here.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use zk_recipes::session::{CreateMode, ErrorKind, SessionEvent};
use zk_recipes::{LockError, LossReason, Mutex};
use zk_testing::{Cut, Op, TestServer};

use crate::{T, config, cut_off, started};

/// Lets all tasks run until they wait for time to pass.
async fn settle() {
    // reason: the paused clock advances when no task is ready
    tokio::time::sleep(Duration::from_millis(50)).await;
}

fn contenders(server: &TestServer) -> usize {
    server.with(|ensemble| ensemble.tree().node("/lock").map_or(0, |node| node.children().count()))
}

#[tokio::test(start_paused = true)]
async fn k2_session_survives_more_watched_paths_than_fit_a_frame() {
    let (server, [watcher, writer]) = started().await;
    let path = |n: u32| format!("/{n:0>200}");
    let mut watches = Vec::new();
    for n in 0..2_000 {
        watches.push(watcher.exists_and_watch(&path(n)).await.unwrap().1);
    }
    let session_id = watcher.session_id();
    let mut events = watcher.events();
    server.connection_of(session_id).cut(Cut::Rst);
    while !matches!(events.next().await, Some(SessionEvent::Reconnected { .. })) {}
    assert_eq!(watcher.exists(&path(0)).await.unwrap(), None);
    assert_eq!(watcher.session_id(), session_id);
    for n in [0, 1_999] {
        writer.create(&path(n), b"", CreateMode::Persistent).await.unwrap();
        watches.remove(if n == 0 { 0 } else { watches.len() - 1 }).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn k4_unlock_completes_when_the_connection_breaks() {
    for how in [Cut::Fin, Cut::Rst, Cut::Silence] {
        let (server, [client]) = started().await;
        let guard = Mutex::new(&client, "/lock").unwrap().acquire().await.unwrap();
        server.on(Op::Delete).cut_request_after(7, how);
        drop(guard);
        while contenders(&server) > 0 {
            settle().await;
        }
        assert!(client.end_reason().is_none(), "{how:?}: by the session, not by its end");
    }
}

#[tokio::test(start_paused = true)]
async fn k11_queued_requests_fail_at_a_limit() {
    let (server, [client]) = started().await;
    cut_off(&server, &client).await;
    let data = vec![0; 900_000];
    let mut queued = Vec::new();
    let refused = loop {
        let mut write = Box::pin(client.set_data("/a", &data, None));
        match poll_fn(|cx| Poll::Ready(write.as_mut().poll(cx))).await {
            Poll::Pending => queued.push(write),
            Poll::Ready(answer) => break answer.unwrap_err(),
        }
        assert!(queued.len() < 1_000, "without a bound");
    };
    assert!(matches!(refused.kind(), ErrorKind::LimitReached(_)), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn k12_fired_and_dropped_watches_are_forgotten() {
    let (_server, [client]) = started().await;
    for n in 0..100 {
        let path = format!("/n{n}");
        client.create(&path, b"", CreateMode::Persistent).await.unwrap();
        let (_, fires) = client.get_data_and_watch(&path).await.unwrap();
        let (_, dropped) = client.get_data_and_watch("/").await.unwrap();
        drop(dropped);
        client.delete(&path, None).await.unwrap();
        fires.await.unwrap();
    }
    // reason: virtual time, in which the last removal is sent
    tokio::time::sleep(Duration::from_secs(1)).await;
    let stats = client.stats();
    assert_eq!((stats.in_flight, stats.queued), (0, 0), "{stats:?}");
    assert_eq!(stats.one_shot_watches, 0, "{stats:?}");
}

#[tokio::test(start_paused = true)]
async fn a4_expired_session_stays_ended_and_its_lock_is_lost() {
    let (server, [client]) = started().await;
    let guard = Mutex::new(&client, "/lock").unwrap().acquire().await.unwrap();
    let session_id = client.session_id();
    server.expire(session_id);
    assert!(matches!(guard.lost().await, LossReason::SessionEnded(_)));
    let told = client.create("/a", b"", CreateMode::Ephemeral).await.unwrap_err();
    assert!(matches!(told.kind(), ErrorKind::SessionEnded(_)), "{told}");
    assert_eq!(client.session_id(), session_id, "no other one in its place");
    assert!(matches!(guard.release().await, Err(LockError::Lost(_))));
}

#[tokio::test(start_paused = true)]
async fn a7_failed_unlock_errors_and_short_timeout_keeps_connection() {
    let server = TestServer::in_memory();
    let client = config(1)
        .session_timeout(Duration::from_millis(900))
        .connector(server.clone())
        .connect()
        .await
        .unwrap();
    let guard = Mutex::new(&client, "/lock").unwrap().acquire().await.unwrap();
    // reason: virtual time, in which a storm of reconnects would show
    tokio::time::sleep(T).await;
    assert_eq!(client.stats().connections_lost, 0);
    server.expire(client.session_id());
    assert!(guard.release().await.is_err());
}
