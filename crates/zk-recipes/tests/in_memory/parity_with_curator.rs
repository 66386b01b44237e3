//! Behaviours that Curator's own tests check, as far as no other file here checks them.
//!
//! Each test names the test of Curator. `tests/CURATOR.md` lists all of them.

use tokio::task::JoinHandle;
use zk_recipes::session::{Client, CreateMode, ErrorCode, ParentMode};
use zk_recipes::{LockError, LossReason, Mutex, RwLock, Semaphore, SemaphoreGuard, SharedCount};
use zk_testing::{Cut, Op, SessionId};

use crate::{T, children, client, cut_off, reconnect, running, settle, started};

const PATH: &str = "/a/path";

async fn queue_for(
    client: &Client,
    max: u32,
    permits: u32,
) -> JoinHandle<Result<SemaphoreGuard, LockError>> {
    let semaphore = Semaphore::new(client, PATH, max).unwrap();
    running(async move { semaphore.acquire_many(permits).await }).await
}

fn finished<X>(tasks: &[JoinHandle<X>]) -> u32 {
    u32::try_from(tasks.iter().filter(|task| task.is_finished()).count()).unwrap()
}

/// `TestInterProcessMutex.testPersistentLock`: a custom lock driver for Curator may create
/// contenders that outlive their sessions.
///
/// This crate creates none, and waits for them like for any other contender.
#[tokio::test(start_paused = true)]
async fn waiter_queues_behind_a_persistent_contender() {
    let (_server, [gone, one]) = started().await;
    let lock = Mutex::new(&one, "/lock").unwrap();
    lock.acquire().await.unwrap().release().await.unwrap();
    let prefix = "/lock/_c_0b7f36dc-3cc2-4b57-9c3e-5c3ae2f1c0de-lock-";
    let created = gone.create(prefix, b"", CreateMode::PersistentSequential).await.unwrap();
    gone.close().await;
    assert!(lock.try_acquire().await.unwrap().is_none());
    assert_eq!(lock.participants().await.unwrap()[0].session_id, SessionId::NONE);
    let waiting = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await.unwrap() }
    });
    tokio::time::sleep(3 * T).await; // reason: no session that ends sets it free
    assert!(!waiting.is_finished());
    one.delete(&created.path, None).await.unwrap();
    waiting.await.unwrap().release().await.unwrap();
}

/// `TestInterProcessSemaphore.testRelease1AtATime`, `testReleaseInChunks`: released permits grant
/// exactly as many waiters as they suffice for.
#[tokio::test(start_paused = true)]
async fn permits_released_in_chunks_grant_as_many_waiters() {
    const MAX: u32 = 11;
    for chunk in [1, 2, 5, 11] {
        let (_server, [holder, other]) = started().await;
        let semaphore = Semaphore::new(&holder, PATH, MAX).unwrap();
        let mut held = semaphore.acquire_many(MAX).await.unwrap();
        let mut waiting = Vec::new();
        for _ in 0..MAX {
            waiting.push(queue_for(&other, MAX, 1).await);
        }
        assert_eq!(finished(&waiting), 0);
        while held.permits() > chunk {
            held.split(chunk).expect("it has more").release().await.unwrap();
            settle().await;
            assert_eq!(finished(&waiting) + held.permits(), MAX);
        }
        held.release().await.unwrap();
        let mut all = Vec::new();
        for waiting in waiting {
            all.push(waiting.await.unwrap().unwrap());
        }
        assert!(all.iter().all(SemaphoreGuard::is_held));
        assert!(semaphore.try_acquire().await.unwrap().is_none());
    }
}

/// `TestInterProcessSemaphore.testAcquireAfterLostServer` (CURATOR-335),
/// `TestInterProcessMutexBase.testWaitingProcessKilledServer`: contenders queue before or during
/// the loss of the server. They acquire in order after it returns, and no other node is left.
#[tokio::test(start_paused = true)]
async fn waiters_are_granted_in_order_after_a_reconnect() {
    let (server, [one, other]) = started().await;
    let lease = queue_for(&one, 1, 1).await.await.unwrap().unwrap();
    let waiting = queue_for(&other, 1, 1).await;
    server.refuse_connects(0);
    for client in [&one, &other] {
        server.connection_of(client.session_id()).cut(Cut::Rst);
    }
    settle().await;
    let late = queue_for(&one, 1, 1).await;
    assert!(one.end_reason().is_none() && !one.is_connected());
    reconnect(&server).await;
    assert!(lease.is_held(), "the session lives");
    assert!(!waiting.is_finished() && !late.is_finished());
    lease.release().await.unwrap();
    settle().await;
    assert!(waiting.is_finished() && !late.is_finished(), "who asked before goes first");
    waiting.await.unwrap().unwrap().release().await.unwrap();
    late.await.unwrap().unwrap().release().await.unwrap();
    settle().await;
    let left = ["/a/path/locks", "/a/path/leases"].map(|path| children(&server, path).len());
    assert_eq!(left, [0, 0]);
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

/// CURATOR-43: foreign nodes with names of all kinds in the queues of a semaphore and a read-write
/// lock.
#[tokio::test(start_paused = true)]
async fn foreign_nodes_block_neither_a_semaphore_nor_a_rwlock() {
    let (_server, [one]) = started().await;
    for folder in ["/a/path/locks", "/a/path/leases", "/rw"] {
        one.ensure_path(folder, ParentMode::Persistent).await.unwrap();
        for name in ["0", "readme.txt", "-", "zzz", "\u{e4}", "0000000000"] {
            let node = format!("{folder}/{name}");
            one.create(&node, b"", CreateMode::Persistent).await.unwrap();
        }
    }
    let both = queue_for(&one, 2, 2).await.await.unwrap().unwrap();
    let next = queue_for(&one, 2, 1).await;
    assert!(!next.is_finished(), "nor do they hide those who have them");
    both.release().await.unwrap();
    next.await.unwrap().unwrap().release().await.unwrap();
    let sides = RwLock::new(&one, "/rw").unwrap();
    let reading = sides.read().acquire().await.unwrap();
    assert!(sides.write().try_acquire().await.unwrap().is_none());
    reading.release().await.unwrap();
    sides.write().acquire().await.unwrap().downgrade().await.unwrap().release().await.unwrap();
    // A foreign node with the name of a writer counts as a writer.
    one.create("/rw/__WRIT__0000000000", b"", CreateMode::Persistent).await.unwrap();
    assert!(sides.read().try_acquire().await.unwrap().is_none());
}
