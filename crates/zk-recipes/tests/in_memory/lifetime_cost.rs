//! Requests of a contender over its whole life, from any position in the queue. Also the requests
//! of a free acquisition, of a hand-off and of a release.
//!
//! The nodes ahead belong to other contenders, which leave one by one, the first one first.
//!
//! | from the create to the end of the release | requests | lists among them |
//! |---|---|---|
//! | mutex: queueing 2, watches 1, near the front 1, release 1 | 5 | 2 |
//! | writer: queueing 2, watches 1, second list 1, release 1 | 5 | 2 |
//! | reader behind writers: as a writer | 5 | 2 |
//! | reader behind readers and one writer: as a writer | 5 | 2 |
//! | semaphore and semaphore mutex: queue node 5, watch on it 1, lease 5 | 11 | 5 |
//!
//! The lease of a permit costs 5 requests: create and list 2, watch on the leases 1, second list 1,
//! release 1. A new handle lists the path once, with its first lease. The tests use new handles, so
//! they expect 12 requests and 6 lists.
//!
//! A waiter that waits for longer than a quarter of the session timeout reads the node ahead once.
//!
//! A lock that is held for longer than a tenth of a second costs one more request, which sets the
//! guard's watch on its own node. A guard that waited sends no such request: it keeps the watch of
//! the waiter.
//!
//! These are the counts on servers before 3.9.0. On newer ones a waiter for a mutex or a write lock
//! sends one list less; see [`marked_release`](crate::marked_release).
//!
//! Only the size of a list grows with the queue: it has one name for each contender.

use std::future::Future;
use std::time::Duration;

use zk_recipes::session::{Client, CreateMode, ParentMode};
use zk_recipes::{Mutex, RwLock, Semaphore, SemaphoreMutex};
use zk_testing::TestServer;

use crate::recorded_connection::{
    CLOSE, CREATE2, DELETE, GET_CHILDREN2, REMOVE_WATCHES, recorded_client, started_recorded,
    without_lease,
};
use crate::{client, settle, settle_node_watches};

/// Numbers of contenders ahead.
const AHEAD: [usize; 3] = [10, 100, 1_000];

/// Length of the longest name in a list, with its length prefix.
///
/// The name of a mutex node is `_c_`, 16 digits, `-lock-` and ten digits. Names of a read-write
/// lock are three bytes longer.
const NAME_LEN: usize = 4 + 38;

/// Function that returns the name of each node ahead, without its sequence number.
type Names = fn(usize) -> &'static str;

/// Requests of one contender, and bytes of the answers.
#[derive(Clone, Copy, Debug)]
struct Life {
    requests: usize,
    lists: usize,
    bytes_read: usize,
}

/// Runs a contender behind `ahead` nodes of another client, which are deleted one by one.
async fn live<F>(
    ahead: usize,
    folder: &str,
    lock_name: Names,
    acquire_and_release: fn(Client) -> F,
) -> Life
where
    F: Future<Output = ()> + Send + 'static,
{
    let server = TestServer::in_memory();
    let (others, (own, record)) = (client(&server, 1).await, recorded_client(&server, 2).await);
    // The only permit of the semaphore is held until all nodes ahead are deleted.
    let permit = Semaphore::new(&others, "/q", 1).unwrap().acquire().await.unwrap();
    others.ensure_path(folder, ParentMode::Persistent).await.unwrap();
    let mut nodes = Vec::new();
    for n in 0..ahead {
        let path = format!("{folder}/_c_{n:016}-{}", lock_name(n));
        let mode = CreateMode::EphemeralSequential;
        nodes.push(others.create(&path, b"", mode).await.unwrap().path);
    }
    let contender = tokio::spawn(acquire_and_release(own));
    settle().await;
    assert!(!contender.is_finished());
    for node in nodes {
        others.delete(&node, None).await.unwrap();
        // reason: virtual time of a hold, long enough for unused watches to be removed
        tokio::time::sleep(HOLD).await;
    }
    permit.release().await.unwrap();
    contender.await.unwrap();
    settle().await;
    let ops = without_lease(record.take().concat());
    let count = |wanted| ops.iter().filter(|op| **op == wanted).count();
    let requests = ops.len() - count(CLOSE);
    Life { requests, lists: count(GET_CHILDREN2), bytes_read: record.take_bytes_read() }
}

/// Requests and lists of a contender at each of [`AHEAD`]. Behind 10 contenders it waits for 2 s, and
/// behind the others for more than a quarter of the session timeout.
const WAITS: [(usize, usize); 3] = [(5, 2), (6, 2), (6, 2)];

/// As [`WAITS`], for a permit.
const PERMIT_WAITS: [(usize, usize); 3] = [(13, 6), (14, 6), (14, 6)];

const HOLD: Duration = Duration::from_millis(200);

/// Runs a contender behind each number of [`AHEAD`], and expects these numbers of requests and
/// lists.
async fn expect<F>(
    expected: [(usize, usize); 3],
    folder: &str,
    lock_name: Names,
    acquire_and_release: fn(Client) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    for (ahead, expected) in AHEAD.into_iter().zip(expected) {
        let life = live(ahead, folder, lock_name, acquire_and_release).await;
        assert_eq!((life.requests, life.lists), expected, "{ahead} ahead: {life:?}");
        // The first list names all contenders ahead. The second list of a reader names all but a
        // few. Later lists are short, because the contenders ahead have left.
        let most = 3_000 + 2 * NAME_LEN * ahead;
        assert!(life.bytes_read <= most, "{ahead} ahead: {life:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn mutex_contender_sends_at_most_6_requests_at_any_queue_length() {
    expect(
        WAITS,
        "/lock",
        |_| "lock-",
        |client| async move {
            Mutex::new(&client, "/lock").unwrap().acquire().await.unwrap().release().await.unwrap();
        },
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn writer_sends_at_most_6_requests_at_any_queue_length() {
    let mixed = |n| if n % 3 == 0 { "__WRIT__" } else { "__READ__" };
    expect(WAITS, "/lock", mixed, |client| async move {
        let lock = RwLock::new(&client, "/lock").unwrap();
        lock.write().acquire().await.unwrap().release().await.unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn reader_sends_at_most_6_requests_at_any_queue_length() {
    // In the first case the reader waits for the last of the writers. In the second case it waits
    // for the only writer, among readers, which leaves after 2 s.
    let crowds: [(_, Names); 2] =
        [(WAITS, |_| "__WRIT__"), ([(5, 2); 3], |n| if n == 9 { "__WRIT__" } else { "__READ__" })];
    for (expected, crowd) in crowds {
        expect(expected, "/lock", crowd, |client| async move {
            let lock = RwLock::new(&client, "/lock").unwrap();
            lock.read().acquire().await.unwrap().release().await.unwrap();
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn permit_contender_sends_at_most_14_requests() {
    expect(
        PERMIT_WAITS,
        "/q/locks",
        |_| "lock-",
        |client| async move {
            let permits = Semaphore::new(&client, "/q", 1).unwrap();
            permits.acquire().await.unwrap().release().await.unwrap();
        },
    )
    .await;
    expect(
        PERMIT_WAITS,
        "/q/locks",
        |_| "lock-",
        |client| async move {
            let lock = SemaphoreMutex::new(&client, "/q").unwrap();
            lock.acquire().await.unwrap().release().await.unwrap();
        },
    )
    .await;
}

/// Returns the requests of each write, for an uncontended acquisition and its release.
async fn uncontended<F>(act: fn(Client) -> F) -> Vec<Vec<i32>>
where
    F: Future<Output = ()>,
{
    let (_server, client, record) = started_recorded().await;
    act(client.clone()).await; // creates the path
    settle().await;
    record.take();
    act(client.clone()).await;
    settle().await;
    record.take()
}

#[tokio::test(start_paused = true)]
async fn free_lock_costs_one_write_for_each_of_its_queues() {
    let enter = vec![CREATE2, GET_CHILDREN2];
    let writer = uncontended(|client| async move {
        let lock = RwLock::new(&client, "/lock").unwrap();
        lock.write().acquire().await.unwrap().release().await.unwrap();
    });
    // The guard does not watch its node, because it is released at once.
    let out = vec![DELETE];
    assert_eq!(writer.await, [enter.clone(), out.clone()]);
    let reader = uncontended(|client| async move {
        let lock = RwLock::new(&client, "/lock").unwrap();
        lock.read().acquire().await.unwrap().release().await.unwrap();
    });
    assert_eq!(reader.await, [enter.clone(), out.clone()]);
    // The queue node, then the lease. Both are deleted.
    let permit = uncontended(|client| async move {
        let permits = Semaphore::new(&client, "/q", 1).unwrap();
        permits.acquire().await.unwrap().release().await.unwrap();
    });
    let both_out = vec![DELETE, DELETE];
    // A new handle lists the path once.
    let look = vec![CREATE2, GET_CHILDREN2, GET_CHILDREN2];
    assert_eq!(permit.await, [enter.clone(), look.clone(), both_out.clone()]);
    let lock = uncontended(|client| async move {
        let lock = SemaphoreMutex::new(&client, "/q").unwrap();
        lock.acquire().await.unwrap().release().await.unwrap();
    });
    assert_eq!(lock.await, [enter.clone(), look, both_out]);
    // `try_acquire` creates no queue node, because it does not wait.
    let tried = uncontended(|client| async move {
        let permits = Semaphore::new(&client, "/q", 1).unwrap();
        permits.try_acquire().await.unwrap().unwrap().release().await.unwrap();
    });
    assert_eq!(tried.await, [vec![CREATE2, GET_CHILDREN2, GET_CHILDREN2], out]);
}

/// Returns the requests of the next in line: between the event and the acquisition, and during the
/// hold.
async fn hand_off<G, F, A>(holder: fn(Client) -> G, next: fn(Client) -> F) -> [Vec<Vec<i32>>; 2]
where
    G: Future<Output = A>,
    F: Future<Output = ()> + Send + 'static,
{
    let server = TestServer::in_memory();
    let (other, (own, record)) = (client(&server, 1).await, recorded_client(&server, 2).await);
    let held = holder(other).await;
    let waiting = tokio::spawn(next(own));
    settle().await;
    record.take();
    drop(held);
    waiting.await.unwrap();
    settle().await;
    let handed_over = record.take();
    settle_node_watches().await;
    [handed_over, record.take()]
}

/// The hand-off of a mutex costs no request; see [`mutex_cost`](crate::mutex_cost).
///
/// A writer may return as a reader ahead of the waiters, and permits must be counted. These
/// hand-offs cost one list. The guard keeps the watch of the waiter on its node.
#[tokio::test(start_paused = true)]
async fn hand_off_of_rwlock_or_permit_costs_one_list() {
    let write = |client| async move {
        RwLock::new(&client, "/lock").unwrap().write().acquire().await.unwrap()
    };
    let next = hand_off(write, |client| async move {
        std::mem::forget(RwLock::new(&client, "/lock").unwrap().write().acquire().await.unwrap());
    });
    assert_eq!(next.await, [vec![vec![GET_CHILDREN2]], vec![]]);
    let next = hand_off(write, |client| async move {
        std::mem::forget(RwLock::new(&client, "/lock").unwrap().read().acquire().await.unwrap());
    });
    assert_eq!(next.await, [vec![vec![GET_CHILDREN2]], vec![]]);
    let permit =
        |client| async move { Semaphore::new(&client, "/q", 1).unwrap().acquire().await.unwrap() };
    let next = hand_off(permit, |client| async move {
        std::mem::forget(Semaphore::new(&client, "/q", 1).unwrap().acquire().await.unwrap());
    });
    // The waiter deletes its queue node. Later it removes the watch on the leases.
    let later = vec![vec![REMOVE_WATCHES]];
    assert_eq!(next.await, [vec![vec![GET_CHILDREN2], vec![DELETE]], later]);
}
