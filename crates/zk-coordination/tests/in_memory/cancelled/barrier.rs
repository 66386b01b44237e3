//! Barriers whose operations are dropped.

use futures::future::{FutureExt, LocalBoxFuture};
use zk_coordination::{Barrier, BarrierError};
use zk_testing::Op;

use super::drop_after_every_poll;
use crate::{clients, data, polled, settle_watches, watches};

const PATH: &str = "/barriers/b";

/// An operation, and whether the barrier is set before and after it.
type Case = (&'static str, bool, bool, Act);

type Act = fn(&Barrier) -> LocalBoxFuture<'_, Result<(), BarrierError>>;

const CASES: [Case; 6] = [
    ("set", false, true, |barrier| barrier.set().boxed_local()),
    ("set again", true, true, |barrier| barrier.set().boxed_local()),
    ("remove", true, false, |barrier| barrier.remove().boxed_local()),
    ("remove again", false, false, |barrier| barrier.remove().boxed_local()),
    ("is_set", true, true, is_set),
    ("is_set, missing", false, false, is_set),
];

fn is_set(barrier: &Barrier) -> LocalBoxFuture<'_, Result<(), BarrierError>> {
    barrier.is_set().map(|done| done.map(drop)).boxed_local()
}

/// The barrier is set or not, its waiters agree, and it can be set and removed.
#[tokio::test(start_paused = true)]
async fn dropped_operation_leaves_the_barrier_usable() {
    for case in CASES {
        for lost in [None, Some(Op::Create2), Some(Op::Delete), Some(Op::Exists)] {
            let what = format!("{} with a lost reply to {lost:?}", case.0);
            drop_after_every_poll(&what, async |polls, what| {
                completes(case, lost, polls, what).await
            })
            .await;
        }
    }
}

/// Returns true if the operation completes before it is dropped.
async fn completes(case: Case, lost: Option<Op>, polls: usize, what: &str) -> bool {
    let (_, before, after, act) = case;
    let (server, [client]) = clients().await;
    let barrier = Barrier::new(&client, PATH).unwrap();
    if before {
        barrier.set().await.unwrap();
    }
    if let Some(op) = lost {
        server.on(op).apply_then_drop_reply();
    }
    let done = polled(polls, act(&barrier)).await;
    settle_watches().await;
    server.clear_faults();

    let exists = || data(&server, PATH).is_some();
    let now = exists();
    if let Some(done) = &done {
        assert_eq!((done, now), (&Ok(()), after), "{what}");
    }
    assert!(now == before || now == after && polls > 0, "{what}");
    assert_eq!(barrier.is_set().await, Ok(now), "{what}");
    barrier.set().await.unwrap();
    assert!(exists(), "{what}");
    let waiter = barrier.clone();
    let waiting = tokio::spawn(async move { waiter.wait().await });
    settle_watches().await;
    assert!(!waiting.is_finished(), "{what}");
    barrier.remove().await.unwrap();
    waiting.await.unwrap().unwrap();
    settle_watches().await;
    assert_eq!((exists(), watches(&server)), (false, 0), "{what}");
    assert!(client.end_reason().is_none(), "{what}");
    done.is_some()
}
