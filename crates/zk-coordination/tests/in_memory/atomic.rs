//! Atomic values and counters: results, layout, conflicts and lost replies.

use bytes::Bytes;
use zk_coordination::session::{CreateMode, ErrorCode, Outcome, RetryOn, path};
use zk_coordination::{AtomicError, AtomicInteger, AtomicLong, AtomicNumber, AtomicValue, Number};
use zk_testing::server::NodeKind;
use zk_testing::{Fault, Op, TestServer};

use crate::{T, client, client_of_three, settle};

/// Returns the data of a node at the leader.
pub(crate) fn data(server: &TestServer, path: &str) -> Option<Vec<u8>> {
    server.with(|ensemble| Some(ensemble.tree().node(path)?.data().unwrap_or_default().to_vec()))
}

fn number(server: &TestServer, path: &str) -> i64 {
    i64::decode(&data(server, path).unwrap()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn counter_has_the_layout_of_curator() {
    let server = TestServer::in_memory();
    let client = client(&server, 1).await;
    let long = AtomicLong::new(&client, "/counters/long").unwrap();
    assert_eq!(long.get().await.unwrap(), 0);
    assert!(data(&server, "/counters/long").is_none(), "a read creates no node");
    assert_eq!(long.add(258).await.unwrap(), 258);
    assert_eq!(data(&server, "/counters/long").unwrap(), [0, 0, 0, 0, 0, 0, 1, 2]);
    assert_eq!(long.decrement().await.unwrap(), 257);
    assert_eq!(long.subtract(300).await.unwrap(), -43);
    assert_eq!(long.get().await.unwrap(), -43);
    let integer = AtomicInteger::new(&client, "/counters/integer").unwrap();
    assert_eq!(integer.increment().await.unwrap(), 1);
    assert_eq!(data(&server, "/counters/integer").unwrap(), [0, 0, 0, 1]);
    server.with(|ensemble| {
        let kind = |path| ensemble.tree().node(path).unwrap().kind();
        assert_eq!(kind("/counters/long"), NodeKind::Persistent);
        assert_eq!(kind("/counters"), NodeKind::Container);
    });
}

/// Curator's `getLong` reads the first 8 bytes, and its additions overwrite the others.
#[tokio::test(start_paused = true)]
async fn data_of_another_program_is_no_number_and_stays() {
    let server = TestServer::in_memory();
    let client = client(&server, 1).await;
    client.create("/empty", b"", CreateMode::Persistent).await.unwrap();
    client.create("/json", b"{\"limit\": 100}", CreateMode::Persistent).await.unwrap();
    assert_eq!(AtomicLong::new(&client, "/empty").unwrap().increment().await.unwrap(), 1);
    let long = AtomicLong::new(&client, "/json").unwrap();
    let error = AtomicError::Corrupted { path: "/json".into(), len: 14, expected: 8 };
    assert_eq!(long.get().await, Err(error.clone()));
    assert_eq!(long.increment().await, Err(error.clone()));
    assert_eq!(long.add_once("a", 1).await, Err(error));
    assert_eq!(data(&server, "/json").unwrap(), b"{\"limit\": 100}");
    let wide = AtomicError::Corrupted { path: "/empty".into(), len: 8, expected: 4 };
    assert_eq!(AtomicInteger::new(&client, "/empty").unwrap().increment().await, Err(wide));
}

#[tokio::test(start_paused = true)]
async fn short_data_is_a_typed_error_until_it_is_set() {
    let server = TestServer::in_memory();
    let client = client(&server, 1).await;
    client.create("/c", b"seven", CreateMode::Persistent).await.unwrap();
    let counter = AtomicLong::new(&client, "/c").unwrap();
    let error = AtomicError::Corrupted { path: "/c".into(), len: 5, expected: 8 };
    assert_eq!(counter.get().await, Err(error.clone()));
    assert_eq!(counter.increment().await, Err(error.clone()));
    assert_eq!((error.outcome(), error.retry_on()), (Outcome::NotApplied, RetryOn::Never));
    assert!(error.to_string().starts_with("/c: 5 bytes of data are no number"), "{error}");
    counter.set(3).await.unwrap();
    assert_eq!(counter.get().await.unwrap(), 3);
}

#[tokio::test(start_paused = true)]
async fn overflow_is_an_error_and_changes_nothing() {
    let server = TestServer::in_memory();
    let client = client(&server, 1).await;
    let long = AtomicLong::new(&client, "/long").unwrap();
    long.set(i64::MAX).await.unwrap();
    let overflow = AtomicError::Overflow { path: "/long".into() };
    assert_eq!(long.increment().await, Err(overflow.clone()));
    assert_eq!(long.add_once("a", 1).await, Err(overflow.clone()));
    assert_eq!(overflow.outcome(), Outcome::NotApplied);
    assert_eq!(number(&server, "/long"), i64::MAX);
    long.set(-1).await.unwrap();
    assert_eq!(long.subtract(i64::MIN).await.unwrap(), i64::MAX, "its negative is out of range");
    let integer = AtomicInteger::new(&client, "/integer").unwrap();
    integer.set(i32::MIN).await.unwrap();
    assert_eq!(integer.decrement().await, Err(AtomicError::Overflow { path: "/integer".into() }));
}

#[tokio::test(start_paused = true)]
async fn initialize_creates_the_node_once() {
    let server = TestServer::in_memory();
    let client = client(&server, 1).await;
    let counter = AtomicLong::new(&client, "/a/b/c").unwrap();
    assert!(counter.initialize(5).await.unwrap());
    assert!(!counter.initialize(6).await.unwrap());
    assert_eq!(counter.get().await.unwrap(), 5);
    let other = AtomicValue::new(&client, "/a/d/e").unwrap();
    other.set(b"first".as_slice()).await.unwrap();
    assert_eq!(other.get().await.unwrap(), "first");
}

#[tokio::test(start_paused = true)]
async fn compare_and_set_compares_the_value() {
    let server = TestServer::in_memory();
    let client = client(&server, 1).await;
    let value = AtomicValue::new(&client, "/v").unwrap();
    assert!(!value.compare_and_set(b"", "one").await.unwrap(), "a missing node has no value");
    assert!(data(&server, "/v").is_none(), "a failed comparison creates no node");
    assert!(value.initialize("").await.unwrap());
    assert!(value.compare_and_set(b"", b"one".as_slice()).await.unwrap());
    assert!(!value.compare_and_set(b"", b"two".as_slice()).await.unwrap());
    assert!(value.compare_and_set(b"one", b"two".as_slice()).await.unwrap());
    let appended = |now: &[u8]| Some(Bytes::from([now, b"!"].concat()));
    assert_eq!(value.update(appended).await.unwrap().unwrap(), "two!");
    let counter = AtomicLong::new(&client, "/c").unwrap();
    assert!(!counter.compare_and_set(0, 7).await.unwrap());
    assert!(counter.initialize(0).await.unwrap());
    assert!(counter.compare_and_set(0, 7).await.unwrap());
    assert!(!counter.compare_and_set(0, 8).await.unwrap());
    assert_eq!(number(&server, "/c"), 7);
}

#[tokio::test(start_paused = true)]
async fn addition_costs_two_requests() {
    let server = TestServer::in_memory();
    let client = client(&server, 1).await;
    let counter = AtomicLong::new(&client, "/c").unwrap();
    counter.increment().await.unwrap();
    let before = client.stats().frames_sent;
    counter.increment().await.unwrap();
    assert_eq!(client.stats().frames_sent - before, 2);
    let before = client.stats().frames_sent;
    counter.add_once("a", 1).await.unwrap();
    assert_eq!(client.stats().frames_sent - before, 3);
    let before = client.stats().frames_sent;
    counter.add_once("a", 1).await.unwrap();
    assert_eq!(client.stats().frames_sent - before, 2);
}

#[tokio::test(start_paused = true)]
async fn racing_clients_lose_no_addition() {
    let server = TestServer::in_memory();
    let mut adding = Vec::new();
    for seed in 0..32 {
        let client = client(&server, seed).await;
        adding.push(tokio::spawn(async move {
            let counter = AtomicLong::new(&client, "/c").unwrap();
            for _ in 0..8 {
                counter.increment().await.unwrap();
            }
        }));
    }
    for adding in adding {
        adding.await.unwrap();
    }
    assert_eq!(number(&server, "/c"), 32 * 8);
}

/// A counter with 10, and a fault on its next write.
async fn with_lost_write(
    fault: impl FnOnce(&TestServer) -> Fault,
) -> (TestServer, AtomicLong, Fault) {
    let server = TestServer::in_memory();
    let client = client(&server, 1).await;
    let counter = AtomicLong::new(&client, "/c").unwrap();
    counter.set(10).await.unwrap();
    let fault = fault(&server);
    (server, counter, fault)
}

/// Curator's retry loop sends `setData` again after a connection loss, takes the bad version for a
/// conflict, and adds again.
#[tokio::test(start_paused = true)]
async fn addition_never_counts_twice_after_a_connection_loss() {
    let lost = |server: &TestServer| server.on(Op::SetData).apply_then_drop_reply();
    let (server, counter, fault) = with_lost_write(lost).await;
    let error = counter.increment().await.unwrap_err();
    assert_eq!((error.outcome(), fault.count()), (Outcome::Unknown, 1), "{error}");
    assert_eq!(error.retry_on(), RetryOn::Never);
    assert_eq!(number(&server, "/c"), 11);
    assert_eq!(counter.increment().await.unwrap(), 12);
}

#[tokio::test(start_paused = true)]
async fn addition_is_repeated_if_the_request_was_lost() {
    let lost = |server: &TestServer| server.on(Op::SetData).drop_before_applying();
    let (server, counter, fault) = with_lost_write(lost).await;
    assert_eq!(counter.increment().await.unwrap(), 11);
    assert_eq!((number(&server, "/c"), fault.count()), (11, 1));
}

/// The other client has written other bytes from the same version, so the lost write was rejected.
#[tokio::test(start_paused = true)]
async fn addition_goes_on_if_another_client_was_faster() {
    let lost = |server: &TestServer| server.on(Op::SetData).drop_before_applying();
    let (server, counter, _) = with_lost_write(lost).await;
    let other = client(&server, 2).await;
    server.refuse_connects(0);
    let adding = tokio::spawn({
        let counter = counter.clone();
        async move { counter.increment().await }
    });
    settle().await;
    AtomicLong::new(&other, "/c").unwrap().add(100).await.unwrap();
    server.accept_connects(0);
    assert_eq!(adding.await.unwrap().unwrap(), 111);
    assert_eq!(number(&server, "/c"), 111);
}

/// Both clients write the same bytes from the same version, so the data does not show whose they are.
#[tokio::test(start_paused = true)]
async fn equal_write_of_another_client_is_not_taken_for_ours() {
    let lost = |server: &TestServer| server.on(Op::SetData).drop_before_applying();
    let (server, counter, _) = with_lost_write(lost).await;
    let other = client(&server, 2).await;
    server.refuse_connects(0);
    let adding = tokio::spawn({
        let counter = counter.clone();
        async move { counter.increment().await }
    });
    settle().await;
    AtomicLong::new(&other, "/c").unwrap().increment().await.unwrap();
    server.accept_connects(0);
    assert_eq!(adding.await.unwrap().unwrap_err().outcome(), Outcome::Unknown);
    assert_eq!(number(&server, "/c"), 11);
}

#[tokio::test(start_paused = true)]
async fn addition_is_unknown_if_the_session_ends_in_mid_write() {
    let lost = |server: &TestServer| server.on(Op::SetData).apply_then_drop_reply();
    let (server, counter, _) = with_lost_write(lost).await;
    server.refuse_connects(0);
    let error = counter.increment().await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
    assert_eq!(number(&server, "/c"), 11);
}

#[tokio::test(start_paused = true)]
async fn addition_that_was_never_sent_is_not_applied() {
    let server = TestServer::in_memory();
    let client = client(&server, 1).await;
    server.expire(client.session_id());
    settle().await;
    let error = AtomicLong::new(&client, "/c").unwrap().increment().await.unwrap_err();
    assert_eq!((error.outcome(), error.retry_on()), (Outcome::NotApplied, RetryOn::NewSession));
}

/// The lost request creates the node with 0, and the addition would have followed.
#[tokio::test(start_paused = true)]
async fn addition_is_not_applied_if_the_create_is_lost() {
    for id in [None, Some("a")] {
        let server = TestServer::in_memory();
        let client = client(&server, 1).await;
        server.on(Op::Create2).apply_then_drop_reply();
        server.refuse_connects(0);
        let counter = AtomicLong::new(&client, "/c").unwrap();
        let error = match id {
            None => counter.increment().await.unwrap_err(),
            Some(id) => counter.add_once(id, 1).await.unwrap_err(),
        };
        assert_eq!((error.outcome(), error.retry_on()), (Outcome::NotApplied, RetryOn::NewSession));
        assert_eq!(number(&server, "/c"), 0);
    }
}

/// Another client has told this one that the value is set.
#[tokio::test(start_paused = true)]
async fn comparison_does_not_fail_on_a_lagging_server() {
    let server = TestServer::ensemble(3);
    let setter = AtomicLong::new(&client(&server, 1).await, "/c").unwrap();
    server.lag(1, T / 100);
    server.lag(2, T / 100);
    for seed in 2..8 {
        let number = i64::try_from(seed).unwrap();
        let comparing = AtomicLong::new(&client_of_three(&server, seed).await, "/c").unwrap();
        setter.set(number).await.unwrap();
        assert!(comparing.compare_and_set(number, -number).await.unwrap(), "seed {seed}");
    }
    settle().await;
}

#[tokio::test(start_paused = true)]
async fn initialize_decides_a_lost_reply_by_the_data() {
    let server = TestServer::in_memory();
    let (one, other) = (client(&server, 1).await, client(&server, 2).await);
    server.on(Op::Create2).apply_then_drop_reply();
    let error = AtomicLong::new(&one, "/a").unwrap().initialize(5).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown);
    server.on(Op::Create2).session(one.session_id()).drop_before_applying();
    server.refuse_connects(0);
    let counter = AtomicLong::new(&one, "/b").unwrap();
    let making = tokio::spawn(async move { counter.initialize(5).await });
    settle().await;
    other.create("/b", 7_i64.to_be_bytes(), CreateMode::Persistent).await.unwrap();
    server.accept_connects(0);
    assert!(!making.await.unwrap().unwrap(), "another client has created it");
}

/// The node has other data than this call has given it, and this call may have created it.
#[tokio::test(start_paused = true)]
async fn initialize_is_unknown_if_the_created_node_was_written() {
    let server = TestServer::in_memory();
    let (one, other) = (client(&server, 1).await, client(&server, 2).await);
    server.on(Op::Create2).session(one.session_id()).apply_then_drop_reply();
    server.refuse_connects(0);
    let counter = AtomicLong::new(&one, "/c").unwrap();
    let making = tokio::spawn(async move { counter.initialize(5).await });
    settle().await;
    other.set_data("/c", 7_i64.to_be_bytes(), None).await.unwrap();
    server.accept_connects(0);
    assert_eq!(making.await.unwrap().unwrap_err().outcome(), Outcome::Unknown);
}

/// ZooKeeper compares versions, and the versions of both nodes begin at 0.
#[tokio::test(start_paused = true)]
async fn recreated_node_is_reported_as_applied() {
    let lost = |server: &TestServer| server.on(Op::SetData).drop_before_applying();
    let (server, counter, _) = with_lost_write(lost).await;
    let other = client(&server, 2).await;
    server.refuse_connects(0);
    let adding = tokio::spawn(async move { counter.increment().await });
    settle().await;
    other.delete("/c", None).await.unwrap();
    other.create("/c", 50_i64.to_be_bytes(), CreateMode::Persistent).await.unwrap();
    server.accept_connects(0);
    let error = adding.await.unwrap().unwrap_err();
    assert_eq!(error, AtomicError::NodeRecreated { path: "/c".into() });
    assert_eq!((error.outcome(), error.retry_on()), (Outcome::Applied, RetryOn::Never));
}

/// The write may be counted in the deleted node. The version and the data alone would tell that it was
/// not applied.
#[tokio::test(start_paused = true)]
async fn recreated_node_decides_nothing_about_a_lost_write() {
    let lost = |server: &TestServer| server.on(Op::SetData).apply_then_drop_reply();
    let (server, counter, fault) = with_lost_write(lost).await;
    let other = client(&server, 2).await;
    server.refuse_connects(0);
    let adding = tokio::spawn(async move { counter.increment().await });
    settle().await;
    assert_eq!((fault.count(), number(&server, "/c")), (1, 11));
    other.delete("/c", None).await.unwrap();
    other.create("/c", 50_i64.to_be_bytes(), CreateMode::Persistent).await.unwrap();
    other.set_data("/c", 60_i64.to_be_bytes(), None).await.unwrap();
    server.accept_connects(0);
    assert_eq!(adding.await.unwrap().unwrap_err().outcome(), Outcome::Unknown);
    assert_eq!(number(&server, "/c"), 60);
}

#[tokio::test(start_paused = true)]
async fn missing_node_decides_nothing_about_a_lost_write() {
    let lost = |server: &TestServer| server.on(Op::SetData).apply_then_drop_reply();
    let (server, counter, _) = with_lost_write(lost).await;
    let other = client(&server, 2).await;
    server.refuse_connects(0);
    let adding = tokio::spawn(async move { counter.increment().await });
    settle().await;
    other.delete("/c", None).await.unwrap();
    server.accept_connects(0);
    assert_eq!(adding.await.unwrap().unwrap_err().outcome(), Outcome::Unknown);
    assert_eq!(data(&server, "/c"), None);
}

/// A server takes version -1 as any version (CURATOR-688 is about the same wrap).
#[tokio::test(start_paused = true)]
async fn version_minus_1_is_never_compared() {
    let server = TestServer::in_memory();
    let client = client(&server, 1).await;
    let counter = AtomicLong::new(&client, "/c").unwrap();
    counter.set(1).await.unwrap();
    server.with(|ensemble| assert!(ensemble.set_data_version("/c", -2)));
    assert_eq!(counter.increment().await.unwrap(), 2);
    let error = AtomicError::VersionsUsedUp { path: "/c".into() };
    assert_eq!(counter.increment().await, Err(error.clone()));
    assert_eq!(counter.add_once("a", 1).await, Err(error.clone()));
    assert_eq!(error.outcome(), Outcome::NotApplied);
    counter.set(2).await.unwrap();
    assert_eq!(counter.increment().await.unwrap(), 3);
}

#[tokio::test(start_paused = true)]
async fn constant_conflicts_end_in_a_typed_error() {
    let server = TestServer::in_memory();
    let client = client(&server, 1).await;
    let counter = AtomicLong::new(&client, "/c").unwrap();
    counter.set(1).await.unwrap();
    server.on(Op::SetData).always().answer(ErrorCode::BAD_VERSION);
    let error = counter.increment().await.unwrap_err();
    let attempts = zk_coordination::limits::CONFLICTS_MAX;
    assert_eq!(error, AtomicError::Contended { path: "/c".into(), attempts });
    assert_eq!((error.outcome(), error.retry_on()), (Outcome::NotApplied, RetryOn::SameSession));
}

#[tokio::test(start_paused = true)]
async fn rejected_requests_are_not_repeated() {
    let server = TestServer::in_memory();
    let client = client(&server, 1).await;
    let counter = AtomicLong::new(&client, "/c").unwrap();
    counter.set(1).await.unwrap();
    let fault = server.on(Op::SetData).always().answer(ErrorCode::NO_AUTH);
    let AtomicError::Client(error) = counter.increment().await.unwrap_err() else { panic!() };
    assert_eq!((error.code(), fault.count()), (Some(ErrorCode::NO_AUTH), 1));
    assert_eq!(error.outcome(), Outcome::NotApplied);
    let below = client.chroot("/missing").unwrap();
    let error = AtomicLong::new(&below, "/c").unwrap().increment().await.unwrap_err();
    assert!(error.to_string().contains("the chroot does not exist"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn promoted_change_holds_the_lock_and_releases_it() {
    let server = TestServer::in_memory();
    let client = client(&server, 1).await;
    let counter = AtomicLong::new(&client, "/c").unwrap();
    counter.set(1).await.unwrap();
    let counter = counter.promote_to_lock("/lock", 2).unwrap();
    server.on(Op::SetData).times(3).answer(ErrorCode::BAD_VERSION);
    let lock = zk_recipes::Mutex::new(&client, "/lock").unwrap();
    let guard = lock.acquire().await.unwrap();
    let adding = tokio::spawn(async move { counter.increment().await });
    settle().await;
    assert!(!adding.is_finished(), "it waits for the lock after two conflicts");
    guard.release().await.unwrap();
    assert_eq!(adding.await.unwrap().unwrap(), 2);
    settle().await;
    server
        .with(|ensemble| assert_eq!(ensemble.tree().node("/lock").unwrap().children().count(), 0));
}

/// Drops the change after each number of polls.
async fn dropped_everywhere<F>(change: impl Fn(AtomicLong) -> F)
where
    F: Future<Output = Result<i64, AtomicError>>,
{
    for polls in 1.. {
        let server = TestServer::in_memory();
        let client = client(&server, 1).await;
        let counter = AtomicLong::new(&client, "/c").unwrap();
        counter.set(10).await.unwrap();
        let counter = counter.promote_to_lock("/lock", 1).unwrap();
        server.on(Op::SetData).answer(ErrorCode::BAD_VERSION);
        server.on(Op::Multi).answer(ErrorCode::BAD_VERSION);
        let done = crate::polled(polls, change(counter)).await;
        // reason: virtual time, in which the clean-up runs
        tokio::time::sleep(T / 4).await;
        let now = number(&server, "/c");
        assert!((10..=11).contains(&now), "{polls} polls: {now}");
        server.with(|ensemble| {
            let lock = ensemble.tree().node("/lock");
            assert_eq!(lock.map_or(0, |lock| lock.children().count()), 0, "{polls} polls");
        });
        if let Some(done) = done {
            assert_eq!((done.unwrap(), now), (11, 11));
            assert!(polls > 3, "it has several steps");
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_addition_counts_once_or_not_at_all() {
    dropped_everywhere(|counter| async move { counter.increment().await }).await;
}

#[tokio::test(start_paused = true)]
async fn dropped_addition_by_id_can_be_repeated() {
    dropped_everywhere(|counter| async move {
        drop(crate::polled(2, counter.add_once("a", 1)).await);
        counter.add_once("a", 1).await
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn handles_work_below_a_chroot() {
    let server = TestServer::in_memory();
    let client = client(&server, 1).await;
    client.create("/app", b"", CreateMode::Persistent).await.unwrap();
    let below = client.chroot("/app").unwrap();
    let counter: AtomicNumber<i64> = AtomicNumber::new(&below, "/counters/c").unwrap();
    assert_eq!(counter.add_once("a", 4).await.unwrap(), 4);
    assert_eq!(number(&server, &path::child("/app/counters", "c")), 4);
    assert!(data(&server, "/app/counters/c/operation-a").is_some());
    assert!(AtomicLong::new(&client, "no/path").is_err());
}
