//! Tests of a mutex that we share with Java services that use Curator.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

use std::fs;
use std::path::Path;
use std::time::Duration;

use tokio::task::JoinHandle;
use zk_recipes::session::Client;
use zk_recipes::{Guard, Mutex, revoke};
use zk_tests::{Curator, Scratch, contenders, open, shared_zookeeper};

async fn both() -> Option<(Client, Curator)> {
    let address = shared_zookeeper()?.connect_string();
    let curator = Curator::start(&address)?;
    Some((open(&address).await, curator))
}

/// Adds a contender of ours, and waits until the queue has `count` contenders.
async fn ours(client: &Client, path: &str, count: usize) -> JoinHandle<Guard> {
    let lock = Mutex::new(client, path).unwrap();
    let waiting = tokio::spawn(async move { lock.acquire().await.unwrap() });
    contenders(client, path, count).await;
    waiting
}

/// Adds a contender of Curator's, and waits until the queue has `count` contenders.
async fn theirs(
    (client, curator): (&Client, &mut Curator),
    (actor, path): (&str, &str),
    count: usize,
) {
    curator.tell(actor, &format!("acquire mutex {path} 0 0 -1"));
    contenders(client, path, count).await;
}

/// Returns the nodes in the queue. Both sides must list the same nodes in the same order.
async fn listed(client: &Client, curator: &mut Curator, path: &str) -> Vec<String> {
    let ours = Mutex::new(client, path).unwrap().participants().await.unwrap();
    let ours: Vec<String> = ours.into_iter().map(|participant| participant.path).collect();
    assert_eq!(ours, curator.ok("observer", &format!("participants mutex {path}")));
    ours
}

#[tokio::test(flavor = "multi_thread")]
async fn mixed_waiters_acquire_in_queue_order_and_list_alike() {
    let Some((client, mut curator)) = both().await else { return };
    const PATH: &str = "/interop/mutex-order";
    curator.ok("first", &format!("acquire mutex {PATH} 0 0 -1"));
    let second = ours(&client, PATH, 2).await;
    let third = ours(&client, PATH, 3).await;
    theirs((&client, &mut curator), ("fourth", PATH), 4).await;
    let fifth = ours(&client, PATH, 5).await;
    let queue = listed(&client, &mut curator, PATH).await;
    assert_eq!(queue.len(), 5);

    curator.ok("first", "release");
    let guard = second.await.unwrap();
    assert_eq!(guard.node(), queue[1]);
    guard.release().await.unwrap();
    let guard = third.await.unwrap();
    assert_eq!(guard.node(), queue[2]);
    assert_eq!(listed(&client, &mut curator, PATH).await, queue[2..]);
    guard.release().await.unwrap();
    assert_eq!(curator.answer("fourth"), ["ok"]);
    assert!(!fifth.is_finished());
    assert_eq!(listed(&client, &mut curator, PATH).await, queue[3..]);
    curator.ok("fourth", "release");
    let guard = fifth.await.unwrap();
    assert_eq!(guard.node(), queue[4]);
    assert_eq!(curator.ask("late", &format!("acquire mutex {PATH} 0 0 200")), ["timeout"]);
    guard.release().await.unwrap();
    contenders(&client, PATH, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_waiter_in_queue_grants_no_lock_to_those_behind() {
    let Some((client, mut curator)) = both().await else { return };
    const PATH: &str = "/interop/mutex-given-up";
    let address = shared_zookeeper().unwrap().connect_string();
    curator.ok("holder", &format!("acquire mutex {PATH} 0 0 -1"));
    let dropped = ours(&client, PATH, 2).await;
    theirs((&client, &mut curator), ("behind-dropped", PATH), 3).await;
    let closing = open(&address).await;
    let lock = Mutex::new(&closing, PATH).unwrap();
    let closed = tokio::spawn(async move { lock.acquire().await });
    contenders(&client, PATH, 4).await;
    let Some(mut other) = Curator::start(&address) else { return };
    theirs((&client, &mut other), ("second-process", PATH), 5).await;
    let last = ours(&client, PATH, 6).await;

    // Our waiter is cancelled and our session is closed. The waiters behind them keep waiting.
    dropped.abort();
    contenders(&client, PATH, 5).await;
    closing.close().await;
    assert!(closed.await.unwrap().is_err());
    contenders(&client, PATH, 4).await;
    assert!(!last.is_finished());
    curator.ok("holder", "release");
    assert_eq!(curator.answer("behind-dropped"), ["ok"]);
    assert_eq!(listed(&client, &mut curator, PATH).await.len(), 3);
    assert!(!last.is_finished());
    curator.ok("behind-dropped", "release");
    assert_eq!(other.answer("second-process"), ["ok"]);
    assert!(!last.is_finished());
    other.ok("second-process", "release");
    last.await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn mutex_of_killed_java_process_is_granted_after_expiry() {
    let Some((client, mut curator)) = both().await else { return };
    const PATH: &str = "/interop/mutex-killed";
    let address = shared_zookeeper().unwrap().connect_string();
    let short = Duration::from_secs(4);
    let Some(mut holder) = Curator::with_timeout(&address, short) else { return };
    let Some(mut waiter) = Curator::with_timeout(&address, short) else { return };
    holder.ok("a", &format!("acquire mutex {PATH} 0 0 -1"));
    theirs((&client, &mut waiter), ("a", PATH), 2).await;
    let third = ours(&client, PATH, 3).await;
    theirs((&client, &mut curator), ("fourth", PATH), 4).await;

    drop(waiter);
    contenders(&client, PATH, 3).await;
    assert!(!third.is_finished(), "the one ahead has gone, and the holder has not");
    holder.ok("a", &format!("participants mutex {PATH}"));
    drop(holder);
    let guard = third.await.unwrap();
    assert_eq!(listed(&client, &mut curator, PATH).await.len(), 2);
    assert!(guard.token().unwrap().czxid() > 0);
    guard.release().await.unwrap();
    assert_eq!(curator.answer("fourth"), ["ok"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn revocation_reaches_holder_across_clients() {
    let Some((client, mut curator)) = both().await else { return };
    const PATH: &str = "/interop/mutex-revoked";
    let guard = Mutex::new(&client, PATH).unwrap().acquire().await.unwrap();
    curator.tell("holder", &format!("acquire-revocable mutex {PATH}"));
    contenders(&client, PATH, 2).await;
    curator.ok("revoker", &format!("revoke {}", guard.node()));
    guard.revocation_requested().await.unwrap();
    assert!(guard.is_held(), "to be asked is not to lose");
    guard.release().await.unwrap();

    assert_eq!(curator.answer("holder"), ["ok"]);
    let queue = listed(&client, &mut curator, PATH).await;
    assert!(revoke(&client, &queue[0]).await.unwrap());
    assert_eq!(curator.answer("holder"), ["revoked"]);
    assert_eq!(listed(&client, &mut curator, PATH).await, queue);
    curator.ok("holder", "release");
    assert!(!revoke(&client, &queue[0]).await.unwrap(), "nobody is there to be asked");
}

/// Contenders of both kinds write to one file when they acquire and when they release.
#[tokio::test(flavor = "multi_thread")]
async fn mixed_contenders_never_hold_mutex_together() {
    const PATH: &str = "/interop/mutex-crowd";
    const EACH: usize = 5;
    const ROUNDS: usize = 15;
    let Some((client, mut curator)) = both().await else { return };
    let scratch = Scratch::new();
    let journal = scratch.path("inside");
    let actors: Vec<String> = (0..EACH).map(|n| format!("actor-{n}")).collect();
    for actor in &actors {
        curator.tell(actor, &format!("loop mutex {PATH} 0 1 {ROUNDS} {}", journal.display()));
    }
    let mut tasks = Vec::new();
    for _ in 0..EACH {
        let (lock, journal) = (Mutex::new(&client, PATH).unwrap(), journal.clone());
        tasks.push(tokio::spawn(async move {
            for _ in 0..ROUNDS {
                let guard = lock.acquire().await.unwrap();
                append(&journal, &format!("enter {}", guard.token().unwrap().czxid()));
                tokio::task::yield_now().await;
                append(&journal, "exit ours");
                guard.release().await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    for actor in &actors {
        assert_eq!(curator.answer(actor), ["ok"]);
    }

    let journal = fs::read_to_string(&journal).unwrap();
    let lines: Vec<&str> = journal.lines().collect();
    assert_eq!(lines.len(), 2 * 2 * EACH * ROUNDS);
    let mut last = 0;
    for visit in lines.chunks(2) {
        let token = visit[0].strip_prefix("enter ").expect("comes in while nobody is inside");
        assert!(visit[1].starts_with("exit "), "two inside: {visit:?}");
        // Curator has no tokens, and writes 1.
        let token: i64 = token.parse().unwrap();
        assert!(token == 1 || token > last, "{token} after {last}");
        last = last.max(token);
    }
    contenders(&client, PATH, 0).await;
}

fn append(journal: &Path, line: &str) {
    use std::io::Write;
    let mut file = fs::OpenOptions::new().create(true).append(true).open(journal).unwrap();
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}
