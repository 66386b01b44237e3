//! Atomic values and numbers whose operations are dropped.

use std::time::Duration;

use bytes::Bytes;
use futures::future::{FutureExt, LocalBoxFuture};
use zk_coordination::session::{Client, Outcome};
use zk_coordination::{AtomicError, AtomicLong, AtomicValue, Number};
use zk_testing::{ErrorCode, Op, TestServer};

use super::drop_after_every_poll;
use crate::{children, clients, polled, settle_watches, watches};

const PATH: &str = "/counters/c";
const LOCK: &str = "/lock";

/// Fault during the operation.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    /// The server rejects the first write, and the handle acquires the lock.
    Conflict(Op),
    /// The server applies the first request of this kind, and the connection ends without the reply.
    LostReply(Op),
}

const TROUBLES: [Option<Trouble>; 7] = [
    None,
    Some(Trouble::Conflict(Op::SetData)),
    Some(Trouble::Conflict(Op::Multi)),
    Some(Trouble::LostReply(Op::Create2)),
    Some(Trouble::LostReply(Op::SetData)),
    Some(Trouble::LostReply(Op::GetData)),
    Some(Trouble::LostReply(Op::Multi)),
];

/// An operation, and the number that the node has before and after it; `None` before if there is no node.
type Case = (&'static str, Option<i64>, i64, Act);

type Act = for<'a> fn(&'a Handles) -> LocalBoxFuture<'a, Result<(), AtomicError>>;

/// Both kinds of handles of the node.
struct Handles {
    value: AtomicValue,
    number: AtomicLong,
}

impl Handles {
    fn new(client: &Client) -> Self {
        Self {
            value: AtomicValue::new(client, PATH).unwrap().promote_to_lock(LOCK, 1).unwrap(),
            number: AtomicLong::new(client, PATH).unwrap().promote_to_lock(LOCK, 1).unwrap(),
        }
    }
}

/// Replaces 0 and 10 with a number that is greater by one.
fn next_data(now: &[u8]) -> Option<Bytes> {
    i64::decode(now).map(|now| (now + 1).encode())
}

fn twelve() -> Bytes {
    12_i64.encode()
}

/// An operation of a handle, without its result.
macro_rules! act {
    ($kind:ident.$call:ident($($argument:expr),*)) => {
        |handles| handles.$kind.$call($($argument),*).map(|done| done.map(drop)).boxed_local()
    };
}

const TEN: Option<i64> = Some(10);

const CASES: [Case; 18] = [
    ("AtomicValue::get", TEN, 10, act!(value.get())),
    ("AtomicValue::set", TEN, 12, act!(value.set(twelve()))),
    ("AtomicValue::set, new", None, 12, act!(value.set(twelve()))),
    ("AtomicValue::initialize", None, 12, act!(value.initialize(twelve()))),
    ("AtomicValue::initialize, existing", TEN, 10, act!(value.initialize(twelve()))),
    ("AtomicValue::compare_and_set", TEN, 12, |handles| {
        async { handles.value.compare_and_set(&10_i64.encode(), twelve()).await.map(drop) }
            .boxed_local()
    }),
    (
        "AtomicValue::compare_and_set, unequal",
        TEN,
        10,
        act!(value.compare_and_set(b"other", twelve())),
    ),
    ("AtomicValue::update", TEN, 11, act!(value.update(next_data))),
    ("AtomicValue::update, new", None, 1, act!(value.update(next_data))),
    ("AtomicNumber::get", TEN, 10, act!(number.get())),
    ("AtomicNumber::set", TEN, 12, act!(number.set(12))),
    ("AtomicNumber::initialize", None, 12, act!(number.initialize(12))),
    ("AtomicNumber::compare_and_set", TEN, 12, act!(number.compare_and_set(10, 12))),
    ("AtomicNumber::update", TEN, 11, act!(number.update(|now| now.checked_add(1)))),
    ("AtomicNumber::subtract", TEN, 7, act!(number.subtract(3))),
    ("AtomicNumber::subtract, new", None, -3, act!(number.subtract(3))),
    ("AtomicNumber::decrement", TEN, 9, act!(number.decrement())),
    ("AtomicNumber::add_once, again after a drop", TEN, 11, |handles| {
        async {
            drop(polled(2, handles.number.add_once("a", 1)).await);
            handles.number.add_once("a", 1).await.map(drop)
        }
        .boxed_local()
    }),
];

/// The operation is applied once or not at all, and leaves neither a lock nor a watch.
#[tokio::test(start_paused = true)]
async fn dropped_operation_is_applied_once_or_not_at_all() {
    for case in CASES {
        for trouble in TROUBLES {
            let what = format!("{} with {trouble:?}", case.0);
            drop_after_every_poll(&what, async |polls, what| {
                completes(case, trouble, polls, what).await
            })
            .await;
        }
    }
}

/// Returns true if the operation completes before it is dropped.
async fn completes(case: Case, trouble: Option<Trouble>, polls: usize, what: &str) -> bool {
    let (_, before, after, act) = case;
    let (server, [client]) = clients().await;
    let handles = Handles::new(&client);
    if let Some(before) = before {
        handles.number.set(before).await.unwrap();
    }
    match trouble {
        None => {}
        Some(Trouble::Conflict(op)) => drop(server.on(op).answer(ErrorCode::BAD_VERSION)),
        Some(Trouble::LostReply(op)) => drop(server.on(op).apply_then_drop_reply()),
    }
    let done = polled(polls, act(&handles)).await;
    settle_watches().await;
    server.clear_faults();

    let before = before.unwrap_or_default();
    let now = crate::atomic::number(&server, PATH).unwrap_or_default();
    match &done {
        None if polls == 0 => assert_eq!(now, before, "{what}"),
        None => assert!([before, after].contains(&now), "{what}: {now}"),
        Some(Ok(())) => assert_eq!(now, after, "{what}"),
        Some(Err(error)) => match error.outcome() {
            Outcome::Unknown => assert!([before, after].contains(&now), "{what}: {now}"),
            _ => assert_eq!(now, before, "{what}: {error}"),
        },
    }
    assert!(trouble.is_some() || !matches!(done, Some(Err(_))), "{what}: {done:?}");
    expect_usable(&server, &client, now, what).await;
    done.is_some()
}

/// Asserts that a change on the same session succeeds, and that no node or watch is left.
async fn expect_usable(server: &TestServer, client: &Client, now: i64, what: &str) {
    assert_eq!(Handles::new(client).number.increment().await, Ok(now + 1), "{what}");
    settle_watches().await;
    assert!(children(server, PATH).iter().all(|name| name == "operation-a"), "{what}");
    assert_eq!((children(server, LOCK).len(), watches(server)), (0, 0), "{what}");
    assert!(client.end_reason().is_none(), "{what}");
}

/// The markers that are left still belong to their operations, and the next call deletes them.
#[tokio::test(start_paused = true)]
async fn dropped_forget_operations_leaves_the_other_markers() {
    const MARKERS: usize = 5;
    for lost in [None, Some(Op::GetData), Some(Op::GetChildren2), Some(Op::Delete)] {
        let what = format!("forget_operations with {lost:?}");
        drop_after_every_poll(&what, async |polls, what| {
            let (server, [client]) = clients().await;
            let number = Handles::new(&client).number;
            for id in 0..MARKERS {
                number.add_once(&id.to_string(), 2).await.unwrap();
            }
            if let Some(op) = lost {
                server.on(op).apply_then_drop_reply();
            }
            let done = polled(polls, number.forget_operations(Duration::ZERO)).await;
            settle_watches().await;
            server.clear_faults();
            let left = children(&server, PATH);
            assert!(done.is_none() || left.is_empty(), "{what}: {left:?}");
            assert!(polls > 0 || left.len() == MARKERS, "{what}: {left:?}");
            for marker in &left {
                let id = marker.strip_prefix("operation-").unwrap();
                assert!(number.add_once(id, 2).await.unwrap() <= 10, "{what}");
            }
            assert_eq!(number.get().await.unwrap(), 10, "{what}");
            let deleted = number.forget_operations(Duration::ZERO).await.unwrap();
            assert_eq!((deleted, children(&server, PATH).len()), (left.len(), 0), "{what}");
            assert_eq!(watches(&server), 0, "{what}");
            done.is_some()
        })
        .await;
    }
}
