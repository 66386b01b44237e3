//! Loss of a guard: by a deletion, by a release, and by time. Revocation requests, and work and transactions
//! under a lock.

use std::future::{Future, pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use zk_recipes::session::{CreateMode, ErrorCode};
use zk_recipes::{LocalQueueLimits, LockError, LossReason, Mutex, revoke};
use zk_testing::{Op, TestServer};

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

#[tokio::test(start_paused = true)]
async fn revocation_reports_requests_made_before_the_call() {
    let (_server, [holder, other]) = started().await;
    let lock = Mutex::new(&holder, "/lock").unwrap();
    let guard = lock.acquire().await.unwrap();
    assert!(revoke(&other, guard.node()).await.unwrap());
    let both_listen = (guard.revocation_requested(), guard.revocation_requested());
    both_listen.0.await.unwrap();
    both_listen.1.await.unwrap();
    assert!(guard.is_held(), "to be asked is not to lose");
    // If it kept returning for the same request, a holder that calls it in a loop would never yield.
    let mut again = std::pin::pin!(guard.revocation_requested());
    tokio::time::timeout(T, &mut again).await.unwrap_err();
    assert!(revoke(&other, guard.node()).await.unwrap());
    tokio::time::timeout(T, again).await.unwrap().unwrap();
    guard.release().await.unwrap();

    let guard = lock.acquire().await.unwrap();
    let (told, asked) = tokio::join!(guard.revocation_requested(), revoke(&other, guard.node()));
    told.unwrap();
    assert!(asked.unwrap());
}

#[tokio::test(start_paused = true)]
async fn revoke_is_repeated_after_a_lost_reply() {
    let (server, [holder, other]) = started().await;
    let guard = Mutex::new(&holder, "/lock").unwrap().acquire().await.unwrap();
    let lost = server.on(Op::SetData).session(other.session_id()).apply_then_drop_reply();
    assert_eq!(revoke(&other, guard.node()).await, Ok(true));
    assert_eq!(lost.count(), 1);
    guard.revocation_requested().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn other_data_on_the_node_is_no_revocation_request() {
    let (_server, [holder, other]) = started().await;
    let guard = Mutex::new(&holder, "/lock").unwrap().acquire().await.unwrap();
    other.set_data(guard.node(), b"__REVOKE_", None).await.unwrap();
    let told = tokio::time::timeout(Duration::from_secs(60), guard.revocation_requested()).await;
    assert!(told.is_err());
    let node = guard.node().to_owned();
    let told = guard.revocation_requested();
    guard.release().await.unwrap();
    assert_eq!(told.await, Err(LockError::NodeDeleted { path: node.clone() }));
    assert!(!revoke(&other, &node).await.unwrap(), "there is nobody to ask");
}

/// A Java candidate behind this one would wait forever.
#[tokio::test(start_paused = true)]
async fn candidate_of_a_leader_latch_is_not_revoked() {
    let (_server, [holder, other]) = started().await;
    let election = Mutex::new(&holder, "/e").unwrap().with_lock_name(Mutex::LEADER_LATCH).unwrap();
    let leader = election.acquire().await.unwrap();
    let before = other.get_data(leader.node()).await.unwrap().data;
    let refused = revoke(&other, leader.node()).await.unwrap_err();
    assert_eq!(refused, LockError::NotRevocable { node: leader.node().to_owned() });
    assert_eq!(other.get_data(leader.node()).await.unwrap().data, before);
}

#[tokio::test(start_paused = true)]
async fn run_ends_when_the_lock_is_lost_or_revocation_is_requested() {
    let (server, [holder, other]) = started().await;
    let lock = Mutex::new(&holder, "/lock").unwrap();
    let guard = lock.acquire().await.unwrap();
    assert_eq!(guard.run_while_held(async { 7 }).await, Ok(7));
    assert_eq!(guard.run_until_revoked(async { 8 }).await, Ok(8));
    let (worked, _) = tokio::join!(guard.run_until_revoked(pending::<()>()), async {
        revoke(&other, guard.node()).await.unwrap();
    });
    let node = guard.node().to_owned();
    assert_eq!(worked, Err(LockError::RevocationRequested { node }));
    assert!(guard.is_held(), "to be asked is not to lose");
    guard.release().await.unwrap();

    let guard = lock.acquire().await.unwrap();
    let (worked, _) = tokio::join!(guard.run_until_revoked(pending::<()>()), async {
        other.delete(guard.node(), None).await.unwrap();
    });
    assert_eq!(worked, Err(LockError::Lost(LossReason::NodeDeleted)));
    drop(guard);

    let guard = lock.acquire().await.unwrap();
    // The work itself finds out, and ends with the lock.
    let work = async {
        other.delete(guard.node(), None).await.unwrap();
        guard.check().await.unwrap_err()
    };
    assert_eq!(guard.run_while_held(work).await, Err(LockError::Lost(LossReason::NodeDeleted)));
    drop(guard);

    let guard = lock.acquire().await.unwrap();
    let (worked, _) = tokio::join!(guard.run_while_held(pending::<()>()), async {
        server.expire(holder.session_id());
    });
    assert!(matches!(worked, Err(LockError::Lost(_))), "{worked:?}");
}

#[tokio::test(start_paused = true)]
async fn guard_transaction_is_rejected_after_its_node_is_deleted() {
    let (_server, [holder, other]) = started().await;
    other.create("/stock", b"100", CreateMode::Persistent).await.unwrap();
    let guard = Mutex::new(&holder, "/lock").unwrap().acquire().await.unwrap();
    guard.multi().set_data("/stock", b"99", None).send().await.unwrap();
    other.delete(guard.node(), None).await.unwrap();
    let refused = guard.multi().set_data("/stock", b"98", None).send().await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::NO_NODE));
    assert_eq!(other.get_data("/stock").await.unwrap().data, &b"99"[..]);
}
