//! The end of a session fails all its waiters at once.
//!
//! They do not wait for their turn. With Curator they wait for ever.

use std::sync::Arc;

use tokio::task::JoinHandle;
use zk_recipes::session::{Client, ErrorKind, RetryOn, SessionEnd};
use zk_recipes::{
    Lock, LockError, LossReason, MultiLock, Mutex, RwLock, Semaphore, SemaphoreMutex,
};
use zk_testing::TestServer;

use crate::{T, now, settle, settle_node_watches, started};

/// Way in which the session ends.
#[derive(Clone, Copy, Debug)]
enum End {
    Closed,
    Expired,
}

impl End {
    const ALL: [Self; 2] = [Self::Closed, Self::Expired];

    async fn of(self, client: &Client, server: &TestServer) {
        match self {
            Self::Closed => client.close().await,
            Self::Expired => assert!(server.expire(client.session_id())),
        }
    }
}

/// Queues 20 waiters for each lock, ends their session, and expects all of them to fail at once.
///
/// Another session holds the locks.
async fn all_are_told(locks: impl Fn(&Client) -> Vec<Arc<dyn Lock>>) {
    for end in End::ALL {
        let (server, [one, other]) = started().await;
        let mut held = Vec::new();
        for lock in locks(&other) {
            held.push(lock.acquire_boxed().await.unwrap());
        }
        let mut waiting = Vec::new();
        for lock in locks(&one) {
            for _ in 0..20 {
                let lock = lock.clone();
                waiting.push(tokio::spawn(async move { lock.acquire_boxed().await.map(drop) }));
            }
        }
        settle().await;
        assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
        end.of(&one, &server).await;
        let before = now();
        for waiting in waiting {
            expect_end(waiting, end).await;
        }
        assert!(now() - before < T / 10, "{end:?}: they wait for nothing any more");
        assert!(held.iter().all(|held| held.is_held()));
    }
}

async fn expect_end(waiting: JoinHandle<Result<(), LockError>>, end: End) {
    let told = waiting.await.unwrap().unwrap_err();
    assert!(told.retry_on() != RetryOn::SameSession, "{told}");
    let ended = match &told {
        LockError::Client(error) => match error.kind() {
            ErrorKind::SessionEnded(ended) => Some(*ended),
            _ => None,
        },
        LockError::Lost(LossReason::SessionEnded(ended)) => Some(*ended),
        _ => None,
    };
    match (end, ended) {
        (End::Closed, Some(SessionEnd::Closed)) | (End::Expired, Some(SessionEnd::Expired)) => {}
        _ => panic!("{end:?}: {told}"),
    }
}

#[tokio::test(start_paused = true)]
async fn mutex_waiter_fails_when_its_session_ends() {
    all_are_told(|client| vec![Arc::new(Mutex::new(client, "/lock").unwrap())]).await;
}

#[tokio::test(start_paused = true)]
async fn mutex_waiter_with_owner_fails_when_its_session_ends() {
    let owner = zk_recipes::Owner::new();
    all_are_told(|client| vec![Arc::new(Mutex::new(client, "/lock").unwrap().with_owner(&owner))])
        .await;
}

#[tokio::test(start_paused = true)]
async fn reader_fails_when_its_session_ends() {
    for end in End::ALL {
        let (server, [one, other]) = started().await;
        let _writing = RwLock::new(&other, "/rw").unwrap().write().acquire().await.unwrap();
        let lock = RwLock::new(&one, "/rw").unwrap();
        let waiting = tokio::spawn(async move { lock.read().acquire().await.map(drop) });
        settle().await;
        assert!(!waiting.is_finished());
        end.of(&one, &server).await;
        expect_end(waiting, end).await;
    }
}

#[tokio::test(start_paused = true)]
async fn writer_fails_when_its_session_ends() {
    all_are_told(|client| vec![Arc::new(RwLock::new(client, "/rw").unwrap().write().clone())])
        .await;
}

#[tokio::test(start_paused = true)]
async fn semaphore_waiter_fails_when_its_session_ends() {
    all_are_told(|client| vec![Arc::new(Semaphore::new(client, "/s", 1).unwrap())]).await;
}

#[tokio::test(start_paused = true)]
async fn semaphore_mutex_waiter_fails_when_its_session_ends() {
    all_are_told(|client| vec![Arc::new(SemaphoreMutex::new(client, "/m").unwrap())]).await;
}

/// The waiter already holds the first lock, which is lost and released as well.
#[tokio::test(start_paused = true)]
async fn multi_lock_waiter_fails_when_its_session_ends() {
    for (end, is_watched) in End::ALL.into_iter().flat_map(|end| [(end, false), (end, true)]) {
        let (server, [one, other]) = started().await;
        let _in_the_way = Mutex::new(&other, "/b").unwrap().acquire().await.unwrap();
        let lock = |path| -> Arc<dyn Lock> { Arc::new(Mutex::new(&one, path).unwrap()) };
        let both = MultiLock::new([lock("/a"), lock("/b")]);
        let waiting = tokio::spawn(async move { both.acquire().await });
        match is_watched {
            true => settle_node_watches().await,
            false => settle().await,
        }
        assert!(!waiting.is_finished());
        end.of(&one, &server).await;
        let before = now();
        let told = waiting.await.unwrap().unwrap_err();
        assert!(now() - before < T / 10);
        let case = format!("{end:?}, {is_watched}: {told}");
        // The server deletes the nodes of an expired session before it ends the session. The event
        // of the guard's node arrives first, if it is watched.
        let (first, reason) = match (end, is_watched) {
            (End::Closed, _) => ("/a", LossReason::SessionEnded(SessionEnd::Closed)),
            (End::Expired, false) => ("/b", LossReason::SessionEnded(SessionEnd::Expired)),
            (End::Expired, true) => ("/b", LossReason::NodeDeleted),
        };
        assert_eq!(told.failures()[0].path, first, "{case}");
        let of_guard = told.failures().iter().find(|failure| failure.path == "/a");
        assert_eq!(of_guard.unwrap().error, LockError::Lost(reason), "{case}");
        assert!(Mutex::new(&other, "/a").unwrap().try_acquire().await.unwrap().is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn unanswered_downgrade_fails_when_its_session_ends() {
    for end in End::ALL {
        let (server, [one]) = started().await;
        let writing = RwLock::new(&one, "/rw").unwrap().write().acquire().await.unwrap();
        // The server never answers the transaction, on any connection.
        let multis = server.on(zk_testing::Op::Multi).session(one.session_id());
        let fault = multis.always().never_answer();
        let waiting = tokio::spawn(async move { writing.downgrade().await.map(drop) });
        settle().await;
        assert!(!waiting.is_finished() && fault.count() > 0);
        let before = now();
        end.of(&one, &server).await;
        expect_end(waiting, end).await;
        assert!(now() - before < T / 10, "{end:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn position_wait_fails_when_its_session_ends() {
    for end in End::ALL {
        let (server, [one, other]) = started().await;
        let _held = Mutex::new(&other, "/lock").unwrap().acquire().await.unwrap();
        let mut queued = Mutex::new(&one, "/lock").unwrap().enqueue().await.unwrap();
        let waiting = tokio::spawn(async move {
            queued.position_changed().await?;
            Ok(())
        });
        settle().await;
        assert!(!waiting.is_finished());
        end.of(&one, &server).await;
        expect_end(waiting, end).await;
    }
}
