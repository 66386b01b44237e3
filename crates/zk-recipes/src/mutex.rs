//! The fair mutex: Curator's `InterProcessMutex`, on the same nodes.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use zk_recipes::Mutex;
//! use zk_session::Client;
//!
//! let client = Client::connect("127.0.0.1:2181").await?;
//! let lock = Mutex::new(&client, "/locks/stock")?;
//! if let Some(guard) = lock.acquire_timeout(Duration::from_secs(5)).await? {
//!     println!("writing with token {}", guard.token()?);
//!     guard.release().await?;
//! }
//! # Ok(())
//! # }
//! ```

use std::time::Duration;

use zk_session::{Belief, Client, KeyRule};

use crate::error::LockError;
use crate::guard::Guard;
use crate::participants::{Participant, participants};
use crate::queue::admission::Admission;
use crate::queue::contender::{Contender, Kind};
use crate::queue::turn;

/// What stands before the sequence number in the names of a mutex's nodes.
const LOCK_NAME: &str = "lock-";

/// How they are ordered.
const RULE: KeyRule<'static> = KeyRule::new(&[LOCK_NAME]);

/// A lock that one holder has at a time, first come, first served, over all
/// processes that name the same path; Java services with Curator's
/// `InterProcessMutex` included.
///
/// The handle is cheap to clone and may be shared by many tasks, each of which
/// queues for itself. It is **not re-entrant**: a task that acquires a lock it
/// already holds waits for itself. (Re-entry by an explicit owner is to come.)
#[derive(Clone, Debug)]
pub struct Mutex {
    client: Client,
    kind: Kind,
}

impl Mutex {
    /// A lock at `path`. Touches no server: the path is made, as containers, when
    /// it is first needed, and removed by the server when it is no longer used.
    ///
    /// # Errors
    /// The path is not one that ZooKeeper accepts.
    pub fn new(client: &Client, path: &str) -> Result<Self, zk_session::PathError> {
        zk_session::validate_path(path)?;
        Ok(Self { client: client.clone(), kind: kind(path.to_owned()) })
    }

    /// Data for the nodes of this handle, which other contenders can read. By
    /// default it is this end's address, as with Curator.
    #[must_use]
    pub fn with_data(mut self, data: impl Into<Vec<u8>>) -> Self {
        self.kind.data = Some(data.into());
        self
    }

    /// The path of the lock.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.kind.path
    }

    /// Waits for the lock, as long as it takes.
    ///
    /// # Errors
    /// The session ends, the server declines (for example with `NoAuth`), the
    /// sequence numbers are used up. Trouble with the connection is waited out.
    ///
    /// # Ordering
    /// First come, first served, by the order in which the server saw the nodes.
    ///
    /// # Cancel safety
    /// Dropping the future, at any point, takes the contender out of the queue and
    /// leaves no node behind, even if the connection is down at that moment.
    pub async fn acquire(&self) -> Result<Guard, LockError> {
        let mut contender = Contender::new(&self.client, &self.kind);
        let belief = turn::wait(&mut contender).await?;
        self.guard(contender, belief)
    }

    /// Takes the lock if nobody has it or waits for it.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire). Without a connection it waits for one; see
    /// [`acquire_timeout`](Self::acquire_timeout) for a bound.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<Guard>, LockError> {
        let mut contender = Contender::new(&self.client, &self.kind);
        match turn::look_once(&mut contender).await? {
            Some(belief) => self.guard(contender, belief).map(Some),
            None => Ok(None),
        }
    }

    /// Waits for the lock, but no longer than `timeout`, whatever the reason for
    /// the waiting. The place in the queue is given up in the background. With a
    /// timeout of zero it does what [`try_acquire`](Self::try_acquire) does.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_timeout(&self, timeout: Duration) -> Result<Option<Guard>, LockError> {
        if timeout.is_zero() {
            return self.try_acquire().await; // one look takes time, too
        }
        match tokio::time::timeout(timeout, self.acquire()).await {
            Ok(acquired) => acquired.map(Some),
            Err(_) => Ok(None),
        }
    }

    /// The holder and those who wait, in order; nobody if the path does not exist.
    ///
    /// # Errors
    /// A failed request.
    pub async fn participants(&self) -> Result<Vec<Participant>, LockError> {
        participants(&self.client, &self.kind.path, self.kind.rule).await
    }

    fn guard(&self, contender: Contender, belief: Belief) -> Result<Guard, LockError> {
        match contender.node().cloned() {
            Some(node) => Ok(Guard::new(contender, node, belief)),
            // Whoever has a turn has a node.
            None => Err(LockError::Vanished { path: self.kind.path.clone() }),
        }
    }
}

/// A mutex's nodes below `path`.
pub(crate) fn kind(path: String) -> Kind {
    Kind { path, lock_name: LOCK_NAME, rule: RULE, admission: Admission::FirstForGood, data: None }
}
