//! Loss of a guard: by a deletion, by a release, and by time.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use futures::FutureExt;
use zk_recipes::session::CreateMode;
use zk_recipes::{LocalQueueLimits, LockError, LossReason, Mutex};
use zk_testing::TestServer;

use crate::{LEASE, T, attempt, children, config, now, settle, settle_node_watches, started};

const DELETED: LockError = LockError::Lost(LossReason::NodeDeleted);

#[tokio::test(start_paused = true)]
async fn release_fails_when_the_node_is_deleted_before_its_event() {
    let (server, [holder, vandal]) = started().await;
    let lock = Mutex::new(&holder, "/lock").unwrap();
    let guard = lock.acquire().await.unwrap();
    settle_node_watches().await;
    let late = server.on_notification().session(holder.session_id()).delay(T / 100);
    vandal.delete(guard.node(), None).await.unwrap();
    settle().await;
    assert_eq!(late.count(), 1);
    assert!(guard.is_held(), "the event is on its way");
    assert_eq!(guard.release().await, Err(DELETED), "the server's answer to the delete");
    lock.acquire().await.unwrap().release().await.unwrap();
}

/// Another client deletes the node and creates it again under the same name.
#[tokio::test(start_paused = true)]
async fn check_fails_when_the_node_is_recreated() {
    let (_server, [holder, other]) = started().await;
    let guard = Mutex::new(&holder, "/lock").unwrap().acquire().await.unwrap();
    other.delete(guard.node(), None).await.unwrap();
    other.create(guard.node(), b"", CreateMode::Ephemeral).await.unwrap();
    assert!(guard.is_held(), "the guard does not watch its node yet");
    assert_eq!(guard.check().await, Err(DELETED));
    assert_eq!(guard.token(), Err(DELETED));
}

#[tokio::test(start_paused = true)]
async fn lost_returns_released_when_the_guard_is_released() {
    let (_server, [client]) = started().await;
    let lock = Mutex::new(&client, "/lock").unwrap();
    let guard = lock.acquire().await.unwrap();
    let mut lost = pin!(guard.lost());
    assert!(lost.as_mut().now_or_never().is_none());
    guard.release().await.unwrap();
    assert_eq!(lost.await, LossReason::Released);

    let guard = lock.acquire().await.unwrap();
    let lost = guard.lost();
    drop(guard);
    assert_eq!(lost.await, LossReason::Released);
}

/// The driver's task does not run, as if another task blocked its thread.
#[tokio::test(start_paused = true)]
async fn lost_returns_on_time_while_the_driver_is_blocked() {
    let server = TestServer::in_memory();
    let (client, driver) = config(1).connector(server.clone()).into_parts();
    let stands_still = Arc::new(AtomicBool::new(false));
    let gate = stands_still.clone();
    let mut driver = Box::pin(driver);
    tokio::spawn(poll_fn(move |cx| match gate.load(Ordering::Acquire) {
        true => Poll::Pending,
        false => driver.as_mut().poll(cx),
    }));
    let guard = Mutex::new(&client, "/lock").unwrap().acquire().await.unwrap();
    let before = now();
    stands_still.store(true, Ordering::Release);
    let reason = guard.lost().await;
    assert!(matches!(reason, LossReason::ProcessPaused(_)), "{reason}");
    assert!(reason.to_string().starts_with("this process did not run for "), "{reason}");
    let after = now() - before;
    assert!(after <= LEASE, "{after:?}");
    assert!(!guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn check_of_a_lost_guard_fails_without_a_request() {
    let (_server, [holder, vandal]) = started().await;
    let guard = Mutex::new(&holder, "/lock").unwrap().acquire().await.unwrap();
    settle_node_watches().await;
    vandal.delete(guard.node(), None).await.unwrap();
    settle().await;
    let before = holder.stats().frames_sent;
    assert_eq!(guard.check().await.map(drop), Err(DELETED));
    assert_eq!(holder.stats().frames_sent, before);
}

struct Panicking;

impl std::task::Wake for Panicking {
    fn wake(self: Arc<Self>) {
        panic!("the waker of a user");
    }
}

/// A waker is code of the user's runtime.
#[tokio::test(start_paused = true)]
async fn guard_is_released_although_a_waker_panics() {
    let (server, [client]) = started().await;
    let lock = Mutex::new(&client, "/lock").unwrap();
    let lock = lock.with_local_queue(LocalQueueLimits::default());
    for is_passed in [false, true] {
        let guard = lock.acquire().await.unwrap();
        let next = if is_passed { Some(attempt(&lock).await) } else { None };
        let mut lost = Box::pin(guard.lost());
        let waker = Waker::from(Arc::new(Panicking));
        assert!(lost.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert!(catch_unwind(AssertUnwindSafe(|| drop(guard))).is_err());
        settle().await;
        match next {
            Some(next) => drop(next.await.unwrap().unwrap()),
            None => assert_eq!(children(&server, "/lock"), [""; 0]),
        }
    }
}
