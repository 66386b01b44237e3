//! A connection that is cut under two hundred waiters, and a session that expires under them.

use std::future::Future;

use tokio::task::JoinHandle;
use zk_recipes::session::{Client, CreateMode};
use zk_recipes::{LockError, Mutex, RwLock, Semaphore};
use zk_testing::{Cut, TestServer};

use crate::recorded_connection::{
    CREATE2, DELETE, GET_CHILDREN2, Record, SET_WATCHES, WATCH_NODE, recorded_client,
    without_checks, without_lease,
};
use crate::{T, children, client, settle};

const WAITERS: usize = 200;

/// Servers to reconnect to: the previous one, and another one.
const SERVERS: [usize; 2] = [0, 1];

/// Waiters of one session.
struct Queue<G> {
    client: Client,
    record: Record,
    waiters: Vec<JoinHandle<Result<G, LockError>>>,
}

impl<G: Send + 'static> Queue<G> {
    async fn new<F>(server: &TestServer, acquire: fn(Client) -> F) -> Self
    where
        F: Future<Output = Result<G, LockError>> + Send + 'static,
    {
        let (client, record) = recorded_client(server, 1).await;
        let mut this = Self { client, record, waiters: Vec::new() };
        this.grow(WAITERS / 2, acquire).await;
        this
    }

    /// Adds `count` waiters at the end of the queue.
    async fn grow<F>(&mut self, count: usize, acquire: fn(Client) -> F)
    where
        F: Future<Output = Result<G, LockError>> + Send + 'static,
    {
        for _ in 0..count {
            self.waiters.push(tokio::spawn(acquire(self.client.clone())));
        }
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

async fn mutex(client: Client) -> Result<zk_recipes::Guard, LockError> {
    Mutex::new(&client, "/lock").unwrap().acquire().await
}

async fn reader(client: Client) -> Result<zk_recipes::Guard, LockError> {
    RwLock::new(&client, "/lock").unwrap().read().acquire().await
}

async fn permit(client: Client) -> Result<zk_recipes::SemaphoreGuard, LockError> {
    Semaphore::new(&client, "/lock", 3).unwrap().acquire().await
}

#[tokio::test(start_paused = true)]
async fn reconnect_sets_the_watches_again_without_a_list() {
    for back_at in SERVERS {
        let server = TestServer::ensemble(2);
        let holder = client(&server, 2).await;
        let held = mutex(holder.clone()).await.unwrap();
        let queue = Queue::new(&server, mutex).await;
        let sent = queue.cut(&server, back_at, async {}).await;
        assert_eq!(sent, [SET_WATCHES]);
        assert_eq!(queue.granted(), 0);
        held.release().await.unwrap();
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
        let server = TestServer::ensemble(2);
        let other = client(&server, 2).await;
        let held = mutex(other.clone()).await.unwrap();
        let mut queue = Queue::new(&server, mutex).await;
        let middle = other
            .create("/lock/_c_middle-lock-", b"", CreateMode::EphemeralSequential)
            .await
            .unwrap();
        queue.grow(WAITERS / 2, mutex).await;
        let both_go = async {
            held.release().await.unwrap();
            other.delete(&middle.path, None).await.unwrap();
        };
        let sent = queue.cut(&server, back_at, both_go).await;
        // The first in the queue lists once before it acquires the lock. Each of the two waiters
        // behind the middle lists too, and watches the contenders ahead that it has not watched
        // before.
        let expected = [vec![GET_CHILDREN2; 3], vec![SET_WATCHES; 3]].concat();
        assert_eq!(sent, sorted(expected));
        assert_eq!(queue.granted(), 1);
        let nodes = children(&server, "/lock");
        assert_eq!(nodes.len(), WAITERS);

        // All of them acquire the lock in turn.
        for waiter in queue.waiters {
            waiter.await.unwrap().unwrap().release().await.unwrap();
        }
        assert_eq!(children(&server, "/lock"), [""; 0]);
    }
}

/// Only a list shows a reader that no other writer is ahead of it.
#[tokio::test(start_paused = true)]
async fn readers_list_once_if_the_writer_left_during_a_disconnect() {
    for back_at in SERVERS {
        let server = TestServer::ensemble(2);
        let other = client(&server, 2).await;
        let writer = RwLock::new(&other, "/lock").unwrap().write().acquire().await.unwrap();
        let mut queue = Queue::new(&server, reader).await;
        queue.grow(WAITERS / 2, reader).await;
        let sent = queue.cut(&server, back_at, async {}).await;
        assert_eq!(sent, [SET_WATCHES], "nobody has gone");
        let goes = async { writer.release().await.unwrap() };
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
        let server = TestServer::ensemble(2);
        let other = client(&server, 2).await;
        let mut held = Vec::new();
        for _ in 0..3 {
            held.push(permit(other.clone()).await.unwrap());
        }
        let mut queue = Queue::new(&server, permit).await;
        queue.grow(WAITERS / 2, permit).await;
        let sent = queue.cut(&server, back_at, async {}).await;
        assert_eq!(sent, [SET_WATCHES]);
        let given_back = held.pop().unwrap();
        let goes = async { given_back.release().await.unwrap() };
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
