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
pub(crate) mod registration;
pub(crate) mod requests;
mod revocation;
mod rwlock;
pub(crate) mod semaphore;
mod semaphore_mutex;
pub(crate) mod session;
mod shared;
mod tree_writer;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::sleep;
use zk_recipes::{LockError, LockGuard, Mutex, Semaphore};
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

/// Contends with the recipe of the seed, over and over, until the session is over or the run
/// drains.
pub(crate) async fn contend(mut seat: Seat) {
    let think = seat.world.plan.think;
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
        let is_over = match seat.world.plan.recipe {
            Recipe::Mutex | Recipe::LocalQueue => mutex::once(&mut seat).await,
            Recipe::RwLock => rwlock::once(&mut seat).await,
            Recipe::Semaphore => semaphore::once(&mut seat).await,
            Recipe::SemaphoreMutex => semaphore_mutex::once(&mut seat).await,
            Recipe::MultiLock => multi_lock::once(&mut seat).await,
            Recipe::Shared => shared::once(&mut seat).await,
            Recipe::Revocation => revocation::once(&mut seat).await,
            Recipe::Counter => counter::once(&mut seat).await,
            Recipe::DoubleBarrier => double_barrier::once(&mut seat).await,
            Recipe::Barrier => barrier::once(&mut seat).await,
            Recipe::Cache => tree_writer::once(&mut seat).await,
            // They have workloads of their own.
            Recipe::Election | Recipe::Registration | Recipe::KeptNode | Recipe::Discovery => {
                return;
            }
        };
        if is_over {
            return;
        }
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
    let guard = match plan.recipe {
        Recipe::Mutex | Recipe::LocalQueue | Recipe::Revocation => {
            mutex::exam(client, plan, label).await?
        }
        Recipe::RwLock => {
            world.oracle().may_have(number, 2);
            rwlock::exam(client, plan, label).await?
        }
        Recipe::Semaphore => {
            let permits = usize::try_from(plan.permits.most).unwrap_or(1);
            world.oracle().may_have(number, permits);
            semaphore::exam(client, plan, label).await?
        }
        Recipe::SemaphoreMutex => semaphore_mutex::exam(client, plan, label).await?,
        Recipe::MultiLock => {
            world.oracle().may_have(number, multi_lock::LOCKS);
            multi_lock::exam(client, plan, label).await?
        }
        Recipe::Election => election::exam(client, plan, label).await?,
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

/// A future that drops its inner future after `polls` pending polls, and then returns `None`.
pub(crate) struct Impatient<F: ?Sized> {
    pub(crate) future: Option<Pin<Box<F>>>,
    pub(crate) polls: u64,
}

impl<F: Future + ?Sized> Future for Impatient<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(future) = &mut self.future else { return Poll::Ready(None) };
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Some(output));
        }
        if self.polls == 0 {
            self.future = None;
            return Poll::Ready(None);
        }
        self.polls -= 1;
        Poll::Pending
    }
}
