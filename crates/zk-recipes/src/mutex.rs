//! The fair mutex: Curator's `InterProcessMutex`, on the same nodes.

use std::time::Duration;

use zk_session::{Acl, Client, PathError};

use crate::deadline::{acquire_in_time, while_connected};
use crate::error::LockError;
use crate::hold::Guard;
use crate::local_queue::{LocalQueue, LocalQueueLimits};
use crate::observe::LockMetrics;
use crate::owner::Owner;
use crate::participants::{Participant, participants};
use crate::queue::Queue;
use crate::queue::spec::QueueSpec;
use crate::recipe::LATCH;
use crate::ticket::Ticket;

/// A fair mutex: Curator's `InterProcessMutex`, on the same nodes.
///
/// All processes that use the same path exclude each other, including Java services with Curator's
/// `InterProcessMutex`.
///
/// The handle is cheap to clone and may be shared by many tasks. Each acquisition queues
/// separately, unless the handle has a [local queue](Self::with_local_queue).
///
/// # What it promises
/// * **One holder**: at most one [`Guard`] of a path is valid at any moment, by the guard's own
///   conservative clock.
/// * **Fair**: first come, first served, in the order in which the server created the nodes,
///   across all processes.
/// * **Not re-entrant** by default: a task deadlocks if it acquires a lock that it already holds.
///   With [`with_owner`](Self::with_owner) the lock is re-entrant.
/// * Each holder's token is larger than the tokens of all earlier holders.
/// * A path with nodes of a [`RwLock`](crate::RwLock) or a [`Semaphore`](crate::Semaphore) is
///   rejected ([`LockError::ForeignNode`]): the two locks would not exclude each other.
///
/// # On the wire
/// Each contender is an ephemeral sequential child of the path. The number at the end of the name
/// is its position in the queue; the id does not affect the order. The data of the node is the
/// contender's address, or the data set by [`with_data`](Self::with_data):
///
/// ```text
/// <path>/_c_<id>-lock-0000000007    holds the lock
/// <path>/_c_<id>-lock-0000000008    waits for the one before it
/// ```
///
/// The id identifies the node if the reply to its creation was lost (Curator's protection). In Curator's
/// names it is a random UUID. Here it has 16 digits: it is random, or the czxid of `<path>` once the session
/// has waited for the lock, on servers since 3.9.0. With that id a contender knows the name ahead of its own,
/// and needs no list.
///
/// # What it costs
/// A free lock is acquired in one round trip (two requests in one write) and released by one
/// request. If the queue changes between these two requests, it takes one more write, to be sure that
/// the listed node is its own. A lock held longer than a
/// [tenth of a second](crate::limits::NODE_WATCH_DELAY) sets one watch on its node; the holder does not
/// wait for that request. A holder that waited in the queue already has this watch.
///
/// A waiter sends four requests in total, however long the queue: create, the Stat of `<path>` or a list,
/// one for all of its watches, and the release. On servers before 3.9.0 it sends up to five. It needs no
/// answer between the release of its predecessor and its own hold: it **acquires the lock by the events of
/// that release alone**. It sends a request only if the session's lease has run out. A wait of more than a
/// quarter of the session timeout takes up to three requests more, and the first wait of a session takes one.
/// A release wakes the next contender, or the next two, and no others.
///
/// A waiter reads the list of the queue in these cases: its session waits for the lock for the first time;
/// the wait is long; the contender ahead leaves without the lock, is another client's, or is of a session
/// that has not waited yet, whose names are random. On servers before 3.9.0 it reads up to two lists. Only
/// these lists grow with the queue: some 40 bytes for each contender of this library. A session remembers
/// `<path>` as long as a handle or a guard of the lock exists, so keep the handle. A lock with
/// [data](Self::with_data), [an ACL](Self::with_acl) or a [lock name](Self::with_lock_name) of its own, or
/// one that [accepts nodes of others](Self::allow_foreign_nodes), lists the queue once for each wait. A
/// waiter takes less than 4 KiB of memory.
///
/// If the path has a child called `leases`, an acquisition lists the children of that node in one
/// more round trip, to detect a semaphore.
///
/// # What happens on loss
/// [`Guard::lost`] returns, and [`Guard::token`] fails, before any leader can expire the session.
/// The [margin](zk_session::LeaseAssumptions::margin) is a twelfth of the session timeout. If
/// another client deletes the node, the guard is lost as soon as that event arrives. A lost guard
/// never becomes valid again.
///
/// Waiters fail with [`LockError::Client`] as soon as their session ends. A waiter queues again if
/// another client deletes its node. A broken connection loses the lock only if it stays down until
/// the lease runs out.
///
/// # Example
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use zk_recipes::Mutex;
/// use zk_recipes::session::Client;
///
/// let client = Client::connect("127.0.0.1:2181").await?;
/// let lock = Mutex::new(&client, "/locks/stock")?;
/// if let Some(guard) = lock.acquire_timeout(Duration::from_secs(5)).await? {
///     println!("writing with token {}", guard.token()?);
///     guard.release().await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "InterProcessMutex")]
pub struct Mutex {
    queue: Queue,
    owner: Option<Owner>,
    local_queue: Option<LocalQueue>,
}

impl Mutex {
    /// Lock name of an election; see [`with_lock_name`](Self::with_lock_name).
    pub const LEADER_LATCH: &str = LATCH;

    /// Creates a handle for the lock at `path`. Sends no request.
    ///
    /// The first acquisition creates the missing nodes of the path as containers. The server
    /// removes them when they are no longer used.
    ///
    /// # Errors
    /// Returns an error if `path` is not a valid ZooKeeper path.
    pub fn new(client: &Client, path: &str) -> Result<Self, PathError> {
        zk_session::validate_path(path)?;
        Ok(Self::of(Queue::new(client, QueueSpec::mutex(path.to_owned()))))
    }

    pub(crate) fn of(queue: Queue) -> Self {
        Self { queue, owner: None, local_queue: None }
    }

    /// Returns the path of the lock.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.queue.spec.path
    }

    pub(crate) fn client(&self) -> &Client {
        &self.queue.client
    }

    /// Waits until the lock is acquired, without a time limit.
    ///
    /// # Errors
    /// Fails if the session ends, if the server rejects a request (for example with `NoAuth`), or if
    /// the sequence numbers are used up. Connection problems are not errors: the call waits until the
    /// session reconnects or ends. Fails with [`LockError::Lost`] if the owner still has guards of a
    /// lock that it has lost.
    ///
    /// # Ordering
    /// First come, first served, in the order in which the server created the nodes.
    ///
    /// # Cancel safety
    /// Dropping the future at any point removes the contender from the queue and leaves no node
    /// behind, even while the connection is down.
    #[doc(alias = "lock")]
    pub async fn acquire(&self) -> Result<Guard, LockError> {
        match &self.owner {
            None => self.acquire_unowned().await,
            Some(owner) => {
                owner.enter(&self.queue).await?.or_queue(|| self.acquire_unowned()).await
            }
        }
    }

    /// Acquires the lock if it is free and no contender is queued ahead. Returns `None` otherwise.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire). Without a connection the call fails with
    /// [`LockError::NotConnected`] instead of waiting. If a connected server is silent, the call waits
    /// for its replies as long as the session does; [`acquire_timeout`](Self::acquire_timeout) has a
    /// bound.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<Guard>, LockError> {
        let attempt = async {
            let Some(owner) = &self.owner else { return self.try_acquire_unowned().await };
            match owner.try_enter(&self.queue)? {
                Some(entry) => entry.or_try(|| self.try_acquire_unowned()).await,
                None => Ok(None),
            }
        };
        while_connected(self.client(), self.path(), attempt).await
    }

    /// Waits until the lock is acquired, for at most `timeout`, including the time without a
    /// connection. Returns `None` after the timeout; the node is then deleted in the background.
    ///
    /// A timeout of zero makes one attempt, as [`try_acquire`](Self::try_acquire). It waits for the
    /// replies of a server that answers, for at most a session timeout. Without a connection it returns
    /// `None` at once.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire). Without a connection the session expires after somewhat more
    /// than its timeout, so a longer `timeout` ends with that error.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_timeout(&self, timeout: Duration) -> Result<Option<Guard>, LockError> {
        acquire_in_time(self.client(), timeout, || self.acquire(), || self.try_acquire()).await
    }

    /// Queues for the lock and returns the position in the queue.
    ///
    /// This splits an acquisition in two steps, for callers that show how many contenders are ahead
    /// and which one holds the lock.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire). Dropping the returned [`Ticket`] leaves the queue in the same
    /// way.
    pub async fn enqueue(&self) -> Result<Ticket, LockError> {
        let entry = match &self.owner {
            Some(owner) => Some(owner.enter(&self.queue).await?),
            None => None,
        };
        Ticket::enqueue(&self.queue, entry, self.owner.clone(), |guard, _| guard).await
    }

    /// Returns the holder and the waiters in queue order; an empty list if the path does not exist.
    pub async fn participants(&self) -> Result<Vec<Participant>, LockError> {
        participants(&self.queue).await
    }

    /// Queues, in the local queue first if there is one.
    async fn acquire_unowned(&self) -> Result<Guard, LockError> {
        match &self.local_queue {
            None => Guard::acquire(&self.queue).await,
            // On the heap: waiters without a local queue do not need this memory.
            Some(local) => Box::pin(local.acquire(&self.queue)).await,
        }
    }

    async fn try_acquire_unowned(&self) -> Result<Option<Guard>, LockError> {
        match &self.local_queue {
            None => Guard::try_acquire(&self.queue).await,
            Some(local) => Box::pin(local.try_acquire(&self.queue)).await,
        }
    }
}

/// # Options
impl Mutex {
    /// Makes the lock re-entrant for `owner`: an owner that holds the lock acquires it again without
    /// queueing. See also [`RwLock::with_owner`](crate::RwLock::with_owner).
    #[must_use]
    pub fn with_owner(mut self, owner: &Owner) -> Self {
        self.owner = Some(owner.clone());
        self
    }

    /// Lets the tasks of this process share one node: adds a queue of their own in front of the
    /// ensemble's. A released lock passes to the next task in it **without a request**, as often
    /// and for as long as `limits` allow. Then it is released to the ensemble, and the next task
    /// queues at the end with a new node.
    ///
    /// This is for locks that many tasks of a process contend for. A pass takes a few microseconds,
    /// and the ensemble has one node for each process.
    ///
    /// The clones of the handle share the local queue, also those with another
    /// [owner](Self::with_owner). A handle with another option has a queue of its own, and so has
    /// every other handle of the path: they contend in the ensemble.
    ///
    /// # What it changes
    /// * **Tokens**: each holder has its own [`FencingToken`](crate::FencingToken), but several have
    ///   the same [`czxid`](crate::FencingToken::czxid). Compare the whole token, or
    ///   [`as_i128`](crate::FencingToken::as_i128). A resource that compares the `czxid` alone cannot
    ///   tell the tasks of one process apart.
    /// * **Order**: first come, first served within the process. Between processes, each one that
    ///   is ahead in the ensemble's queue may keep the lock within its limits, and for the hold
    ///   that exceeds them. A contender waits no longer than that for each process ahead.
    /// * **Loss**: all that ends the node ends the guard that holds it. A lost lock does not pass
    ///   on: the next local waiter queues with a new node. It waits until the lost guard is dropped.
    ///   A guard that has passed its lock on is [released](crate::LossReason::Released).
    /// * **Revocation**: after a guard has reported a
    ///   [request](crate::Guard::revocation_requested), its release goes to the ensemble.
    /// * [`release`](crate::Guard::release) sends no request if it passes the lock on.
    /// * **Transactions**: one from [`Guard::multi`](crate::Guard::multi) is applied while the node
    ///   exists, also if it is sent after the guard has passed its lock on.
    /// * [`try_acquire`](Self::try_acquire) returns `None` if a local task holds the lock or waits
    ///   for it.
    /// * A task that is cancelled in the ensemble's queue leaves its position to the next local
    ///   waiter. If no task waits, it leaves the queue.
    /// * [`enqueue`](Self::enqueue) does not use the local queue: it has a node of its own.
    ///   [`participants`](Self::participants) lists nodes, not tasks.
    ///
    /// ```no_run
    /// # async fn example(client: zk_recipes::session::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use zk_recipes::{LocalQueueLimits, Mutex};
    ///
    /// let stock = Mutex::new(&client, "/locks/stock")?;
    /// let stock = stock.with_local_queue(LocalQueueLimits::default());
    /// for item in 0..100 {
    ///     let stock = stock.clone();
    ///     tokio::spawn(async move {
    ///         let guard = stock.acquire().await?;
    ///         println!("item {item} is sold with token {}", guard.token()?);
    ///         guard.release().await
    ///     });
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_local_queue(mut self, limits: LocalQueueLimits) -> Self {
        self.local_queue = Some(LocalQueue::new(limits));
        self
    }

    /// Replaces `lock-`, the text before the number in the names of the lock's nodes.
    ///
    /// All contenders must use the same text. It marks where the number begins; names without it
    /// are ordered as a whole.
    ///
    /// With [`LEADER_LATCH`](Self::LEADER_LATCH) the lock has the nodes of an
    /// [`Election`](crate::Election): the holder leads, and the [data](Self::with_data) is its id.
    ///
    /// # Errors
    /// Returns [`LockError::InvalidLockName`] if the text is empty, consists of digits only, or
    /// contains a slash or another character that a node name must not contain.
    pub fn with_lock_name(mut self, name: impl Into<String>) -> Result<Self, LockError> {
        self.spec_mut().set_lock_name(name.into())?;
        Ok(self)
    }

    /// Sets the data of this handle's nodes, which other contenders can read. By default the data
    /// identifies the contender, see [`ContenderInfo`](crate::ContenderInfo); Curator writes the
    /// address only.
    #[must_use]
    pub fn with_data(mut self, data: impl Into<Vec<u8>>) -> Self {
        self.spec_mut().set_data(data.into());
        self
    }

    /// Sets the ACL of this handle's nodes and of the missing nodes of the path. The default is open to
    /// everyone, as with Curator.
    ///
    /// Each contender needs permission to read the nodes of the others, to create nodes below the
    /// path, and to delete its own nodes.
    #[must_use]
    pub fn with_acl(mut self, acl: impl Into<Vec<Acl>>) -> Self {
        self.spec_mut().set_acl(acl.into());
        self
    }

    /// Counts acquisitions, holds and losses of this handle in `metrics`.
    #[must_use]
    pub fn with_metrics(mut self, metrics: &LockMetrics) -> Self {
        self.spec_mut().set_metrics(metrics);
        self
    }

    /// Accepts a path on which other recipes have nodes; see [`LockError::ForeignNode`].
    ///
    /// A lock of another recipe on the same path is a separate lock. Both can be held at the same
    /// time.
    #[must_use]
    pub fn allow_foreign_nodes(mut self) -> Self {
        self.spec_mut().allow_foreign_nodes();
        self
    }

    /// Returns the properties of the nodes. A node with the old properties must not pass to a task
    /// that uses this handle, so a local queue is replaced.
    fn spec_mut(&mut self) -> &mut QueueSpec {
        self.local_queue = self.local_queue.as_ref().map(LocalQueue::emptied);
        self.queue.spec_mut()
    }
}
