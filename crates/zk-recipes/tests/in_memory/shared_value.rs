//! Shared values and counts that several clients change.

use zk_recipes::session::{Acl, CreateMode, ErrorCode, Perms, RetryOn};
use zk_recipes::{LockError, SharedCount, SharedValue};
use zk_testing::server::NodeKind;
use zk_testing::{Cut, Op};

use crate::{T, cut_off, running, settle, started};

#[tokio::test(start_paused = true)]
async fn node_is_created_with_the_first_seed_and_container_parents() {
    let (server, [one, other]) = started().await;
    let value = SharedValue::new(&one, "/a/b/value", &b"seed"[..]).unwrap();
    assert_eq!(value.get().await.unwrap().value(), "seed");
    let same = SharedValue::new(&other, "/a/b/value", &b"another seed"[..]).unwrap();
    assert_eq!(same.get().await.unwrap().value(), "seed");
    // As in Curator, the node is persistent and its parents are containers.
    server.with(|ensemble| {
        let kind = |path| ensemble.tree().node(path).unwrap().kind();
        assert_eq!(kind("/a/b/value"), NodeKind::Persistent);
        assert_eq!(kind("/a/b"), NodeKind::Container);
    });
}

#[tokio::test(start_paused = true)]
async fn get_reads_a_node_that_another_client_creates_first() {
    let (server, [client]) = started().await;
    client.create("/v", b"theirs", CreateMode::Persistent).await.unwrap();
    let missing = server.on(Op::GetData).answer(ErrorCode::NO_NODE);
    let value = SharedValue::new(&client, "/v", &b"seed"[..]).unwrap();
    assert_eq!(value.get().await.unwrap().value(), "theirs");
    assert_eq!(missing.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn value_and_its_parents_have_the_given_acl() {
    let (_server, [client]) = started().await;
    let list = vec![Acl::world(Perms::READ | Perms::WRITE | Perms::CREATE)];
    let value = SharedValue::new(&client, "/a/value", "seed").unwrap().with_acl(list.clone());
    value.get().await.unwrap();
    let count = SharedCount::new(&client, "/b/count", 7).unwrap().with_acl(list.clone());
    assert_eq!(count.get().await.unwrap().count(), 7);
    for path in ["/a", "/a/value", "/b", "/b/count"] {
        assert_eq!(client.get_acl(path).await.unwrap().acl, list, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn try_set_fails_if_the_value_changed_since_it_was_read() {
    let (_server, [client]) = started().await;
    let value = SharedValue::new(&client, "/v", &b"0"[..]).unwrap();
    let read = value.get().await.unwrap();
    let first = value.try_set(&read, &b"1"[..]).await.unwrap().unwrap();
    assert!(first.zxid() > read.zxid());
    assert_eq!(value.try_set(&read, &b"2"[..]).await.unwrap(), None);
    let second = value.try_set(&first, &b"2"[..]).await.unwrap().unwrap();
    assert_eq!(value.get().await.unwrap(), second);
    value.set(&b"3"[..]).await.unwrap();
    assert_eq!(value.try_set(&second, &b"4"[..]).await.unwrap(), None);
    assert_eq!(value.get().await.unwrap().value(), "3");
}

#[tokio::test(start_paused = true)]
async fn changed_returns_a_change_made_before_the_call() {
    let (_server, [one, other]) = started().await;
    let reader = SharedCount::new(&one, "/c", 3).unwrap();
    let writer = SharedCount::new(&other, "/c", 9).unwrap();
    let mut seen = reader.get().await.unwrap();
    assert_eq!(seen.count(), 3);
    writer.set(4).await.unwrap();
    seen = reader.changed(&seen).await.unwrap();
    assert_eq!(seen.count(), 4);
    let (change, set) = tokio::join!(reader.changed(&seen), writer.set(-5));
    assert_eq!((change.unwrap().count(), set.unwrap().count()), (-5, -5));
    other.delete("/c", None).await.unwrap();
    assert_eq!(reader.get().await.unwrap().count(), 3, "made again, with the seed");
}

#[tokio::test(start_paused = true)]
async fn shared_count_rejects_non_integer_data() {
    let (_server, [client]) = started().await;
    client.create("/c", b"three", CreateMode::Persistent).await.unwrap();
    let count = SharedCount::new(&client, "/c", 0).unwrap();
    let told = count.get().await;
    assert_eq!(told, Err(LockError::NotACount { path: "/c".to_owned() }));
    count.set(i32::MIN).await.unwrap();
    assert_eq!(&client.get_data("/c").await.unwrap().data[..], [128, 0, 0, 0]);
    assert_eq!(count.get().await.unwrap().count(), i32::MIN);
}

/// ZooKeeper compares versions, and the versions of both nodes begin at 0.
#[tokio::test(start_paused = true)]
async fn try_set_reports_a_recreated_node() {
    let (_server, [client]) = started().await;
    let value = SharedValue::new(&client, "/v", &b"seed"[..]).unwrap();
    let count = SharedCount::new(&client, "/c", 1).unwrap();
    let (read, counted) = (value.get().await.unwrap(), count.get().await.unwrap());
    for (path, data) in [("/v", &b"unread"[..]), ("/c", &7_i32.to_be_bytes())] {
        client.delete(path, None).await.unwrap();
        client.create(path, data, CreateMode::Persistent).await.unwrap();
    }
    let recreated = |path: &str| LockError::NodeRecreated { path: path.into() };
    let error = value.try_set(&read, &b"mine"[..]).await.unwrap_err();
    assert_eq!((&error, error.retry_on()), (&recreated("/v"), RetryOn::Never));
    assert!(error.to_string().starts_with("/v: the value was set"), "{error}");
    assert_eq!(count.try_set(&counted, 2).await, Err(recreated("/c")));

    // The set was applied, as the error says, and later sets can continue from it.
    let now = value.get().await.unwrap();
    assert_eq!(now.value(), "mine");
    assert!(value.try_set(&now, &b"next"[..]).await.unwrap().is_some());
    // A node at another version is not overwritten.
    client.delete("/v", None).await.unwrap();
    client.create("/v", b"unread", CreateMode::Persistent).await.unwrap();
    assert_eq!(value.try_set(&now, &b"mine"[..]).await, Ok(None));
}

#[tokio::test(start_paused = true)]
async fn value_that_cannot_be_created_is_an_error() {
    let (server, [client]) = started().await;
    let value = SharedValue::new(&client, "/value", "seed").unwrap();
    let refused = server.on(Op::Create2).times(20).answer(ErrorCode::NO_AUTH);
    let LockError::Client(error) = value.get().await.unwrap_err() else { panic!("another error") };
    assert_eq!((error.code(), refused.count()), (Some(ErrorCode::NO_AUTH), 1));
}

/// `TestSharedCount.testDisconnectReconnectEventDoesNotFireValueWatcher` and its neighbours: a
/// disconnect and a reconnect are not reported as a change. A change made in the meantime is
/// reported.
#[tokio::test(start_paused = true)]
async fn shared_count_reports_changes_but_not_reconnects() {
    let (server, [one, other]) = started().await;
    let count = SharedCount::new(&one, "/count", 1).unwrap();
    let seen = count.get().await.unwrap();
    let changed = running(async move { count.changed(&seen).await.unwrap().count() }).await;
    for _ in 0..3 {
        server.connection_of(one.session_id()).cut(Cut::Rst);
        tokio::time::sleep(T / 4).await; // reason: for the next attempt to connect
        assert!(one.is_connected() && !changed.is_finished());
    }
    cut_off(&server, &one).await;
    SharedCount::new(&other, "/count", 9).unwrap().set(2).await.unwrap();
    settle().await;
    assert!(!changed.is_finished());
    server.accept_connects(0);
    assert_eq!(changed.await.unwrap(), 2);
}
