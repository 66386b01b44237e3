//! Nodes of a lock: their names, their data and their ACLs.

use std::time::{Duration, UNIX_EPOCH};

use zk_recipes::session::{Acl, Client, Config, ErrorCode, Perms, RetryOn};
use zk_recipes::{LockError, Mutex, RwLock, Semaphore, SemaphoreMutex, revoke};
use zk_testing::{Settings, TestServer};

use crate::{child, children, client, config, queue, queue_many, settle, started};

/// ACL that permits everyone everything except changing the ACL.
fn acl() -> Vec<Acl> {
    vec![Acl::world(Perms::READ | Perms::WRITE | Perms::CREATE | Perms::DELETE)]
}

async fn expect_ours(client: &Client, nodes: impl IntoIterator<Item = String>, data: &[u8]) {
    for node in nodes {
        assert_eq!(client.get_acl(&node).await.unwrap().acl, acl(), "{node}");
        let seen = client.get_data(&node).await.unwrap();
        assert_eq!(seen.data, data, "{node}");
    }
}

#[tokio::test(start_paused = true)]
async fn mutex_node_has_the_given_name_data_and_acl() {
    let (_server, [one, other]) = started().await;
    let lock = |client: &Client| {
        let lock = Mutex::new(client, "/above/lock").unwrap().with_lock_name("mutex-7-").unwrap();
        lock.with_data(*b"me").with_acl(acl())
    };
    let guard = lock(&one).acquire().await.unwrap();
    assert!(guard.node().ends_with("-mutex-7-0000000000"), "{}", guard.node());
    expect_ours(&one, [guard.node().to_owned()], b"me").await;
    expect_ours(&one, ["/above".to_owned(), "/above/lock".to_owned()], b"").await;

    assert!(lock(&other).try_acquire().await.unwrap().is_none());
    let waiting = queue(&lock(&other)).await;
    let participants = lock(&other).participants().await.unwrap();
    let sequences: Vec<_> = participants.iter().map(|it| it.sequence).collect();
    assert_eq!(sequences, [Some(0), Some(2)]);
    let token = guard.token().unwrap();
    guard.release().await.unwrap();
    assert!(waiting.await.unwrap().token().unwrap() > token);
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

/// Waiters queue by sequence number, even if the name before it ends in digits or contains hyphens.
#[tokio::test(start_paused = true)]
async fn waiters_queue_by_sequence_number_under_any_lock_name() {
    for name in ["7a8", "-", "_c_", "lock", "\u{e4}\u{f6} \u{20ac}", "lock-lock-", "."] {
        let (_server, [client]) = started().await;
        let lock = Mutex::new(&client, "/lock").unwrap().with_lock_name(name).unwrap();
        let waiting = queue_many(&lock, 12).await;
        for (number, waiting) in waiting.into_iter().enumerate() {
            let guard = waiting.await.unwrap();
            assert!(guard.node().ends_with(&format!("{name}{number:010}")), "{}", guard.node());
            guard.release().await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn invalid_lock_name_is_rejected_and_named_in_the_error() {
    let (_server, [client]) = started().await;
    for name in ["", "0123", "a/b", "a\u{0}b"] {
        let lock = Mutex::new(&client, "/lock").unwrap();
        let refused = lock.with_lock_name(name).unwrap_err();
        assert_eq!(refused, LockError::InvalidLockName { name: name.to_owned() });
        assert!(
            refused.retry_on() != RetryOn::SameSession
                && refused.to_string().contains(&format!("{name:?}"))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn rwlock_and_downgrade_nodes_have_the_given_data_and_acl() {
    let (_server, [client]) = started().await;
    let lock = RwLock::new(&client, "/above/rw").unwrap().with_data(*b"me").with_acl(acl());
    let writing = lock.write().acquire().await.unwrap();
    let reading = writing.read().await.unwrap();
    expect_ours(&client, [writing.node().to_owned(), reading.node().to_owned()], b"me").await;
    expect_ours(&client, ["/above".to_owned(), "/above/rw".to_owned()], b"").await;
    drop(reading);
    let reading = writing.downgrade().await.unwrap();
    expect_ours(&client, [reading.node().to_owned()], b"me").await;
    drop(reading);
    let own = [Acl::world(Perms::ALL)];
    let reading = lock.read().clone().with_acl(own.clone()).acquire().await.unwrap();
    assert_eq!(client.get_acl(reading.node()).await.unwrap().acl, own);
}

#[tokio::test(start_paused = true)]
async fn semaphore_nodes_have_the_given_data_and_acl() {
    let (server, [client]) = started().await;
    let semaphore = Semaphore::new(&client, "/above/s", 2).unwrap();
    let semaphore = semaphore.with_data(*b"me").with_acl(acl());
    let lease = semaphore.acquire_many(2).await.unwrap();
    expect_ours(&client, lease.nodes().map(str::to_owned), b"me").await;
    for path in ["/above", "/above/s", "/above/s/locks", "/above/s/leases"] {
        expect_ours(&client, [path.to_owned()], b"").await;
    }
    let waiting = queue(&semaphore).await;
    let turn = child(&server, "/above/s/locks", 0);
    assert_eq!(client.get_acl(&turn).await.unwrap().acl, acl());
    drop(lease);
    drop(waiting.await.unwrap());

    let mutex = SemaphoreMutex::new(&client, "/m").unwrap().with_data(*b"me").with_acl(acl());
    let guard = mutex.acquire().await.unwrap();
    expect_ours(&client, [guard.node().to_owned()], b"me").await;
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
