//! Tests of a read-write lock that we share with Java services that use Curator.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

use std::fs;
use std::time::Duration;

use tokio::task::JoinHandle;
use zk_recipes::session::{Client, ParentMode};
use zk_recipes::{Guard, Participant, RwLock, WriteGuard};
use zk_tests::{Curator, Scratch, contenders, open, shared_zookeeper};

async fn both() -> Option<(Client, Curator)> {
    let address = shared_zookeeper()?.connect_string();
    let curator = Curator::start(&address)?;
    Some((open(&address).await, curator))
}

/// Adds a reader of ours, and waits until the queue at the lock's path has `count` contenders.
async fn reader(client: &Client, lock: &RwLock, count: usize) -> JoinHandle<Guard> {
    let side = lock.read().clone();
    let waiting = tokio::spawn(async move { side.acquire().await.unwrap() });
    contenders(client, lock.path(), count).await;
    waiting
}

/// Adds a writer of ours; see [`reader`].
async fn writer(client: &Client, lock: &RwLock, count: usize) -> JoinHandle<WriteGuard> {
    let side = lock.write().clone();
    let waiting = tokio::spawn(async move { side.acquire().await.unwrap() });
    contenders(client, lock.path(), count).await;
    waiting
}

/// Adds a contender of Curator's, and waits until the queue at `path` has `count` contenders.
async fn theirs(
    (client, curator): (&Client, &mut Curator),
    actor: &str,
    (side, path): (&str, &str),
    count: usize,
) {
    curator.tell(actor, &format!("acquire {side} {path} 0 0 -1"));
    contenders(client, path, count).await;
}

/// Returns the nodes of each side. Both clients must list the same nodes in the same order.
async fn listed(lock: &RwLock, curator: &mut Curator) -> [Vec<String>; 2] {
    let paths = |participants: Vec<Participant>| -> Vec<String> {
        participants.into_iter().map(|participant| participant.path).collect()
    };
    let ours = [
        paths(lock.read().participants().await.unwrap()),
        paths(lock.write().participants().await.unwrap()),
    ];
    let theirs = ["read", "write"]
        .map(|side| curator.ok("observer", &format!("participants {side} {}", lock.path())));
    assert_eq!(ours, theirs);
    ours
}

/// Returns the sequence number at the end of a node's name.
fn number(node: &str) -> &str {
    &node[node.len() - 10..]
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_share_and_writer_excludes_across_clients() {
    let Some((client, mut curator)) = both().await else { return };
    const PATH: &str = "/interop/rw-sides";
    let lock = RwLock::new(&client, PATH).unwrap();
    // Curator 2 fails to list a lock that was never used.
    client.ensure_path(PATH, ParentMode::Containers).await.unwrap();
    assert_eq!(listed(&lock, &mut curator).await, [[""; 0], [""; 0]]);
    let reading = lock.read().acquire().await.unwrap();
    curator.ok("reader", &format!("acquire read {PATH} 0 0 -1"));
    assert_eq!(curator.ask("writer", &format!("acquire write {PATH} 0 0 200")), ["timeout"]);
    assert!(lock.write().try_acquire().await.unwrap().is_none());
    contenders(&client, PATH, 2).await; // the timed-out contenders are gone

    let waiting = writer(&client, &lock, 3).await;
    let [readers, writers] = listed(&lock, &mut curator).await;
    assert_eq!((readers.len(), writers.len(), readers[0].as_str()), (2, 1, reading.node()));
    assert_eq!(curator.ask("late", &format!("acquire read {PATH} 0 0 200")), ["timeout"]);
    reading.release().await.unwrap();
    assert!(!waiting.is_finished());
    curator.ok("reader", "release");
    let writing = waiting.await.unwrap();
    for side in ["read", "write"] {
        assert_eq!(curator.ask("late", &format!("acquire {side} {PATH} 0 0 200")), ["timeout"]);
    }
    writing.release().await.unwrap();

    curator.ok("writer", &format!("acquire write {PATH} 0 0 -1"));
    assert!(lock.read().try_acquire().await.unwrap().is_none());
    let short = Duration::from_millis(200);
    assert!(lock.write().acquire_timeout(short).await.unwrap().is_none());
    curator.ok("writer", "release");
    lock.write().acquire().await.unwrap().release().await.unwrap();
    contenders(&client, PATH, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mixed_readers_and_writers_acquire_in_queue_order() {
    let Some((client, mut curator)) = both().await else { return };
    const PATH: &str = "/interop/rw-order";
    let lock = RwLock::new(&client, PATH).unwrap();
    curator.ok("holder", &format!("acquire write {PATH} 0 0 -1"));
    let first = reader(&client, &lock, 2).await;
    theirs((&client, &mut curator), "second", ("read", PATH), 3).await;
    let third = writer(&client, &lock, 4).await;
    theirs((&client, &mut curator), "fourth", ("write", PATH), 5).await;
    let fifth = reader(&client, &lock, 6).await;
    theirs((&client, &mut curator), "sixth", ("read", PATH), 7).await;
    let [readers, writers] = listed(&lock, &mut curator).await;
    assert_eq!((readers.len(), writers.len()), (4, 3));

    curator.ok("holder", "release");
    let first = first.await.unwrap();
    assert_eq!(curator.answer("second"), ["ok"]);
    first.release().await.unwrap();
    assert!(!third.is_finished());
    curator.ok("second", "release");
    let third = third.await.unwrap();
    third.release().await.unwrap();
    assert_eq!(curator.answer("fourth"), ["ok"]);
    assert!(!fifth.is_finished());
    curator.ok("fourth", "release");
    let fifth = fifth.await.unwrap();
    assert_eq!(curator.answer("sixth"), ["ok"]);
    fifth.release().await.unwrap();
    curator.ok("sixth", "release");
    contenders(&client, PATH, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn curators_waiters_stay_behind_our_downgrade() {
    let Some((client, mut curator)) = both().await else { return };
    const PATH: &str = "/interop/rw-ours";
    let lock = RwLock::new(&client, PATH).unwrap();
    let writing = lock.write().acquire().await.unwrap();
    let place = number(writing.node()).to_owned();
    theirs((&client, &mut curator), "reader", ("read", PATH), 2).await;
    theirs((&client, &mut curator), "writer", ("write", PATH), 3).await;

    let reading = writing.downgrade().await.unwrap();
    assert_eq!(number(reading.node()), place);
    assert_eq!(curator.answer("reader"), ["ok"]);
    let [readers, writers] = listed(&lock, &mut curator).await;
    assert_eq!((readers.len(), writers.len(), readers[0].as_str()), (2, 1, reading.node()));
    curator.ok("reader", "release");
    assert_eq!(curator.ask("late", &format!("acquire read {PATH} 0 0 200")), ["timeout"]);
    contenders(&client, PATH, 2).await;
    assert!(reading.is_held());
    reading.release().await.unwrap();
    assert_eq!(curator.answer("writer"), ["ok"]);
    curator.ok("writer", "release");
}

/// Since 5.5, Curator's reader has the number of its write node, and excludes writers that waited
/// before the reader's node was created. Up to 5.4 it has a later number, and excludes only writers
/// that queue after it.
#[tokio::test(flavor = "multi_thread")]
async fn our_waiters_stay_behind_curators_downgrade() {
    let Some((client, mut curator)) = both().await else { return };
    const PATH: &str = "/interop/rw-theirs";
    let lock = RwLock::new(&client, PATH).unwrap();
    curator.ok("peer", &format!("acquire write {PATH} 0 0 -1"));
    let [_, writers] = listed(&lock, &mut curator).await;
    let waiting_reader = reader(&client, &lock, 2).await;
    curator.ok("peer", "read-too");
    let [readers, _] = listed(&lock, &mut curator).await;
    let keeps_its_place = readers.iter().any(|reader| number(reader) == number(&writers[0]));
    assert_eq!(readers.len(), 2);
    assert!(!waiting_reader.is_finished(), "the write node is still there");
    let late_writer = writer(&client, &lock, 4).await;

    curator.ok("peer", "release-write");
    let reading = waiting_reader.await.unwrap();
    reading.release().await.unwrap();
    let [readers, writers] = listed(&lock, &mut curator).await;
    assert_eq!((readers.len(), writers.len()), (1, 1));
    assert!(lock.read().try_acquire().await.unwrap().is_none());
    assert!(!late_writer.is_finished(), "the reader that was a writer reads");
    curator.ok("peer", "release");
    late_writer.await.unwrap().release().await.unwrap();
    contenders(&client, PATH, 0).await;

    // A writer waits before the reader's node is created.
    curator.ok("peer", &format!("acquire write {PATH} 0 0 -1"));
    let early_writer = writer(&client, &lock, 2).await;
    curator.ok("peer", "read-too");
    curator.ok("peer", "release-write");
    if keeps_its_place {
        contenders(&client, PATH, 2).await;
        let short = Duration::from_millis(200);
        assert!(lock.read().acquire_timeout(short).await.unwrap().is_none());
        assert!(!early_writer.is_finished(), "the reader came in ahead of it");
        curator.ok("peer", "release");
        early_writer.await.unwrap().release().await.unwrap();
    } else {
        // CURATOR-621: no node distinguishes the holder from a waiter.
        early_writer.await.unwrap().release().await.unwrap();
        curator.ok("peer", "release");
    }
    contenders(&client, PATH, 0).await;
}

/// Readers and writers of both kinds write to one file when they acquire and when they release.
#[tokio::test(flavor = "multi_thread")]
async fn writer_excludes_mixed_contenders() {
    const PATH: &str = "/interop/rw-crowd";
    const ROUNDS: usize = 25;
    /// Weight of a writer, larger than that of all readers together.
    const WRITER: i64 = 1000;
    let Some((client, mut curator)) = both().await else { return };
    let scratch = Scratch::new();
    let journal = scratch.path("inside");
    for (actor, side, weight) in [("r1", "read", 1), ("r2", "read", 1), ("w", "write", WRITER)] {
        let told = format!("loop {side} {PATH} 0 {weight} {ROUNDS} {}", journal.display());
        curator.tell(actor, &told);
    }
    let mut ours = Vec::new();
    for contender in 0..6 {
        let (lock, journal) = (RwLock::new(&client, PATH).unwrap(), journal.clone());
        ours.push(tokio::spawn(async move {
            for round in 0..ROUNDS {
                if contender > 1 {
                    let guard = lock.read().acquire().await.unwrap();
                    visit(&journal, 1, || guard.token().unwrap().czxid());
                    guard.release().await.unwrap();
                    continue;
                }
                let guard = lock.write().acquire().await.unwrap();
                visit(&journal, WRITER, || guard.token().unwrap().czxid());
                if round % 2 == 0 {
                    guard.release().await.unwrap();
                    continue;
                }
                let guard = guard.downgrade().await.unwrap();
                visit(&journal, 1, || guard.token().unwrap().czxid());
                guard.release().await.unwrap();
            }
        }));
    }
    for contender in ours {
        contender.await.unwrap();
    }
    for actor in ["r1", "r2", "w"] {
        assert_eq!(curator.answer(actor), ["ok"]);
    }

    let (mut inside, mut most, mut entered) = (0, 0, 0);
    for line in fs::read_to_string(&journal).unwrap().lines() {
        let (word, weight) = line.split_once(' ').unwrap();
        let weight: i64 = weight.parse().unwrap();
        if word == "exit" {
            inside -= weight;
            continue;
        }
        entered += 1;
        inside += weight;
        assert!(inside <= WRITER, "somebody is inside with a writer: {inside}");
        most = most.max(inside % WRITER);
    }
    let downgrades = 2 * (ROUNDS / 2);
    assert_eq!((inside, entered), (0, 9 * ROUNDS + downgrades));
    assert!(most > 1, "readers were never together");
    contenders(&client, PATH, 0).await;
}

/// Records an acquisition, proves that the lock is held, and records the release.
fn visit(journal: &std::path::Path, weight: i64, token: impl Fn() -> i64) {
    use std::io::Write;
    let append = |word: &str| {
        let mut file = fs::OpenOptions::new().create(true).append(true).open(journal).unwrap();
        file.write_all(format!("{word} {weight}\n").as_bytes()).unwrap();
    };
    append("enter");
    assert!(token() > 0);
    std::thread::yield_now();
    append("exit");
}
