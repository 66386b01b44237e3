//! The end of the sequence numbers, at 2^31 - 1.
//!
//! A server repeats the last number for creates that arrive one at a time. For creates that arrive
//! together it continues with negative numbers. Two contenders would then be first.
//!
//! No acquisition succeeds at the end of the numbers. Nodes of other clients are ordered as Curator
//! orders them.

use std::sync::Arc;

use zk_recipes::limits::SEQUENCE_END;
use zk_recipes::session::{Client, CreateMode, RetryOn};
use zk_recipes::{Lock, LockError, MultiLock, Mutex, RwLock, Semaphore, SemaphoreMutex};
use zk_testing::TestServer;

use crate::{attempt, children, client, queue, settle, started};

/// Returns each lock, with the parents that number its nodes.
fn locks(client: &Client) -> [(Arc<dyn Lock>, &'static [&'static str]); 5] {
    let rw = RwLock::new(client, "/rw").unwrap();
    [
        (Arc::new(Mutex::new(client, "/m").unwrap()), &["/m"]),
        (Arc::new(rw.read().clone()), &["/rw"]),
        (Arc::new(rw.write().clone()), &["/rw"]),
        (Arc::new(Semaphore::new(client, "/s", 1).unwrap()), &["/s/locks", "/s/leases"]),
        (Arc::new(SemaphoreMutex::new(client, "/sm").unwrap()), &["/sm/locks", "/sm/leases"]),
    ]
}

/// Nine contenders of three sessions acquire at once around the end, three times.
#[tokio::test(start_paused = true)]
async fn acquisitions_fail_at_the_end_of_the_sequence_numbers() {
    let server = TestServer::in_memory();
    let clients = [client(&server, 1).await, client(&server, 2).await, client(&server, 3).await];
    let count = locks(&clients[0]).len();
    for which in 0..count {
        let (lock, folders) = &locks(&clients[0])[which];
        for folder in *folders {
            lock.acquire_boxed().await.unwrap().release_boxed().await.unwrap();
            settle().await;
            let before =
                server.with(|ensemble| ensemble.tree().node(folder).unwrap().next_sequence());
            assert!(server.set_sequence(folder, i32::MAX - 2));
            for _ in 0..3 {
                let mut crowd = Vec::new();
                for client in clients.iter().cycle().take(9) {
                    let lock = locks(client)[which].0.clone();
                    crowd.push(tokio::spawn(async move { lock.acquire_boxed().await.err() }));
                }
                for contender in crowd {
                    let error = contender.await.unwrap().expect("nobody gets it");
                    let LockError::SequenceExhausted { node } = &error else { panic!("{error}") };
                    assert!(node.starts_with(folder), "{node}");
                    assert!(error.retry_on() != RetryOn::SameSession);
                    assert!(error.to_string().contains("are used up"), "{error}");
                }
                settle().await;
                assert_eq!(children(&server, folder), [""; 0], "{folder}: nothing is left");
            }
            assert!(server.set_sequence(folder, before));
        }
    }
}

/// The last contenders below the limit hold the lock and wait as usual. Later contenders fail at
/// once.
#[tokio::test(start_paused = true)]
async fn exhausted_sequence_fails_newcomers_and_keeps_the_holder() {
    let (server, [one, other]) = started().await;
    let lock = |client: &Client| Mutex::new(client, "/m").unwrap();
    lock(&one).acquire().await.unwrap().release().await.unwrap();
    assert!(server.set_sequence("/m", i32::try_from(SEQUENCE_END).unwrap() - 2));
    let held = lock(&one).acquire().await.unwrap();
    let waiting = attempt(&lock(&other)).await;
    for _ in 0..3 {
        let late = lock(&other).acquire().await.unwrap_err();
        assert!(matches!(late, LockError::SequenceExhausted { .. }), "{late}");
        let held_by_others: [Arc<dyn Lock>; 1] = [Arc::new(lock(&other))];
        assert!(MultiLock::new(held_by_others).acquire().await.is_err());
    }
    held.check().await.unwrap();
    assert!(!waiting.is_finished());
    held.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(children(&server, "/m"), [""; 0]);
}

/// A server gives such names to clients that do not check the numbers.
///
/// Curator orders them by the text of the number, and a minus sorts before every digit.
#[tokio::test(start_paused = true)]
async fn foreign_numbers_beyond_the_end_sort_as_in_curator() {
    let ahead = ["-2147483648", "-000000005", "-0000000001", "", "-", "00000000001"];
    let behind = ["2147483647", "4294967295", "4294967296", "9999999999", "x"];
    for (number, is_ahead) in
        ahead.map(|it| (it, true)).into_iter().chain(behind.map(|it| (it, false)))
    {
        let (_server, [own, other]) = started().await;
        let lock = Mutex::new(&own, "/m").unwrap();
        lock.acquire().await.unwrap().release().await.unwrap(); // the number 0
        let path = format!("/m/_c_00000000-0000-4000-8000-000000000000-lock-{number}");
        other.create(&path, b"", CreateMode::Ephemeral).await.unwrap();
        let tried = lock.try_acquire().await.unwrap();
        assert_eq!(tried.is_none(), is_ahead, "{number}");
        drop(tried);
        let waiting = queue(&lock).await;
        assert_eq!(waiting.is_finished(), !is_ahead, "{number}");
        other.delete(&path, None).await.unwrap();
        waiting.await.unwrap().check().await.unwrap();
    }
}
