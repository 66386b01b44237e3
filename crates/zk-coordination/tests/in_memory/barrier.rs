//! The barrier that one client sets and others wait for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use zk_coordination::session::{CreateMode, ErrorCode, RetryOn};
use zk_coordination::{Barrier, BarrierError};
use zk_testing::server::NodeKind;
use zk_testing::{Cut, Op, TestServer};

use crate::{T, client, client_of_three, polled, settle};

/// Waits until the session has removed the watches that nobody needs.
pub(crate) async fn settle_watches() {
    // reason: virtual time, in which the session removes watches
    tokio::time::sleep(T / 2).await;
}

fn watches(server: &TestServer) -> usize {
    server.with(|ensemble| ensemble.watches(0))
}

#[tokio::test(start_paused = true)]
async fn removal_wakes_all_waiters() {
    let server = TestServer::in_memory();
    let setter = Barrier::new(&client(&server, 1).await, "/barriers/b").unwrap();
    setter.set().await.unwrap();
    setter.set().await.unwrap();
    assert!(setter.is_set().await.unwrap());
    let mut waiting = Vec::new();
    for seed in 2..10 {
        let barrier = Barrier::new(&client(&server, seed).await, "/barriers/b").unwrap();
        waiting.push(tokio::spawn(async move { barrier.wait().await }));
    }
    settle().await;
    assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
    setter.remove().await.unwrap();
    setter.remove().await.unwrap();
    for waiting in waiting {
        waiting.await.unwrap().unwrap();
    }
    assert!(!setter.is_set().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn barrier_has_the_layout_of_curator() {
    let server = TestServer::in_memory();
    let barrier = Barrier::new(&client(&server, 1).await, "/a/b").unwrap();
    barrier.wait().await.unwrap();
    barrier.set().await.unwrap();
    server.with(|ensemble| {
        let kind = |path| ensemble.tree().node(path).unwrap().kind();
        assert_eq!(kind("/a/b"), NodeKind::Persistent);
        assert_eq!(kind("/a"), NodeKind::Container);
    });
}

#[tokio::test(start_paused = true)]
async fn zero_timeout_looks_once_over_any_distance() {
    for round_trip in [5, 500].map(Duration::from_millis) {
        let server = TestServer::in_memory();
        let client = client(&server, 1).await;
        let barrier = Barrier::new(&client, "/b").unwrap();
        drop(server.on_any_request().always().delay(round_trip));
        assert!(barrier.wait_timeout(Duration::ZERO).await.unwrap(), "{round_trip:?}");
        barrier.set().await.unwrap();
        assert!(!barrier.wait_timeout(Duration::ZERO).await.unwrap(), "{round_trip:?}");
        server.refuse_connects(0);
        server.connection_of(client.session_id()).cut(Cut::Rst);
        settle().await;
        assert!(!barrier.wait_timeout(Duration::ZERO).await.unwrap(), "without a connection");
    }
}

/// In CURATOR-654, the watch of a wait that has timed out stays.
#[tokio::test(start_paused = true)]
async fn curator_654_timed_out_wait_leaves_no_watch() {
    let server = TestServer::in_memory();
    let barrier = Barrier::new(&client(&server, 1).await, "/b").unwrap();
    barrier.set().await.unwrap();
    assert!(!barrier.wait_timeout(T).await.unwrap());
    settle_watches().await;
    assert_eq!(watches(&server), 0);
    barrier.remove().await.unwrap();
    assert!(barrier.wait_timeout(T).await.unwrap());
    settle_watches().await;
    assert_eq!(watches(&server), 0, "a barrier that is not set leaves none either");
}

/// Curator's `waitOnBarrier(0)` reads the barrier, too.
#[tokio::test(start_paused = true)]
async fn zero_timeout_reads_the_barrier_at_any_round_trip() {
    for round_trip in [5, 50, 500].map(Duration::from_millis) {
        let server = TestServer::in_memory();
        let client = client(&server, 1).await;
        let barrier = Barrier::new(&client, "/b").unwrap();
        drop(server.on_any_request().always().delay(round_trip));
        assert!(barrier.wait_timeout(Duration::ZERO).await.unwrap(), "{round_trip:?}");
        barrier.set().await.unwrap();
        assert!(!barrier.wait_timeout(Duration::ZERO).await.unwrap(), "{round_trip:?}");
        barrier.remove().await.unwrap();
        assert!(barrier.wait_timeout(Duration::ZERO).await.unwrap(), "{round_trip:?}");
        settle_watches().await;
        assert_eq!(watches(&server), 0);
        server.refuse_connects(0);
        server.connections().cut(Cut::Rst);
        settle().await;
        let at_once = tokio::time::timeout(Duration::ZERO, barrier.wait_timeout(Duration::ZERO));
        assert!(!at_once.await.expect("without a wait").unwrap(), "no connection");
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_wait_leaves_no_watch() {
    for polls in 1..6 {
        let server = TestServer::in_memory();
        let barrier = Barrier::new(&client(&server, 1).await, "/b").unwrap();
        barrier.set().await.unwrap();
        let wait = tokio::time::timeout(T, barrier.wait());
        drop(polled(polls, wait).await);
        settle_watches().await;
        assert_eq!(watches(&server), 0, "{polls} polls");
    }
}

#[tokio::test(start_paused = true)]
async fn wait_goes_on_after_a_change_of_the_node() {
    let server = TestServer::in_memory();
    let client = client(&server, 1).await;
    let barrier = Barrier::new(&client, "/b").unwrap();
    barrier.set().await.unwrap();
    let waiting = tokio::spawn({
        let barrier = barrier.clone();
        async move { barrier.wait().await }
    });
    settle().await;
    client.set_data("/b", b"changed", None).await.unwrap();
    settle().await;
    assert!(!waiting.is_finished());
    barrier.remove().await.unwrap();
    waiting.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn wait_goes_on_over_reconnects() {
    let server = TestServer::in_memory();
    let (one, other) = (client(&server, 1).await, client(&server, 2).await);
    let (waiter, setter) = (Barrier::new(&one, "/b").unwrap(), Barrier::new(&other, "/b").unwrap());
    setter.set().await.unwrap();
    server.on(Op::Exists).drop_before_applying();
    server.on(Op::Exists).apply_then_drop_reply();
    let waiting = tokio::spawn(async move { waiter.wait().await });
    settle().await;
    server.connection_of(one.session_id()).cut(Cut::Rst);
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
    let server = TestServer::in_memory();
    let barrier = Barrier::new(&client(&server, 1).await, "/b").unwrap();
    for is_applied in [true, false] {
        for op in [Op::Create2, Op::Delete] {
            let fault = server.on(op);
            if is_applied {
                fault.apply_then_drop_reply()
            } else {
                fault.drop_before_applying()
            };
        }
        barrier.set().await.unwrap();
        assert!(barrier.is_set().await.unwrap());
        barrier.remove().await.unwrap();
        assert!(!barrier.is_set().await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn waiter_fails_when_its_session_expires() {
    let server = TestServer::in_memory();
    let client = client(&server, 1).await;
    let barrier = Barrier::new(&client, "/b").unwrap();
    barrier.set().await.unwrap();
    let waiting = tokio::spawn(async move { barrier.wait().await });
    settle().await;
    server.expire(client.session_id());
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!(error.retry_on(), RetryOn::NewSession, "{error}");
    server.with(|ensemble| assert!(ensemble.tree().contains("/b"), "the barrier is still set"));
}

#[tokio::test(start_paused = true)]
async fn barrier_reports_rejected_requests() {
    let server = TestServer::in_memory();
    let client = client(&server, 1).await;
    let barrier = Barrier::new(&client, "/b").unwrap();
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
    let setter = client_of_three(&server, 1).await;
    let setter = Barrier::new(&setter, "/b").unwrap();
    let is_set = Arc::new(AtomicBool::new(false));
    let mut waiting = Vec::new();
    for seed in 2..8 {
        let is_set = is_set.clone();
        let client = client_of_three(&server, seed).await;
        let barrier = Barrier::new(&client, "/b").unwrap();
        waiting.push(tokio::spawn(async move {
            loop {
                let was_set = is_set.load(Ordering::SeqCst);
                barrier.wait().await.unwrap();
                let passed_while_set = was_set && is_set.load(Ordering::SeqCst);
                assert!(!passed_while_set, "seed {seed}");
                // reason: virtual time, between two waits
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
        }));
    }
    for round in 0..20 {
        server.lag(1, Duration::from_millis(20 * (round % 3)));
        server.lag(2, Duration::from_millis(50));
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
