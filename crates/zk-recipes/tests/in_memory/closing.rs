//! The end of a session fails all its waiters at once.
//!
//! They do not wait for their turn. With Curator they wait for ever.

use std::fmt::Debug;
use std::sync::Arc;

use tokio::task::JoinHandle;
use zk_recipes::session::{Client, ErrorKind, RetryOn, SessionEnd};
use zk_recipes::{LocalQueueLimits, Lock, LockError, LossReason, MultiLock, Mutex, Owner, RwLock};
use zk_testing::TestServer;

use crate::{Acquire, Kind, T, children, now, running, settle, settle_node_watches, started};

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

async fn expect_end<T: Debug>(waiting: JoinHandle<Result<T, LockError>>, end: End) {
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

/// Returns a client's handle of a lock.
type Handle = dyn Fn(&Client) -> Arc<dyn Lock>;

/// Another session holds the lock.
#[tokio::test(start_paused = true)]
async fn waiters_of_each_kind_fail_when_their_session_ends() {
    let of_kind = |kind: Kind| move |client: &Client| kind.lock(client);
    let mut locks: Vec<(Kind, Box<Handle>)> = Vec::new();
    for kind in Kind::ALL {
        locks.push((kind, Box::new(of_kind(kind))));
    }
    let (owner, mutex) = (Owner::new(), |client: &Client| Mutex::new(client, "/m").unwrap());
    locks.push((Kind::Mutex, Box::new(move |client| Arc::new(mutex(client).with_owner(&owner)))));
    let shared = move |client: &Client| mutex(client).with_local_queue(LocalQueueLimits::default());
    locks.push((Kind::Mutex, Box::new(move |client| Arc::new(shared(client)))));
    for (end, (kind, lock)) in
        End::ALL.iter().flat_map(|end| locks.iter().map(move |it| (*end, it)))
    {
        let (server, [one, other]) = started().await;
        let held = kind.exclude(&other).await;
        let lock = lock(&one);
        let waiting: Vec<_> = (0..20).map(|_| tokio::spawn(lock.clone().acquired())).collect();
        settle().await;
        assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
        end.of(&one, &server).await;
        let before = now();
        for waiting in waiting {
            expect_end(waiting, end).await;
        }
        assert!(now() - before < T / 10, "{end:?}: they wait for nothing any more");
        let left: usize = kind.folders().iter().map(|path| children(&server, path).len()).sum();
        assert!(held.is_held() && left == 1, "{end:?}, {kind:?}: {left} nodes");
        settle_node_watches().await;
        let lost = held.lost_boxed();
        assert!(server.expire(other.session_id()));
        // The client reconnects at once, and so learns why the node was deleted.
        assert_eq!(lost.await, LossReason::SessionEnded(SessionEnd::Expired), "{kind:?}");
    }
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
        let waiting = running(writing.downgrade()).await;
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
        let waiting = running(async move { queued.position_changed().await }).await;
        assert!(!waiting.is_finished());
        end.of(&one, &server).await;
        expect_end(waiting, end).await;
    }
}
