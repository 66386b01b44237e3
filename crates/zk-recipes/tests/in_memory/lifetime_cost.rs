//! Requests of a contender over its whole life, from any position in the queue. Also the requests
//! of a free acquisition, of a hand-off and of a release.
//!
//! The nodes ahead belong to other contenders, which leave one by one, the first one first.
//!
//! | from the create to the end of the release | requests | lists among them |
//! |---|---|---|
//! | mutex: queueing 2, watches 1, near the front 1, release 1 | 5 | 2 |
//! | writer: queueing 2, watches 1, second list 1, release 1 | 5 | 2 |
//! | reader behind writers: as a writer | 5 | 2 |
//! | reader behind readers and one writer: as a writer | 5 | 2 |
//! | semaphore and semaphore mutex: queue node 5, watch on it 1, lease 5 | 11 | 5 |
//!
//! The lease of a permit costs 5 requests: create and list 2, watch on the leases 1, second list 1,
//! release 1. A new handle lists the path once, with its first lease. The tests use new handles, so
//! they expect 12 requests and 6 lists.
//!
//! A waiter that waits for longer than a quarter of the session timeout reads the node ahead once.
//!
//! A lock that is held for longer than a tenth of a second costs one more request, which sets the
//! guard's watch on its own node. A guard that waited sends no such request: it keeps the watch of
//! the waiter.
//!
//! These are the counts on servers before 3.9.0. On newer ones a waiter for a mutex or a write lock
//! sends one list less; see [`marked_release`](crate::marked_release).
//!
//! Only the size of a list grows with the queue: it has one name for each contender.

use std::time::Duration;

use zk_recipes::session::{Client, CreateMode, ParentMode};

use crate::recorded_connection::{
    CLOSE, CREATE2, DELETE, GET_CHILDREN2, REMOVE_WATCHES, recorded_client, started_recorded,
    without_lease,
};
use crate::{Kind, queue, running, settle, settle_node_watches, started};

/// Numbers of contenders ahead.
const AHEAD: [usize; 3] = [10, 100, 1_000];

/// Length of the longest name in a list, with its length prefix.
///
/// The name of a mutex node is `_c_`, 16 digits, `-lock-` and ten digits. Names of a read-write
/// lock are three bytes longer.
const NAME_LEN: usize = 4 + 38;

/// Function that returns the name of each node ahead, without its sequence number.
type Names = fn(usize) -> &'static str;

/// Requests of one contender, and bytes of the answers.
#[derive(Clone, Copy, Debug)]
struct Life {
    requests: usize,
    lists: usize,
    bytes_read: usize,
}

/// Runs a contender behind `ahead` nodes of another client, which are deleted one by one.
async fn live(ahead: usize, kind: Kind, names: Names) -> Life {
    let (server, [others]) = started().await;
    let (own, record) = recorded_client(&server, 2).await;
    let folder = kind.folders()[0];
    others.ensure_path(folder, ParentMode::Persistent).await.unwrap();
    let permit = match kind {
        // The only permit is held until all nodes ahead are deleted.
        Kind::Permit | Kind::SemaphoreMutex => Some(kind.exclude(&others).await),
        _ => None,
    };
    let mut nodes = Vec::new();
    for n in 0..ahead {
        let path = format!("{folder}/_c_{n:016}-{}", names(n));
        let mode = CreateMode::EphemeralSequential;
        nodes.push(others.create(&path, b"", mode).await.unwrap().path);
    }
    let contender = running(async move { acquire_and_release(kind, &own).await }).await;
    assert!(!contender.is_finished());
    for node in nodes {
        others.delete(&node, None).await.unwrap();
        // reason: virtual time of a hold, long enough for unused watches to be removed
        tokio::time::sleep(HOLD).await;
    }
    drop(permit);
    contender.await.unwrap();
    settle().await;
    let ops = without_lease(record.take().concat());
    let count = |wanted| ops.iter().filter(|op| **op == wanted).count();
    let requests = ops.len() - count(CLOSE);
    Life { requests, lists: count(GET_CHILDREN2), bytes_read: record.take_bytes_read() }
}

async fn acquire_and_release(kind: Kind, client: &Client) {
    kind.lock(client).acquire_boxed().await.unwrap().release_boxed().await.unwrap();
}

const HOLD: Duration = Duration::from_millis(200);

/// Requests and lists of a contender at each of [`AHEAD`].
type Costs = [(usize, usize); 3];

/// Behind 10 contenders it waits for 2 s, and
/// behind the others for more than a quarter of the session timeout.
const WAITS: Costs = [(5, 2), (6, 2), (6, 2)];

/// As [`WAITS`], for a permit.
const PERMIT_WAITS: Costs = [(13, 6), (14, 6), (14, 6)];

#[tokio::test(start_paused = true)]
async fn contender_sends_a_few_requests_at_any_queue_length() {
    let mixed = |n| if n % 3 == 0 { "__WRIT__" } else { "__READ__" };
    // The second reader waits for the only writer, among readers, which leaves after 2 s.
    let one_writer = |n| if n == 9 { "__WRIT__" } else { "__READ__" };
    let crowds: [(Kind, Names, Costs); 6] = [
        (Kind::Mutex, |_| "lock-", WAITS),
        (Kind::Writer, mixed, WAITS),
        (Kind::Reader, |_| "__WRIT__", WAITS),
        (Kind::Reader, one_writer, [(5, 2); 3]),
        (Kind::Permit, |_| "lock-", PERMIT_WAITS),
        (Kind::SemaphoreMutex, |_| "lock-", PERMIT_WAITS),
    ];
    for (kind, names, expected) in crowds {
        for (ahead, expected) in AHEAD.into_iter().zip(expected) {
            let life = live(ahead, kind, names).await;
            let case = format!("{kind:?}, {ahead} ahead: {life:?}");
            assert_eq!((life.requests, life.lists), expected, "{case}");
            // The first list names all contenders ahead. The second list of a reader names all but
            // a few. Later lists are short, because the contenders ahead have left.
            assert!(life.bytes_read <= 3_000 + 2 * NAME_LEN * ahead, "{case}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn free_lock_costs_one_write_for_each_of_its_queues() {
    let enter = vec![CREATE2, GET_CHILDREN2];
    for kind in Kind::ALL {
        let (_server, client, record) = started_recorded().await;
        acquire_and_release(kind, &client).await; // creates the path
        settle().await;
        record.take();
        acquire_and_release(kind, &client).await;
        settle_node_watches().await;
        let expected = match kind {
            // The queue node, then the lease. Both are deleted. A new handle lists the path once.
            Kind::Permit | Kind::SemaphoreMutex => {
                let look = vec![CREATE2, GET_CHILDREN2, GET_CHILDREN2];
                vec![enter.clone(), look, vec![DELETE, DELETE]]
            }
            // The guard does not watch its node, because it is released at once.
            _ => vec![enter.clone(), vec![DELETE]],
        };
        assert_eq!(record.take(), expected, "{kind:?}");
    }
}

/// The hand-off of a mutex costs no request, after any wait; see
/// [`lease_in_line`](crate::lease_in_line).
///
/// A writer may return as a reader ahead of the waiters, and permits must be counted. These
/// hand-offs cost one list. The guard keeps the watch of the waiter on its node.
#[tokio::test(start_paused = true)]
async fn hand_off_of_rwlock_or_permit_costs_one_list() {
    for kind in [Kind::Writer, Kind::Reader, Kind::Permit] {
        let (server, [other]) = started().await;
        let (own, record) = recorded_client(&server, 2).await;
        let held = kind.exclude(&other).await;
        let waiting = queue(&kind.lock(&own)).await;
        record.take();
        held.release_boxed().await.unwrap();
        let _guard = waiting.await.unwrap();
        settle().await;
        let handed_over = record.take();
        settle_node_watches().await;
        let expected = match kind {
            // The waiter deletes its queue node. Later it removes the watch on the leases.
            Kind::Permit => (vec![vec![GET_CHILDREN2], vec![DELETE]], vec![vec![REMOVE_WATCHES]]),
            _ => (vec![vec![GET_CHILDREN2]], vec![]),
        };
        assert_eq!((handed_over, record.take()), expected, "{kind:?}");
    }
}
