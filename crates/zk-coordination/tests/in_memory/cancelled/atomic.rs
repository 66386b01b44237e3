//! Atomic values and numbers whose operations are dropped.

use std::time::Duration;

use bytes::Bytes;
use futures::future::{FutureExt, LocalBoxFuture};
use zk_coordination::session::{Client, Outcome};
use zk_coordination::{AtomicError, AtomicLong, AtomicValue, Number};
use zk_testing::{ErrorCode, Op, TestServer};

use super::{drop_after_every_poll, watches};
use crate::atomic::data;
use crate::barrier::settle_watches;
use crate::{client, polled};

const PATH: &str = "/counters/c";
const LOCK: &str = "/lock";

/// Fault during the operation.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    /// The server rejects the first write, and the handle acquires the lock.
    Conflict,
    /// The server applies the first request of this kind, and the connection ends without the reply.
    LostReply(Op),
}

const TROUBLES: [Option<Trouble>; 5] = [
    None,
    Some(Trouble::Conflict),
    Some(Trouble::LostReply(Op::Create2)),
    Some(Trouble::LostReply(Op::SetData)),
    Some(Trouble::LostReply(Op::GetData)),
];

/// An operation, and the number that the node has before and after it.
struct Case {
    name: &'static str,
    /// `None` if there is no node.
    before: Option<i64>,
    after: i64,
    act: Box<dyn Fn(Client) -> LocalBoxFuture<'static, Result<(), AtomicError>>>,
}

fn case<F>(
    name: &'static str,
    before: Option<i64>,
    after: i64,
    act: impl Fn(Client) -> F + 'static,
) -> Case
where
    F: Future<Output = Result<(), AtomicError>> + 'static,
{
    Case { name, before, after, act: Box::new(move |client| act(client).boxed_local()) }
}

fn value(client: &Client) -> AtomicValue {
    AtomicValue::new(client, PATH).unwrap().promote_to_lock(LOCK, 1).unwrap()
}

fn number(client: &Client) -> AtomicLong {
    AtomicLong::new(client, PATH).unwrap().promote_to_lock(LOCK, 1).unwrap()
}

/// Replaces 0 and 10 with a number that is greater by one.
fn next_data(now: &[u8]) -> Option<Bytes> {
    i64::decode(now).map(|now| (now + 1).encode())
}

fn cases() -> Vec<Case> {
    let ten = Some(10);
    vec![
        case("AtomicValue::get", ten, 10, async |client| value(&client).get().await.map(drop)),
        case("AtomicValue::set", ten, 12, async |client| value(&client).set(12_i64.encode()).await),
        case("AtomicValue::set, new", None, 12, async |client| {
            value(&client).set(12_i64.encode()).await
        }),
        case("AtomicValue::initialize", None, 12, async |client| {
            value(&client).initialize(12_i64.encode()).await.map(drop)
        }),
        case("AtomicValue::initialize, existing", ten, 10, async |client| {
            value(&client).initialize(12_i64.encode()).await.map(drop)
        }),
        case("AtomicValue::compare_and_set", ten, 12, async |client| {
            value(&client).compare_and_set(&10_i64.encode(), 12_i64.encode()).await.map(drop)
        }),
        case("AtomicValue::compare_and_set, unequal", ten, 10, async |client| {
            value(&client).compare_and_set(b"other", 12_i64.encode()).await.map(drop)
        }),
        case("AtomicValue::update", ten, 11, async |client| {
            value(&client).update(next_data).await.map(drop)
        }),
        case("AtomicValue::update, new", None, 1, async |client| {
            value(&client).update(next_data).await.map(drop)
        }),
        case("AtomicNumber::get", ten, 10, async |client| number(&client).get().await.map(drop)),
        case("AtomicNumber::set", ten, 12, async |client| number(&client).set(12).await),
        case("AtomicNumber::initialize", None, 12, async |client| {
            number(&client).initialize(12).await.map(drop)
        }),
        case("AtomicNumber::compare_and_set", ten, 12, async |client| {
            number(&client).compare_and_set(10, 12).await.map(drop)
        }),
        case("AtomicNumber::update", ten, 11, async |client| {
            number(&client).update(|now| now.checked_add(1)).await.map(drop)
        }),
        case("AtomicNumber::subtract", ten, 7, async |client| {
            number(&client).subtract(3).await.map(drop)
        }),
        case("AtomicNumber::subtract, new", None, -3, async |client| {
            number(&client).subtract(3).await.map(drop)
        }),
        case("AtomicNumber::decrement", ten, 9, async |client| {
            number(&client).decrement().await.map(drop)
        }),
    ]
}

/// The operation is applied once or not at all, and leaves neither a lock nor a watch.
#[tokio::test(start_paused = true)]
async fn dropped_operation_is_applied_once_or_not_at_all() {
    for case in cases() {
        for trouble in TROUBLES {
            let what = format!("{} with {trouble:?}", case.name);
            drop_after_every_poll(&what, async |polls| completes(&case, trouble, polls).await)
                .await;
        }
    }
}

/// Returns true if the operation completes before it is dropped.
async fn completes(case: &Case, trouble: Option<Trouble>, polls: usize) -> bool {
    let what = format!("{} with {trouble:?}, {polls} polls", case.name);
    let server = TestServer::in_memory();
    let client = client(&server, 1).await;
    if let Some(before) = case.before {
        number(&client).set(before).await.unwrap();
    }
    match trouble {
        None => {}
        Some(Trouble::Conflict) => drop(server.on(Op::SetData).answer(ErrorCode::BAD_VERSION)),
        Some(Trouble::LostReply(op)) => drop(server.on(op).apply_then_drop_reply()),
    }
    let done = polled(polls, (case.act)(client.clone())).await;
    settle_watches().await;
    server.clear_faults();

    let before = case.before.unwrap_or_default();
    let now = data(&server, PATH).map_or(0, |data| i64::decode(&data).unwrap());
    match &done {
        None if polls == 0 => assert_eq!(now, before, "{what}"),
        None => assert!([before, case.after].contains(&now), "{what}: {now}"),
        Some(Ok(())) => assert_eq!(now, case.after, "{what}"),
        Some(Err(error)) => match error.outcome() {
            Outcome::Unknown => assert!([before, case.after].contains(&now), "{what}: {now}"),
            _ => assert_eq!(now, before, "{what}: {error}"),
        },
    }
    assert!(trouble.is_some() || !matches!(done, Some(Err(_))), "{what}: {done:?}");
    expect_usable(&server, &client, now, &what).await;
    done.is_some()
}

/// Asserts that a change on the same session succeeds, and that no node or watch is left.
async fn expect_usable(server: &TestServer, client: &Client, now: i64, what: &str) {
    assert_eq!(number(client).increment().await, Ok(now + 1), "{what}");
    settle_watches().await;
    server.with(|ensemble| {
        let children = |path| ensemble.tree().node(path).map_or(0, |node| node.children().count());
        assert_eq!((children(PATH), children(LOCK)), (0, 0), "{what}");
    });
    assert_eq!(watches(server), 0, "{what}");
    assert!(client.end_reason().is_none(), "{what}");
}

/// The markers that are left still belong to their operations, and the next call deletes them.
#[tokio::test(start_paused = true)]
async fn dropped_forget_operations_leaves_the_other_markers() {
    const MARKERS: usize = 5;
    for lost in [None, Some(Op::GetData), Some(Op::GetChildren2), Some(Op::Delete)] {
        let what = format!("forget_operations with {lost:?}");
        drop_after_every_poll(&what, async |polls| {
            let server = TestServer::in_memory();
            let client = client(&server, 1).await;
            let number = number(&client);
            for id in 0..MARKERS {
                number.add_once(&id.to_string(), 2).await.unwrap();
            }
            if let Some(op) = lost {
                server.on(op).apply_then_drop_reply();
            }
            let done = polled(polls, number.forget_operations(Duration::ZERO)).await;
            settle_watches().await;
            server.clear_faults();
            let left = markers(&server);
            assert!(done.is_none() || left.is_empty(), "{what}, {polls} polls: {left:?}");
            assert!(polls > 0 || left.len() == MARKERS, "{what}: {left:?}");
            for id in &left {
                assert!(number.add_once(id, 2).await.unwrap() <= 10, "{what}, {polls} polls");
            }
            assert_eq!(number.get().await.unwrap(), 10, "{what}, {polls} polls");
            let deleted = number.forget_operations(Duration::ZERO).await.unwrap();
            assert_eq!((deleted, markers(&server).len()), (left.len(), 0), "{what}");
            assert_eq!(watches(&server), 0, "{what}, {polls} polls");
            done.is_some()
        })
        .await;
    }
}

/// Returns the ids of the operations that have a marker.
fn markers(server: &TestServer) -> Vec<String> {
    server.with(|ensemble| {
        let names = ensemble.tree().node(PATH).unwrap().children();
        names.map(|name| name.strip_prefix("operation-").unwrap().to_owned()).collect()
    })
}
