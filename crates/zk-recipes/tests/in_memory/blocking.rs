//! Tests of the blocking API.

use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use zk_recipes::blocking::{
    Client, Guard, MultiLock, Mutex, RwLock, Semaphore, SemaphoreMutex, SessionManager,
};
use zk_recipes::session::limits::CLOSE_ON_DROP_WAIT;
use zk_recipes::session::{CreateMode, SessionEnd};
use zk_recipes::{LocalQueueLimits, LossReason};
use zk_testing::{Op, TestServer};

use crate::children;
use crate::program_exit::{config_of, server_on_a_thread, wait_until};

const NO_TIME: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(20);

fn connected() -> (TestServer, Client) {
    let server = server_on_a_thread();
    let client = Client::connect_with(config_of(&server)).unwrap();
    (server, client)
}

fn locked() -> (TestServer, Client, Guard<zk_recipes::Guard>) {
    let (server, client) = connected();
    let guard = Mutex::new(&client, "/lock").unwrap().acquire().unwrap();
    (server, client, guard)
}

#[test]
fn blocking_locks_of_every_kind_exclude_others() {
    let (server, client) = connected();

    let mutex = Mutex::new(&client, "/mutex").unwrap();
    let guard = mutex.acquire().unwrap();
    assert!(mutex.try_acquire().unwrap().is_none());
    assert!(mutex.acquire_timeout(NO_TIME).unwrap().is_none());
    assert_eq!(guard.check().unwrap(), guard.token().unwrap());
    assert_eq!(mutex.participants().unwrap()[0].path, guard.node());
    guard.release().unwrap();

    let rwlock = RwLock::new(&client, "/rwlock").unwrap();
    let writer = rwlock.write().acquire().unwrap();
    assert!(rwlock.read().try_acquire().unwrap().is_none());
    let reader = writer.downgrade().unwrap();
    rwlock.read().acquire().unwrap().release().unwrap();
    assert!(rwlock.write().try_acquire().unwrap().is_none());
    reader.release().unwrap();

    let semaphore = Semaphore::new(&client, "/semaphore", 3).unwrap();
    let lease = semaphore.acquire_many(2).unwrap();
    assert!(semaphore.try_acquire_many(2).unwrap().is_none());
    assert!(semaphore.acquire_many_timeout(2, Duration::from_millis(50)).unwrap().is_none());
    semaphore.acquire().unwrap().release().unwrap();
    lease.release().unwrap();
    let lease = semaphore.try_acquire_many(2).unwrap().expect("the permits are free");
    lease.release().unwrap();
    let lease = semaphore.acquire_many_timeout(2, LONG).unwrap().expect("the permits are free");
    assert_eq!(lease.nodes().count(), 2);
    lease.release().unwrap();

    let single = SemaphoreMutex::new(&client, "/single").unwrap();
    let both = MultiLock::in_canonical_order(&client, [single.shared(), mutex.shared()]);
    let guards = both.acquire().unwrap();
    assert_eq!(guards.tokens().unwrap().len(), 2);
    assert!(mutex.try_acquire().unwrap().is_none() && single.try_acquire().unwrap().is_none());
    guards.release().unwrap();
    assert!(children(&server, "/mutex").is_empty());
}

#[test]
fn threads_with_a_local_queue_share_one_node() {
    const HOLDS: usize = 50;
    let (server, client) = connected();
    let lock = zk_recipes::Mutex::new(client.as_async(), "/lock").unwrap();
    let limits = LocalQueueLimits::default().max_passes(u32::MAX).max_time(Duration::MAX);
    let lock = Mutex::of(&client, lock.with_local_queue(limits));
    let held = lock.acquire().unwrap();
    let tokens = std::sync::Mutex::new(vec![held.token().unwrap()]);
    thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                for _ in 0..HOLDS {
                    let guard = lock.acquire().unwrap();
                    let mut tokens = tokens.try_lock().expect("another thread holds the lock");
                    tokens.push(guard.token().unwrap());
                    drop(tokens);
                    guard.release().unwrap();
                }
            });
        }
        held.release().unwrap();
    });
    let tokens = tokens.into_inner().unwrap();
    assert_eq!(tokens.len(), 1 + 4 * HOLDS);
    assert!(tokens.is_sorted_by(|earlier, later| earlier < later), "{tokens:?}");
    assert!(tokens.iter().any(|token| token.pass() > 0), "each hold had its own node");
    assert!(children(&server, "/lock").is_empty());
}

#[test]
fn blocking_guard_waits_for_its_loss() {
    let (server, client, guard) = locked();
    assert_eq!(guard.wait_for_loss(NO_TIME), None);
    server.expire(client.as_async().session_id());
    let reason = guard.wait_for_loss(LONG);
    assert_eq!(reason, Some(LossReason::SessionEnded(SessionEnd::Expired)));
    assert_eq!(client.wait_for_end(), SessionEnd::Expired);
    // Calls on a session that has ended return an error at once.
    client.exists("/lock").unwrap_err();
    Mutex::new(&client, "/lock").unwrap().acquire_timeout(LONG).unwrap_err();
}

/// The server does not answer the release.
#[test]
#[allow(clippy::disallowed_methods, reason = "the drop waits on the real clock")]
fn blocking_drop_waits_for_the_release() {
    let (server, _client, guard) = locked();
    let unanswered = server.on(Op::Delete).never_answer();
    let begun = Instant::now();
    drop(guard);
    assert!(begun.elapsed() >= CLOSE_ON_DROP_WAIT, "{:?}", begun.elapsed());
    assert_eq!(unanswered.count(), 1);
}

/// A blocking call panics in a task.
#[test]
fn blocking_guard_dropped_in_a_task_is_released() {
    let (server, _client, guard) = locked();
    let runtime = Builder::new_current_thread().build().unwrap();
    runtime.block_on(async { drop(guard) });
    wait_until("the node is deleted", || children(&server, "/lock").is_empty());
}

#[test]
fn blocking_client_has_the_plain_operations() {
    let (_server, client) = connected();
    client.create("/n", b"one", CreateMode::Persistent).unwrap();
    assert_eq!(client.set_data("/n", b"two", Some(0)).unwrap().version, 1);
    assert_eq!(client.get_data("/n").unwrap().data, &b"two"[..]);
    assert!(client.get_children("/").unwrap().names.iter().any(|name| name == b"n"));
    client.delete("/n", None).unwrap();
    assert_eq!(client.exists("/n").unwrap(), None);
    client.close();
    assert_eq!(client.wait_for_end(), SessionEnd::Closed);
}

#[test]
fn blocking_manager_opens_the_next_session() {
    let server = server_on_a_thread();
    let sessions = SessionManager::connect(config_of(&server)).unwrap();
    for _ in 0..3 {
        let client = sessions.open_client().unwrap();
        let guard = Mutex::new(&client, "/lock").unwrap().acquire().unwrap();
        server.expire(client.as_async().session_id());
        assert!(guard.wait_for_loss(LONG).is_some());
        let _ = client.wait_for_end();
    }
    sessions.close();
    sessions.open_client().unwrap_err();
    wait_until("the session is closed", || server.with(|it| it.sessions().count()) == 0);
}
