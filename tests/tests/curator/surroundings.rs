//! Tests of shared locks in unusual places: below a namespace, under an access control list, among
//! foreign nodes, on long paths, and in containers that are reaped.

use zk_recipes::session::{Acl, Client, Config, CreateMode, ErrorCode, Perms};
use zk_recipes::{LockError, LossReason, Mutex, Participant, RwLock, Semaphore};
use zk_tests::lock_spec::LockSpec;
use zk_tests::{
    Curator, LIMIT, Settings, contenders, eventually, open, shared_zookeeper, zookeeper_with,
};

use crate::script::{acquire, play};
use crate::{LONG, address, both};

fn paths(participants: Vec<Participant>) -> Vec<String> {
    participants.into_iter().map(|participant| participant.path).collect()
}

fn acquires(client: &Client, path: &str) -> tokio::task::JoinHandle<zk_recipes::Guard> {
    let lock = Mutex::new(client, path).unwrap();
    tokio::spawn(async move { lock.acquire().await.unwrap() })
}

/// Curator's namespace is our chroot, and neither client has it in its paths.
#[tokio::test(flavor = "multi_thread")]
async fn curators_namespace_equals_our_chroot() {
    let Some(address) = address() else { return };
    let root = open(&address).await;
    let Some(mut curator) = Curator::start(&address, LONG, &["namespace=team"]) else {
        return;
    };
    curator.ok("a", "acquire mutex /deep/lock 0 0 -1");
    let chroot = open(&format!("{address}/team")).await;
    for client in [&chroot, &root.chroot("/team").unwrap()] {
        let lock = Mutex::new(client, "/deep/lock").unwrap();
        let listed = paths(lock.participants().await.unwrap());
        assert_eq!(curator.ok("b", "participants mutex /deep/lock"), listed);
        assert!(listed.len() == 1 && listed[0].starts_with("/deep/lock/_c_"), "{listed:?}");
        assert!(lock.try_acquire().await.unwrap().is_none());
        contenders(&root, "/team/deep/lock", 1).await; // its node is deleted in the background
        let waiting = acquires(client, "/deep/lock");
        contenders(&root, "/team/deep/lock", 2).await;
        curator.tell("b", "acquire mutex /deep/lock 0 0 -1");
        contenders(&root, "/team/deep/lock", 3).await;
        curator.ok("a", "release");
        let guard = waiting.await.unwrap();
        assert!(guard.node().starts_with("/deep/lock/_c_"), "{}", guard.node());
        curator.ok("c", &format!("revoke {}", guard.node()));
        guard.revocation_requested().await.unwrap();
        guard.release().await.unwrap();
        assert_eq!(curator.answer("b"), ["ok"]);
        curator.ok("b", "release");
        curator.ok("a", "acquire mutex /deep/lock 0 0 -1");
    }

    // The same path outside of the namespace is another lock.
    let outside = Mutex::new(&root, "/deep/lock").unwrap();
    assert!(outside.try_acquire().await.unwrap().is_some());
    let semaphore = Semaphore::new(&chroot, "/permits", 1).unwrap();
    let lease = semaphore.acquire().await.unwrap();
    assert_eq!(curator.ask("b", "acquire semaphore /permits 1 1 200"), ["timeout"]);
    lease.release().await.unwrap();
    curator.ok("b", "acquire semaphore /permits 1 1 -1");
    assert!(semaphore.try_acquire().await.unwrap().is_none());
}

/// No operation of Curator's here needs a permission for other users.
#[tokio::test(flavor = "multi_thread")]
async fn lock_with_acl_admits_only_clients_with_credentials() {
    let Some((stranger, mut strange)) = both().await else { return };
    let address = address().unwrap();
    let options = &["digest=team:secret"];
    let Some(mut curator) = Curator::start(&address, LONG, options) else { return };
    let config = Config::new(&address).unwrap().auth("digest", "team:secret");
    let client = config.session_timeout(LONG).connect().await.unwrap();
    let list = vec![Acl::digest(Perms::ALL, "team", "secret")];

    // Curator creates the first path, and we create the second.
    for (theirs, path) in [(true, "/secret-theirs"), (false, "/secret-ours")] {
        let mutex_path = format!("{path}/mutex");
        let mutex = Mutex::new(&client, &mutex_path).unwrap().with_acl(list.clone());
        let take = format!("acquire mutex {mutex_path} 0 0");
        if theirs {
            curator.ok("a", &format!("{take} -1"));
            curator.ok("a", "release");
        }
        let guard = mutex.acquire().await.unwrap();
        for node in [path, &mutex_path, guard.node()] {
            assert_eq!(client.get_acl(node).await.unwrap().acl, list, "{node}");
        }
        assert_eq!(curator.ask("a", &format!("{take} 100")), ["timeout"]);
        curator.tell("a", &format!("{take} -1"));
        contenders(&client, &mutex_path, 2).await;
        let listed = paths(mutex.participants().await.unwrap());
        assert_eq!(curator.ok("b", &format!("participants mutex {mutex_path}")), listed);

        let declined = strange.ask("a", &format!("{take} 100")).join(" ");
        assert!(declined.starts_with("error ") && declined.contains("NoAuth"), "{declined}");
        let declined = strange.ask("a", &format!("revoke {}", guard.node())).join(" ");
        assert!(declined.contains("NoAuth"), "{declined}");
        let lock = Mutex::new(&stranger, &mutex_path).unwrap();
        let LockError::Client(declined) = lock.acquire().await.unwrap_err() else {
            panic!("a stranger is declined by the server")
        };
        assert_eq!(declined.code(), Some(ErrorCode::NO_AUTH));

        guard.release().await.unwrap();
        assert_eq!(curator.answer("a"), ["ok"]);
        assert!(mutex.try_acquire().await.unwrap().is_none());
        curator.ok("a", "release");

        let sides = RwLock::new(&client, &format!("{path}/rw")).unwrap().with_acl(list.clone());
        let reading = sides.read().acquire().await.unwrap();
        curator.ok("a", &format!("acquire read {path}/rw 0 0 -1"));
        reading.release().await.unwrap();
        assert!(sides.write().try_acquire().await.unwrap().is_none());
        curator.ok("a", "release");
        let semaphore = Semaphore::new(&client, &format!("{path}/s"), 1).unwrap();
        let semaphore = semaphore.with_acl(list.clone());
        let lease = semaphore.acquire().await.unwrap();
        assert_eq!(curator.ask("a", &format!("acquire semaphore {path}/s 1 1 100")), ["timeout"]);
        lease.release().await.unwrap();
        curator.ok("a", &format!("acquire semaphore {path}/s 1 1 -1"));
        assert!(semaphore.try_acquire().await.unwrap().is_none());
        curator.ok("a", "release");
    }
}

/// Foreign nodes have many kinds of names. Names that sort after the sequence numbers block no
/// contender. A name that sorts before them blocks Curator for ever (CURATOR-43), and blocks us
/// only if it could be a contender's.
#[tokio::test(flavor = "multi_thread")]
async fn foreign_nodes_block_only_if_they_could_be_contenders() {
    let Some((client, mut curator)) = both().await else { return };
    const PATH: &str = "/surroundings/foreign";
    let mutex = Mutex::new(&client, PATH).unwrap();
    drop(mutex.acquire().await.unwrap());
    let behind = [
        "zzz-of-somebody",
        "_c_-no-contender",
        "lock-of-another",
        "\u{e4}\u{f6}\u{fc}\u{20ac}\u{20ac}",
    ];
    for name in behind {
        let node = format!("{PATH}/{name}");
        client.create(&node, b"", CreateMode::Persistent).await.unwrap();
    }
    let count = behind.len();
    for _ in 0..2 {
        curator.ok("a", &acquire("mutex", PATH, -1));
        let waiting = acquires(&client, PATH);
        contenders(&client, PATH, count + 2).await;
        curator.tell("b", &acquire("mutex", PATH, -1));
        contenders(&client, PATH, count + 3).await;
        assert!(!waiting.is_finished());
        curator.ok("a", "release");
        waiting.await.unwrap().release().await.unwrap();
        assert_eq!(curator.answer("b"), ["ok"]);
        curator.ok("b", "release");
    }

    // A node with the lock name may be a contender, so both clients wait for it.
    let old_style = format!("{PATH}/lock-0000000000");
    client.create(&old_style, b"", CreateMode::Persistent).await.unwrap();
    assert_eq!(curator.ask("a", &acquire("mutex", PATH, 100)), ["timeout"]);
    assert!(mutex.try_acquire().await.unwrap().is_none());
    let waiting = acquires(&client, PATH);
    contenders(&client, PATH, count + 2).await;
    client.delete(&old_style, None).await.unwrap();
    waiting.await.unwrap().release().await.unwrap();

    let ahead = format!("{PATH}/0");
    client.create(&ahead, b"", CreateMode::Persistent).await.unwrap();
    assert_eq!(curator.ask("a", &acquire("mutex", PATH, 100)), ["timeout"]);
    let guard = mutex.try_acquire().await.unwrap().expect("no contender has that name");
    client.delete(&ahead, None).await.unwrap();
    assert_eq!(curator.ask("a", &acquire("mutex", PATH, 100)), ["timeout"]);
    guard.release().await.unwrap();
    curator.ok("a", &acquire("mutex", PATH, -1));
}

/// An operator deletes all nodes below the lock, and the lock.
#[tokio::test(flavor = "multi_thread")]
async fn waiters_requeue_when_lock_path_is_deleted() {
    let Some((client, mut curator)) = both().await else { return };
    for kind in ["mutex", "write"] {
        let path = format!("/surroundings/deleted-{kind}");
        let lock = LockSpec::new(kind, &path);
        let guard = lock.acquire(&client).await.unwrap();
        curator.tell("a", &acquire(kind, &path, -1));
        contenders(&client, &path, 2).await;
        let waiter = client.clone();
        let waiting = tokio::spawn(async move {
            loop {
                match lock.acquire(&waiter).await.unwrap().release_boxed().await {
                    // The deletion of the nodes ahead granted the lock, and then the waiter finds
                    // its own node deleted as well.
                    Err(LockError::Lost(LossReason::NodeDeleted)) => {}
                    ended => return ended,
                }
            }
        });
        let nodes = contenders(&client, &path, 3).await;
        assert!(!waiting.is_finished());
        let mut multi = client.multi();
        for node in &nodes {
            multi = multi.delete(&format!("{path}/{node}"), None);
        }
        multi.delete(&path, None).send().await.unwrap();
        assert_eq!(guard.lost_boxed().await, LossReason::NodeDeleted);
        assert_eq!(curator.answer("a"), ["ok"], "{kind}");
        curator.ok("a", "release");
        waiting.await.unwrap().unwrap();
        contenders(&client, &path, 0).await;
    }
}

/// Both clients use the lock while the server keeps checking for empty containers.
#[tokio::test(flavor = "multi_thread")]
async fn mixed_clients_alternate_while_path_is_reaped() {
    let Some(zk) = zookeeper_with(&Settings::default().container_check_ms(1)) else { return };
    let Some(mut curator) = Curator::start(&zk.connect_string(), LONG, &[]) else { return };
    let client = open(&zk.connect_string()).await;
    let mut reaped = 0;
    let mutex = Mutex::new(&client, "/between/lock").unwrap();
    let mut last = 0;
    for round in 1..=40 {
        let guard = mutex.acquire().await.unwrap();
        reaped += usize::from(guard.node().ends_with("0000000000"));
        assert!(guard.token().unwrap().czxid() > last);
        last = guard.token().unwrap().czxid();
        curator.tell("a", "acquire mutex /between/lock 0 0 -1");
        contenders(&client, "/between/lock", 2).await;
        guard.release().await.unwrap();
        assert_eq!(curator.answer("a"), ["ok"]);
        curator.ok("a", "release");
        if round % 10 == 0 {
            let is_gone = async || client.exists("/between").await.unwrap().is_none().then_some(());
            eventually(LIMIT, is_gone).await.expect("it is still there");
        }
    }
    assert!(reaped >= 4, "{reaped}");
}

/// Paths with many levels, with a name of 4,000 characters, and with names like those of lock nodes.
#[tokio::test(flavor = "multi_thread")]
async fn long_paths_and_odd_names_work_across_clients() {
    let deep = format!("/surroundings{}", "/level".repeat(60));
    let long = format!("/surroundings/{}", "n".repeat(4_000));
    let locks = ["/lock-", "/lock-0000000001", "/_c_", "/__READ__0000000000", "/.a", "/a.."];
    let odd = locks.map(|name| format!("/surroundings{name}"));
    let script =
        "rust.r acquires mutex; java.a queues mutex; mutex lists 2; rust.r releases; java.a gets
        rust.r misses mutex; java.a releases";
    for path in [&[deep, long][..], &odd].concat() {
        play(&path, script).await;
    }
}

/// Curator's revocable locks have empty data. The data of another client's node may be null.
#[tokio::test(flavor = "multi_thread")]
async fn contender_with_empty_or_null_data_is_waited_for() {
    let Some((client, mut curator)) = both().await else { return };
    const PATH: &str = "/surroundings/no-data";
    let lock = Mutex::new(&client, PATH).unwrap();
    curator.ok("a", &format!("acquire-revocable mutex {PATH}"));
    let listed = lock.participants().await.unwrap();
    assert_eq!((listed.len(), listed[0].data.as_slice()), (1, &b""[..]));
    let waiting = acquires(&client, PATH);
    contenders(&client, PATH, 2).await;
    curator.ok("a", "release");
    waiting.await.unwrap().release().await.unwrap();

    let null = format!("{PATH}/_c_00000000-0000-0000-0000-000000000000-lock-0000000000");
    let server = shared_zookeeper().unwrap();
    zk_tests::raw::create_with_null_data(server, &null);
    let listed = lock.participants().await.unwrap();
    assert_eq!(
        listed.iter().map(|participant| participant.data.as_slice()).collect::<Vec<_>>(),
        [b""]
    );
    assert!(lock.try_acquire().await.unwrap().is_none());
    assert_eq!(curator.ask("a", &acquire("mutex", PATH, 100)), ["timeout"]);
    let waiting = acquires(&client, PATH);
    contenders(&client, PATH, 2).await;
    assert!(zk_recipes::revoke(&client, &null).await.unwrap());
    client.delete(&null, None).await.unwrap();
    waiting.await.unwrap().release().await.unwrap();
}
