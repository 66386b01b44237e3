//! The fair read-write lock: Curator's `InterProcessReadWriteLock`, on the same nodes.

mod downgrade;
mod read;
mod write;
mod write_guard;

use zk_session::{Acl, Client, PathError};

pub use self::read::ReadLock;
pub use self::write::WriteLock;
pub use self::write_guard::WriteGuard;
use crate::error::LockError;
use crate::observe::LockMetrics;
use crate::owner::Owner;
use crate::participants::{Participant, participants};
use crate::queue::Queue;
use crate::queue::spec::QueueSpec;

/// A fair read-write lock: Curator's `InterProcessReadWriteLock`, on the same nodes.
///
/// Many readers share the lock, or one writer holds it alone. This covers all processes that use
/// the same path, including Java services with Curator's `InterProcessReadWriteLock`.
///
/// # What it promises
/// * **Fair**: first come, first served. A reader behind a waiting writer waits, so a stream of
///   readers cannot starve a writer. Readers that queue between two writers read between them.
/// * A writer holds its lock alone; see [`Guard`](crate::Guard) for locks of sessions that end.
/// * A writer can become a reader, and no other writer holds the lock in between:
///   [`WriteGuard::downgrade`].
/// * With [`with_owner`](Self::with_owner) both sides are re-entrant. Without an owner neither side is:
///   a task deadlocks if it holds the lock and acquires it again. A writer that also reads calls
///   [`WriteGuard::read`].
/// * A path with nodes of a [`Mutex`](crate::Mutex) or a semaphore is rejected:
///   [`LockError::ForeignNode`].
///
/// # There is no upgrade
/// A reader that requests the write lock would wait for itself forever, and two such readers for
/// each other. With Curator they do. An [`Owner`] that requests it fails with
/// [`LockError::WouldDeadlock`] at once.
///
/// A reader that has to write releases its guard and acquires the write lock. Then it reads the
/// data again, because another writer may have been granted the lock in between. A guard has no
/// method that hides this.
///
/// # On the wire
/// Contenders are ephemeral sequential children of the path. Readers and writers share one counter,
/// so the number at the end of the name is the position in the queue:
///
/// ```text
/// <path>/_c_<id>-__READ__0000000007    waits for the nearest __WRIT__ ahead of it
/// <path>/_c_<id>-__WRIT__0000000008    waits for all contenders ahead of it
/// ```
///
/// A writer that becomes a reader gets a node that is ephemeral but not sequential, with the number
/// of its write node, as in Curator since 5.5.
///
/// Curator up to 5.4 queues this reader at the end instead. This crate applies the same order to
/// such a node, and cannot distinguish it from a waiting reader. So a writer that is already queued
/// acquires the lock beside that reader, as it does with Curator (CURATOR-621).
///
/// # What it costs
/// A free lock is acquired in one round trip (two requests in one write) and released by one
/// request. A downgrade is one round trip.
///
/// A waiter sends one request for its watches. A reader watches the nearest writer ahead, and not the first
/// one, so the release of a writer wakes no readers behind the next writer. On servers since 3.9.0 the
/// release of a writer that has waited tells whoever is next that it may enter, without a request. After any
/// other deletion a waiter lists the queue again, because a writer that becomes a reader is placed ahead of
/// the waiters.
///
/// A lock held longer than a [tenth of a second](crate::limits::NODE_WATCH_DELAY) sets one watch on
/// its node; the holder does not wait for that request. If the session's lease has run out when the
/// lock is granted, the waiter renews the lease and lists once more.
///
/// # Tokens
/// A writer's token is larger than the tokens of all holders before it. A reader's token is larger
/// than the tokens of all writers before it, and smaller than the tokens of all writers after it.
/// Readers that share the lock have different tokens; the order of these tokens has no meaning. A
/// reader that was a writer keeps the writer's token.
///
/// # What happens on loss
/// As with a [`Mutex`](crate::Mutex): a guard of either side is lost before the server can grant
/// the lock to a contender that it excludes. Waiters fail when their session ends. A writer that
/// has lost its lock cannot become a reader: the downgrade checks the write node in the same
/// transaction.
///
/// # Example
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use zk_recipes::RwLock;
/// use zk_recipes::session::Client;
///
/// let client = Client::connect("127.0.0.1:2181").await?;
/// let lock = RwLock::new(&client, "/locks/prices")?;
///
/// let reading = lock.read().acquire().await?; // beside other readers
/// reading.release().await?;
///
/// let writing = lock.write().acquire().await?; // alone
/// println!("writing with token {}", writing.token()?);
/// let reading = writing.downgrade().await?; // nobody has written since
/// reading.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "InterProcessReadWriteLock")]
pub struct RwLock {
    read: ReadLock,
    write: WriteLock,
}

impl RwLock {
    /// Creates a handle for the lock at `path`. Sends no request.
    ///
    /// The first acquisition creates the missing nodes of the path as containers. The server
    /// removes them when they are no longer used.
    ///
    /// # Errors
    /// Returns an error if `path` is not a valid ZooKeeper path.
    pub fn new(client: &Client, path: &str) -> Result<Self, PathError> {
        zk_session::validate_path(path)?;
        Ok(Self {
            read: ReadLock::new(Queue::new(client, QueueSpec::reader(path.to_owned()))),
            write: WriteLock::new(Queue::new(client, QueueSpec::writer(path.to_owned()))),
        })
    }

    /// Returns the path of the lock.
    #[must_use]
    pub fn path(&self) -> &str {
        self.read.path()
    }

    /// Returns all readers and writers, both holders and waiters, in queue order; an empty list if
    /// the path does not exist.
    pub async fn participants(&self) -> Result<Vec<Participant>, LockError> {
        participants(&self.read.queue).await
    }

    /// Returns the read side, which many readers share.
    #[must_use]
    pub fn read(&self) -> &ReadLock {
        &self.read
    }

    /// Returns the write side, which one writer holds alone.
    #[must_use]
    pub fn write(&self) -> &WriteLock {
        &self.write
    }
}

/// # Options
impl RwLock {
    /// Makes both sides re-entrant for `owner`.
    ///
    /// Acquiring a side that the owner already holds needs no request. A writing owner can also
    /// read, after one round trip, as with [`WriteGuard::read`]. A reading owner that requests the
    /// write lock fails with [`LockError::WouldDeadlock`].
    #[must_use]
    pub fn with_owner(self, owner: &Owner) -> Self {
        Self { read: self.read.with_owner(owner), write: self.write.with_owner(owner) }
    }

    /// Sets the data of the nodes; see [`Mutex::with_data`](crate::Mutex::with_data). A writer that
    /// becomes a reader keeps its data.
    #[must_use]
    pub fn with_data(self, data: impl Into<Vec<u8>>) -> Self {
        let data = data.into();
        Self { read: self.read.with_data(data.clone()), write: self.write.with_data(data) }
    }

    /// Sets the ACL of the nodes; see [`Mutex::with_acl`](crate::Mutex::with_acl).
    #[must_use]
    pub fn with_acl(self, acl: impl Into<Vec<Acl>>) -> Self {
        let acl = acl.into();
        Self { read: self.read.with_acl(acl.clone()), write: self.write.with_acl(acl) }
    }

    /// Counts acquisitions, holds and losses of both sides in `metrics`.
    #[must_use]
    pub fn with_metrics(self, metrics: &LockMetrics) -> Self {
        Self { read: self.read.with_metrics(metrics), write: self.write.with_metrics(metrics) }
    }

    /// Accepts a path on which other recipes have nodes; see
    /// [`Mutex::allow_foreign_nodes`](crate::Mutex::allow_foreign_nodes).
    #[must_use]
    pub fn allow_foreign_nodes(self) -> Self {
        let Self { read, write } = self;
        Self { read: read.allow_foreign_nodes(), write: write.allow_foreign_nodes() }
    }
}
