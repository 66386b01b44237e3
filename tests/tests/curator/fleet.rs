//! A test with ten contenders of Curator's and ten of ours on the same locks, in which some
//! processes are killed.
//!
//! Each round proves at the server that no illegal holder exists:
//! * A holder of a mutex or a semaphore mutex, or a writer, adds one to a number. No other client
//!   may write between its read and its write.
//! * A reader reads the version twice. No client may write in between.
//! * A holder of permits creates an ephemeral node in a folder for each of them. The folder never has
//!   more nodes than there are permits. Curator takes one of three permits, and ours take two.
//!
//! A process of Curator's is killed during its work, and a client of ours detaches without closing
//! its session. New ones replace them. `FLEET_ROUNDS` sets the length: 600 take about a minute.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use zk_recipes::LockError;
use zk_recipes::session::{Client, CreateMode};
use zk_tests::lock_spec::LockSpec;
use zk_tests::{Curator, connect, eventually, open};

use crate::address;
use crate::script::{command, nodes};

/// The kind of lock and the path of the five contenders of a process.
const WORK: [(&str, &str); 5] = [
    ("mutex", "/fleet/mutex"),
    ("write", "/fleet/sides"),
    ("read", "/fleet/sides"),
    ("semaphore-mutex", "/fleet/semaphore-mutex"),
    ("semaphore:2/3", "/fleet/semaphore"),
];
const PERMITS: usize = 3;
/// Short, because the nodes of a killed process stay for that long.
const TIMEOUT: Duration = Duration::from_secs(6);
const ROUNDS: u64 = 40;

fn proof(path: &str) -> String {
    path.replacen("/fleet", "/fleet-proof", 1)
}

#[tokio::test(flavor = "multi_thread")]
async fn mixed_fleet_stays_exclusive_when_processes_are_killed() {
    let Some(address) = address() else { return };
    let rounds: u64 = match std::env::var("FLEET_ROUNDS") {
        Ok(rounds) => rounds.parse().expect("FLEET_ROUNDS is a number"),
        Err(_) => ROUNDS,
    };
    let client = open(&address).await;
    client.create("/fleet-proof", b"", CreateMode::Persistent).await.unwrap();
    for (kind, path) in WORK.iter().filter(|(kind, _)| *kind != "read") {
        let first: &[u8] = if kind.starts_with("semaphore:") { b"" } else { b"0" };
        client.create(&proof(path), first, CreateMode::Persistent).await.unwrap();
    }

    let Some(mut staying) = Curator::start(&address, TIMEOUT, &[]) else { return };
    let Some(mut dying) = Curator::start(&address, TIMEOUT, &[]) else { return };
    send_to_work(&mut staying, rounds);
    send_to_work(&mut dying, u64::from(u32::MAX) / 2);
    let done = Arc::new(AtomicU64::new(0));
    let (here, leaving) = (connect(&address, TIMEOUT).await, connect(&address, TIMEOUT).await);
    let mut workers = JoinSet::new();
    spawn_workers(&mut workers, &here, rounds, &done);
    let mut leavers = JoinSet::new();
    spawn_workers(&mut leavers, &leaving, u64::MAX, &done);

    // All contenders are at work. Then one process and one client end as in a crash.
    let all_at_work = rounds * 2;
    eventually(Duration::from_secs(300), async || {
        (done.load(Ordering::Relaxed) > all_at_work).then_some(())
    })
    .await
    .expect("they get on");
    dying.kill();
    leaving.detach().expect("a session");
    while let Some(ended) = leavers.join_next().await {
        assert!(ended.unwrap().is_err(), "their session is over");
    }
    let replaced = connect(&address, TIMEOUT).await;
    spawn_workers(&mut workers, &replaced, rounds, &done);
    let mut new = Curator::start(&address, TIMEOUT, &[]).expect("it has started before");
    send_to_work(&mut new, rounds);

    while let Some(ended) = workers.join_next().await {
        ended.unwrap().unwrap();
    }
    for curator in [&mut staying, &mut new] {
        for (kind, _) in WORK {
            // Killed and starting processes may delay a heartbeat of Java's. The error that follows
            // would be an error of the test.
            assert_eq!(curator.answer(command(kind).0), ["ok"], "{kind}");
        }
    }

    let ours = done.load(Ordering::Relaxed);
    let mut written = 0;
    for (kind, path) in WORK.iter().filter(|(kind, _)| !["read", "semaphore:2/3"].contains(kind)) {
        let number = client.get_data(&proof(path)).await.unwrap().data;
        let number: u64 = std::str::from_utf8(&number).unwrap().parse().unwrap();
        assert!(number >= 4 * rounds, "{kind}: {number}");
        written += number;
    }
    println!("fleet: {ours} rounds of ours, {written} changes by all");
    for (kind, path) in WORK {
        let is_free = async || nodes(&client, path).await.is_empty().then_some(());
        eventually(TIMEOUT * 5, is_free).await.unwrap_or_else(|| panic!("{kind} is not free"));
    }
}

/// Starts the five actors of a process, each named after its kind of lock.
fn send_to_work(curator: &mut Curator, rounds: u64) {
    for (kind, path) in WORK {
        let (kind, proof) = (command(kind).0, proof(path));
        curator.tell(kind, &format!("work {kind} {path} {PERMITS} {rounds} {proof}"));
    }
}

fn spawn_workers(
    workers: &mut JoinSet<Result<(), LockError>>,
    client: &Client,
    rounds: u64,
    done: &Arc<AtomicU64>,
) {
    for (kind, path) in WORK {
        let (client, done) = (client.clone(), Arc::clone(done));
        workers.spawn(async move {
            for _ in 0..rounds {
                let guard = LockSpec::new(kind, path).acquire(&client).await?;
                prove(&client, kind, &proof(path)).await?;
                guard.release_boxed().await?;
                done.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        });
    }
}

/// Fails if another client is inside that must not be.
async fn prove(client: &Client, kind: &str, proof: &str) -> Result<(), LockError> {
    match kind {
        "read" => {
            let before = client.exists(proof).await?.expect("it is there").mzxid;
            tokio::task::yield_now().await;
            let after = client.exists(proof).await?.expect("it is there").mzxid;
            assert_eq!(before, after, "written while it was read");
        }
        "semaphore:2/3" => {
            let mut inside = Vec::new();
            for _ in 0..2 {
                let mode = CreateMode::EphemeralSequential;
                inside.push(client.create(&format!("{proof}/in-"), b"", mode).await?.path);
            }
            let count = client.get_children(proof).await?.names.len();
            assert!(count <= PERMITS, "{count} are inside");
            for node in inside {
                client.delete(&node, None).await?;
            }
        }
        _ => add_one(client, proof).await?,
    }
    Ok(())
}

/// Adds one to the number. `BadVersion`, which no other step causes, shows a second holder.
async fn add_one(client: &Client, proof: &str) -> Result<(), LockError> {
    let seen = client.get_data(proof).await?;
    let number: u64 = std::str::from_utf8(&seen.data).unwrap().parse().unwrap();
    tokio::task::yield_now().await;
    let next = (number + 1).to_string();
    client.set_data(proof, next.as_bytes(), Some(seen.stat.version)).await?;
    Ok(())
}
