//! The barrier that one client sets and others wait for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use zk_coordination::session::{Client, CreateMode, ErrorCode, RetryOn};
use zk_coordination::{Barrier, BarrierError};
use zk_testing::server::NodeKind;
use zk_testing::{Cut, Op, TestServer};

use crate::{
    MS, T, all, client_of_all, clients, cut_off, data, kind, lose, polled, settle, settle_watches,
    watches,
};

fn barrier(client: &Client) -> Barrier {
    Barrier::new(client, "/b").unwrap()
}

fn waiting(barrier: Barrier) -> JoinHandle<Result<(), BarrierError>> {
    tokio::spawn(async move { barrier.wait().await })
}

#[tokio::test(start_paused = true)]
async fn removal_wakes_all_waiters() {
    let (_server, clients) = clients::<9>().await;
    let setter = barrier(&clients[0]);
    setter.set().await.unwrap();
    setter.set().await.unwrap();
    assert!(setter.is_set().await.unwrap());
    let waiters = clients.each_ref().map(|client| waiting(barrier(client)));
    settle().await;
    assert!(waiters.iter().all(|waiting| !waiting.is_finished()));
    setter.remove().await.unwrap();
    setter.remove().await.unwrap();
    all(waiters).await;
    assert!(!setter.is_set().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn barrier_has_the_layout_of_curator() {
    let (server, [client]) = clients().await;
    let barrier = Barrier::new(&client, "/a/b").unwrap();
    barrier.wait().await.unwrap();
    barrier.set().await.unwrap();
    assert_eq!(kind(&server, "/a/b"), NodeKind::Persistent);
    assert_eq!(kind(&server, "/a"), NodeKind::Container);
}

/// In CURATOR-654, the watch of a wait that has timed out stays.
#[tokio::test(start_paused = true)]
async fn curator_654_timed_out_wait_leaves_no_watch() {
    let (server, [client]) = clients().await;
    let barrier = barrier(&client);
    barrier.set().await.unwrap();
    assert!(!barrier.wait_timeout(T).await.unwrap());
    settle_watches().await;
    assert_eq!(watches(&server), 0);
    for polls in 1..6 {
        drop(polled(polls, tokio::time::timeout(T, barrier.wait())).await);
        settle_watches().await;
        assert_eq!(watches(&server), 0, "a wait that is dropped after {polls} polls");
    }
    barrier.remove().await.unwrap();
    assert!(barrier.wait_timeout(T).await.unwrap());
    settle_watches().await;
    assert_eq!(watches(&server), 0, "a barrier that is not set leaves none either");
}

/// Curator's `waitOnBarrier(0)` reads the barrier, too.
#[tokio::test(start_paused = true)]
async fn zero_timeout_reads_the_barrier_at_any_round_trip() {
    for round_trip in [5, 50, 500].map(Duration::from_millis) {
        let (server, [client]) = clients().await;
        let barrier = barrier(&client);
        drop(server.on_any_request().always().delay(round_trip));
        assert!(barrier.wait_timeout(Duration::ZERO).await.unwrap(), "{round_trip:?}");
        barrier.set().await.unwrap();
        assert!(!barrier.wait_timeout(Duration::ZERO).await.unwrap(), "{round_trip:?}");
        barrier.remove().await.unwrap();
        assert!(barrier.wait_timeout(Duration::ZERO).await.unwrap(), "{round_trip:?}");
        settle_watches().await;
        assert_eq!(watches(&server), 0);
        cut_off(&server);
        settle().await;
        let at_once = tokio::time::timeout(Duration::ZERO, barrier.wait_timeout(Duration::ZERO));
        assert!(!at_once.await.expect("without a wait").unwrap(), "no connection");
    }
}

#[tokio::test(start_paused = true)]
async fn wait_goes_on_over_reconnects() {
    let (server, [one, other]) = clients().await;
    let setter = barrier(&other);
    setter.set().await.unwrap();
    server.on(Op::Exists).drop_before_applying();
    server.on(Op::Exists).apply_then_drop_reply();
    let waiting = waiting(barrier(&one));
    settle().await;
    server.connection_of(one.session_id()).cut(Cut::Rst);
    settle().await;
    other.set_data("/b", b"changed", None).await.unwrap();
    settle().await;
    assert!(!waiting.is_finished());
    server.refuse_connects(0);
    server.connection_of(one.session_id()).cut(Cut::Rst);
    setter.remove().await.unwrap();
    settle().await;
    server.accept_connects(0);
    waiting.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn lost_replies_to_set_and_remove_do_no_harm() {
    let (server, [client]) = clients().await;
    let barrier = barrier(&client);
    for is_applied in [true, false] {
        for op in [Op::Create2, Op::Delete] {
            lose(server.on(op), is_applied);
        }
        barrier.set().await.unwrap();
        assert!(barrier.is_set().await.unwrap());
        barrier.remove().await.unwrap();
        assert!(!barrier.is_set().await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn waiter_fails_when_its_session_expires() {
    let (server, [client]) = clients().await;
    let barrier = barrier(&client);
    barrier.set().await.unwrap();
    let waiting = waiting(barrier);
    settle().await;
    server.expire(client.session_id());
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!(error.retry_on(), RetryOn::NewSession, "{error}");
    assert!(data(&server, "/b").is_some(), "the barrier is still set");
}

#[tokio::test(start_paused = true)]
async fn barrier_reports_rejected_requests() {
    let (server, [client]) = clients().await;
    let barrier = barrier(&client);
    client.create("/b", b"", CreateMode::Persistent).await.unwrap();
    client.create("/b/child", b"", CreateMode::Persistent).await.unwrap();
    let BarrierError::Client(error) = barrier.remove().await.unwrap_err() else { panic!() };
    assert_eq!(error.code(), Some(ErrorCode::NOT_EMPTY));
    server.on(Op::Exists).answer(ErrorCode::NO_AUTH);
    let BarrierError::Client(error) = barrier.wait().await.unwrap_err() else { panic!() };
    assert_eq!(error.code(), Some(ErrorCode::NO_AUTH));
}

/// A server that lags shows no barrier. Without a `sync`, its clients pass.
#[tokio::test(start_paused = true)]
async fn set_barrier_stops_waiters_on_any_server() {
    let server = TestServer::ensemble(3);
    let setter = barrier(&client_of_all(&server, 1).await);
    let is_set = Arc::new(AtomicBool::new(false));
    let mut waiting = Vec::new();
    for seed in 2..8 {
        let is_set = is_set.clone();
        let barrier = barrier(&client_of_all(&server, seed).await);
        waiting.push(tokio::spawn(async move {
            loop {
                let was_set = is_set.load(Ordering::SeqCst);
                barrier.wait().await.unwrap();
                let passed_while_set = was_set && is_set.load(Ordering::SeqCst);
                assert!(!passed_while_set, "seed {seed}");
                // reason: virtual time, between two waits
                tokio::time::sleep(3 * MS).await;
            }
        }));
    }
    for round in 0..20 {
        server.lag(1, 20 * MS * (round % 3));
        server.lag(2, 50 * MS);
        setter.set().await.unwrap();
        is_set.store(true, Ordering::SeqCst);
        settle().await;
        is_set.store(false, Ordering::SeqCst);
        setter.remove().await.unwrap();
        settle().await;
    }
    for waiting in waiting {
        assert!(!waiting.is_finished(), "{:?}", waiting.await);
        waiting.abort();
    }
}
