//! The end of the sequence numbers, at 2^31 - 1.
//!
//! A server repeats the last number for creates that arrive one at a time. For creates that arrive
//! together it continues with negative numbers. Two contenders would then be first.
//!
//! No acquisition succeeds at the end of the numbers. Nodes of other clients are ordered as Curator
//! orders them.

use zk_recipes::limits::SEQUENCE_END;
use zk_recipes::session::{Client, RetryOn};
use zk_recipes::{LockError, Mutex};
use zk_testing::TestServer;

use crate::{Acquire, Kind, attempt, children, client, settle, started};

/// Nine contenders of three sessions acquire at once around the end, three times.
#[tokio::test(start_paused = true)]
async fn acquisitions_fail_at_the_end_of_the_sequence_numbers() {
    let server = TestServer::in_memory();
    let clients = [client(&server, 1).await, client(&server, 2).await, client(&server, 3).await];
    for kind in Kind::ALL {
        for folder in kind.folders() {
            let lock = kind.lock(&clients[0]);
            lock.acquire_boxed().await.unwrap().release_boxed().await.unwrap();
            settle().await;
            let before =
                server.with(|ensemble| ensemble.tree().node(folder).unwrap().next_sequence());
            assert!(server.set_sequence(folder, i32::MAX - 2));
            for _ in 0..3 {
                let nine = clients.iter().cycle().take(9);
                let crowd: Vec<_> =
                    nine.map(|client| tokio::spawn(kind.lock(client).acquired())).collect();
                for contender in crowd {
                    let error = contender.await.unwrap().expect_err("nobody gets it");
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
    }
    held.check().await.unwrap();
    assert!(!waiting.is_finished());
    held.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(children(&server, "/m"), [""; 0]);
}
