//! Barriers whose operations are dropped.

use futures::future::{FutureExt, LocalBoxFuture};
use zk_coordination::{Barrier, BarrierError};
use zk_testing::{Op, TestServer};

use super::{drop_after_every_poll, watches};
use crate::barrier::settle_watches;
use crate::{client, polled};

const PATH: &str = "/barriers/b";

/// An operation, and whether the barrier is set before and after it.
struct Case {
    name: &'static str,
    before: bool,
    after: bool,
    act: fn(&Barrier) -> LocalBoxFuture<'_, Result<(), BarrierError>>,
}

const CASES: [Case; 6] = [
    Case { name: "set", before: false, after: true, act: |barrier| barrier.set().boxed_local() },
    Case {
        name: "set again",
        before: true,
        after: true,
        act: |barrier| barrier.set().boxed_local(),
    },
    Case {
        name: "remove",
        before: true,
        after: false,
        act: |barrier| barrier.remove().boxed_local(),
    },
    Case {
        name: "remove again",
        before: false,
        after: false,
        act: |barrier| barrier.remove().boxed_local(),
    },
    Case { name: "is_set", before: true, after: true, act: is_set },
    Case { name: "is_set, missing", before: false, after: false, act: is_set },
];

fn is_set(barrier: &Barrier) -> LocalBoxFuture<'_, Result<(), BarrierError>> {
    async { barrier.is_set().await.map(drop) }.boxed_local()
}

/// The barrier is set or not, its waiters agree, and it can be set and removed.
#[tokio::test(start_paused = true)]
async fn dropped_operation_leaves_the_barrier_usable() {
    for case in &CASES {
        for lost in [None, Some(Op::Create2), Some(Op::Delete), Some(Op::Exists)] {
            let what = format!("{} with a lost reply to {lost:?}", case.name);
            drop_after_every_poll(&what, async |polls| completes(case, lost, polls).await).await;
        }
    }
}

/// Returns true if the operation completes before it is dropped.
async fn completes(case: &Case, lost: Option<Op>, polls: usize) -> bool {
    let what = format!("{} with a lost reply to {lost:?}, {polls} polls", case.name);
    let server = TestServer::in_memory();
    let client = client(&server, 1).await;
    let barrier = Barrier::new(&client, PATH).unwrap();
    if case.before {
        barrier.set().await.unwrap();
    }
    if let Some(op) = lost {
        server.on(op).apply_then_drop_reply();
    }
    let done = polled(polls, (case.act)(&barrier)).await;
    settle_watches().await;
    server.clear_faults();

    let exists = || server.with(|ensemble| ensemble.tree().node(PATH).is_some());
    let now = exists();
    match &done {
        Some(done) => {
            assert_eq!(done, &Ok(()), "{what}");
            assert_eq!(now, case.after, "{what}");
        }
        None if polls == 0 => assert_eq!(now, case.before, "{what}"),
        None => {}
    }
    assert!(now == case.before || now == case.after, "{what}");
    assert_eq!(barrier.is_set().await, Ok(now), "{what}");
    barrier.set().await.unwrap();
    assert!(exists(), "{what}");
    let waiting = tokio::spawn({
        let barrier = barrier.clone();
        async move { barrier.wait().await }
    });
    settle_watches().await;
    assert!(!waiting.is_finished(), "{what}");
    barrier.remove().await.unwrap();
    waiting.await.unwrap().unwrap();
    settle_watches().await;
    assert_eq!((exists(), watches(&server)), (false, 0), "{what}");
    assert!(client.end_reason().is_none(), "{what}");
    done.is_some()
}
