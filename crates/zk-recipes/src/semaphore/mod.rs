//! The semaphore: Curator's `InterProcessSemaphoreV2`, on the same nodes.

mod collect;
mod free_turns;
mod guard;
mod limit;
mod mutex;
mod path_check;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use zk_session::path::child;
use zk_session::{Acl, Client, PathError};

use self::free_turns::FreeTurns;
use self::limit::PermitLimit;
use self::path_check::PathCheck;
use crate::deadline::{acquire_in_time, while_connected};
use crate::error::LockError;
use crate::hold::Guard;
use crate::limits::PERMITS_AT_ONCE_MAX;
use crate::observe::LockMetrics;
use crate::participants::{Participant, participants};
use crate::queue::Queue;
use crate::queue::spec::QueueSpec;
use crate::recipe::LEASES;
use crate::shared_count::SharedCount;

pub use self::guard::SemaphoreGuard;
pub use self::mutex::SemaphoreMutex;

/// A fair semaphore: Curator's `InterProcessSemaphoreV2`, on the same nodes.
///
/// All processes that use the same path share its permits, including Java services with Curator's
/// `InterProcessSemaphoreV2`. ZooKeeper does not store the limit: each process sets the number of
/// permits. All processes should set the same number, or follow the same [`SharedCount`].
///
/// The handle is cheap to clone and may be shared by many tasks. Each acquisition queues
/// separately. A task that holds permits and acquires more can deadlock; acquire all of them in one
/// call.
///
/// # What it promises
/// * The number of held permits never exceeds the limit that the most recent holder's process uses.
/// * **Fair**: first come, first served. A caller that waits for few permits does not overtake a
///   caller that waits for many. [One exception](Self::acquire).
/// * Several permits in one call are acquired all together or not at all.
/// * **No permit leaks**: not by a dropped future, a lost reply, a broken connection, or a holder
///   that dies.
///
/// # On the wire
///
/// ```text
/// <path>/locks/_c_<id>-lock-0000000007      queues for the turn to acquire permits
/// <path>/leases/_c_<id>-lease-0000000012    one for each permit that is held, or that the
///                                           contender with the turn waits for
/// ```
///
/// A contender first queues in the mutex at `locks`. The head of that queue has the turn. It
/// creates **all** the leases it needs. Then it waits until its own last lease is within the limit,
/// counted in the order of the leases, and its turn ends. So only one contender at a time waits for
/// several permits, and it waits only for leases that are already held. Two contenders that each
/// need five of six permits therefore acquire them one after the other.
///
/// A contender for one permit ends its turn in the write that creates its lease if the last turns of this
/// handle and its clones found a free permit: the next contender need not wait for the reply. If none is free
/// this time, it deletes its lease and queues again; after that, several times as many turns in a row must
/// find a permit before another one ends so early. A handle that is kept is therefore faster, and the first
/// call of a new one never loses its place.
///
/// Curator acquires several permits one by one, with a turn for each. One Curator client may hold
/// some permits and wait for its next turn, while another one has the turn and waits for those
/// permits. The two deadlock, even if all other clients use this crate. Use a timeout if a path
/// also has Curator clients that call `acquire(n)`.
///
/// # What it costs
///
/// A free permit takes two round trips, one for the turn and one for the lease. Each of them is a
/// create and a list in one write. A delete ends the turn, often in the write of the lease; the caller
/// does not wait for it. Another delete releases the permit. A contender that expected a free permit in
/// vain has made and deleted one lease more, and queues again.
///
/// The first permit of a handle and its clones also lists the children of the path, in one write
/// with the lease, to detect other recipes. If the nodes of the semaphore have to be created, one
/// such list for each permit precedes that.
///
/// A permit held longer than a [tenth of a second](crate::limits::NODE_WATCH_DELAY) sets one watch
/// on its node; the holder does not wait for that request. A permit that has to wait sets it at once, so
/// that it never takes another node of its name for its own. `n` permits in one call take the same
/// round trips, with `n` creates, `n` deletes and, if they are held for so long, `n` watches.
/// [`try_acquire`](Self::try_acquire) takes one round trip.
///
/// A [`SharedCount`] as the limit is read twice: once before everything else, and once in one write
/// with the leases. That is one more round trip. While the head of the queue waits, it reads the
/// list of leases after every change of that list. The other waiters read nothing.
///
/// # Other recipes on the path
///
/// A [`Mutex`](crate::Mutex) or a [`RwLock`](crate::RwLock) at the path of a semaphore is a
/// separate lock. A semaphore rejects a path on which one of them has nodes
/// ([`LockError::ForeignNode`]), and they reject the path of a semaphore. The server removes the
/// node `leases` of an unused semaphore, as a container, after a minute or two. Until then the path
/// still belongs to the semaphore.
///
/// # What happens on loss
///
/// A [`SemaphoreGuard`] is lost as a [`Guard`] is: before the server can grant its permits to
/// another contender. The session deletes the node of a turn in the background. A failure of that
/// deletion never costs a permit.
///
/// # Example
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use zk_recipes::Semaphore;
/// use zk_recipes::session::Client;
///
/// let client = Client::connect("127.0.0.1:2181").await?;
/// let licences = Semaphore::new(&client, "/licences", 10)?;
/// if let Some(permits) = licences.acquire_many_timeout(3, Duration::from_secs(5)).await? {
///     println!("three of ten, until {:?}", permits.lost().await);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "InterProcessSemaphoreV2")]
pub struct Semaphore {
    /// The path, with its check. All clones of the handle share it.
    path: Arc<PathCheck>,
    /// Nodes of the mutex that orders the waiters.
    turns: Queue,
    /// Nodes of the permits, one for each.
    permits: Queue,
    limit: PermitLimit,
    /// Of the callers for one permit. All clones share it.
    free_turns: Arc<Mutex<FreeTurns>>,
}

impl Semaphore {
    /// Creates a handle for a semaphore of `max` permits at `path`. Sends no request.
    ///
    /// The first acquisition creates the missing nodes of the path as containers. The server
    /// removes them when they are no longer used.
    ///
    /// # Errors
    /// Returns an error if `path` is not a valid ZooKeeper path.
    pub fn new(client: &Client, path: &str, max: u32) -> Result<Self, PathError> {
        Self::limited(client, path, PermitLimit::Fixed(max))
    }

    /// Creates a handle for a semaphore with `count` as its limit. Sends no request. A negative
    /// count allows no permits.
    ///
    /// Waiters are woken when the count grows. When it shrinks, holders keep their permits; new
    /// permits are granted once enough of them are released.
    ///
    /// # Errors
    /// Returns an error if `path` is not a valid ZooKeeper path.
    pub fn with_shared_limit(
        client: &Client,
        path: &str,
        count: &SharedCount,
    ) -> Result<Self, PathError> {
        Self::limited(client, path, PermitLimit::Shared(count.clone()))
    }

    fn limited(client: &Client, path: &str, limit: PermitLimit) -> Result<Self, PathError> {
        zk_session::validate_path(path)?;
        let mut turns = QueueSpec::mutex(child(path, "locks"));
        turns.exclusive = None;
        let permits = QueueSpec::permit(child(path, LEASES));
        let (turns, permits) = (Queue::new(client, turns), Queue::new(client, permits));
        let (path, free_turns) = (Arc::new(PathCheck::new(path)), Arc::default());
        Ok(Self { path, turns, permits, limit, free_turns })
    }

    /// Returns the path of the semaphore.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path.path
    }

    /// Waits until a permit is acquired, without a time limit.
    ///
    /// # Errors
    /// Fails if the session ends, if the server rejects a request (for example with `NoAuth`), or
    /// if the sequence numbers are used up. Fails with [`LockError::PermitsOutOfRange`] if the
    /// limit is fixed at 0. Connection problems are not errors: the call waits until the session
    /// reconnects or ends.
    ///
    /// # Ordering
    /// First come, first served, also for callers that need several permits: no caller that needs
    /// fewer permits overtakes them. One exception: a caller for one permit may lose its place once, to all
    /// who wait then. That happens if the last turns of this handle found a free permit, and the one of the
    /// caller finds none. A handle loses it in its first one or two such calls; later in fewer than one of
    /// fifty if permits are free at random, and in one of 23 in the worst order.
    ///
    /// # Cancel safety
    /// Dropping the future at any point removes the contender from the queue and leaves no node
    /// behind, even while the connection is down.
    pub async fn acquire(&self) -> Result<SemaphoreGuard, LockError> {
        self.acquire_many(1).await
    }

    /// Acquires a permit if one is free. Returns `None` otherwise.
    ///
    /// It does not queue, so the waiters do not delay it. A permit that the head of the queue waits
    /// for is not free.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire). Without a connection the call fails with
    /// [`LockError::NotConnected`] instead of waiting. If a connected server is silent, the call
    /// waits for its replies as long as the session does;
    /// [`acquire_timeout`](Self::acquire_timeout) has a bound.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<SemaphoreGuard>, LockError> {
        self.try_acquire_many(1).await
    }

    /// Waits until a permit is acquired, for at most `timeout`, including the time without a
    /// connection. Returns `None` after the timeout.
    ///
    /// A timeout of zero makes one attempt, as [`try_acquire`](Self::try_acquire). It waits for the
    /// replies of a server that answers, for at most a session timeout. Without a connection it
    /// returns `None` at once.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_timeout(
        &self,
        timeout: Duration,
    ) -> Result<Option<SemaphoreGuard>, LockError> {
        self.acquire_many_timeout(1, timeout).await
    }

    /// Waits until this many permits are acquired together, without a time limit.
    ///
    /// If a shared limit is below `permits`, the call waits for the limit to grow, without a place
    /// in the queue.
    ///
    /// # Errors
    /// [`LockError::PermitsOutOfRange`] for 0 permits, for more than a fixed limit, or for more
    /// than [`PERMITS_AT_ONCE_MAX`]; otherwise as [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_many(&self, permits: u32) -> Result<SemaphoreGuard, LockError> {
        self.check_range(permits)?;
        let guards = self.collect(permits).await?;
        Ok(self.guard(guards))
    }

    /// Acquires this many permits together if they are free; otherwise it acquires none. See
    /// [`try_acquire`](Self::try_acquire). If two callers try for several permits at the same
    /// moment, both may fail although enough permits are free for one of them.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire_many(
        &self,
        permits: u32,
    ) -> Result<Option<SemaphoreGuard>, LockError> {
        self.check_range(permits)?;
        let attempt = self.try_collect(permits);
        let guards = while_connected(self.client(), self.path(), attempt).await?;
        Ok(guards.map(|guards| self.guard(guards)))
    }

    /// Waits until this many permits are acquired together, for at most `timeout`; see
    /// [`acquire_timeout`](Self::acquire_timeout).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_many_timeout(
        &self,
        permits: u32,
        timeout: Duration,
    ) -> Result<Option<SemaphoreGuard>, LockError> {
        let wait = || self.acquire_many(permits);
        acquire_in_time(self.client(), timeout, wait, || self.try_acquire_many(permits)).await
    }

    /// Returns the leases in order, one for each permit; an empty list if the path does not exist.
    /// The last leases may belong to the head of the queue, which still waits.
    pub async fn participants(&self) -> Result<Vec<Participant>, LockError> {
        participants(&self.permits).await
    }

    pub(crate) fn client(&self) -> &Client {
        &self.permits.client
    }

    fn check_range(&self, permits: u32) -> Result<(), LockError> {
        let max = match self.limit {
            PermitLimit::Fixed(max) => max.min(PERMITS_AT_ONCE_MAX),
            PermitLimit::Shared(_) => PERMITS_AT_ONCE_MAX,
        };
        if (1..=max).contains(&permits) {
            return Ok(());
        }
        Err(LockError::PermitsOutOfRange { path: self.path().to_owned(), permits, max })
    }

    fn free_turns(&self) -> MutexGuard<'_, FreeTurns> {
        self.free_turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn guard(&self, guards: Vec<Guard>) -> SemaphoreGuard {
        SemaphoreGuard::new(self.client().clone(), guards)
    }
}

/// # Options
impl Semaphore {
    /// Sets the data of the leases, which other contenders can read; see
    /// [`Mutex::with_data`](crate::Mutex::with_data).
    #[must_use]
    pub fn with_data(mut self, data: impl Into<Vec<u8>>) -> Self {
        self.permits.spec_mut().set_data(data.into());
        self
    }

    /// Sets the ACL of the nodes; see [`Mutex::with_acl`](crate::Mutex::with_acl).
    #[must_use]
    pub fn with_acl(mut self, acl: impl Into<Vec<Acl>>) -> Self {
        let acl = acl.into();
        self.turns.spec_mut().set_acl(acl.clone());
        self.permits.spec_mut().set_acl(acl);
        self
    }

    /// Counts acquisitions, holds and losses of this handle in `metrics`. Each permit counts, and its
    /// wait begins with the turn of the caller, not with the call.
    #[must_use]
    pub fn with_metrics(mut self, metrics: &LockMetrics) -> Self {
        self.permits.spec_mut().set_metrics(metrics);
        self
    }

    /// Accepts a path on which other recipes have nodes; see
    /// [`Mutex::allow_foreign_nodes`](crate::Mutex::allow_foreign_nodes).
    #[must_use]
    pub fn allow_foreign_nodes(mut self) -> Self {
        self.permits.spec_mut().allow_foreign_nodes();
        self
    }
}
