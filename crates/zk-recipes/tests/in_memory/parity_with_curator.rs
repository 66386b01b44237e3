//! Behaviours that Curator's own tests check, as far as no other file here checks them.
//!
//! Each test names the test of Curator. `tests/CURATOR.md` lists all of them.

use tokio::task::JoinHandle;
use zk_recipes::session::{Client, ErrorCode};
use zk_recipes::{LockError, LossReason, Mutex, Semaphore, SemaphoreGuard, SharedCount};
use zk_testing::{Cut, Op};

use crate::{T, children, client, cut_off, running, settle, started};

const PATH: &str = "/a/path";

async fn queue_for(
    client: &Client,
    max: u32,
    permits: u32,
) -> JoinHandle<Result<SemaphoreGuard, LockError>> {
    let semaphore = Semaphore::new(client, PATH, max).unwrap();
    running(async move { semaphore.acquire_many(permits).await }).await
}

/// `TestLockInternals.testAttemptLockFailedException` (CURATOR-41): an acquisition that fails after
/// its node was created deletes the node, and returns the cause. The next contender acquires the
/// lock.
#[tokio::test(start_paused = true)]
async fn failed_acquisition_returns_its_error_and_leaves_no_node() {
    let (server, [one, other]) = started().await;
    let lock = Mutex::new(&one, "/lock").unwrap();
    lock.acquire().await.unwrap().release().await.unwrap();
    // The list that would show the acquisition fails, and so does the first delete of the node.
    let list = server.on(Op::GetChildren2).always().answer(ErrorCode::NO_AUTH);
    let delete = server.on(Op::Delete).times(1).drop_before_applying();
    let LockError::Client(failed) = lock.acquire().await.unwrap_err() else {
        panic!("the server declines the list")
    };
    assert_eq!(failed.code(), Some(ErrorCode::NO_AUTH), "{failed}");
    list.cancel();
    let next = Mutex::new(&other, "/lock").unwrap();
    let guard = next.acquire_timeout(3 * T).await.unwrap().expect("nobody is in the way");
    assert_eq!(delete.count(), 1);
    assert_eq!(children(&server, "/lock").len(), 1);
    guard.release().await.unwrap();
}

/// `TestSharedCount.testDisconnectReconnectEventDoesNotFireValueWatcher` and its neighbours: a
/// disconnect and a reconnect are not reported as a change. A change made in the meantime is
/// reported.
#[tokio::test(start_paused = true)]
async fn shared_count_reports_changes_but_not_reconnects() {
    let (server, [one, other]) = started().await;
    let count = SharedCount::new(&one, "/count", 1).unwrap();
    let seen = count.get().await.unwrap();
    let changed = running(async move { count.changed(&seen).await.unwrap().count() }).await;
    for _ in 0..3 {
        server.connection_of(one.session_id()).cut(Cut::Rst);
        tokio::time::sleep(T / 4).await; // reason: for the next attempt to connect
        assert!(one.is_connected() && !changed.is_finished());
    }
    cut_off(&server, &one).await;
    SharedCount::new(&other, "/count", 9).unwrap().set(2).await.unwrap();
    settle().await;
    assert!(!changed.is_finished());
    server.accept_connects(0);
    assert_eq!(changed.await.unwrap(), 2);
}

/// An operator deletes a lock with all its holders and waiters.
///
/// The waiters create the parents again and queue again. The lease of the holder reports its loss.
#[tokio::test(start_paused = true)]
async fn waiters_requeue_when_an_operator_deletes_the_lock() {
    let (server, [one, other]) = started().await;
    let lease = queue_for(&one, 1, 1).await.await.unwrap().unwrap();
    let waiting = [queue_for(&one, 1, 1).await, queue_for(&other, 1, 1).await];
    let visits = waiting.map(|waiting| {
        tokio::spawn(async move { waiting.await.unwrap().unwrap().release().await })
    });
    let operator = client(&server, 3).await;
    let mut all = operator.multi();
    for below in ["locks", "leases"] {
        for name in children(&server, &format!("{PATH}/{below}")) {
            all = all.delete(&format!("{PATH}/{below}/{name}"), None);
        }
        all = all.delete(&format!("{PATH}/{below}"), None);
    }
    all.delete(PATH, None).delete("/a", None).send().await.unwrap();
    assert_eq!(lease.lost().await, LossReason::NodeDeleted);
    for visit in visits {
        let visit = tokio::time::timeout(6 * T, visit).await;
        visit.expect("they queue again").unwrap().expect("it was held");
    }
    assert!(matches!(lease.release().await, Err(LockError::Lost(_))));
}
