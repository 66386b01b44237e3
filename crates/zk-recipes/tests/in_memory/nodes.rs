//! Nodes of a lock: their names, their data and their ACLs, and the end of their numbers.
//!
//! A server repeats the last number, 2^31 - 1, for creates that arrive one at a time. For creates that
//! arrive together it continues with negative numbers. Two contenders would then be first, so no acquisition
//! succeeds there. Nodes of other clients are ordered as Curator orders them.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use zk_recipes::limits::SEQUENCE_END;
use zk_recipes::session::{Acl, Client, Config, ErrorCode, Perms, RetryOn};
use zk_recipes::{Lock, LockError, Mutex, RwLock, Semaphore, SemaphoreMutex, revoke};
use zk_testing::{Settings, TestServer};

use crate::{Acquire, Kind, attempt, child, children, client, config, queue, settle, started};

/// ACL that permits everyone everything except changing the ACL.
fn acl() -> Vec<Acl> {
    vec![Acl::world(Perms::READ | Perms::WRITE | Perms::CREATE | Perms::DELETE)]
}

async fn expect_ours(client: &Client, node: &str, data: &[u8]) {
    assert_eq!(client.get_acl(node).await.unwrap().acl, acl(), "{node}");
    assert_eq!(client.get_data(node).await.unwrap().data, data, "{node}");
}

#[tokio::test(start_paused = true)]
async fn nodes_and_their_parents_have_the_given_data_and_acl() {
    let (server, [client]) = started().await;
    let mutex = Mutex::new(&client, "/m/l").unwrap().with_lock_name("mutex-7-").unwrap();
    let rw = RwLock::new(&client, "/rw/l").unwrap().with_data(*b"me").with_acl(acl());
    let permits = Semaphore::new(&client, "/s/l", 2).unwrap().with_data(*b"me").with_acl(acl());
    let single = SemaphoreMutex::new(&client, "/sm/l").unwrap().with_data(*b"me").with_acl(acl());
    let locks: [Arc<dyn Lock>; 5] = [
        Arc::new(mutex.with_data(*b"me").with_acl(acl())),
        Arc::new(rw.read().clone()),
        Arc::new(rw.write().clone()),
        Arc::new(permits.clone()),
        Arc::new(single),
    ];
    for lock in &locks {
        let held = lock.acquire_boxed().await.unwrap();
        expect_ours(&client, held.nodes()[0], b"me").await;
        let is_named = held.nodes()[0].ends_with("-mutex-7-0000000000");
        assert_eq!(is_named, lock.path() == "/m/l");
    }
    for parent in ["/m", "/m/l", "/rw", "/rw/l", "/s", "/s/l", "/s/l/locks", "/sm/l/leases"] {
        expect_ours(&client, parent, b"").await;
    }
    let writing = rw.write().acquire().await.unwrap();
    expect_ours(&client, writing.read().await.unwrap().node(), b"me").await;
    expect_ours(&client, writing.downgrade().await.unwrap().node(), b"me").await;
    let own = [Acl::world(Perms::ALL)];
    let reading = rw.read().clone().with_acl(own.clone()).acquire().await.unwrap();
    assert_eq!(client.get_acl(reading.node()).await.unwrap().acl, own);
    let _lease = permits.acquire_many(2).await.unwrap();
    let _waiting = queue(&permits).await;
    let turn = child(&server, "/s/l/locks", 0);
    assert_eq!(client.get_acl(&turn).await.unwrap().acl, acl());
}

/// A connection over TCP has an address. The wall clock of the test server begins at a fixed time.
#[tokio::test]
async fn node_has_the_contenders_address_process_and_name() {
    const BEGUN_MS: u32 = 1_700_000_000;
    let settings = Settings::new().wall_clock_ms(i64::from(BEGUN_MS));
    let server = TestServer::start_with(settings).await.unwrap();
    let config = Config::new(&server.connect_string()).unwrap();
    let client = config.name("checkout").connect().await.unwrap();
    let lock = Mutex::new(&client, "/lock").unwrap();
    let _guard = lock.acquire().await.unwrap();
    let holder = lock.participants().await.unwrap().remove(0);
    let info = holder.info().unwrap();
    assert_eq!(Some(info.address), client.local_address());
    assert_eq!(info.process_id, Some(std::process::id()));
    assert_eq!(info.name.as_deref(), Some("checkout"));
    let begun = UNIX_EPOCH + Duration::from_millis(BEGUN_MS.into());
    let an_hour = Duration::from_secs(3_600);
    assert!((begun..begun + an_hour).contains(&holder.created), "{:?}", holder.created);
}

/// Without an address, the node of a contender has no data.
#[tokio::test(start_paused = true)]
async fn node_of_a_connection_without_an_address_is_empty() {
    let server = TestServer::in_memory();
    let lock = Mutex::new(&client(&server, 1).await, "/lock").unwrap();
    let _guard = lock.acquire().await.unwrap();
    let holder = lock.participants().await.unwrap().remove(0);
    assert_eq!((holder.info(), holder.data), (None, Vec::new()));
}

/// An ACL that the server rejects is an error, and leaves no node.
#[tokio::test(start_paused = true)]
async fn empty_acl_fails_and_leaves_no_node() {
    let (server, [client]) = started().await;
    let lock = Mutex::new(&client, "/lock").unwrap().with_acl(Vec::new());
    let LockError::Client(refused) = lock.acquire().await.unwrap_err() else {
        panic!("the server declines")
    };
    assert_eq!(refused.code(), Some(ErrorCode::INVALID_ACL));
    assert_eq!(children(&server, "/"), ["zookeeper"]);
}

/// Clients with the secret share the lock. Other clients cannot acquire, list, revoke or delete it.
#[tokio::test(start_paused = true)]
async fn acl_excludes_clients_without_the_secret() {
    let server = TestServer::in_memory();
    let known = async |seed| {
        let config = config(seed).auth("digest", "ours:secret");
        config.connector(server.clone()).connect().await.unwrap()
    };
    let (one, other, stranger) = (known(1).await, known(2).await, client(&server, 3).await);
    let list = vec![Acl::digest(Perms::ALL, "ours", "secret")];
    let mutex = |client: &Client| Mutex::new(client, "/lock").unwrap().with_acl(list.clone());
    let rw = |client: &Client| RwLock::new(client, "/rw").unwrap().with_acl(list.clone());

    let guard = mutex(&one).acquire().await.unwrap();
    let waiting = tokio::spawn({
        let lock = mutex(&other);
        async move { lock.acquire().await.unwrap() }
    });
    let writing = rw(&one).write().acquire().await.unwrap();
    settle().await;
    let declined = |error: LockError| match error {
        LockError::Client(error) => assert_eq!(error.code(), Some(ErrorCode::NO_AUTH), "{error}"),
        error => panic!("{error}"),
    };
    declined(mutex(&stranger).acquire().await.unwrap_err());
    declined(mutex(&stranger).participants().await.unwrap_err());
    declined(rw(&stranger).read().acquire().await.unwrap_err());
    declined(revoke(&stranger, guard.node()).await.unwrap_err());
    let deleted = stranger.delete(guard.node(), None).await.unwrap_err();
    assert_eq!(deleted.code(), Some(ErrorCode::NO_AUTH));
    guard.release().await.unwrap();
    waiting.await.unwrap().release().await.unwrap();
    writing.downgrade().await.unwrap().release().await.unwrap();
}

/// Nine contenders of three sessions acquire at once around the end, three times.
#[tokio::test(start_paused = true)]
async fn acquisitions_fail_at_the_end_of_the_sequence_numbers() {
    let server = TestServer::in_memory();
    let clients = [client(&server, 1).await, client(&server, 2).await, client(&server, 3).await];
    for kind in Kind::ALL {
        for folder in kind.folders() {
            let lock = kind.lock(&clients[0]);
            lock.acquire_boxed().await.unwrap().release_boxed().await.unwrap();
            settle().await;
            let before =
                server.with(|ensemble| ensemble.tree().node(folder).unwrap().next_sequence());
            assert!(server.set_sequence(folder, i32::MAX - 2));
            for _ in 0..3 {
                let nine = clients.iter().cycle().take(9);
                let crowd: Vec<_> =
                    nine.map(|client| tokio::spawn(kind.lock(client).acquired())).collect();
                for contender in crowd {
                    let error = contender.await.unwrap().expect_err("nobody gets it");
                    let LockError::SequenceExhausted { node } = &error else { panic!("{error}") };
                    assert!(node.starts_with(folder), "{node}");
                    assert!(error.retry_on() != RetryOn::SameSession);
                    assert!(error.to_string().contains("are used up"), "{error}");
                }
                settle().await;
                assert_eq!(children(&server, folder), [""; 0], "{folder}: nothing is left");
            }
            assert!(server.set_sequence(folder, before));
        }
    }
}

/// The last contenders below the limit hold the lock and wait as usual. Later contenders fail at
/// once.
#[tokio::test(start_paused = true)]
async fn exhausted_sequence_fails_newcomers_and_keeps_the_holder() {
    let (server, [one, other]) = started().await;
    let lock = |client: &Client| Mutex::new(client, "/m").unwrap();
    lock(&one).acquire().await.unwrap().release().await.unwrap();
    assert!(server.set_sequence("/m", i32::try_from(SEQUENCE_END).unwrap() - 2));
    let held = lock(&one).acquire().await.unwrap();
    let waiting = attempt(&lock(&other)).await;
    for _ in 0..3 {
        let late = lock(&other).acquire().await.unwrap_err();
        assert!(matches!(late, LockError::SequenceExhausted { .. }), "{late}");
    }
    held.check().await.unwrap();
    assert!(!waiting.is_finished());
    held.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(children(&server, "/m"), [""; 0]);
}
