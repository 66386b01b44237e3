//! A connection that is cut under two hundred waiters.

use std::future::Future;

use tokio::task::JoinHandle;
use zk_recipes::session::{Client, CreateMode};
use zk_recipes::{LockError, LockGuard};
use zk_testing::{Cut, TestServer};

use crate::recorded_connection::{
    CREATE2, DELETE, GET_CHILDREN2, Record, SET_WATCHES, WATCH_NODE, recorded_client,
    without_checks, without_lease,
};
use crate::{Acquire, Kind, T, children, client, settle};

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

#[tokio::test(start_paused = true)]
async fn reconnect_sets_the_watches_again_without_a_list() {
    for back_at in SERVERS {
        let (server, _other, held, queue) = Queue::start(Kind::Mutex, WAITERS / 2).await;
        let sent = queue.cut(&server, back_at, async {}).await;
        assert_eq!((sent, queue.granted()), (vec![SET_WATCHES], 0));
        held.release_boxed().await.unwrap();
        settle().await;
        assert_eq!(queue.granted(), 1);
        // A waiter that was disconnected lists once before it acquires the lock, because the missed
        // events arrive in no order. The guard keeps the watch of the waiter.
        let sent = without_lease(queue.record.take().concat());
        assert_eq!(sent, [GET_CHILDREN2], "the first in the queue, and nobody else");
    }
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

/// Only a list shows a reader that no other writer is ahead of it.
#[tokio::test(start_paused = true)]
async fn readers_list_once_if_the_writer_left_during_a_disconnect() {
    for back_at in SERVERS {
        let (server, _other, writer, queue) = Queue::start(Kind::Reader, WAITERS).await;
        let sent = queue.cut(&server, back_at, async {}).await;
        assert_eq!(sent, [SET_WATCHES], "nobody has gone");
        let goes = async { writer.release_boxed().await.unwrap() };
        let sent = queue.cut(&server, back_at, goes).await;
        // The guards keep the watches of the waiters.
        assert_eq!(sent, sorted([vec![GET_CHILDREN2; WAITERS], vec![SET_WATCHES]].concat()));
        assert_eq!(queue.granted(), WAITERS);
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
