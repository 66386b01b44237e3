//! The fair read-write lock: Curator's `InterProcessReadWriteLock`, on the same nodes.

mod downgrade;
mod sides;
mod write_guard;

use zk_session::{Acl, Client, KeyRule, PathError};

use crate::error::LockError;
use crate::owner::Owner;
use crate::participants::{Participant, participants};
use crate::queue::admission::Admission;
use crate::queue::foreign::Recipe;
use crate::queue::kind::Kind;

pub(crate) use downgrade::beside_for_owner;
pub use sides::{ReadLock, WriteLock};
pub use write_guard::WriteGuard;

/// What stands before the number in a reader's name.
const READ: &str = "__READ__";

/// What stands before it in a writer's; as long as the other, as Curator has it.
const WRITE: &str = "__WRIT__";

/// How all of them are ordered: by the number, whatever stands before it.
const RULE: KeyRule<'static> = KeyRule::new(&[READ, WRITE]);

/// A lock that many readers share, or one writer has for itself, over all processes
/// that name the same path; Java services with Curator's `InterProcessReadWriteLock`
/// included.
///
/// # What it promises
/// * **Fair**: first come, first served. A reader behind a waiting writer waits, so no
///   stream of readers starves a writer, and readers who came between two writers read
///   between them.
/// * A writer that has its lock has it alone; see [`Guard`](crate::Guard) for what that
///   means when sessions end.
/// * A writer can become a reader without letting anybody else write in between:
///   [`WriteGuard::downgrade`].
/// * With [`owned_by`](Self::owned_by) both sides are re-entrant. Without an owner neither
///   is: a task that holds the lock and acquires it again waits behind itself. A writer
///   that wants to read as well has [`WriteGuard::read`].
/// * A path on which a [`Mutex`](crate::Mutex) or a semaphore has nodes is refused:
///   [`LockError::ForeignNode`].
///
/// # There is no upgrade
/// A reader that asked for the write lock would wait for itself, and two of them for each
/// other, for ever; with Curator they do. Of an [`Owner`] it is known, and it is told
/// [`LockError::WouldDeadlock`] at once. A reader who has to write gives its guard up,
/// acquires the write lock, and looks again at what it has read: somebody else may have
/// been first. A guard has no method that pretends otherwise.
///
/// # On the wire
/// Contenders are children of the path, ephemeral and sequential under one count, so that
/// the number at the end of the name is the place in the queue:
///
/// ```text
/// <path>/_c_<uuid>-__READ__0000000007    waits for the nearest __WRIT__ ahead of it
/// <path>/_c_<uuid>-__WRIT__0000000008    waits for everybody ahead of it
/// ```
///
/// A writer that becomes a reader gets a node that is ephemeral only, with the number that
/// its write node had, as Curator has it since 5.5. Curator up to 5.4 puts its reader at
/// the end of the queue instead; so does this order them, and as nothing tells such a
/// reader from one that waits, a writer that was already queued gets in beside it as it
/// does with Curator (CURATOR-621).
///
/// # What it costs
/// A lock that is free is acquired in one round trip (two requests in one write), and released
/// by one request. One who waits sets one watch: a reader on the nearest writer ahead, and not
/// on the first one, so that a writer's exit wakes none of the readers behind the next. Whoever
/// is woken lists again, always, because a writer that becomes a reader comes in ahead of those
/// who wait. A downgrade is one round trip. A lock held longer than a [tenth of a
/// second](crate::limits::NODE_WATCH_DELAY) sets one watch on its node, by a request for which
/// nobody waits. A waiter that was granted the lock after its session's lease has run out
/// renews the lease and lists once more.
///
/// # Tokens
/// A writer's token is larger than that of everybody who was admitted before it. A
/// reader's is larger than that of every writer before it and smaller than that of every
/// writer after it; readers who share the lock have different tokens, in no order that
/// matters. One who was a writer keeps the writer's.
///
/// # What happens on loss
/// As with a [`Mutex`](crate::Mutex): a guard of either side is lost before the server can
/// let in anybody whom it excludes, and those who wait are told that their session is over.
/// A writer that has lost its lock cannot become a reader: the downgrade checks the write
/// node in the same transaction.
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
pub struct RwLock {
    client: Client,
    read: ReadLock,
    write: WriteLock,
}

impl RwLock {
    /// A lock at `path`. Touches no server: the path is made, as containers, when it is
    /// first needed, and removed by the server when it is no longer used.
    ///
    /// # Errors
    /// The path is not one that ZooKeeper accepts.
    pub fn new(client: &Client, path: &str) -> Result<Self, PathError> {
        zk_session::validate_path(path)?;
        let kind = |lock_name, admission| Kind {
            rule: Some(RULE),
            exclusive: Some(Recipe::ReadWriteLock),
            ..Kind::new(path.to_owned(), lock_name, admission)
        };
        Ok(Self {
            client: client.clone(),
            read: ReadLock::new(client, kind(READ, Admission::Behind(WRITE))),
            write: WriteLock::new(client, kind(WRITE, Admission::First)),
        })
    }

    /// Data for the nodes of both sides, which other contenders can read. By default it is
    /// this end's address, as with Curator.
    #[must_use]
    pub fn with_data(self, data: impl Into<Vec<u8>>) -> Self {
        let data = data.into();
        Self {
            client: self.client,
            read: self.read.with_data(data.clone()),
            write: self.write.with_data(data),
        }
    }

    /// Who may do what with the nodes of both sides, and with what is missing of the lock's
    /// path; by default everybody everything, as with Curator. All contenders need to read
    /// each other's nodes, to create in the path, and to delete what is theirs from it.
    #[must_use]
    pub fn with_acl(self, acl: impl Into<Vec<Acl>>) -> Self {
        let acl = acl.into();
        Self {
            client: self.client,
            read: self.read.with_acl(acl.clone()),
            write: self.write.with_acl(acl),
        }
    }

    /// Does not refuse a path on which other recipes have nodes; see
    /// [`Mutex::allow_foreign_nodes`](crate::Mutex::allow_foreign_nodes).
    #[must_use]
    pub fn allow_foreign_nodes(self) -> Self {
        Self {
            client: self.client,
            read: self.read.allow_foreign_nodes(),
            write: self.write.allow_foreign_nodes(),
        }
    }

    /// On behalf of an owner, on both sides. What it holds it is given again without a
    /// request; while it writes it may read as well, in one round trip, as
    /// [`WriteGuard::read`] does; while it reads it is refused to write.
    #[must_use]
    pub fn owned_by(self, owner: &Owner) -> Self {
        Self {
            client: self.client,
            read: self.read.owned_by(owner),
            write: self.write.owned_by(owner),
        }
    }

    /// The path of the lock.
    #[must_use]
    pub fn path(&self) -> &str {
        self.read.path()
    }

    /// Readers and writers, those who hold the lock and those who wait, in order; nobody if
    /// the path does not exist.
    ///
    /// # Errors
    /// A failed request.
    pub async fn participants(&self) -> Result<Vec<Participant>, LockError> {
        participants(&self.client, self.path(), RULE).await
    }

    /// The side that is shared.
    #[must_use]
    pub fn read(&self) -> &ReadLock {
        &self.read
    }

    /// The side that one has alone.
    #[must_use]
    pub fn write(&self) -> &WriteLock {
        &self.write
    }
}
