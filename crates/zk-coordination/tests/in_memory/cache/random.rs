//! The contract of the cache under random changes and faults.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use tokio::task::JoinHandle;
use zk_coordination::limits::CHECK_PAUSE;
use zk_coordination::session::{Acl, Client, CreateMode, SessionManager, Zxid};
use zk_coordination::{Cache, CacheStatus, Change};
use zk_testing::{Cut, Op, Rng, Settings, TestServer, Version};

use super::{Replay, assert_is_tree, hidden};
use crate::{MS, client, config_of_all, manager, pass, settle};

const ROOT: &str = "/r";

#[tokio::test(start_paused = true)]
async fn replayed_changes_lead_to_the_snapshot_and_the_tree() {
    for seed in 0..300 {
        eprintln!("seed {seed}");
        run(seed).await;
    }
}

/// Deleted nodes, by path and `czxid`.
type Graves = Arc<Mutex<BTreeSet<(String, Zxid)>>>;

/// Changes a small tree and disturbs the cache, and checks each change and the end.
async fn run(seed: u64) {
    let mut random = Rng::new(seed);
    let version = if random.below(2) == 0 { Version::V3_8 } else { Version::V3_9 };
    let servers = if random.below(2) == 0 { 1 } else { 3 };
    let settings = Settings::new().version(version).seed(seed).servers(servers);
    let server = TestServer::in_memory_with(settings);
    let graves = record_deletions(&server);
    let writer = client(&server, 1).await;
    let sessions = manager(&server, config_of_all(&server, u128::from(seed) + 2)).await;
    add_faults(&server, &mut random);
    change(&writer, &mut random, 20).await;
    let builder = Cache::tree(&sessions, ROOT).reads_in_flight(1 + random.index(8));
    let cache = builder.changes_kept(if random.below(3) == 0 { 8 } else { 4_096 }).start().unwrap();
    let follower = tokio::spawn(follow(cache.clone(), graves, Rng::new(seed + 1_000)));
    for _ in 0..4 {
        change(&writer, &mut random, 15).await;
        disturb(&server, servers, &sessions, &mut random);
        pass(random.millis(30 * MS)).await; // the cache runs for a random time before the next changes
    }
    server.clear_faults();
    (0..servers).for_each(|one| server.heal(one));
    for path in paths() {
        drop(writer.set_acl(&path, &[Acl::open()], None).await);
    }
    cache.wait_until_synced().await.unwrap();
    pass(CHECK_PAUSE * 3).await; // the last events and reads, and the checks, arrive in virtual time
    cache.wait_until_synced().await.unwrap();
    let snapshot = cache.snapshot();
    assert_eq!(cache.status(), CacheStatus::Synced);
    assert_is_tree(&snapshot, &server);
    drop(cache);
    sessions.close().await;
    let replay = follower.await.unwrap();
    replay.assert_same(&snapshot);
}

/// Applies every change until the cache ends. A deletion must be one of the server.
async fn follow(cache: Cache, graves: Graves, mut random: Rng) -> Replay {
    let mut changes = cache.changes();
    drop(cache);
    let mut replay = Replay::new(&changes);
    while let Some(change) = changes.next().await {
        if let Change::Deleted { path, old: Some(old) } = &change {
            let grave = (path.to_string(), old.stat().czxid);
            assert!(graves.lock().unwrap().contains(&grave), "{path} was not deleted");
        }
        replay.apply(&changes, &change);
        if random.below(20) == 0 {
            pass(random.millis(20 * MS)).await; // a slow reader, in virtual time
        }
    }
    replay
}

fn record_deletions(server: &TestServer) -> Graves {
    let graves = Graves::default();
    let recorded = Arc::clone(&graves);
    let mut before: BTreeMap<String, Zxid> = BTreeMap::new();
    server.with(|ensemble| {
        ensemble.observe(move |tree, _| {
            let nodes = tree.iter().map(|(path, node)| (path.to_owned(), node.stat().czxid));
            let now: BTreeMap<String, Zxid> = nodes.collect();
            let gone = before.iter().filter(|(path, czxid)| now.get(*path) != Some(czxid));
            recorded.lock().unwrap().extend(gone.map(|(path, czxid)| (path.clone(), *czxid)));
            before = now;
        });
    });
    graves
}

/// Delays some replies and events, and loses some.
fn add_faults(server: &TestServer, random: &mut Rng) {
    for op in [Op::MultiRead, Op::GetData, Op::GetChildren2, Op::AddWatch] {
        server.on(op).always().with_probability(0.2).delay(random.millis(8 * MS));
        server.on(op).always().with_probability(0.02).apply_then_drop_reply();
    }
    server.on_notification().always().with_probability(0.1).delay(random.millis(8 * MS));
}

/// Ends the connection or the session of the cache, or makes a follower lag.
fn disturb(server: &TestServer, servers: usize, sessions: &SessionManager, random: &mut Rng) {
    let session_id = sessions.client().session_id();
    match random.below(8) {
        0 => drop(server.expire(session_id)),
        1..=3 => server.connection_of(session_id).cut(Cut::Fin),
        4 | 5 if servers > 1 => server.lag(1 + random.index(2), random.millis(20 * MS)),
        _ => {}
    }
}

/// Makes random changes to a small tree, some of them without a pause in between.
async fn change(client: &Client, random: &mut Rng, count: usize) {
    let paths = paths();
    let mut sent = Vec::new();
    for step in 0..count {
        let path = &paths[random.index(paths.len())];
        let data = format!("{step}").repeat(1 + random.index(900)).into_bytes();
        match random.below(9) {
            0..=3 => sent.push(spawn(client.create(path, &data, CreateMode::Persistent))),
            4 | 5 => sent.push(spawn(client.set_data(path, &data, None))),
            6 => sent.push(spawn(client.delete(path, None))),
            7 => {
                let acl = if random.below(2) == 0 { [Acl::open()] } else { hidden() };
                sent.push(spawn(client.set_acl(path, &acl, None)));
            }
            // Deletes a part of the tree, and creates some of it again, without a pause.
            _ => {
                let below = paths.iter().filter(|one| one.starts_with(path.as_str()));
                let below: Vec<&String> = below.collect();
                for path in below.iter().rev() {
                    sent.push(spawn(client.delete(path, None)));
                }
                for path in below.iter().take(1 + random.index(3)) {
                    let create = client.create(path, &data, CreateMode::Persistent);
                    sent.push(spawn(create));
                }
            }
        }
        if random.below(3) == 0 {
            pass(random.millis(6 * MS)).await; // the cache may read between two changes
        }
    }
    for done in sent {
        done.await.unwrap();
    }
    if random.below(2) == 0 {
        settle().await;
    }
}

fn paths() -> Vec<String> {
    let below = ["", "/a", "/b", "/a/c", "/a/d", "/b/c", "/a/c/e"];
    below.iter().map(|below| format!("{ROOT}{below}")).collect()
}

fn spawn<T>(request: impl Future<Output = T> + Send + 'static) -> JoinHandle<()> {
    tokio::spawn(async move { drop(request.await) })
}
