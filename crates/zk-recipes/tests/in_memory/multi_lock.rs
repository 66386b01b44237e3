//! Several locks acquired as one, and the mutex on top of a semaphore of one permit.

use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;

use zk_recipes::session::{Client, CreateMode, RetryOn};
use zk_recipes::{
    Lock, LockError, LockGuard, LossReason, MultiLock, MultiLockError, Mutex, Semaphore,
    SemaphoreMutex,
};
use zk_testing::TestServer;
use zk_testing::server::Effect;

use crate::{T, child, children, now, queue, settle, settle_node_watches, started};

fn mutex(client: &Client, path: &str) -> Arc<dyn Lock> {
    Arc::new(Mutex::new(client, path).unwrap())
}

fn mixed(client: &Client) -> [Arc<dyn Lock>; 3] {
    [
        mutex(client, "/c"),
        Arc::new(SemaphoreMutex::new(client, "/b").unwrap()),
        Arc::new(Semaphore::new(client, "/a", 2).unwrap()),
    ]
}

const QUEUES: [&str; 5] = ["/c", "/b/locks", "/b/leases", "/a/locks", "/a/leases"];

fn nodes(server: &TestServer) -> usize {
    QUEUES.iter().map(|path| children(server, path).len()).sum()
}

fn failures(error: &MultiLockError) -> Vec<(&str, &LockError)> {
    error.failures().iter().map(|failure| (failure.path.as_str(), &failure.error)).collect()
}

#[tokio::test(start_paused = true)]
async fn multi_lock_acquires_in_order_and_releases_in_reverse() {
    let (server, [client]) = started().await;
    for canonical in [false, true] {
        let locks = match canonical {
            false => MultiLock::new(mixed(&client)),
            true => MultiLock::in_canonical_order(mixed(&client)),
        };
        let order = if canonical { ["/a", "/b", "/c"] } else { ["/c", "/b", "/a"] };
        assert_eq!(locks.paths().collect::<Vec<_>>(), order);

        let guard = locks.acquire().await.unwrap();
        assert!(guard.is_held());
        let nodes_held: Vec<String> = guard.nodes().iter().map(ToString::to_string).collect();
        for (node, path) in nodes_held.iter().zip(order) {
            assert!(node.starts_with(path), "{node} {path}");
        }
        let tokens = guard.tokens().unwrap();
        assert!(tokens.is_sorted() && tokens.len() == 3, "in the order of the locks");
        assert!(locks.try_acquire().await.unwrap().is_none());
        settle().await;
        assert_eq!(nodes(&server), 3);

        let gone = deletions(&server);
        match canonical {
            true => guard.release().await.unwrap(),
            false => drop(guard),
        }
        settle().await;
        let mut expected = nodes_held;
        expected.reverse();
        assert_eq!(*gone.lock().unwrap(), expected);
        assert_eq!(nodes(&server), 0);
    }
}

/// Records the paths of the nodes that are deleted from now on.
fn deletions(server: &TestServer) -> Arc<StdMutex<Vec<String>>> {
    let gone = Arc::new(StdMutex::new(Vec::new()));
    let told = gone.clone();
    server.with(|ensemble| {
        ensemble.observe(move |_, commit| {
            if let Effect::Deleted(path) = commit.effect {
                told.lock().unwrap().push(path.to_owned());
            }
        });
    });
    gone
}

/// The node of the acquired lock is deleted, alone or in one transaction with the node of the holder
/// of the other lock.
#[tokio::test(start_paused = true)]
async fn multi_lock_wait_ends_when_an_acquired_lock_is_lost() {
    for is_granted in [false, true] {
        let (server, [one, other]) = started().await;
        let held = Mutex::new(&other, "/y").unwrap().acquire().await.unwrap();
        let locks = MultiLock::new(["/x", "/y"].map(|path| mutex(&one, path)));
        let waiting = tokio::spawn(async move { locks.acquire().await.map(drop) });
        settle_node_watches().await;
        let gone = other.multi().delete(&child(&server, "/x", 0), None);
        let gone = if is_granted { gone.delete(held.node(), None) } else { gone };
        gone.send().await.unwrap();
        let error = waiting.await.unwrap().unwrap_err();
        let lost = LockError::Lost(LossReason::NodeDeleted);
        assert_eq!(failures(&error)[0], ("/x", &lost), "its loss");
        let released = failures(&error).into_iter().skip(1).all(|it| it == ("/x", &lost));
        assert!(released, "its release: {error}");
        settle().await;
        let left = ["/x", "/y"].map(|path| children(&server, path).len());
        assert_eq!(left, [0, usize::from(!is_granted)], "only the holder's");
    }
}

#[tokio::test(start_paused = true)]
async fn multi_lock_timeout_covers_all_locks() {
    let (server, [one, other]) = started().await;
    let lock = |path: &str| Mutex::new(&other, path).unwrap();
    let held = [lock("/x").acquire().await.unwrap(), lock("/y").acquire().await.unwrap()];
    let start = now();
    let waiting = tokio::spawn(async move {
        let locks = MultiLock::new(["/x", "/y", "/z"].map(|path| mutex(&one, path)));
        locks.acquire_timeout(T).await.map(|guard| guard.is_none())
    });
    tokio::time::sleep(T * 3 / 4).await; // reason: most of the time goes by for the first
    let [x, y] = held;
    x.release().await.unwrap();
    assert_eq!(waiting.await.unwrap(), Ok(true));
    assert!(start.elapsed() < T + Duration::from_secs(1), "{:?}", start.elapsed());
    settle().await;
    let left = ["/x", "/y", "/z"].map(|path| children(&server, path).len());
    assert_eq!(left, [0, 1, 0], "only the holder's");
    y.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn multi_lock_stops_at_first_failure_and_reports_all_errors() {
    let (server, [client, vandal]) = started().await;
    client.create("/e", b"", CreateMode::Ephemeral).await.unwrap();
    let locks = MultiLock::new(["/x", "/y", "/e", "/z"].map(|path| mutex(&client, path)));
    let error = locks.acquire().await.unwrap_err();
    let [("/e", LockError::Client(_))] = failures(&error)[..] else { panic!("{error}") };
    assert!(error.to_string().contains("lock /e: "), "{error}");
    assert!(
        std::error::Error::source(&error).is_some() && error.retry_on() != RetryOn::SameSession
    );
    settle().await;
    let left = ["/x", "/y"].map(|path| children(&server, path).len());
    assert_eq!(left, [0, 0]);
    assert!(!server.with(|ensemble| ensemble.tree().contains("/z")), "the next was not asked for");

    let locks = MultiLock::new(["/x", "/y", "/z"].map(|path| mutex(&client, path)));
    let guard = locks.acquire().await.unwrap();
    for node in [guard.nodes()[0], guard.nodes()[2]] {
        vandal.delete(node, None).await.unwrap();
    }
    let lost = LockError::Lost(LossReason::NodeDeleted);
    let error = guard.release().await.unwrap_err();
    assert_eq!(failures(&error), [("/z", &lost), ("/x", &lost)]);
    let told = format!("lock /z: {lost}; lock /x: {lost}");
    assert!(error.to_string().starts_with(&told), "{error}");
    assert!(children(&server, "/y").is_empty());
}

#[tokio::test(start_paused = true)]
async fn multi_guard_is_lost_with_any_of_its_locks() {
    let (server, [client, vandal]) = started().await;
    let deleted = Err(LockError::Lost(LossReason::NodeDeleted));
    // On a new path, a permit sets its watch at once.
    MultiLock::new(mixed(&client)).acquire().await.unwrap().release().await.unwrap();
    let boxed: Box<dyn LockGuard> =
        Box::new(MultiLock::new(mixed(&client)).acquire().await.unwrap());
    assert_eq!(boxed.check_boxed().await, boxed.tokens());
    vandal.delete(boxed.nodes()[1], None).await.unwrap();
    assert_eq!(boxed.check_boxed().await, deleted);
    assert_eq!(boxed.release_boxed().await.map(|()| Vec::new()), deleted);
    assert_eq!(nodes(&server), 0);

    let guard = MultiLock::new(mixed(&client)).acquire().await.unwrap();
    let lost = tokio::spawn(guard.lost());
    settle().await;
    vandal.delete(guard.nodes()[1], None).await.unwrap();
    assert_eq!(lost.await.unwrap(), LossReason::NodeDeleted);
    assert!(!guard.is_held() && guard.tokens().is_err());
    assert_eq!(guard.lost_paths().collect::<Vec<_>>(), ["/b"]);
    assert_eq!(failures(&guard.release().await.unwrap_err()).len(), 1);

    let guard = MultiLock::new(mixed(&client)).acquire().await.unwrap();
    let asked = tokio::spawn(guard.revocation_requested());
    assert_eq!(zk_recipes::revoke(&vandal, guard.nodes()[2]).await, Ok(true));
    assert_eq!(asked.await.unwrap(), Ok(()));
    guard.release().await.unwrap();

    let nothing = MultiLock::new([]).acquire().await.unwrap();
    assert!(tokio::time::timeout(T, nothing.lost()).await.is_err());
    nothing.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn semaphore_mutex_has_one_holder_and_growing_tokens() {
    let (_server, [one, other]) = started().await;
    let mine = SemaphoreMutex::new(&one, "/m").unwrap().with_data("mine");
    let others = SemaphoreMutex::new(&other, "/m").unwrap();
    let guard = mine.acquire().await.unwrap();
    assert!(guard.node().starts_with("/m/leases/_c_"), "{}", guard.node());
    let participants = mine.participants().await.unwrap();
    assert_eq!((participants.len(), participants[0].data.as_slice()), (1, &b"mine"[..]));
    assert!(others.try_acquire().await.unwrap().is_none());
    assert!(mine.acquire_timeout(T).await.unwrap().is_none(), "it is not re-entrant");
    let waiting = queue(&others).await;
    let token = guard.token().unwrap();
    guard.release().await.unwrap();
    assert!(waiting.await.unwrap().token().unwrap() > token);
}
