//! A cache of ours beside a `CuratorCache`, over the same tree on a real server.

use std::collections::BTreeMap;

use zk_coordination::session::{Acl, Client, CreateMode, ParentMode, Perms, Zxid};
use zk_coordination::{Cache, CacheStatus, Change};
use zk_testing::{Cut, FaultProxy, Rng};
use zk_tests::{Curator, LIMIT, eventually, shared_zookeeper};

use crate::{LONG, sessions};

/// Changes of each side in one round.
const CHANGES: u32 = 200;

/// Both sides change the tree at the same time, and their caches end with the same nodes. The
/// changes that ours reports lead to the same nodes, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_caches_end_with_the_same_nodes() {
    run("/interop/caches", 0).await;
}

/// The connection of our cache breaks several times in each round.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cache_behind_broken_connections_ends_with_the_same_nodes() {
    run("/interop/broken-caches", 3).await;
}

/// The killed process was changing the tree. Our cache has the same nodes as a cache of the next process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cache_follows_a_java_process_that_is_killed() {
    let Some(zookeeper) = shared_zookeeper() else { return };
    let (address, root) = (zookeeper.connect_string(), "/interop/killed-caches");
    let start = || Curator::with_program("CuratorCaches.java", &address, LONG);
    let Some(mut killed) = start() else { return };
    let sessions = sessions(&address).await;
    sessions.client().ensure_path(root, ParentMode::Persistent).await.unwrap();
    let cache = Cache::tree(&sessions, root).open().await.unwrap();
    let mut changes = cache.changes();
    killed.ok("java", &format!("open {root}"));
    killed.tell("java", &format!("change {root} 1 1000000"));
    for _ in 0..20 {
        changes.next().await.unwrap();
    }
    killed.kill();
    let mut next = start().unwrap();
    next.ok("java", &format!("open {root}"));
    let same = eventually(LIMIT, async || {
        let theirs = curators_nodes(&mut next);
        (!theirs.is_empty() && theirs == nodes(&cache)).then_some(())
    });
    assert!(same.await.is_some(), "{cache:?}");
}

/// The server reports no change of an access control list, and since 3.8.4 no deletion of such a node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hidden_node_leaves_our_cache_after_its_deletion() {
    let Some(zookeeper) = shared_zookeeper() else { return };
    let root = "/interop/hidden-caches";
    let address = zookeeper.connect_string();
    let sessions = sessions(&address).await;
    let client = sessions.client();
    for name in ["deleted", "shown"] {
        let path = format!("{root}/{name}");
        client.ensure_path(&path, ParentMode::Persistent).await.unwrap();
    }
    let cache = Cache::tree(&sessions, root).open().await.unwrap();
    let mut changes = cache.changes();
    let hidden = [Acl::world(Perms::WRITE | Perms::CREATE | Perms::DELETE | Perms::ADMIN)];
    for name in ["deleted", "shown"] {
        client.set_acl(&format!("{root}/{name}"), &hidden, None).await.unwrap();
    }
    client.delete(&format!("{root}/deleted"), None).await.unwrap();
    let mut paths = BTreeMap::new();
    while paths.len() < 2 {
        let change = tokio::time::timeout(LIMIT, changes.next()).await.unwrap().unwrap();
        let is_deletion = matches!(change, Change::Deleted { .. });
        paths.insert(change.path().unwrap().to_owned(), is_deletion);
    }
    assert_eq!(paths.into_values().collect::<Vec<_>>(), [true, false]);
    assert_eq!(cache.status(), CacheStatus::Partial { unreadable: 1 });
    client.set_acl(&format!("{root}/shown"), &[Acl::open()], None).await.unwrap();
    let change = tokio::time::timeout(LIMIT, changes.next()).await.unwrap().unwrap();
    assert!(matches!(change, Change::Created { .. }), "{change:?}");
    assert_eq!(cache.status(), CacheStatus::Synced);
}

async fn run(root: &str, cuts: usize) {
    let Some(zookeeper) = shared_zookeeper() else { return };
    let address = zookeeper.connect_string();
    let Some(mut curator) = Curator::with_program("CuratorCaches.java", &address, LONG) else {
        return;
    };
    let client = Client::connect(&address).await.unwrap();
    client.ensure_path(root, ParentMode::Persistent).await.unwrap();
    change(&client, root, 1).await;
    curator.ok("java", &format!("open {root}"));
    let proxy = FaultProxy::in_front_of(zookeeper.address()).await.unwrap();
    let sessions = sessions(&zookeeper.connect_string_through(proxy.address())).await;
    let cache = Cache::tree(&sessions, root).changes_kept(64 * 1024).open().await.unwrap();
    let mut changes = cache.changes();
    let mut replayed = nodes(&cache);
    for round in 2..7 {
        curator.tell("java", &format!("change {root} {round} {CHANGES}"));
        for cut in 0..cuts {
            change(&client, root, round * 100 + u64::try_from(cut).unwrap()).await;
            proxy.cut_all(Cut::Rst);
        }
        change(&client, root, round).await;
        assert_eq!(curator.answer("java"), ["ok"]);
        let last = format!("{root}/round-{round}");
        client.create(&last, b"last", CreateMode::Persistent).await.unwrap();
        let theirs = eventually(LIMIT, async || {
            let theirs = curators_nodes(&mut curator);
            (theirs.contains_key(&last) && theirs == nodes(&cache)).then_some(theirs)
        });
        let theirs = theirs.await.expect("the same nodes");
        while replayed != theirs {
            apply(&mut replayed, &changes.next().await.unwrap());
        }
        cache.wait_until_synced().await.unwrap();
    }
}

/// Paths of nodes, each with its `mzxid` and its data.
type Nodes = BTreeMap<String, (Zxid, String)>;

fn nodes(cache: &Cache) -> Nodes {
    let snapshot = cache.snapshot();
    let nodes = snapshot.iter().map(|node| {
        let data = String::from_utf8_lossy(node.data()).into_owned();
        (node.path().to_owned(), (node.stat().mzxid, data))
    });
    nodes.collect()
}

fn curators_nodes(curator: &mut Curator) -> Nodes {
    let listed = curator.ok("java", "nodes");
    let nodes = listed.iter().map(|node| {
        let mut parts = node.splitn(3, '=').map(str::to_owned);
        let mut part = || parts.next().unwrap();
        (part(), (Zxid(part().parse().unwrap()), part()))
    });
    nodes.collect()
}

fn apply(nodes: &mut Nodes, change: &Change) {
    match change {
        Change::Created { new } | Change::DataChanged { new, .. } => {
            let data = String::from_utf8_lossy(new.data()).into_owned();
            nodes.insert(new.path().to_owned(), (new.stat().mzxid, data));
        }
        Change::Deleted { path, .. } => assert!(nodes.remove(&**path).is_some(), "{path}"),
        Change::Stale | Change::Synced { .. } => {}
        other => panic!("unexpected {other:?}"),
    }
}

/// Makes random changes below the root, of which several are on their way at a time.
async fn change(client: &Client, root: &str, seed: u64) {
    let mut rng = Rng::new(seed);
    for step in 0..CHANGES {
        let mut path = format!("{root}/n{}", rng.below(6));
        if rng.below(2) == 0 {
            path += &format!("/m{}", rng.below(4));
        }
        let data = format!("ours-{step}").into_bytes();
        // An error means that the other side, or an earlier step, was faster.
        match rng.below(4) {
            0 => drop(client.set_data(&path, &data, None).await),
            1 => drop(client.delete(&path, None).await),
            2 => drop(client.create(&path, &data, CreateMode::Persistent).await),
            _ => {
                let deleted = client.delete(&path, None);
                drop(client.create(&path, &data, CreateMode::Persistent).await);
                drop(deleted.await);
            }
        }
    }
}
