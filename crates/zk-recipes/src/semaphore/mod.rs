//! The semaphore: Curator's `InterProcessSemaphoreV2`, on the same nodes.

mod collect;
mod lease;
mod limit;
mod path_check;

use std::sync::Arc;
use std::time::Duration;

use zk_session::{Acl, Client, PathError};

use self::collect::Kinds;
use self::limit::Limit;
use self::path_check::PathCheck;
use crate::deadline::{at_once, in_time, while_connected};
use crate::error::LockError;
use crate::guard::Guard;
use crate::limits::PERMITS_AT_ONCE_MAX;
use crate::mutex;
use crate::participants::{Participant, participants};
use crate::queue::admission::Admission;
use crate::queue::foreign::{LEASES, Recipe};
use crate::queue::kind::Kind;
use crate::queue::parents;
use crate::shared_count::SharedCount;

pub use self::lease::Lease;

/// What stands before the sequence number in the names of leases.
const LEASE_NAME: &str = "lease-";

/// A number of permits, shared by all processes that name the same path; Java services
/// with Curator's `InterProcessSemaphoreV2` included.
///
/// ZooKeeper does not know the limit: every process says how many permits there are,
/// and all should say the same, or follow the same [`SharedCount`].
///
/// The handle is cheap to clone and may be shared by many tasks, each of which queues
/// for itself. A task that holds permits and asks for more may wait for itself; ask for
/// all of them at once.
///
/// # What it promises
/// * Never more permits are held than the limit of whoever took the last one.
/// * **Fair**: first come, first served, and one that wants many is not passed by such as
///   want few.
/// * Several permits at once are had all together or not at all.
/// * **No permit leaks**: not by a dropped future, a lost answer, a broken connection, or a
///   holder that dies.
///
/// # On the wire
///
/// ```text
/// <path>/locks/_c_<uuid>-lock-0000000007      whose turn it is to take permits
/// <path>/leases/_c_<uuid>-lease-0000000012    one for each permit that is held, or that
///                                             the one whose turn it is waits for
/// ```
///
/// Whoever wants permits queues in the mutex at `locks`; at the head of that queue it
/// puts in **all** the leases it wants, and waits until no more than the limit are
/// there, up to and including its own last one. Then it gives up its turn. So there is
/// one who waits for several permits at a time, and it waits only for such as have
/// theirs already: two that want five of six each come one after the other.
///
/// Curator takes several permits one by one, a turn for each. One of its clients that
/// has some already and waits for its next turn, and one that has its turn and waits
/// for those, wait for each other, whatever is on the other side: with Curator's
/// `acquire(n)` on the same path, use a timeout.
///
/// # What it costs
///
/// A free permit: two round trips, for the turn and for the lease, each a create and a list in
/// one write; a delete at the end of the turn, which nobody waits for; one more to release the
/// permit. The first permit through a handle and its clones also takes a list of the children of the
/// path, in one write with the lease, to see whether another recipe uses it; making the nodes of the
/// semaphore takes another one before, for each permit. A permit held longer
/// than a [tenth of a second](crate::limits::NODE_WATCH_DELAY) sets one watch on its node, by a
/// request for which nobody waits. `n` permits at once: the same round trips, with `n` creates, `n`
/// deletes and, if they are held for so long, `n` watches. [`try_acquire`](Self::try_acquire): one
/// round trip. A limit that is a [`SharedCount`] is read twice, first of all and in one write with
/// the leases, which is one round trip more. While it waits, the first in the queue reads the list
/// of leases whenever one comes or goes; the others read nothing.
///
/// # Other recipes on the path
///
/// A [`Mutex`](crate::Mutex) or a [`RwLock`](crate::RwLock) at the path of a semaphore is another lock:
/// a path on which one of them has nodes is refused ([`LockError::ForeignNode`]), and they refuse the
/// path of a semaphore. The node `leases` of a semaphore that is not used any more is removed by the
/// server, as a container, after a minute or two; until then the path is still the semaphore's.
///
/// # What happens on loss
///
/// A [`Lease`] is lost as a [`Guard`](crate::Guard) is: before the server can give its
/// permits to anybody else. The clean-up of a turn is the session's business: whatever goes
/// wrong with it, it never costs anybody a permit.
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
/// if let Some(lease) = licences.acquire_many_timeout(3, Duration::from_secs(5)).await? {
///     println!("three of ten, until {:?}", lease.lost().await);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Semaphore {
    client: Client,
    path: String,
    kinds: Kinds,
    limit: Limit,
}

impl Semaphore {
    /// A semaphore of `max` permits at `path`. Touches no server: the path is made, as
    /// containers, when it is first needed, and removed by the server when it is no
    /// longer used.
    ///
    /// # Errors
    /// The path is not one that ZooKeeper accepts.
    pub fn new(client: &Client, path: &str, max: u32) -> Result<Self, PathError> {
        Self::limited(client, path, Limit::Fixed(max))
    }

    /// A semaphore of as many permits as `count` says; none, if it is negative. Those
    /// who wait are woken when it grows. When it shrinks, nobody's permits are taken
    /// away: there are none to be had until enough were given back.
    ///
    /// # Errors
    /// The path is not one that ZooKeeper accepts.
    pub fn with_shared_limit(
        client: &Client,
        path: &str,
        count: &SharedCount,
    ) -> Result<Self, PathError> {
        Self::limited(client, path, Limit::Shared(count.clone()))
    }

    fn limited(client: &Client, path: &str, limit: Limit) -> Result<Self, PathError> {
        zk_session::validate_path(path)?;
        let turns = mutex::kind(parents::child(path, "locks"));
        let mut leases = Kind::new(parents::child(path, LEASES), LEASE_NAME, Admission::Counted);
        leases.exclusive = Some(Recipe::Semaphore);
        let kinds = Kinds {
            turns: Kind { exclusive: None, ..turns }.into(),
            leases: leases.into(),
            path: Some(PathCheck::new(path).into()),
        };
        Ok(Self { client: client.clone(), path: path.to_owned(), kinds, limit })
    }

    /// Data for the leases of this handle, which others can read. By default it is this
    /// end's address, as with Curator.
    #[must_use]
    pub fn with_data(mut self, data: impl Into<Vec<u8>>) -> Self {
        Arc::make_mut(&mut self.kinds.leases).set_data(data);
        self
    }

    /// Who may do what with the nodes of this handle, those of turns and of leases, and
    /// with what is missing of the path; by default everybody everything, as with Curator.
    /// All contenders need to read each other's nodes, to create in both paths, and to
    /// delete what is theirs from them.
    #[must_use]
    pub fn with_acl(mut self, acl: impl Into<Vec<Acl>>) -> Self {
        let acl = acl.into();
        Arc::make_mut(&mut self.kinds.turns).set_acl(acl.clone());
        Arc::make_mut(&mut self.kinds.leases).set_acl(acl);
        self
    }

    /// Does not refuse a path on which other recipes have nodes; see
    /// [`Mutex::allow_foreign_nodes`](crate::Mutex::allow_foreign_nodes).
    #[must_use]
    pub fn allow_foreign_nodes(mut self) -> Self {
        self.kinds.path = None;
        Arc::make_mut(&mut self.kinds.leases).exclusive = None;
        self
    }

    /// The path of the semaphore.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Waits for a permit, as long as it takes.
    ///
    /// # Errors
    /// The session ends, the server declines (for example with `NoAuth`), the sequence
    /// numbers are used up; [`LockError::PermitsOutOfRange`] if there are none. Trouble
    /// with the connection is waited out.
    ///
    /// # Ordering
    /// First come, first served, also for those who want several permits: nobody who
    /// wants fewer overtakes them.
    ///
    /// # Cancel safety
    /// Dropping the future, at any point, takes the contender out of the queue and
    /// leaves no node behind, even if the connection is down at that moment.
    pub async fn acquire(&self) -> Result<Lease, LockError> {
        self.acquire_many(1).await
    }

    /// Takes a permit if one is free.
    ///
    /// It does not queue, so it is not held up by those who do. A permit that the first
    /// of them waits for is not free.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire). It does not wait for a connection: without one the error is
    /// [`LockError::NotConnected`]. For the answers of a server that is silent it waits as long as
    /// the session does; see [`acquire_timeout`](Self::acquire_timeout) for a bound.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<Lease>, LockError> {
        self.try_acquire_many(1).await
    }

    /// Waits for a permit, but no longer than `timeout`, whatever the reason for the
    /// waiting.
    ///
    /// A timeout of zero makes one attempt, as [`try_acquire`](Self::try_acquire), which may take
    /// [15 ms](crate::limits::ATTEMPT_TIME). Without a connection it returns `None` at once.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_timeout(&self, timeout: Duration) -> Result<Option<Lease>, LockError> {
        self.acquire_many_timeout(1, timeout).await
    }

    /// Waits for this many permits at once, as long as it takes: all or none.
    ///
    /// More than a shared limit allows at the moment are waited for without a place in
    /// the queue, for the limit to grow.
    ///
    /// # Errors
    /// [`LockError::PermitsOutOfRange`] for 0 permits, more than the fixed number there
    /// is, or more than [`PERMITS_AT_ONCE_MAX`]; as [`acquire`](Self::acquire) besides.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_many(&self, permits: u32) -> Result<Lease, LockError> {
        self.check_range(permits)?;
        let guards = collect::wait(&self.client, &self.kinds, &self.limit, permits).await?;
        Ok(self.lease(guards))
    }

    /// Takes this many permits if they are free, all or none; see
    /// [`try_acquire`](Self::try_acquire). Of two that try for several at the very same
    /// moment, both may be refused though there are enough for one.
    ///
    /// # Errors
    /// As [`acquire_many`](Self::acquire_many).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire_many(&self, permits: u32) -> Result<Option<Lease>, LockError> {
        self.check_range(permits)?;
        let attempt = collect::look_once(&self.client, &self.kinds, &self.limit, permits);
        let guards = while_connected(&self.client, &self.path, attempt).await?;
        Ok(guards.map(|guards| self.lease(guards)))
    }

    /// Waits for this many permits at once, but no longer than `timeout`; see
    /// [`acquire_timeout`](Self::acquire_timeout).
    ///
    /// # Errors
    /// As [`acquire_many`](Self::acquire_many).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_many_timeout(
        &self,
        permits: u32,
        timeout: Duration,
    ) -> Result<Option<Lease>, LockError> {
        match timeout.is_zero() {
            true => at_once(&self.client, self.try_acquire_many(permits)).await,
            false => in_time(&self.client, timeout, self.acquire_many(permits)).await.transpose(),
        }
    }

    /// The leases there are, in order, one for each permit; nobody if the path does not
    /// exist. The last of them may be those of the first in the queue, who still waits.
    ///
    /// # Errors
    /// A failed request.
    pub async fn participants(&self) -> Result<Vec<Participant>, LockError> {
        let leases = &self.kinds.leases;
        participants(&self.client, &leases.path, leases.rule()).await
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    fn check_range(&self, permits: u32) -> Result<(), LockError> {
        let most = match self.limit {
            Limit::Fixed(max) => max.min(PERMITS_AT_ONCE_MAX),
            Limit::Shared(_) => PERMITS_AT_ONCE_MAX,
        };
        match (1..=most).contains(&permits) {
            true => Ok(()),
            false => Err(LockError::PermitsOutOfRange { path: self.path.clone(), permits, most }),
        }
    }

    fn lease(&self, guards: Vec<Guard>) -> Lease {
        Lease::new(self.client.clone(), guards)
    }
}
