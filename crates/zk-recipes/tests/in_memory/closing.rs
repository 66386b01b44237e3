//! The end of a session fails all its waiters at once. They do not wait for their turn; with Curator they
//! wait for ever.
//!
//! Bugs of the other Rust clients are named by their numbers in the list of observed bugs: K stands for
//! `zookeeper-client` 0.11, A for `zookeeper-async` 5.0. The bugs of their decoders (K7 to K9, A6) are in
//! `zk-proto/tests/other_clients.rs`, those of their sessions (K1, K2, K11, K12) in the tests of
//! zk-session-core and zk-testing. Each step of an acquisition or release (K3 to K6, A1 to A3, A5) is dropped
//! and cut in `cancelled`. K10 is unsafe code, and there is none here.

use std::sync::Arc;

use tokio::task::JoinHandle;
use zk_recipes::session::{Client, CreateMode, ErrorKind, RetryOn, SessionEnd};
use zk_recipes::{LocalQueueLimits, Lock, LockError, LossReason, MultiLock, Mutex, Owner};
use zk_testing::TestServer;

use crate::{Acquire, Kind, T, children, now, settle, settle_node_watches, started};

const ENDS: [SessionEnd; 2] = [SessionEnd::Closed, SessionEnd::Expired];

async fn end_session(end: SessionEnd, client: &Client, server: &TestServer) {
    match end {
        SessionEnd::Closed => client.close().await,
        _ => assert!(server.expire(client.session_id())),
    }
}

async fn expect_end(waiting: JoinHandle<Result<(), LockError>>, end: SessionEnd) {
    let told = waiting.await.unwrap().unwrap_err();
    assert!(told.retry_on() != RetryOn::SameSession, "{told}");
    let is_told = match &told {
        LockError::Client(error) => *error.kind() == ErrorKind::SessionEnded(end),
        error => *error == LockError::Lost(LossReason::SessionEnded(end)),
    };
    assert!(is_told, "{end:?}: {told}");
}

/// Another session holds the locks. The waiters have nodes, or wait for the turn of a local holder or of
/// their owner's place in the queue, which no task polls.
#[tokio::test(start_paused = true)]
async fn waiters_of_each_kind_fail_when_their_session_ends() {
    for end in ENDS {
        let (server, [one, other]) = started().await;
        let mut held = Vec::new();
        for kind in [Kind::Mutex, Kind::Writer, Kind::Permit, Kind::SemaphoreMutex] {
            held.push(kind.exclude(&other).await);
        }
        let mutex = |path| Mutex::new(&one, path).unwrap();
        let local = |path| mutex(path).with_local_queue(LocalQueueLimits::default());
        let [owned, placed] = [(); 2].map(|()| mutex("/m").with_owner(&Owner::new()));
        let (queued, passed) = (local("/m"), local("/passed"));
        let local_holder = passed.acquire().await.unwrap();
        let _place = placed.enqueue().await.unwrap();
        let mut ticket = mutex("/m").enqueue().await.unwrap();
        let mut waiting =
            vec![tokio::spawn(async move { ticket.position_changed().await.map(drop) })];
        let mut locks = Kind::ALL.map(|kind| kind.lock(&one)).to_vec();
        locks.extend([owned, placed, queued, passed].map(|lock| Arc::new(lock) as Arc<dyn Lock>));
        for acquired in (0..20).flat_map(|_| locks.clone()).map(Acquire::acquired) {
            waiting.push(tokio::spawn(async move { acquired.await.map(drop) }));
        }
        settle().await;
        assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
        end_session(end, &one, &server).await;
        let before = now();
        for waiting in waiting {
            expect_end(waiting, end).await;
        }
        assert!(now() - before < T / 10, "{end:?}: they wait for nothing any more");
        assert!(!local_holder.is_held());
        let folders = ["/m", "/rw", "/s/locks", "/s/leases", "/sm/locks", "/sm/leases", "/passed"];
        let left = folders.map(|path| children(&server, path).len());
        assert_eq!(left, [1, 1, 0, 1, 0, 1, 0], "{end:?}");
        settle_node_watches().await;
        let lost: Vec<_> = held.iter().map(|held| held.lost_boxed()).collect();
        assert!(server.expire(other.session_id()));
        // The client reconnects at once, and so learns why the nodes were deleted.
        for lost in lost {
            assert_eq!(lost.await, LossReason::SessionEnded(SessionEnd::Expired));
        }
    }
}

/// The waiter already holds the first lock, which is lost and released as well.
#[tokio::test(start_paused = true)]
async fn multi_lock_waiter_fails_when_its_session_ends() {
    for (end, is_watched) in ENDS.into_iter().flat_map(|end| [(end, false), (end, true)]) {
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
        end_session(end, &one, &server).await;
        let before = now();
        let told = waiting.await.unwrap().unwrap_err();
        assert!(now() - before < T / 10);
        let case = format!("{end:?}, {is_watched}: {told}");
        // The server deletes the nodes of an expired session before it ends the session. The event
        // of the guard's node arrives first, if it is watched.
        let (first, reason) = match (end, is_watched) {
            (SessionEnd::Closed, _) => ("/a", LossReason::SessionEnded(end)),
            (_, false) => ("/b", LossReason::SessionEnded(end)),
            (_, true) => ("/b", LossReason::NodeDeleted),
        };
        assert_eq!(told.failures()[0].path, first, "{case}");
        let of_guard = told.failures().iter().find(|failure| failure.path == "/a");
        assert_eq!(of_guard.unwrap().error, LockError::Lost(reason), "{case}");
        assert!(Mutex::new(&other, "/a").unwrap().try_acquire().await.unwrap().is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn a4_expired_session_stays_ended_and_its_lock_is_lost() {
    let (server, [client]) = started().await;
    let guard = Mutex::new(&client, "/lock").unwrap().acquire().await.unwrap();
    let session_id = client.session_id();
    server.expire(session_id);
    assert!(matches!(guard.lost().await, LossReason::SessionEnded(_)));
    let told = client.create("/a", b"", CreateMode::Ephemeral).await.unwrap_err();
    assert!(matches!(told.kind(), ErrorKind::SessionEnded(_)), "{told}");
    assert_eq!(client.session_id(), session_id, "no other one in its place");
    assert!(matches!(guard.release().await, Err(LockError::Lost(_))));
}
