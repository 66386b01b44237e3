//! Ten thousand waiters in one process, on one session: the memory of each waiter, and the cost of
//! each hand-off.
//!
//! The tests count under a paused clock. They are a separate test binary because they count
//! allocations. The server runs in this process too, and its allocations are left out.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod counted;
#[path = "../in_memory/tapped.rs"]
mod tapped;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use zk_recipes::session::{Client, Config};
use zk_recipes::{Guard, Mutex, RwLock, Semaphore, SemaphoreGuard, WriteGuard};
use zk_testing::TestServer;

use counted::{Polls, Traffic, counted};

/// Number of waiters in the long queue. The lists that they request make the work grow with its square;
/// `ZK_WAITERS` sets another number.
const WAITERS: usize = 10_000;

/// Maximum memory of a waiter: its task, its future, its watches, its strings.
const BYTES_MAX: usize = 4_096;

/// Number of hand-offs that are measured in each queue.
const HAND_OFFS: usize = 200;

/// Length of a name in a list, with its length prefix: `_c_`, 16 digits, `-lock-` and ten digits.
const NAME_LEN: usize = 4 + 35;

/// The lists that the server answers with take most of the time.
#[test]
fn waiters_take_4_kib_each_and_a_hand_off_wakes_two() {
    let waiters = std::env::var("ZK_WAITERS").map_or(WAITERS, |number| number.parse().unwrap());
    let mut short = World::new();
    short.queue_up(HAND_OFFS + 100, mutex);
    let mut long = World::new();
    let bytes = long.queue_up(waiters, mutex);
    println!("{bytes} bytes for each of {waiters} waiters");
    assert!(bytes <= BYTES_MAX, "{bytes} bytes");

    let [short, long] = [&mut short, &mut long].map(World::let_through);
    println!("in a short queue {short:?}\nin a long queue  {long:?}");
    // The next in line acquires the lock by the event, and sleeps during its hold. The waiter
    // behind it requests a list, and wakes again with the answer.
    assert_eq!((long.polls, long.driver_polls), (short.polls, short.driver_polls));
    assert!(long.polls <= 4 && long.driver_polls <= 5, "{long:?}");
    // Sent: a request for a list, and a delete. Received: the event, and a list as long as the
    // queue. The list is requested while the lock is held, and delays no acquisition.
    assert_eq!((long.requests, long.bytes_out), (short.requests, short.bytes_out));
    assert_eq!(long.requests, 2);
    assert!(long.bytes_in <= waiters * NAME_LEN + 500, "{long:?}");
}

/// The other recipes have shorter queues.
#[test]
fn waiter_of_any_recipe_takes_at_most_4_kib() {
    let bytes = [
        ("reader", World::new().queue_up(1_000, reader)),
        ("writer", World::new().queue_up(1_000, writer)),
        ("semaphore", World::new().queue_up(1_000, permit)),
        ("three permits", World::new().queue_up(1_000, permits)),
    ];
    println!("{bytes:?}");
    assert!(bytes.iter().all(|(_, bytes)| *bytes <= BYTES_MAX), "{bytes:?}");
}

async fn mutex(lock: Locks) {
    let _held = lock.mutex.acquire().await.unwrap();
    settle().await;
}

async fn reader(lock: Locks) {
    let _held = lock.rw.read().acquire().await.unwrap();
    settle().await;
}

async fn writer(lock: Locks) {
    let _held = lock.rw.write().acquire().await.unwrap();
    settle().await;
}

async fn permit(lock: Locks) {
    let _held = lock.semaphore.acquire().await.unwrap();
    settle().await;
}

async fn permits(lock: Locks) {
    let _held = lock.semaphore.acquire_many(3).await.unwrap();
    settle().await;
}

/// Handles that all waiters of a process share.
type Locks = Arc<Handles>;

struct Handles {
    mutex: Mutex,
    rw: RwLock,
    semaphore: Semaphore,
}

impl Handles {
    fn new(client: &Client) -> Locks {
        Arc::new(Self {
            mutex: Mutex::new(client, "/locks/mutex").unwrap(),
            rw: RwLock::new(client, "/locks/rw").unwrap(),
            semaphore: Semaphore::new(client, "/locks/semaphore", 3).unwrap(),
        })
    }

    /// Acquires all locks and permits.
    async fn hold(&self) -> (Guard, WriteGuard, SemaphoreGuard) {
        let mutex = self.mutex.acquire().await.unwrap();
        let writer = self.rw.write().acquire().await.unwrap();
        (mutex, writer, self.semaphore.acquire_many(3).await.unwrap())
    }
}

/// A server, a session with counted waiters, and another session that holds the locks.
struct World {
    runtime: Runtime,
    locks: Locks,
    holder: Locks,
    traffic: Traffic,
    /// Polls of the waiters.
    polls: Polls,
    driver_polls: Polls,
    waiters: Vec<JoinHandle<()>>,
}

/// Average cost of a hand-off.
#[derive(Debug)]
struct HandOff {
    polls: usize,
    driver_polls: usize,
    requests: usize,
    bytes_out: usize,
    bytes_in: usize,
}

impl World {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let (traffic, polls, driver_polls) =
            (Traffic::default(), Polls::default(), Polls::default());
        let (locks, holder) = runtime.block_on(async {
            let server = TestServer::in_memory();
            let config = |seed| Config::new("server:1").unwrap().seed(seed);
            let (client, driver) = config(1).connector(counted(&server, &traffic)).into_parts();
            tokio::spawn(driver_polls.counted(driver));
            let uncounted = counted(&server, &Traffic::default());
            let holder = config(2).connector(uncounted).connect().await.unwrap();
            (Handles::new(&client), Handles::new(&holder))
        });
        let waiters = Vec::with_capacity(WAITERS);
        Self { runtime, locks, holder, traffic, polls, driver_polls, waiters }
    }

    /// Queues `count` waiters behind a holder, and returns the bytes that each waiter takes.
    fn queue_up<F>(&mut self, count: usize, wait: fn(Locks) -> F) -> usize
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let held = self.runtime.block_on(self.holder.hold());
        self.enter(50, wait); // allocates what all waiters share
        let allocated = allocation_counter::measure(|| self.enter(count - 50, wait));
        // reason: virtual time, in which every waiter checks the node ahead, as after a long wait
        self.runtime.block_on(async { tokio::time::sleep(LONG_WAIT).await });
        assert!(self.waiters.iter().all(|waiter| !waiter.is_finished()), "the lock is held");
        drop(held);
        usize::try_from(allocated.bytes_current).unwrap() / (count - 50)
    }

    fn enter<F>(&mut self, count: usize, wait: fn(Locks) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let Self { runtime, locks, polls, waiters, .. } = self;
        runtime.block_on(async {
            for n in 0..count {
                waiters.push(tokio::spawn(polls.counted(wait(locks.clone()))));
                // Waiters queue in batches, because each answer is as long as the queue.
                if n % 50 == 49 {
                    settle().await;
                }
            }
            settle().await;
        });
    }

    /// Lets the first waiters acquire and release in turn, and returns the average cost of a
    /// hand-off.
    fn let_through(&mut self) -> HandOff {
        let through =
            |waiters: &[JoinHandle<()>]| waiters.iter().filter(|it| it.is_finished()).count();
        // The first few waiters differ: the later ones already know the contenders ahead of them.
        let wait_for = |this: &Self, count: usize| {
            this.runtime.block_on(async {
                while through(&this.waiters) < count {
                    settle().await;
                }
            });
        };
        wait_for(self, 10);
        let _ = (self.traffic.take(), self.polls.take(), self.driver_polls.take());
        wait_for(self, 10 + HAND_OFFS);
        let sums = self.traffic.take();
        HandOff {
            polls: self.polls.take() / HAND_OFFS,
            driver_polls: self.driver_polls.take() / HAND_OFFS,
            requests: sums.requests / HAND_OFFS,
            bytes_out: sums.bytes_out / HAND_OFFS,
            bytes_in: sums.bytes_in / HAND_OFFS,
        }
    }
}

const HOLD: Duration = Duration::from_millis(10);

/// Longer than a quarter of the session timeout.
const LONG_WAIT: Duration = Duration::from_secs(20);

/// Lets all tasks run until they wait for time to pass.
///
/// The paused clock advances by [`HOLD`].
async fn settle() {
    // reason: the paused clock advances when no task is ready
    tokio::time::sleep(HOLD).await;
}
