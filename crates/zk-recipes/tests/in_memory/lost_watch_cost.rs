//! `lost()` in a loop, as in the README: one watch for each node, however often it is called.

use std::future::Future;
use std::time::Duration;

use tokio::sync::mpsc;
use zk_recipes::session::Client;
use zk_recipes::{LockError, LossReason, MultiLock, Mutex, Semaphore};

use crate::recorded_connection::{Record, WATCH_NODE, recorded_client, without_lease};
use crate::{Kind, T, child, settle, started};

const TURNS: usize = 400;

/// Duration of a turn.
const TURN: Duration = Duration::from_millis(10);

/// Calls `lost()` in each turn, and drops its future at the end of the turn.
async fn loop_until_lost<F: Future<Output = LossReason>>(
    lost: impl Fn() -> F,
    turns: usize,
) -> Option<LossReason> {
    for _ in 0..turns {
        tokio::select! {
            biased;
            reason = lost() => return Some(reason),
            // reason: virtual time of a turn
            () = tokio::time::sleep(TURN) => {}
        }
    }
    None
}

/// Expects one watch for each node, and the loss when the last of the nodes is deleted.
async fn expect_one_watch_each<F: Future<Output = LossReason>>(
    name: &str,
    nodes: Vec<String>,
    lost: impl Fn() -> F,
    other: &Client,
    record: &Record,
) {
    record.take();
    assert_eq!(loop_until_lost(&lost, TURNS).await, None, "{name}");
    let sent = without_lease(record.take().concat());
    let watches = sent.iter().filter(|op| **op == WATCH_NODE).count();
    let others: Vec<i32> = sent.into_iter().filter(|op| *op != WATCH_NODE).collect();
    assert_eq!((watches, others.len()), (nodes.len(), 0), "{name}: {others:?}");
    other.delete(nodes.last().unwrap(), None).await.unwrap();
    assert_eq!(loop_until_lost(&lost, 2).await, Some(LossReason::NodeDeleted), "{name}");
    assert_eq!(without_lease(record.take().concat()), [0; 0], "{name}");
}

#[tokio::test(start_paused = true)]
async fn lost_in_a_loop_sets_one_watch_for_each_node_of_any_guard() {
    let (server, [other]) = started().await;
    let (client, record) = recorded_client(&server, 2).await;
    for kind in Kind::ALL {
        // On a new path, the permit lists again after the creation of the path, with a watch.
        kind.lock(&client).acquire_boxed().await.unwrap().release_boxed().await.unwrap();
        let guard = kind.lock(&client).acquire_boxed().await.unwrap();
        settle().await; // the queue node of a permit is deleted
        let nodes = guard.nodes().into_iter().map(str::to_owned).collect();
        let name = format!("{kind:?}");
        expect_one_watch_each(&name, nodes, || guard.lost_boxed(), &other, &record).await;
    }
    let semaphore = Semaphore::new(&client, "/s", 3).unwrap();
    let lease = semaphore.acquire_many(3).await.unwrap();
    settle().await;
    let nodes = lease.nodes().map(str::to_owned).collect();
    expect_one_watch_each("SemaphoreGuard", nodes, || lease.lost(), &other, &record).await;
    drop(lease);
    let locks = [Kind::Mutex, Kind::Writer, Kind::Permit].map(|kind| kind.lock(&client));
    let guard = MultiLock::new(locks).acquire().await.unwrap();
    settle().await;
    let nodes = guard.nodes().iter().map(ToString::to_string).collect();
    expect_one_watch_each("MultiGuard", nodes, || guard.lost(), &other, &record).await;
}

/// Writes invoices for as long as it holds the lock, each with the fencing token.
async fn bill(client: Client, invoices: mpsc::UnboundedSender<i64>) -> Result<(), LockError> {
    let lock = Mutex::new(&client, "/locks/billing").expect("a path");
    let guard = lock.acquire().await?;
    let mut due = tokio::time::interval(Duration::from_millis(500));
    loop {
        tokio::select! {
            reason = guard.lost() => return Err(LockError::Lost(reason)),
            _ = due.tick() => {
                let _ = invoices.send(guard.token()?.czxid());
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn readme_loop_sets_one_watch_in_400_turns() {
    let function = |text: &str| {
        let start = text.find("async fn bill(").expect("the function");
        let end = start + text[start..].find("\n}\n").expect("its end");
        text[start..end].to_owned()
    };
    let readme = include_str!("../../../../README.md");
    assert_eq!(
        function(readme),
        function(include_str!("lost_watch_cost.rs")),
        "it is the README's"
    );

    let (server, [other]) = started().await;
    let (client, record) = recorded_client(&server, 2).await;
    let (invoices, mut written) = mpsc::unbounded_channel();
    let billing = tokio::spawn(bill(client, invoices));
    written.recv().await.unwrap();
    settle().await;
    record.take();
    for _ in 0..TURNS {
        written.recv().await.unwrap();
    }
    assert_eq!(without_lease(record.take().concat()), [WATCH_NODE]);
    other.delete(&child(&server, "/locks/billing", 0), None).await.unwrap();
    let ended = tokio::time::timeout(T, billing).await.unwrap().unwrap();
    assert_eq!(ended, Err(LockError::Lost(LossReason::NodeDeleted)));
}
