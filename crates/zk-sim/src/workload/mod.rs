//! Workloads of clients. Each recipe has its file here.

mod barrier;
mod contender;
mod counter;
pub(crate) mod discovery;
pub(crate) mod double_barrier;
pub(crate) mod election;
pub(crate) mod follower;
pub(crate) mod kept_node;
mod managed;
mod multi_lock;
mod mutex;
pub(crate) mod operations;
pub(crate) mod registration;
pub(crate) mod requests;
mod revocation;
mod rwlock;
pub(crate) mod semaphore;
pub(crate) mod session;
mod shared;
mod tree_writer;

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use futures::future::{Either, select};
use tokio::sync::Notify;
use tokio::time::sleep;
use zk_recipes::{LockError, LockGuard, Mutex, RwLock, Semaphore, SemaphoreMutex};
use zk_session::{Client, SessionId};
use zk_testing::Rng;

use crate::process::Process;
use crate::recipe::Recipe;
use crate::world::World;

/// State of one contender.
pub(crate) struct Seat {
    pub(crate) world: Arc<World>,
    pub(crate) client: Client,
    pub(crate) process: Arc<Process>,
    /// Number of the client's slot.
    pub(crate) slot: usize,
    /// The lock that all contenders of the client share, if it has a local queue.
    pub(crate) shared_lock: Option<Mutex>,
    /// The handle of all attempts at a semaphore, from the first one on.
    pub(crate) semaphore: Option<Semaphore>,
    pub(crate) timeout: Duration,
    pub(crate) name: String,
    pub(crate) rng: Rng,
    /// True while a task of this client waits for a loss. tokio wakes several waiters of one event
    /// in an order that it draws itself, and that no seed decides. Only one task waits at a time,
    /// therefore.
    pub(crate) lost_is_watched: Arc<AtomicBool>,
}

/// Logs an error. It is a violation unless the session is over, or the error is fine. Returns true if the
/// session is over.
fn judge(
    world: &World,
    invariant: &'static str,
    name: &str,
    error: &impl fmt::Display,
    (is_over, is_fine): (bool, bool),
) -> bool {
    let mut oracle = world.oracle();
    oracle.log(format_args!("{name}: {error}"));
    if !is_over && !is_fine {
        oracle.violated(invariant, format!("{name}: {error}"));
    }
    is_over
}

/// Contends with the recipe of the seed, over and over, until the session is over or the run
/// drains.
pub(crate) async fn contend(mut seat: Seat) {
    let think = seat.world.plan.think;
    let drops = Arc::clone(&seat.world.slot(seat.slot).drops);
    while !seat.world.is_draining() {
        let pause = seat.rng.around(think);
        if !pause.is_zero() {
            sleep(pause).await;
        }
        if seat.rng.chance(seat.world.plan.quiet) {
            contender::be_quiet(&mut seat).await;
        }
        // The oracle tells some operations by their sessions.
        let needs_session =
            matches!(seat.world.plan.recipe, Recipe::Counter | Recipe::DoubleBarrier);
        if needs_session && seat.client.session_id() == SessionId::NONE {
            contender::rest(&mut seat).await;
            if seat.client.end_reason().is_some() {
                return;
            }
            continue;
        }
        let Some(is_over) = unless_dropped(&drops, once(&mut seat)).await else {
            seat.lost_is_watched.store(false, Ordering::Relaxed);
            continue;
        };
        if is_over {
            return;
        }
    }
}

/// Does one operation of the recipe of the seed. Returns true if the session is over.
async fn once(seat: &mut Seat) -> bool {
    match seat.world.plan.recipe {
        Recipe::Mutex | Recipe::LocalQueue => mutex::once(seat).await,
        Recipe::RwLock => rwlock::once(seat).await,
        Recipe::Semaphore => semaphore::once(seat).await,
        Recipe::SemaphoreMutex => mutex::once_by_semaphore(seat).await,
        Recipe::MultiLock => multi_lock::once(seat).await,
        Recipe::Shared => shared::once(seat).await,
        Recipe::Revocation => revocation::once(seat).await,
        Recipe::Counter => counter::once(seat).await,
        Recipe::DoubleBarrier => double_barrier::once(seat).await,
        Recipe::Barrier => barrier::once(seat).await,
        Recipe::Cache => tree_writer::once(seat).await,
        // They have workloads of their own.
        Recipe::Election | Recipe::Registration | Recipe::KeptNode | Recipe::Discovery => true,
    }
}

/// Completes an operation. Returns `None` if a script drops its future before.
async fn unless_dropped<F: Future>(drops: &Notify, operation: F) -> Option<F::Output> {
    match select(pin!(operation), pin!(drops.notified())).await {
        Either::Left((output, _)) => Some(output),
        Either::Right(_) => None,
    }
}

/// Checks that a client acquires all that the recipe offers, without faults.
pub(crate) async fn exam(
    world: &World,
    client: &Client,
    who: &str,
) -> Result<Option<Box<dyn LockGuard>>, LockError> {
    let (plan, number) = (&world.plan, world.next_number());
    let label = format!("{who}#{number}");
    let path = plan.lock_path;
    let guard: Box<dyn LockGuard> = match plan.recipe {
        Recipe::Mutex | Recipe::LocalQueue | Recipe::Revocation => {
            Box::new(Mutex::new(client, path)?.with_data(label).acquire().await?)
        }
        Recipe::RwLock => {
            world.oracle().may_have(number, 2);
            let lock = RwLock::new(client, path)?.with_data(label);
            Box::new(lock.write().acquire().await?.downgrade().await?)
        }
        Recipe::Semaphore => {
            let permits = usize::try_from(plan.permits.most).unwrap_or(1);
            world.oracle().may_have(number, permits);
            let semaphore = semaphore::semaphore(client, plan)?.with_data(label);
            Box::new(semaphore.acquire_many(plan.permits.most).await?)
        }
        Recipe::SemaphoreMutex => {
            Box::new(SemaphoreMutex::new(client, path)?.with_data(label).acquire().await?)
        }
        Recipe::MultiLock => {
            world.oracle().may_have(number, multi_lock::LOCKS);
            multi_lock::exam(client, plan, label).await?
        }
        Recipe::Election => {
            Box::new(election::lock(client, plan)?.with_data(label).acquire().await?)
        }
        Recipe::Counter => return counter::exam(world, client, &label).await.map(|()| None),
        Recipe::Barrier => return barrier::exam(client).await.map(|()| None),
        // Their processes, or all clients together, are examined before.
        Recipe::Registration
        | Recipe::KeptNode
        | Recipe::Discovery
        | Recipe::Cache
        | Recipe::DoubleBarrier => return Ok(None),
        Recipe::Shared => return shared::exam(world, client, &label).await.map(|()| None),
    };
    Ok(Some(guard))
}

/// Drops a future after `polls` pending polls, and then returns `None`.
pub(crate) async fn impatient<F: Future>(mut polls: u64, future: F) -> Option<F::Output> {
    let mut future = Box::pin(future);
    let polled = poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if polls == 0 => Poll::Ready(None),
        Poll::Pending => {
            polls -= 1;
            Poll::Pending
        }
    });
    polled.await
}
