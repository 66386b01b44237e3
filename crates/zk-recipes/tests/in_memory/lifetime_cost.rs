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
//!
//! The holder and the waiter that is next in line keep their lease renewed. A connection may be cut under two
//! hundred waiters.

use std::future::Future;
use std::time::Duration;

use tokio::task::JoinHandle;
use zk_recipes::session::{Client, CreateMode, ParentMode};
use zk_recipes::{LockError, LockGuard, Mutex, Semaphore};
use zk_testing::{Cut, TestServer};

use crate::recorded_connection::{
    CLOSE, CREATE2, DELETE, GET_CHILDREN2, GET_DATA, LEASE_MULTI, LEASE_SYNC, PING, REMOVE_WATCHES,
    Record, SET_WATCHES, WATCH_NODE, recorded_client, started_recorded, without_checks,
    without_lease,
};
use crate::{
    Acquire, Kind, T, child, children, client, now, queue, running, settle, settle_node_watches,
    started,
};

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
/// [`next_in_line_acquires_without_a_request_after_a_long_wait`].
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

/// The turn of a handle that has found a free permit ends in the write of the next lease. A new handle lists
/// the path once.
#[tokio::test(start_paused = true)]
async fn permits_cost_what_the_documentation_says() {
    let (_server, client, record) = started_recorded().await;
    let [used, new] = [(); 2].map(|()| Semaphore::new(&client, "/s", 9).unwrap());
    used.acquire().await.unwrap().release().await.unwrap(); // creates the path
    let enter = vec![CREATE2, GET_CHILDREN2];
    for (semaphore, permits, cost) in [
        (&used, 1, vec![enter.clone(), vec![CREATE2, GET_CHILDREN2, DELETE]]),
        (&new, 1, vec![enter.clone(), vec![CREATE2, GET_CHILDREN2, GET_CHILDREN2], vec![DELETE]]),
        (
            &new,
            3,
            vec![enter.clone(), vec![CREATE2, CREATE2, CREATE2, GET_CHILDREN2], vec![DELETE]],
        ),
        (&new.clone(), 1, vec![enter.clone(), vec![CREATE2, GET_CHILDREN2, DELETE]]),
    ] {
        settle().await;
        record.take();
        let held = semaphore.acquire_many(permits).await.unwrap();
        settle().await;
        assert_eq!(record.take(), cost);
        settle_node_watches().await;
        assert_eq!(record.take().concat().len(), held.nodes().len(), "a watch for each permit");
        held.release().await.unwrap();
    }
    settle().await;
    record.take();
    let tried = used.try_acquire().await.unwrap().expect("free");
    assert_eq!(record.take(), [enter]);
    tried.release().await.unwrap();
}

const PATH: &str = "/lock";

const NOTHING: [[i32; 0]; 0] = [];

pub(crate) fn mutex(client: &Client) -> Mutex {
    Mutex::new(client, PATH).unwrap()
}

/// Returns the numbers of pings, syncs and empty transactions that were sent.
///
/// The read with which a waiter checks the node ahead after a long wait counts as a ping, because it
/// replaces one.
///
/// Panics if any other request was sent.
fn lease_requests(record: &Record) -> [usize; 3] {
    lease_requests_of(record.take().concat())
}

fn lease_requests_of(mut sent: Vec<i32>) -> [usize; 3] {
    sent.iter_mut().filter(|op| **op == GET_DATA).for_each(|check| *check = PING);
    let counts = [PING, LEASE_SYNC, LEASE_MULTI]
        .map(|wanted| sent.iter().filter(|op| **op == wanted).count());
    assert_eq!(counts.iter().sum::<usize>(), sent.len(), "{sent:?}");
    counts
}

/// Expects this many pings, syncs and writes in two session timeouts.
///
/// A ping is sent in each sixteenth of the timeout. A request to the leader follows a ping in each
/// eighth, and every third of these requests is a write.
fn expect_renewals(record: &Record, expected: [usize; 3]) {
    let [pings, syncs, writes] = expected;
    assert!((16..=17).contains(&(syncs + writes)));
    let sent = lease_requests(record);
    assert!((pings..=pings + 1).contains(&sent[0]), "{sent:?}"); // with the check of a long wait
    assert_eq!(sent[1..], [syncs, writes]);
}

/// Expects the requests of a session that has claimed no lease for this many timeouts: in each a `sync`
/// twice, and pings between them.
fn expect_evidence_kept(record: &Record, timeouts: usize) {
    let [pings, syncs, writes] = lease_requests(record);
    assert!((timeouts * 2..=timeouts * 3).contains(&syncs), "{syncs} syncs");
    assert!((timeouts..=timeouts * 3).contains(&pings), "{pings} pings");
    assert_eq!(writes, 0);
}

/// Each waiter has its own session, so it sends nothing on behalf of another one.
#[tokio::test(start_paused = true)]
async fn only_holder_and_next_in_line_write_while_100_wait() {
    let server = TestServer::in_memory();
    let (holder, held_record) = recorded_client(&server, 1_000).await;
    let _held = mutex(&holder).acquire().await.unwrap();
    let (mut records, mut waiting) = (Vec::new(), Vec::new());
    for seed in 0..100 {
        let (client, record) = recorded_client(&server, seed).await;
        waiting.push(queue(&mutex(&client)).await);
        records.push(record);
    }
    assert_eq!(children(&server, PATH).len(), 101);
    held_record.take();
    records.iter().for_each(|record| drop(record.take()));
    // reason: virtual time, in which the queue does not move
    tokio::time::sleep(T * 2).await;
    for record in [&held_record, &records[0]] {
        expect_renewals(record, [32, 11, 5]);
    }
    for record in &records[1..] {
        expect_evidence_kept(record, 2);
    }
}

/// The waiter is next in line from the start, or after the first of two contenders ahead has left.
#[tokio::test(start_paused = true)]
async fn next_in_line_acquires_without_a_request_after_a_long_wait() {
    for had_two_ahead in [false, true] {
        let (server, [other]) = started().await;
        let (next, record) = recorded_client(&server, 2).await;
        let mut held = mutex(&other).acquire().await.unwrap();
        let between = match had_two_ahead {
            true => Some(queue(&mutex(&other)).await),
            false => None,
        };
        let waiting = queue(&mutex(&next)).await;
        assert_eq!(record.take(), [vec![CREATE2, GET_CHILDREN2], vec![SET_WATCHES]]);
        if let Some(between) = between {
            held.release().await.unwrap();
            held = between.await.unwrap();
        }
        // reason: virtual time, in which the first lease would have expired long ago
        tokio::time::sleep(T * 3).await;
        let [_, syncs, writes] = lease_requests(&record);
        assert!(syncs > 0 && writes > 0, "the lease is kept renewed");

        let before = now();
        held.release().await.unwrap();
        let guard = waiting.await.unwrap();
        assert_eq!(record.take(), NOTHING, "two ahead: {had_two_ahead}");
        assert_eq!(now(), before);
        assert!(guard.is_held() && guard.remaining() > T * 2 / 5, "{:?}", guard.remaining());
        settle().await;
        assert_eq!(record.take(), NOTHING, "two ahead: {had_two_ahead}");
    }
}

/// The waiter was never next in line, so its lease has expired.
#[tokio::test(start_paused = true)]
async fn third_in_line_renews_once_if_both_ahead_leave_at_once() {
    let server = TestServer::in_memory();
    // Without latency the answer to a request proves no later touch.
    let _latency = server.on_any_request().always().delay(Duration::from_millis(1));
    let (other, operator) = (client(&server, 1).await, client(&server, 3).await);
    let (third, record) = recorded_client(&server, 2).await;
    let _held = mutex(&other).acquire().await.unwrap();
    let _second = queue(&mutex(&other)).await;
    let waiting = queue(&mutex(&third)).await;
    record.take();
    // reason: virtual time, in which the queue does not move
    tokio::time::sleep(T * 3).await;
    expect_evidence_kept(&record, 3);
    let [first, second] = [0, 1].map(|at| child(&server, PATH, at));
    operator.multi().delete(&first, None).delete(&second, None).send().await.unwrap();
    let guard = waiting.await.unwrap();
    let mut sent = record.take().concat();
    // Of two deletions the first leaves one contender ahead, which is now the nearest one.
    sent.retain(|op| *op != SET_WATCHES);
    let [pings, syncs, writes] = lease_requests_of(sent);
    assert!(writes == 1 && pings <= 2 && syncs <= 1, "{writes}, {pings} pings, {syncs} syncs");
    assert!(guard.is_held() && guard.remaining() > T * 2 / 5, "{:?}", guard.remaining());
    // reason: virtual time, in which the lease would run out
    tokio::time::sleep(T * 3).await;
    guard.check().await.unwrap();
}

const WAITERS: usize = 200;

/// Servers to reconnect to: the previous one, and another one.
const SERVERS: [usize; 2] = [0, 1];

/// Waiters of one session.
struct Queue {
    kind: Kind,
    client: Client,
    record: Record,
    waiters: Vec<JoinHandle<Result<Box<dyn LockGuard>, LockError>>>,
}

impl Queue {
    /// Starts two servers with a queue, behind a holder of another session.
    async fn start(kind: Kind, count: usize) -> (TestServer, Client, Box<dyn LockGuard>, Self) {
        let server = TestServer::ensemble(2);
        let other = client(&server, 2).await;
        let held = kind.exclude(&other).await;
        let (client, record) = recorded_client(&server, 1).await;
        let mut this = Self { kind, client, record, waiters: Vec::new() };
        this.grow(count).await;
        (server, other, held, this)
    }

    /// Adds `count` waiters at the end of the queue.
    async fn grow(&mut self, count: usize) {
        let waiters = (0..count).map(|_| tokio::spawn(self.kind.lock(&self.client).acquired()));
        self.waiters.extend(waiters);
        settle().await;
        self.record.take();
    }

    /// Cuts the connection, runs `meanwhile`, and reconnects to `back_at`.
    ///
    /// Returns the opcodes that the session sends after the reconnect, sorted and without lease
    /// requests.
    async fn cut(
        &self,
        server: &TestServer,
        back_at: usize,
        meanwhile: impl Future<Output = ()>,
    ) -> Vec<i32> {
        (0..server.servers()).for_each(|server_id| server.refuse_connects(server_id));
        server.connection_of(self.client.session_id()).cut(Cut::Rst);
        settle().await;
        assert!(!self.client.is_connected());
        meanwhile.await;
        self.record.take();
        self.record.move_to(back_at);
        server.accept_connects(back_at);
        // reason: virtual time, the random pause before the next attempt to connect
        tokio::time::sleep(T / 4).await;
        assert!(self.client.is_connected());
        sorted(without_checks(without_lease(self.record.take().concat())))
    }

    fn granted(&self) -> usize {
        self.waiters.iter().filter(|waiter| waiter.is_finished()).count()
    }
}

fn sorted(mut ops: Vec<i32>) -> Vec<i32> {
    ops.sort_unstable();
    ops
}

/// The holder and a contender in the middle of the queue leave during the disconnect.
#[tokio::test(start_paused = true)]
async fn nodes_deleted_during_a_disconnect_cost_three_lists() {
    for back_at in SERVERS {
        let (server, other, held, mut queue) = Queue::start(Kind::Mutex, WAITERS / 2).await;
        let mode = CreateMode::EphemeralSequential;
        let middle = other.create("/m/_c_middle-lock-", b"", mode).await.unwrap().path;
        queue.grow(WAITERS / 2).await;
        let both_go = async {
            held.release_boxed().await.unwrap();
            other.delete(&middle, None).await.unwrap();
        };
        let sent = queue.cut(&server, back_at, both_go).await;
        // The first in the queue lists once before it acquires the lock. Each of the two waiters
        // behind the middle lists too, and watches the contenders ahead that it has not watched
        // before.
        assert_eq!(sent, sorted([[GET_CHILDREN2; 3], [SET_WATCHES; 3]].concat()));
        assert_eq!((queue.granted(), children(&server, "/m").len()), (1, WAITERS));

        // All of them acquire the lock in turn.
        for waiter in queue.waiters {
            waiter.await.unwrap().unwrap().release_boxed().await.unwrap();
        }
        assert_eq!(children(&server, "/m"), [""; 0]);
    }
}

/// The first in the queue lists the leases once, acquires the permit and deletes its queue node.
///
/// The next waiter creates a lease, and watches its queue node and the leases of others. No other
/// waiter sends a request.
#[tokio::test(start_paused = true)]
async fn permit_released_during_a_disconnect_wakes_two_waiters() {
    for back_at in SERVERS {
        let (server, _other, held, queue) = Queue::start(Kind::Permit, WAITERS).await;
        let sent = queue.cut(&server, back_at, async {}).await;
        assert_eq!(sent, [SET_WATCHES]);
        let goes = async { held.release_boxed().await.unwrap() };
        let sent = queue.cut(&server, back_at, goes).await;
        assert_eq!(queue.granted(), 1);
        let first = [GET_CHILDREN2, WATCH_NODE, DELETE];
        // One list more than without a disconnect verifies the position of the waiter.
        let next = [GET_CHILDREN2, CREATE2, GET_CHILDREN2, WATCH_NODE, GET_CHILDREN2];
        // Its handle is new, so it lists the path with its first lease.
        let path = [GET_CHILDREN2];
        assert_eq!(sent, sorted([&first[..], &next[..], &path, &[SET_WATCHES]].concat()));
    }
}
