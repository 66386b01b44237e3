//! Atomic values and counters: results, layout, conflicts and lost replies.

use bytes::Bytes;
use futures::future::{join, join_all};
use zk_coordination::limits::CONFLICTS_MAX;
use zk_coordination::session::{Client, CreateMode, ErrorCode, Outcome, RetryOn};
use zk_coordination::{AtomicError, AtomicInteger, AtomicLong, AtomicNumber, AtomicValue, Number};
use zk_testing::server::NodeKind;
use zk_testing::{Op, TestServer};

use crate::{T, children, client_of_all, clients, data, kind, lose, more_clients, pass, settle};

const PATH: &str = "/c";

pub(crate) fn long(client: &Client) -> AtomicLong {
    AtomicLong::new(client, PATH).unwrap()
}

pub(crate) fn number(server: &TestServer, path: &str) -> Option<i64> {
    data(server, path).map(|data| i64::decode(&data).unwrap())
}

#[tokio::test(start_paused = true)]
async fn counter_has_the_layout_of_curator() {
    let (server, [client]) = clients().await;
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
    assert_eq!(kind(&server, "/counters/long"), NodeKind::Persistent);
    assert_eq!(kind(&server, "/counters"), NodeKind::Container);
}

/// Curator's `getLong` reads the first 8 bytes, and its additions overwrite the others.
#[tokio::test(start_paused = true)]
async fn short_data_is_a_typed_error_until_it_is_set() {
    let (server, [client]) = clients().await;
    for (path, text) in [("/short", &b"seven"[..]), ("/json", b"{\"limit\": 100}")] {
        client.create(path, text, CreateMode::Persistent).await.unwrap();
        let counter = AtomicLong::new(&client, path).unwrap();
        let error = AtomicError::Corrupted { path: path.into(), len: text.len(), expected: 8 };
        assert_eq!(counter.get().await, Err(error.clone()));
        assert_eq!(counter.increment().await, Err(error.clone()));
        assert_eq!(counter.add_once("a", 1).await, Err(error.clone()));
        assert_eq!((error.outcome(), error.retry_on()), (Outcome::NotApplied, RetryOn::Never));
        let begin = format!("{path}: {} bytes of data are no number", text.len());
        assert!(error.to_string().starts_with(&begin), "{error}");
        assert_eq!(data(&server, path).unwrap(), text);
        counter.set(3).await.unwrap();
        assert_eq!(counter.get().await.unwrap(), 3);
    }
    let wide = AtomicError::Corrupted { path: "/json".into(), len: 8, expected: 4 };
    assert_eq!(AtomicInteger::new(&client, "/json").unwrap().increment().await, Err(wide));
    client.create(PATH, b"", CreateMode::Persistent).await.unwrap();
    assert_eq!(long(&client).increment().await.unwrap(), 1, "no data is the number 0");
}

#[tokio::test(start_paused = true)]
async fn overflow_is_an_error_and_changes_nothing() {
    let (server, [client]) = clients().await;
    let long = long(&client);
    long.set(i64::MAX).await.unwrap();
    let overflow = AtomicError::Overflow { path: PATH.into() };
    assert_eq!(long.increment().await, Err(overflow.clone()));
    assert_eq!(long.add_once("a", 1).await, Err(overflow.clone()));
    assert_eq!(overflow.outcome(), Outcome::NotApplied);
    assert_eq!(number(&server, PATH), Some(i64::MAX));
    long.set(-1).await.unwrap();
    assert_eq!(long.subtract(i64::MIN).await.unwrap(), i64::MAX, "its negative is out of range");
    let integer = AtomicInteger::new(&client, "/integer").unwrap();
    integer.set(i32::MIN).await.unwrap();
    assert_eq!(integer.decrement().await, Err(AtomicError::Overflow { path: "/integer".into() }));
}

#[tokio::test(start_paused = true)]
async fn initialize_creates_the_node_once() {
    let (_server, [client]) = clients().await;
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
    let (server, [client]) = clients().await;
    let value = AtomicValue::new(&client, "/v").unwrap();
    assert!(!value.compare_and_set(b"", "one").await.unwrap(), "a missing node has no value");
    assert!(data(&server, "/v").is_none(), "a failed comparison creates no node");
    assert!(value.initialize("").await.unwrap());
    assert!(value.compare_and_set(b"", b"one".as_slice()).await.unwrap());
    assert!(!value.compare_and_set(b"", b"two".as_slice()).await.unwrap());
    assert!(value.compare_and_set(b"one", b"two".as_slice()).await.unwrap());
    let appended = |now: &[u8]| Some(Bytes::from([now, b"!"].concat()));
    assert_eq!(value.update(appended).await.unwrap().unwrap(), "two!");
    let counter = long(&client);
    assert!(!counter.compare_and_set(0, 7).await.unwrap());
    assert!(counter.initialize(0).await.unwrap());
    assert!(counter.compare_and_set(0, 7).await.unwrap());
    assert!(!counter.compare_and_set(0, 8).await.unwrap());
    assert_eq!(number(&server, PATH), Some(7));
}

#[tokio::test(start_paused = true)]
async fn addition_costs_two_requests() {
    let (_server, [client]) = clients().await;
    let counter = long(&client);
    counter.increment().await.unwrap();
    for (id, requests) in [(None, 2), (Some("a"), 3), (Some("a"), 2)] {
        let before = client.stats().frames_sent;
        match id {
            None => counter.increment().await.unwrap(),
            Some(id) => counter.add_once(id, 1).await.unwrap(),
        };
        assert_eq!(client.stats().frames_sent - before, requests, "{id:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn racing_clients_lose_no_addition() {
    let (server, clients) = clients::<32>().await;
    let additions = clients.each_ref().map(async |client| {
        for _ in 0..8 {
            long(client).increment().await.unwrap();
        }
    });
    join_all(additions).await;
    assert_eq!(number(&server, PATH), Some(32 * 8));
}

/// Loses the write of a call, or its reply. The number was 10, unless the call creates the node. Another
/// client acts before the first one can connect again. Returns the result of the call, and the number.
async fn with_lost_write<R>(
    (op, is_applied): (Op, bool),
    call: impl AsyncFnOnce(&AtomicLong) -> R,
    meanwhile: impl AsyncFnOnce(&Client),
) -> (R, Option<i64>) {
    let (server, [one, other]) = clients().await;
    let counter = long(&one);
    if op != Op::Create2 {
        counter.set(10).await.unwrap();
    }
    let fault = lose(server.on(op), is_applied);
    server.refuse_connects(0);
    let others = async {
        settle().await;
        assert_eq!(fault.count(), 1);
        meanwhile(&other).await;
        server.accept_connects(0);
    };
    let (result, ()) = join(call(&counter), others).await;
    (result, number(&server, PATH))
}

async fn add_with_lost_write(
    is_applied: bool,
    meanwhile: impl AsyncFnOnce(&Client),
) -> (Result<i64, AtomicError>, Option<i64>) {
    let add = async |counter: &AtomicLong| counter.increment().await;
    with_lost_write((Op::SetData, is_applied), add, meanwhile).await
}

fn outcome<T>(result: Result<T, AtomicError>) -> (Outcome, RetryOn) {
    result.map(|_| ()).map_err(|error| (error.outcome(), error.retry_on())).unwrap_err()
}

async fn recreate(client: &Client, number: i64) {
    client.delete(PATH, None).await.unwrap();
    client.create(PATH, number.to_be_bytes(), CreateMode::Persistent).await.unwrap();
}

/// Curator's retry loop sends `setData` again after a connection loss, takes the bad version for a
/// conflict, and adds again.
#[tokio::test(start_paused = true)]
async fn addition_never_counts_twice_after_a_connection_loss() {
    let (added, number) = add_with_lost_write(true, async |_| {}).await;
    assert_eq!((outcome(added), number), ((Outcome::Unknown, RetryOn::Never), Some(11)));
    let (added, number) = add_with_lost_write(false, async |_| {}).await;
    assert_eq!((added, number), (Ok(11), Some(11)), "the lost request is repeated");
}

/// The other client has written other bytes from the same version, so the lost write was rejected.
#[tokio::test(start_paused = true)]
async fn addition_goes_on_if_another_client_was_faster() {
    let add = async |other: &Client| assert_eq!(long(other).add(100).await, Ok(110));
    assert_eq!(add_with_lost_write(false, add).await, (Ok(111), Some(111)));
}

/// Both clients write the same bytes from the same version, so the data does not show whose they are.
#[tokio::test(start_paused = true)]
async fn equal_write_of_another_client_is_not_taken_for_ours() {
    let add = async |other: &Client| assert_eq!(long(other).increment().await, Ok(11));
    let (added, number) = add_with_lost_write(false, add).await;
    assert_eq!((outcome(added).0, number), (Outcome::Unknown, Some(11)));
}

/// The write may be counted in the deleted node. The version and the data alone would tell that it was
/// not applied.
#[tokio::test(start_paused = true)]
async fn changed_node_decides_nothing_about_a_lost_write() {
    let replace = async |other: &Client| {
        recreate(other, 50).await;
        long(other).set(60).await.unwrap();
    };
    let (added, number) = add_with_lost_write(true, replace).await;
    assert_eq!((outcome(added).0, number), (Outcome::Unknown, Some(60)));
    let delete = async |other: &Client| other.delete(PATH, None).await.unwrap();
    let (added, number) = add_with_lost_write(true, delete).await;
    assert_eq!((outcome(added).0, number), (Outcome::Unknown, None));
    let (added, number) = add_with_lost_write(true, async |_| pass(3 * T).await).await;
    assert_eq!((outcome(added).0, number), (Outcome::Unknown, Some(11)), "the session has ended");
}

/// ZooKeeper compares versions, and the versions of both nodes begin at 0.
#[tokio::test(start_paused = true)]
async fn recreated_node_is_reported_as_applied() {
    let (added, _) = add_with_lost_write(false, async |other| recreate(other, 50).await).await;
    assert_eq!(added, Err(AtomicError::NodeRecreated { path: PATH.into() }));
    assert_eq!(outcome(added), (Outcome::Applied, RetryOn::Never));
}

#[tokio::test(start_paused = true)]
async fn addition_that_was_never_sent_is_not_applied() {
    let (server, [client]) = clients().await;
    server.expire(client.session_id());
    settle().await;
    let added = long(&client).increment().await;
    assert_eq!(outcome(added), (Outcome::NotApplied, RetryOn::NewSession));
}

/// The lost request creates the node with 0, and the addition would have followed.
#[tokio::test(start_paused = true)]
async fn addition_is_not_applied_if_the_create_is_lost() {
    let session_ends = async |_: &Client| pass(3 * T).await;
    let lost = (Op::Create2, true);
    let add = async |counter: &AtomicLong| counter.increment().await;
    let add_once = async |counter: &AtomicLong| counter.add_once("a", 1).await;
    let results = [
        with_lost_write(lost, add, session_ends).await,
        with_lost_write(lost, add_once, session_ends).await,
    ];
    for (added, number) in results {
        assert_eq!(outcome(added), (Outcome::NotApplied, RetryOn::NewSession));
        assert_eq!(number, Some(0));
    }
}

/// Another client has told this one that the value is set.
#[tokio::test(start_paused = true)]
async fn comparison_does_not_fail_on_a_lagging_server() {
    let server = TestServer::ensemble(3);
    let [setter] = more_clients(&server, 1).await;
    server.lag(1, T / 100);
    server.lag(2, T / 100);
    for number in 2..8_u32 {
        let comparing = long(&client_of_all(&server, number.into()).await);
        let number = i64::from(number);
        long(&setter).set(number).await.unwrap();
        assert!(comparing.compare_and_set(number, -number).await.unwrap(), "seed {number}");
    }
    settle().await;
}

/// If another client has created the node, this call has not. If the node has other data than this call
/// has given it, this call may have created it.
#[tokio::test(start_paused = true)]
async fn initialize_decides_a_lost_reply_by_the_data() {
    let initialize = async |counter: &AtomicLong| counter.initialize(5).await;
    let (made, _) = with_lost_write((Op::Create2, true), initialize, async |_| {}).await;
    assert_eq!(outcome(made).0, Outcome::Unknown);
    let set = async |other: &Client| long(other).set(7).await.unwrap();
    let (made, _) = with_lost_write((Op::Create2, true), initialize, set).await;
    assert_eq!(outcome(made).0, Outcome::Unknown);
    let create = async |other: &Client| assert!(long(other).initialize(7).await.unwrap());
    let (made, _) = with_lost_write((Op::Create2, false), initialize, create).await;
    assert_eq!(made, Ok(false));
}

/// A server takes version -1 as any version (CURATOR-688 is about the same wrap).
#[tokio::test(start_paused = true)]
async fn version_minus_1_is_never_compared() {
    let (server, [client]) = clients().await;
    let counter = long(&client);
    counter.set(1).await.unwrap();
    server.with(|ensemble| assert!(ensemble.set_data_version(PATH, -2)));
    assert_eq!(counter.increment().await.unwrap(), 2);
    let error = AtomicError::VersionsUsedUp { path: PATH.into() };
    assert_eq!(counter.increment().await, Err(error.clone()));
    assert_eq!(counter.add_once("a", 1).await, Err(error.clone()));
    assert_eq!(error.outcome(), Outcome::NotApplied);
    counter.set(2).await.unwrap();
    assert_eq!(counter.increment().await.unwrap(), 3);
}

#[tokio::test(start_paused = true)]
async fn conflicts_and_rejections_end_in_typed_errors() {
    let (server, [client]) = clients().await;
    let counter = long(&client);
    counter.set(1).await.unwrap();
    let conflicts = server.on(Op::SetData).always().answer(ErrorCode::BAD_VERSION);
    let contended = AtomicError::Contended { path: PATH.into(), attempts: CONFLICTS_MAX };
    assert_eq!(counter.increment().await, Err(contended.clone()));
    let expected = (Outcome::NotApplied, RetryOn::SameSession);
    assert_eq!((contended.outcome(), contended.retry_on()), expected);
    conflicts.cancel();
    let rejected = server.on(Op::SetData).always().answer(ErrorCode::NO_AUTH);
    let AtomicError::Client(error) = counter.increment().await.unwrap_err() else { panic!() };
    assert_eq!((error.code(), rejected.count()), (Some(ErrorCode::NO_AUTH), 1), "not repeated");
    assert_eq!(error.outcome(), Outcome::NotApplied);
    let below = client.chroot("/missing").unwrap();
    let error = long(&below).increment().await.unwrap_err();
    assert!(error.to_string().contains("the chroot does not exist"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn promoted_change_holds_the_lock_and_releases_it() {
    let (server, [client]) = clients().await;
    long(&client).set(1).await.unwrap();
    let counter = long(&client).promote_to_lock("/lock", 2).unwrap();
    server.on(Op::SetData).times(3).answer(ErrorCode::BAD_VERSION);
    let lock = zk_recipes::Mutex::new(&client, "/lock").unwrap();
    let guard = lock.acquire().await.unwrap();
    let adding = tokio::spawn(async move { counter.increment().await });
    settle().await;
    assert!(!adding.is_finished(), "it waits for the lock after two conflicts");
    guard.release().await.unwrap();
    assert_eq!(adding.await.unwrap().unwrap(), 2);
    settle().await;
    assert_eq!(children(&server, "/lock"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn handles_work_below_a_chroot() {
    let (server, [client]) = clients().await;
    client.create("/app", b"", CreateMode::Persistent).await.unwrap();
    let below = client.chroot("/app").unwrap();
    let counter: AtomicNumber<i64> = AtomicNumber::new(&below, "/counters/c").unwrap();
    assert_eq!(counter.add_once("a", 4).await.unwrap(), 4);
    assert_eq!(number(&server, "/app/counters/c"), Some(4));
    assert!(data(&server, "/app/counters/c/operation-a").is_some());
    assert!(AtomicLong::new(&client, "no/path").is_err());
}
