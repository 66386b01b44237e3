//! What a contender asks over its whole life, at whatever place in the queue it begins, and
//! what it costs to take a free lock, to be handed one, and to give it up.
//!
//! The queue ahead is of others' nodes, which go one after the other, the first one first.
//!
//! | from entering to the end of the release | requests | of them lists |
//! |---|---|---|
//! | mutex: in 2, watches 3, near the front 1, out 1 | 7 | 2 |
//! | writer: in 2, watch 1, look again 1, out 1 | 5 | 2 |
//! | reader behind writers: as a writer | 5 | 2 |
//! | reader behind readers and one writer: as a writer | 5 | 2 |
//! | semaphore, and the mutex on it: a turn 7, watched 1, lease in 2, watch 1, look again 1, out 1 | 13 | 5 |
//!
//! A list has a name for everybody in the queue: that is what grows with it, and nothing else.

use std::future::Future;
use std::time::Duration;

use zk_recipes::session::{Client, CreateMode, Parents};
use zk_recipes::{Mutex, RwLock, Semaphore, SemaphoreMutex};
use zk_testing::TestServer;

use crate::wire::{CLOSE, CREATE2, DELETE, GET_CHILDREN2, MULTI, PING, recorded_client};
use crate::{client, settle};

/// How many are ahead.
const AHEAD: [usize; 3] = [10, 100, 1_000];

/// A name in a list, with its length in front: `_c_`, a UUID, `-lock-` and ten digits; those of
/// the sides of a read-write lock are three longer.
const NAME_LEN: usize = 4 + 58;

/// What one contender asked, and how much it was answered.
#[derive(Clone, Copy, Debug)]
struct Life {
    requests: usize,
    lists: usize,
    bytes_read: usize,
}

/// Lets a contender live behind so many nodes of others, which go one by one.
async fn live<F>(
    ahead: usize,
    folder: &str,
    lock_name: fn(usize) -> &'static str,
    acquire_and_release: fn(Client) -> F,
) -> Life
where
    F: Future<Output = ()> + Send + 'static,
{
    let server = TestServer::in_memory();
    let (others, (own, record)) = (client(&server, 1).await, recorded_client(&server, 2).await);
    // Of a semaphore: who has the only permit until all others have gone.
    let permit = Semaphore::new(&others, "/q", 1).unwrap().acquire().await.unwrap();
    others.make_path(folder, Parents::Persistent).await.unwrap();
    let mut nodes = Vec::new();
    for n in 0..ahead {
        let path = format!("{folder}/_c_{n:036}-{}", lock_name(n));
        let mode = CreateMode::EphemeralSequential;
        nodes.push(others.create(&path, b"", mode).await.unwrap().path);
    }
    let contender = tokio::spawn(acquire_and_release(own));
    settle().await;
    assert!(!contender.is_finished());
    for node in nodes {
        others.delete(&node, None).await.unwrap();
        // reason: the hold; long enough for what is watched no more to be taken back
        tokio::time::sleep(HOLD).await;
    }
    permit.release().await.unwrap();
    contender.await.unwrap();
    settle().await;
    let ops = record.take().concat();
    let count = |wanted: &[i32]| ops.iter().filter(|op| wanted.contains(op)).count();
    let requests = ops.len() - count(&[PING, MULTI, CLOSE]);
    Life { requests, lists: count(&[GET_CHILDREN2]), bytes_read: record.take_bytes_read() }
}

const HOLD: Duration = Duration::from_millis(200);

/// Lives at every place, and expects the same at each, but for the length of the lists.
async fn expect<F>(
    (requests, lists): (usize, usize),
    folder: &str,
    lock_name: fn(usize) -> &'static str,
    acquire_and_release: fn(Client) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    for ahead in AHEAD {
        let life = live(ahead, folder, lock_name, acquire_and_release).await;
        assert_eq!((life.requests, life.lists), (requests, lists), "{ahead} ahead: {life:?}");
        // One list is of all who are ahead when it enters, another one, of a reader, of all but
        // a few; the rest comes when they have gone.
        let most = 3_000 + 2 * NAME_LEN * ahead;
        assert!(life.bytes_read <= most, "{ahead} ahead: {life:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_contender_for_a_mutex_asks_as_often_wherever_it_begins() {
    expect(
        (7, 2),
        "/lock",
        |_| "lock-",
        |client| async move {
            Mutex::new(&client, "/lock").unwrap().acquire().await.unwrap().release().await.unwrap();
        },
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_writer_asks_as_often_wherever_it_begins() {
    let mixed = |n| if n % 3 == 0 { "__WRIT__" } else { "__READ__" };
    expect((5, 2), "/lock", mixed, |client| async move {
        let lock = RwLock::new(&client, "/lock").unwrap();
        lock.write().acquire().await.unwrap().release().await.unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_reader_asks_as_often_wherever_it_begins() {
    // Behind writers, of whom it waits for the last; behind readers, and one writer.
    let crowds: [fn(usize) -> &'static str; 2] =
        [|_| "__WRIT__", |n| if n == 9 { "__WRIT__" } else { "__READ__" }];
    for crowd in crowds {
        expect((5, 2), "/lock", crowd, |client| async move {
            let lock = RwLock::new(&client, "/lock").unwrap();
            lock.read().acquire().await.unwrap().release().await.unwrap();
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn who_wants_a_permit_asks_as_often_wherever_it_begins() {
    expect(
        (13, 5),
        "/q/locks",
        |_| "lock-",
        |client| async move {
            let permits = Semaphore::new(&client, "/q", 1).unwrap();
            permits.acquire().await.unwrap().release().await.unwrap();
        },
    )
    .await;
    expect(
        (13, 5),
        "/q/locks",
        |_| "lock-",
        |client| async move {
            let lock = SemaphoreMutex::new(&client, "/q").unwrap();
            lock.acquire().await.unwrap().release().await.unwrap();
        },
    )
    .await;
}

/// The requests of each write, of an uncontended acquisition and its release.
async fn uncontended<F>(act: fn(Client) -> F) -> Vec<Vec<i32>>
where
    F: Future<Output = ()>,
{
    let server = TestServer::in_memory();
    let (client, record) = recorded_client(&server, 1).await;
    act(client.clone()).await; // makes the path
    settle().await;
    record.take();
    act(client.clone()).await;
    settle().await;
    record.take()
}

#[tokio::test(start_paused = true)]
async fn a_free_lock_of_any_kind_is_one_write_for_each_queue_it_has() {
    let enter = vec![CREATE2, GET_CHILDREN2];
    let writer = uncontended(|client| async move {
        let lock = RwLock::new(&client, "/lock").unwrap();
        lock.write().acquire().await.unwrap().release().await.unwrap();
    });
    assert_eq!(writer.await, [enter.clone(), vec![DELETE]]);
    let reader = uncontended(|client| async move {
        let lock = RwLock::new(&client, "/lock").unwrap();
        lock.read().acquire().await.unwrap().release().await.unwrap();
    });
    assert_eq!(reader.await, [enter.clone(), vec![DELETE]]);
    // The turn, then the lease; both are given up.
    let permit = uncontended(|client| async move {
        let permits = Semaphore::new(&client, "/q", 1).unwrap();
        permits.acquire().await.unwrap().release().await.unwrap();
    });
    assert_eq!(permit.await, [enter.clone(), enter.clone(), vec![DELETE, DELETE]]);
    let lock = uncontended(|client| async move {
        let lock = SemaphoreMutex::new(&client, "/q").unwrap();
        lock.acquire().await.unwrap().release().await.unwrap();
    });
    assert_eq!(lock.await, [enter.clone(), enter.clone(), vec![DELETE, DELETE]]);
    // Without the turn, as it waits for nobody.
    let tried = uncontended(|client| async move {
        let permits = Semaphore::new(&client, "/q", 1).unwrap();
        permits.try_acquire().await.unwrap().unwrap().release().await.unwrap();
    });
    assert_eq!(tried.await, [enter, vec![DELETE]]);
}

/// What the next one in line asks between the event and the lock.
async fn hand_off<G, F, A>(holder: fn(Client) -> G, next: fn(Client) -> F) -> Vec<Vec<i32>>
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
    record.take()
}

/// What it comes to for a mutex, which is nothing, is in [`mutex_cost`](crate::mutex_cost).
/// A writer may come back as a reader ahead of those who wait, and permits are counted: there
/// it is one list.
#[tokio::test(start_paused = true)]
async fn who_cannot_know_by_the_event_looks_once() {
    let write = |client| async move {
        RwLock::new(&client, "/lock").unwrap().write().acquire().await.unwrap()
    };
    let next = hand_off(write, |client| async move {
        std::mem::forget(RwLock::new(&client, "/lock").unwrap().write().acquire().await.unwrap());
    });
    assert_eq!(next.await, [[GET_CHILDREN2]]);
    let next = hand_off(write, |client| async move {
        std::mem::forget(RwLock::new(&client, "/lock").unwrap().read().acquire().await.unwrap());
    });
    assert_eq!(next.await, [[GET_CHILDREN2]]);
    let permit =
        |client| async move { Semaphore::new(&client, "/q", 1).unwrap().acquire().await.unwrap() };
    let next = hand_off(permit, |client| async move {
        std::mem::forget(Semaphore::new(&client, "/q", 1).unwrap().acquire().await.unwrap());
    });
    // And then gives up its turn.
    assert_eq!(next.await, [[GET_CHILDREN2], [DELETE]]);
}
