//! The fair mutex: Curator's `InterProcessMutex`, on the same nodes.

use std::time::Duration;

use zk_session::{Acl, Client};

use crate::error::LockError;
use crate::gate::Gate;
use crate::guard::Guard;
use crate::owner::Owner;
use crate::participants::{Participant, participants};
use crate::queue::admission::Admission;
use crate::queue::foreign::Recipe;
use crate::queue::kind::Kind;
use crate::queue::name;
use crate::waiting::Waiting;

/// What stands before the sequence number in the names of a mutex's nodes.
const LOCK_NAME: &str = "lock-";

/// A lock that one holder has at a time, first come, first served, over all
/// processes that name the same path; Java services with Curator's
/// `InterProcessMutex` included.
///
/// The handle is cheap to clone and may be shared by many tasks, each of which
/// queues for itself.
///
/// # What it promises
/// * **One holder**: at most one [`Guard`] of a path is valid at any moment, by its own
///   careful clock.
/// * **Fair**: first come, first served, in the order in which the server saw the
///   contenders, whichever process they are of. Nobody barges in.
/// * **Not re-entrant** as it is: a task that acquires a lock it already holds waits for
///   itself. With [`owned_by`](Self::owned_by) it is re-entrant.
/// * Every holder's token is larger than that of every holder before.
/// * A path on which a [`RwLock`](crate::RwLock) or a [`Semaphore`](crate::Semaphore) has nodes is
///   refused ([`LockError::ForeignNode`]): they would not exclude each other.
///
/// # On the wire
/// Contenders are children of the path, ephemeral and sequential; the number at the end of
/// the name is the place in the queue, whatever stands before it. Their data is the
/// contender's address, or what [`with_data`](Self::with_data) says:
///
/// ```text
/// <path>/_c_<uuid>-lock-0000000007    holds the lock
/// <path>/_c_<uuid>-lock-0000000008    waits for the one before it
/// ```
///
/// The UUID is new for each acquisition: by it the node is found again when the answer to
/// its creation was lost.
///
/// # What it costs
/// A lock that is free is acquired in one round trip (two requests in one write), and released
/// by one request. A lock held longer than a [tenth of a
/// second](crate::limits::NODE_WATCH_DELAY) sets one watch on its node, by a request for which
/// nobody waits; a lock that was waited for needs none. One who waits asks seven times over its
/// whole life, however long the queue: it watches the two nearest ahead and its own node, so
/// that it knows already that it is next when the one before it goes, and **owns the lock by
/// that event alone**, without a request, unless the session's lease has run out. A release
/// wakes the two behind it and nobody else. The list of the queue is read twice, which is what
/// grows with its length: some 60 bytes for each contender. A waiter takes less than 4 KiB of
/// memory. Where the path has a child called `locks` or `leases`, an acquisition lists both of
/// these, in one round trip more, to see whether they are a semaphore's.
///
/// # What happens on loss
/// [`Guard::lost`] returns, and [`Guard::token`] fails, before any leader can expire the session,
/// by a [margin](zk_session::LeaseAssumptions::margin) of a twelfth of the session timeout.
/// They also do when somebody deletes the node, as soon as that event arrives. A guard that was lost
/// is never valid again. Waiters whose session ends fail at once with [`LockError::Client`].
/// Waiters whose node was deleted by others queue again. A connection that breaks loses the lock
/// only if it stays away for too long.
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
pub struct Mutex {
    gate: Gate,
}

impl Mutex {
    /// A lock at `path`. Touches no server: the path is made, as containers, when
    /// it is first needed, and removed by the server when it is no longer used.
    ///
    /// # Errors
    /// The path is not one that ZooKeeper accepts.
    pub fn new(client: &Client, path: &str) -> Result<Self, zk_session::PathError> {
        zk_session::validate_path(path)?;
        Ok(Self { gate: Gate::new(client, kind(path.to_owned())) })
    }

    /// Data for the nodes of this handle, which other contenders can read. By
    /// default it is this end's address, as with Curator.
    #[must_use]
    pub fn with_data(mut self, data: impl Into<Vec<u8>>) -> Self {
        self.gate.kind_mut().set_data(data);
        self
    }

    /// Who may do what with the nodes of this handle, and with what is missing of the
    /// lock's path; by default everybody everything, as with Curator. All contenders need
    /// to read each other's nodes, to create in the path, and to delete what is theirs
    /// from it.
    #[must_use]
    pub fn with_acl(mut self, acl: impl Into<Vec<Acl>>) -> Self {
        self.gate.kind_mut().set_acl(acl);
        self
    }

    /// Another text than `lock-` before the number in the names of the lock's nodes. All
    /// contenders have to use the same: the number is found by it, and others than these
    /// are ordered by their whole name.
    ///
    /// # Errors
    /// [`LockError::InvalidLockName`] if it is empty, nothing but digits, or holds a slash
    /// or something else that no name of a node may hold.
    pub fn with_lock_name(mut self, name: impl Into<String>) -> Result<Self, LockError> {
        self.gate.kind_mut().lock_name = name::checked(name.into())?.into();
        Ok(self)
    }

    /// Does not refuse a path on which other recipes have nodes; see
    /// [`LockError::ForeignNode`]. A read-write lock or a semaphore at the same path is another lock,
    /// which can be held at the same time.
    #[must_use]
    pub fn allow_foreign_nodes(mut self) -> Self {
        self.gate.kind_mut().exclusive = None;
        self
    }

    /// On behalf of an owner, who is let in again while it holds the lock.
    #[must_use]
    pub fn owned_by(mut self, owner: &Owner) -> Self {
        self.gate = self.gate.owned_by(owner);
        self
    }

    /// The path of the lock.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.gate.kind().path
    }

    /// Waits for the lock, as long as it takes.
    ///
    /// # Errors
    /// The session ends, the server declines (for example with `NoAuth`), the
    /// sequence numbers are used up. Trouble with the connection is waited out. With an
    /// owner that has guards of a hold that is lost: [`LockError::Lost`].
    ///
    /// # Ordering
    /// First come, first served, by the order in which the server saw the nodes.
    ///
    /// # Cancel safety
    /// Dropping the future, at any point, takes the contender out of the queue and
    /// leaves no node behind, even if the connection is down at that moment.
    pub async fn acquire(&self) -> Result<Guard, LockError> {
        self.gate.acquire().await
    }

    /// Takes the lock if nobody has it or waits for it.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire). It does not wait for a connection: without one the error is
    /// [`LockError::NotConnected`]. For the answers of a server that is silent it waits as long as
    /// the session does; see [`acquire_timeout`](Self::acquire_timeout) for a bound.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<Guard>, LockError> {
        self.gate.try_acquire().await
    }

    /// Waits for the lock, but no longer than `timeout`, whatever the reason for
    /// the waiting. The place in the queue is given up in the background.
    ///
    /// A timeout of zero makes one attempt, as [`try_acquire`](Self::try_acquire), which may take
    /// [15 ms](crate::limits::ATTEMPT_TIME). Without a connection it returns `None` at once.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_timeout(&self, timeout: Duration) -> Result<Option<Guard>, LockError> {
        self.gate.acquire_timeout(timeout).await
    }

    /// Queues for the lock, and gives the place in the queue: an acquisition in two steps,
    /// for those who want to see how many are ahead, and who holds it. If the lock is free,
    /// [`Waiting::acquired`](crate::Waiting::acquired) returns it after one more request.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire); so does dropping the place in the queue.
    pub async fn enqueue(&self) -> Result<Waiting, LockError> {
        self.gate.enqueue().await
    }

    pub(crate) fn client(&self) -> &Client {
        self.gate.client()
    }

    /// The holder and those who wait, in order; nobody if the path does not exist.
    ///
    /// # Errors
    /// A failed request.
    pub async fn participants(&self) -> Result<Vec<Participant>, LockError> {
        let kind = self.gate.kind();
        participants(self.gate.client(), &kind.path, kind.rule()).await
    }
}

/// A mutex's nodes below `path`.
pub(crate) fn kind(path: String) -> Kind {
    let kind = Kind::new(path, LOCK_NAME, Admission::FirstForGood);
    Kind { exclusive: Some(Recipe::Mutex), ..kind }
}
