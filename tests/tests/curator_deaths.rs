//! Tests of sessions that end while they hold or wait for a lock that Curator's clients and ours
//! share.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

use std::time::Duration;

use tokio::task::JoinHandle;
use zk_recipes::session::Client;
use zk_recipes::{Guard, LockError, LossReason, RwLock, Semaphore, SemaphoreGuard, SemaphoreMutex};
use zk_recipes::{WriteGuard, revoke};
use zk_tests::{Curator, connect, contenders, open, shared_zookeeper};

/// Session timeout of a client that dies. Its nodes stay for that long.
const SHORT: Duration = Duration::from_secs(4);

/// Returns the clients that stay alive.
async fn both() -> Option<(String, Client, Curator)> {
    let address = shared_zookeeper()?.connect_string();
    let curator = Curator::start(&address)?;
    let client = open(&address).await;
    Some((address, client, curator))
}

fn reader(client: &Client, path: &str) -> JoinHandle<Result<Guard, LockError>> {
    let side = RwLock::new(client, path).unwrap().read().clone();
    tokio::spawn(async move { side.acquire().await })
}

fn writer(client: &Client, path: &str) -> JoinHandle<Result<WriteGuard, LockError>> {
    let side = RwLock::new(client, path).unwrap().write().clone();
    tokio::spawn(async move { side.acquire().await })
}

fn permits(
    client: &Client,
    path: &str,
    count: u32,
) -> JoinHandle<Result<SemaphoreGuard, LockError>> {
    let semaphore = Semaphore::new(client, path, 3).unwrap();
    tokio::spawn(async move { semaphore.acquire_many(count).await })
}

#[tokio::test(flavor = "multi_thread")]
async fn rw_lock_of_killed_java_process_is_free_after_expiry() {
    let Some((address, client, mut curator)) = both().await else { return };
    const PATH: &str = "/deaths/rw-theirs";
    let Some(mut waiter) = Curator::with_timeout(&address, SHORT) else { return };
    let Some(mut holder) = Curator::with_timeout(&address, SHORT) else { return };
    // The process writes and reads, so it has two nodes.
    holder.ok("a", &format!("acquire write {PATH} 0 0 -1"));
    holder.ok("a", "read-too");
    let reading = reader(&client, PATH);
    contenders(&client, PATH, 3).await;
    waiter.tell("a", &format!("acquire write {PATH} 0 0 -1"));
    contenders(&client, PATH, 4).await;
    let behind = reader(&client, PATH);
    contenders(&client, PATH, 5).await;
    curator.tell("behind", &format!("acquire read {PATH} 0 0 -1"));
    contenders(&client, PATH, 6).await;
    let writing = writer(&client, PATH);
    contenders(&client, PATH, 7).await;

    // A writer that only waits dies. That releases no lock.
    drop(waiter);
    contenders(&client, PATH, 6).await;
    holder.ok("a", &format!("participants write {PATH}"));
    assert!(!reading.is_finished() && !behind.is_finished());
    drop(holder);
    let reading = reading.await.unwrap().unwrap();
    let behind = behind.await.unwrap().unwrap();
    assert_eq!(curator.answer("behind"), ["ok"]);
    contenders(&client, PATH, 4).await;
    assert!(!writing.is_finished());
    reading.release().await.unwrap();
    behind.release().await.unwrap();
    assert!(!writing.is_finished(), "Curator's reader lives");
    curator.ok("behind", "release");
    writing.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn curators_readers_and_writers_acquire_after_our_expiry() {
    let Some((address, client, mut curator)) = both().await else { return };
    const PATH: &str = "/deaths/rw-ours";
    let (holder, waiter) = (connect(&address, SHORT).await, connect(&address, SHORT).await);
    let held = writer(&holder, PATH).await.unwrap().unwrap();
    let reading = held.downgrade().await.unwrap();
    let dying = writer(&waiter, PATH);
    contenders(&client, PATH, 2).await;
    curator.tell("reader", &format!("acquire read {PATH} 0 0 -1"));
    contenders(&client, PATH, 3).await;
    curator.tell("writer", &format!("acquire write {PATH} 0 0 -1"));
    contenders(&client, PATH, 4).await;

    // The waiting writer dies. Then Curator's reader shares the lock with ours.
    waiter.detach().expect("a session");
    assert!(dying.await.unwrap().is_err());
    assert_eq!(curator.answer("reader"), ["ok"]);
    assert!(reading.is_held());
    holder.detach().expect("a session");
    assert!(matches!(reading.lost().await, LossReason::SessionEnded(_)));
    contenders(&client, PATH, 2).await;
    curator.ok("reader", "release");
    assert_eq!(curator.answer("writer"), ["ok"]);
    assert!(RwLock::new(&client, PATH).unwrap().read().try_acquire().await.unwrap().is_none());
    curator.ok("writer", "release");
    contenders(&client, PATH, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn permits_of_killed_java_process_are_free_after_expiry() {
    let Some((address, client, mut curator)) = both().await else { return };
    const PATH: &str = "/deaths/permits-theirs";
    let leases = async |count| contenders(&client, "/deaths/permits-theirs/leases", count).await;
    let turns = async |count| contenders(&client, "/deaths/permits-theirs/locks", count).await;
    let Some(mut waiter) = Curator::with_timeout(&address, SHORT) else { return };
    let Some(mut holder) = Curator::with_timeout(&address, SHORT) else { return };
    holder.ok("a", &format!("acquire semaphore {PATH} 3 2 -1"));
    curator.ok("holds-one", &format!("acquire semaphore {PATH} 3 1 -1"));
    // The waiter is first in the queue, and has a lease node beyond the limit.
    waiter.tell("a", &format!("acquire semaphore {PATH} 3 1 -1"));
    leases(4).await;
    let two = permits(&client, PATH, 2);
    turns(2).await;
    curator.tell("behind", &format!("acquire semaphore {PATH} 3 1 -1"));
    turns(3).await;

    drop(waiter);
    turns(2).await; // our waiter is next in the queue, and requests two
    leases(5).await;
    assert!(!two.is_finished());
    holder.ok("a", &format!("participants semaphore {PATH}"));
    drop(holder);
    let two = two.await.unwrap().unwrap();
    assert_eq!((two.permits(), two.is_held()), (2, true));
    leases(4).await; // including the lease node of the waiter
    curator.ok("holds-one", "release");
    assert_eq!(curator.answer("behind")[0], "ok");
    two.release().await.unwrap();
    curator.ok("behind", "release");
    leases(0).await;
    turns(0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn curator_acquires_permits_after_our_sessions_expire() {
    let Some((address, client, mut curator)) = both().await else { return };
    const PATH: &str = "/deaths/permits-ours";
    let leases = async |count| contenders(&client, "/deaths/permits-ours/leases", count).await;
    let turns = async |count| contenders(&client, "/deaths/permits-ours/locks", count).await;
    let (holder, waiter) = (connect(&address, SHORT).await, connect(&address, SHORT).await);
    let held = permits(&holder, PATH, 2).await.unwrap().unwrap();
    let stays = permits(&client, PATH, 1).await.unwrap().unwrap();
    let dying = permits(&waiter, PATH, 2);
    leases(5).await;
    curator.tell("first", &format!("acquire semaphore {PATH} 3 1 -1"));
    turns(2).await;
    let last = permits(&client, PATH, 2);
    turns(3).await;

    waiter.detach().expect("a session");
    assert!(dying.await.unwrap().is_err());
    turns(2).await;
    leases(4).await; // Curator is first, with a lease beyond the limit
    holder.detach().expect("a session");
    assert!(matches!(held.lost().await, LossReason::SessionEnded(_)));
    assert_eq!(curator.answer("first")[0], "ok");
    leases(4).await;
    assert!(!last.is_finished(), "one of the two that it wants is held");
    stays.release().await.unwrap();
    last.await.unwrap().unwrap().release().await.unwrap();
    curator.ok("first", "release");
    leases(0).await;
}

/// Curator lists the participants of a semaphore mutex as those of the underlying semaphore.
#[tokio::test(flavor = "multi_thread")]
async fn semaphore_mutex_lists_holder_and_survives_dead_holders() {
    let Some((address, client, mut curator)) = both().await else { return };
    const PATH: &str = "/deaths/semaphore-mutex";
    let lock = SemaphoreMutex::new(&client, PATH).unwrap();
    let listed = async |curator: &mut Curator| -> Vec<String> {
        let ours = lock.participants().await.unwrap();
        let ours = ours
            .iter()
            .map(|participant| participant.path.rsplit('/').next().unwrap().to_owned())
            .collect();
        let theirs = curator.ok("observer", &format!("participants semaphore {PATH}"));
        assert_eq!(theirs, ours);
        ours
    };
    let Some(mut holder) = Curator::with_timeout(&address, SHORT) else { return };
    holder.ok("a", &format!("acquire semaphore-mutex {PATH} 0 0 -1"));
    let theirs = listed(&mut curator).await;
    assert_eq!(theirs.len(), 1);
    drop(holder);
    let guard = lock.acquire().await.unwrap();
    let ours = listed(&mut curator).await;
    assert!(ours.len() == 1 && ours != theirs && guard.node().ends_with(&ours[0]));
    guard.release().await.unwrap();

    let leaving = connect(&address, SHORT).await;
    let held = SemaphoreMutex::new(&leaving, PATH).unwrap().acquire().await.unwrap();
    curator.tell("b", &format!("acquire semaphore-mutex {PATH} 0 0 -1"));
    contenders(&client, &format!("{PATH}/leases"), 2).await;
    leaving.detach().expect("a session");
    assert!(matches!(held.lost().await, LossReason::SessionEnded(_)));
    assert_eq!(curator.answer("b"), ["ok"]);
    assert!(lock.try_acquire().await.unwrap().is_none());
    curator.ok("b", "release");
    assert_eq!(listed(&mut curator).await, [""; 0]);
}

/// Each side of a read-write lock can be asked to release, both its holders and its waiters.
#[tokio::test(flavor = "multi_thread")]
async fn revocation_reaches_readers_and_writers_across_clients() {
    let Some((_, client, mut curator)) = both().await else { return };
    const PATH: &str = "/deaths/revoked-sides";
    let lock = RwLock::new(&client, PATH).unwrap();
    let reading = lock.read().acquire().await.unwrap();
    curator.ok("reader", &format!("acquire-revocable read {PATH}"));
    curator.tell("writer", &format!("acquire-revocable write {PATH}"));
    contenders(&client, PATH, 3).await;
    curator.ok("revoker", &format!("revoke {}", reading.node()));
    reading.revocation_requested().await.unwrap();
    let theirs = lock.read().participants().await.unwrap();
    assert!(revoke(&client, &theirs[1].path).await.unwrap());
    assert_eq!(curator.answer("reader"), ["revoked"]);
    let waiting = lock.write().participants().await.unwrap();
    assert!(revoke(&client, &waiting[0].path).await.unwrap());
    assert_eq!(curator.answer("writer"), ["revoked"], "who waits hears of it, too");
    assert!(reading.is_held());
    reading.release().await.unwrap();
    curator.ok("reader", "release");

    assert_eq!(curator.answer("writer"), ["ok"]);
    assert!(revoke(&client, &waiting[0].path).await.unwrap());
    assert_eq!(curator.answer("writer"), ["revoked"], "asked again, it is told again");
    curator.ok("writer", "release");
    let writing = lock.write().acquire().await.unwrap();
    curator.ok("revoker", &format!("revoke {}", writing.node()));
    writing.revocation_requested().await.unwrap();
    let reading = writing.downgrade().await.unwrap();
    curator.ok("revoker", &format!("revoke {}", reading.node()));
    reading.revocation_requested().await.unwrap();
}

/// Curator does not support revocation of permits (CURATOR-650), but any client may request it.
#[tokio::test(flavor = "multi_thread")]
async fn permit_revocation_reaches_us_and_leaves_curator_holding() {
    let Some((_, client, mut curator)) = both().await else { return };
    const PATH: &str = "/deaths/revoked-permits";
    let ours = permits(&client, PATH, 2).await.unwrap().unwrap();
    let theirs = curator.ok("a", &format!("acquire semaphore {PATH} 3 1 -1"));
    assert_eq!(curator.ok("a", "lease-data"), ["127.0.0.1"]);
    let last = ours.nodes().last().unwrap().to_owned();
    curator.ok("revoker", &format!("revoke {last}"));
    ours.revocation_requested().await.unwrap();
    assert!(ours.is_held(), "to be asked is not to lose");
    let node = format!("{PATH}/leases/{}", theirs[0]);
    assert!(revoke(&client, &node).await.unwrap());
    assert_eq!(curator.ok("a", "lease-data"), ["__REVOKE__"]);
    let semaphore = Semaphore::new(&client, PATH, 3).unwrap();
    assert!(semaphore.try_acquire().await.unwrap().is_none(), "it goes on holding it");
    curator.ok("a", "release");
    assert!(!revoke(&client, &node).await.unwrap());
    ours.release().await.unwrap();
}
