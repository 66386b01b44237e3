//! Tests of semaphores and semaphore mutexes that we share with Java services that use Curator.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

use std::fs;
use std::time::Duration;

use tokio::task::JoinHandle;
use zk_recipes::session::Client;
use zk_recipes::{LockError, Participant, Semaphore, SemaphoreGuard, SemaphoreMutex, SharedCount};
use zk_tests::{Curator, Scratch, contenders, open, shared_zookeeper};

async fn both() -> Option<(Client, Curator)> {
    let address = shared_zookeeper()?.connect_string();
    let curator = Curator::start(&address)?;
    Some((open(&address).await, curator))
}

fn names(participants: &[Participant]) -> Vec<String> {
    let name = |it: &Participant| it.path.rsplit('/').next().unwrap().to_owned();
    participants.iter().map(name).collect()
}

/// Returns the permits at the path. Both clients must list the same permits.
async fn listed(semaphore: &Semaphore, curator: &mut Curator) -> Vec<String> {
    let ours = names(&semaphore.participants().await.unwrap());
    let mut theirs =
        curator.ok("observer", &format!("participants semaphore {}", semaphore.path()));
    theirs.sort_by(|a, b| a[a.len() - 10..].cmp(&b[b.len() - 10..])); // Curator does not sort
    assert_eq!(ours, theirs);
    ours
}

fn queue(semaphore: &Semaphore, permits: u32) -> JoinHandle<Result<SemaphoreGuard, LockError>> {
    let semaphore = semaphore.clone();
    tokio::spawn(async move { semaphore.acquire_many(permits).await })
}

#[tokio::test(flavor = "multi_thread")]
async fn permits_of_both_clients_are_counted_and_listed_together() {
    let Some((client, mut curator)) = both().await else { return };
    let semaphore = Semaphore::new(&client, "/interop/s", 4).unwrap().with_data("ours");
    let theirs = curator.ok("a", "acquire semaphore /interop/s 4 2 -1");
    let lease = semaphore.acquire_many(2).await.unwrap();
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    let short = Duration::from_millis(200);
    assert!(semaphore.acquire_timeout(short).await.unwrap().is_none());
    assert_eq!(curator.ask("b", "acquire semaphore /interop/s 4 1 200"), ["timeout"]);
    contenders(&client, "/interop/s/leases", 4).await; // the timed-out ones are gone
    let all = listed(&semaphore, &mut curator).await;
    let ours: Vec<&str> = lease.nodes().map(|node| node.rsplit('/').next().unwrap()).collect();
    assert_eq!(all, [theirs.iter().map(String::as_str).collect(), ours].concat());
    let data: Vec<_> = semaphore.participants().await.unwrap();
    assert_eq!(
        (data[0].data.as_slice(), data[3].data.as_slice()),
        (&b"127.0.0.1"[..], &b"ours"[..])
    );

    // A permit that one client releases is granted to the other.
    curator.tell("b", "acquire semaphore /interop/s 4 1 -1");
    contenders(&client, "/interop/s/leases", 5).await;
    lease.release().await.unwrap();
    assert_eq!(curator.answer("b")[0], "ok");
    let waiting = queue(&semaphore, 3);
    contenders(&client, "/interop/s/leases", 6).await;
    assert!(listed(&semaphore, &mut curator).await.len() == 6 && !waiting.is_finished());
    curator.ok("a", "release");
    let lease = waiting.await.unwrap().unwrap();
    curator.ok("b", "release");
    lease.release().await.unwrap();
    assert_eq!(listed(&semaphore, &mut curator).await, [""; 0]);
    contenders(&client, "/interop/s/locks", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mixed_permit_waiters_acquire_in_queue_order() {
    let Some((client, mut curator)) = both().await else { return };
    let semaphore = Semaphore::new(&client, "/interop/fifo", 1).unwrap();
    let turns = async |count| contenders(&client, "/interop/fifo/locks", count).await;
    curator.ok("holder", "acquire semaphore-mutex /interop/fifo 0 0 -1");
    let first = queue(&semaphore, 1);
    turns(1).await;
    curator.tell("second", "acquire semaphore-mutex /interop/fifo 0 0 -1");
    turns(2).await;
    let third = queue(&semaphore, 1);
    turns(3).await;
    curator.tell("fourth", "acquire semaphore-mutex /interop/fifo 0 0 -1");
    turns(4).await;

    curator.ok("holder", "release");
    let lease = first.await.unwrap().unwrap();
    turns(3).await;
    lease.release().await.unwrap();
    assert_eq!(curator.answer("second"), ["ok"]);
    assert!(!third.is_finished());
    curator.ok("second", "release");
    let lease = third.await.unwrap().unwrap();
    lease.release().await.unwrap();
    assert_eq!(curator.answer("fourth"), ["ok"]);
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    curator.ok("fourth", "release");
    semaphore.try_acquire().await.unwrap().expect("free").release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn shared_count_set_by_curator_is_the_limit() {
    let Some((client, mut curator)) = both().await else { return };
    curator.ok("a", "count /interop/limit 1");
    let count = SharedCount::new(&client, "/interop/limit", 9).unwrap();
    let semaphore = Semaphore::with_shared_limit(&client, "/interop/limited", &count).unwrap();
    let one = semaphore.acquire().await.unwrap();
    let two_more = queue(&semaphore, 2);
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    curator.ok("a", "count /interop/limit 3");
    let two = two_more.await.unwrap().unwrap();
    assert!(one.is_held() && two.is_held());
}

/// Lets contenders of both clients compete. The permits held at any time never exceed the limit.
async fn contend(path: &str, kind: &str, max: u32) {
    let Some((client, mut curator)) = both().await else { return };
    let scratch = Scratch::new();
    let journal = scratch.path("journal");
    let actors: Vec<String> = (0..CONTENDERS).map(|n| format!("actor-{n}")).collect();
    for actor in &actors {
        // Curator acquires several permits one by one, and may wait for a contender that is first
        // in the queue.
        let loops = format!("loop {kind} {path} {max} 1 {ROUNDS} {}", journal.display());
        curator.tell(actor, &loops);
    }
    let mut ours = Vec::new();
    for number in 0..CONTENDERS {
        let semaphore = Semaphore::new(&client, path, max).unwrap();
        let journal = journal.clone();
        ours.push(tokio::spawn(async move {
            for round in 0..ROUNDS {
                let take = 1 + (number + round) % max;
                let lease = semaphore.acquire_many(take).await.unwrap();
                append(&journal, &format!("enter {take}"));
                tokio::task::yield_now().await;
                append(&journal, &format!("exit {take}"));
                lease.release().await.unwrap();
            }
        }));
    }
    for task in ours {
        task.await.unwrap();
    }
    for actor in &actors {
        assert_eq!(curator.answer(actor), ["ok"]);
    }

    let (mut held, mut visits, mut most) = (0, 0, 0);
    for line in fs::read_to_string(&journal).unwrap().lines() {
        let (word, take) = line.split_once(' ').unwrap();
        let take: u32 = take.parse().unwrap();
        match word {
            "enter" => (held, visits) = (held + take, visits + 1),
            _ => held -= take,
        }
        most = most.max(held);
    }
    assert_eq!((held, visits), (0, 2 * CONTENDERS * ROUNDS));
    assert_eq!(most, max, "all of them are used, and no more");
    for below in ["leases", "locks"] {
        contenders(&client, &format!("{path}/{below}"), 0).await;
    }
}

fn append(journal: &std::path::Path, line: &str) {
    use std::io::Write;
    let mut file = fs::OpenOptions::new().create(true).append(true).open(journal).unwrap();
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn mixed_contenders_never_exceed_permit_limit() {
    contend("/interop/mixed", "semaphore", 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mixed_contenders_never_hold_a_semaphore_mutex_together() {
    contend("/interop/mixed-mutex", "semaphore-mutex", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn semaphore_mutex_alternates_between_clients() {
    let Some((client, mut curator)) = both().await else { return };
    let lock = SemaphoreMutex::new(&client, "/interop/to-and-fro").unwrap();
    let take = "acquire semaphore-mutex /interop/to-and-fro 0 0";
    for _ in 0..3 {
        let guard = lock.acquire().await.unwrap();
        assert_eq!(curator.ask("a", &format!("{take} 100")), ["timeout"]);
        curator.tell("a", &format!("{take} -1"));
        contenders(&client, "/interop/to-and-fro/locks", 1).await;
        guard.release().await.unwrap();
        assert_eq!(curator.answer("a"), ["ok"]);
        assert!(lock.try_acquire().await.unwrap().is_none());
        curator.ok("a", "release");
    }
}

const CONTENDERS: u32 = 4;
const ROUNDS: u32 = 12;
