//! A value that many processes read and change: Curator's `SharedValue` and
//! `SharedCount`, on the same nodes.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use zk_recipes::SharedCount;
//! use zk_recipes::session::Client;
//!
//! let client = Client::connect("127.0.0.1:2181").await?;
//! let limit = SharedCount::new(&client, "/limits/workers", 10)?;
//! let mut now = limit.get().await?;
//! while limit.try_set(&now, now.count() + 1).await?.is_none() {
//!     now = limit.get().await?; // somebody was faster
//! }
//! # Ok(())
//! # }
//! ```

use bytes::Bytes;
use zk_session::{Client, CreateMode, Error, ErrorCode, OPEN_ACL, PathError, Stat};

use crate::error::LockError;
use crate::planted::Planted;
use crate::queue::attempts::Attempts;
use crate::queue::parents;

/// A value in a node of its own, which is made with a seed when it is first needed.
///
/// Nothing runs in the background and nothing is cached: what [`get`](Self::get)
/// answers is what the server has, and [`changed`](Self::changed) waits for more.
#[derive(Clone, Debug)]
pub struct SharedValue {
    client: Client,
    path: String,
    seed: Bytes,
}

/// A value, and which of all that there were it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versioned {
    value: Bytes,
    stat: Stat,
}

impl Versioned {
    /// The value.
    #[must_use]
    pub fn value(&self) -> &Bytes {
        &self.value
    }

    /// The transaction that set it. It grows from value to value, also when the node
    /// was deleted and made again; a version number does not (CURATOR-688).
    #[must_use]
    pub fn zxid(&self) -> i64 {
        self.stat.mzxid
    }
}

impl SharedValue {
    /// A value at `path`, which is `seed` if the node has to be made. Touches no server.
    ///
    /// # Errors
    /// The path is not one that ZooKeeper accepts.
    pub fn new(client: &Client, path: &str, seed: impl Into<Bytes>) -> Result<Self, PathError> {
        zk_session::validate_path(path)?;
        Ok(Self { client: client.clone(), path: path.to_owned(), seed: seed.into() })
    }

    /// The path of the node.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Reads the value; makes the node if there is none. The server may be behind
    /// others; see [`Client::sync`].
    ///
    /// # Errors
    /// A request fails in a way that trying again does not help.
    ///
    /// # Cancel safety
    /// At most the node has been made when the future is dropped.
    pub async fn get(&self) -> Result<Versioned, LockError> {
        let mut attempts = Attempts::default();
        loop {
            match self.client.get_data(&self.path).await {
                Ok(node) => return Ok(versioned(node.data, node.stat)),
                Err(error) => self.make_if_missing(&mut attempts, error).await?,
            }
        }
    }

    /// Waits for a value that is newer than the one that was read. Values that come in
    /// between may be skipped; the newest is not.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn changed(&self, before: &Versioned) -> Result<Versioned, LockError> {
        let mut looks = !Planted::ChangeBeforeWatchUnseen.is_on();
        let mut attempts = Attempts::default();
        loop {
            match self.client.get_data_and_watch(&self.path).await {
                // Servers are not all equally far: only what is newer is news.
                Ok((node, _)) if looks && node.stat.mzxid > before.stat.mzxid => {
                    return Ok(versioned(node.data, node.stat));
                }
                Ok((_, watch)) => {
                    drop(watch.await?);
                    (looks, attempts) = (true, Attempts::default());
                }
                Err(error) => self.make_if_missing(&mut attempts, error).await?,
            }
        }
    }

    /// Sets the value, whatever it is now.
    ///
    /// # Errors
    /// As [`get`](Self::get). When the answer is lost with the connection, the error
    /// says that the outcome is unknown: set it again, or read it.
    ///
    /// # Cancel safety
    /// The value may or may not be set when the future is dropped.
    pub async fn set(&self, value: impl Into<Bytes>) -> Result<Versioned, LockError> {
        let value = value.into();
        let mut attempts = Attempts::default();
        loop {
            match self.client.set_data(&self.path, &value, None).await {
                Ok(stat) => return Ok(Versioned { value, stat }),
                Err(error) => self.make_if_missing(&mut attempts, error).await?,
            }
        }
    }

    /// Sets the value if it is still the one that was read; `None` if it is not, so
    /// that somebody was faster.
    ///
    /// ZooKeeper compares the version, and nothing else. If somebody deletes the node and makes it
    /// again, and the new one is at the version that was read, the value there is overwritten,
    /// which cannot be prevented: no operation compares the node's creation. It is detected by the
    /// answer. Where that matters, set values to what says that there is none, and do not delete
    /// the node.
    ///
    /// Versions are numbers of 32 bits, and -1 means any to a server: at that version,
    /// after 2^32 - 1 changes, only [`set`](Self::set) can change the value.
    ///
    /// # Errors
    /// [`LockError::NodeRecreated`] if the value was set on another node than the one that was
    /// read; as [`set`](Self::set).
    ///
    /// # Cancel safety
    /// The value may or may not be set when the future is dropped.
    pub async fn try_set(
        &self,
        before: &Versioned,
        value: impl Into<Bytes>,
    ) -> Result<Option<Versioned>, LockError> {
        let (value, version) = (value.into(), before.stat.version);
        if version == -1 {
            return Ok(None);
        }
        let mut attempts = Attempts::default();
        loop {
            let version = (!Planted::BlindSet.is_on()).then_some(version);
            match self.client.set_data(&self.path, &value, version).await {
                Ok(stat) if stat.czxid != before.stat.czxid => {
                    return Err(LockError::NodeRecreated { path: self.path.clone() });
                }
                Ok(stat) => return Ok(Some(Versioned { value, stat })),
                Err(error) => match error.code() {
                    Some(ErrorCode::BAD_VERSION | ErrorCode::NO_NODE) => return Ok(None),
                    _ => attempts.again(&self.client, error).await?,
                },
            }
        }
    }

    /// Makes the node if that is what the request failed for; passes on what trying
    /// again does not help.
    async fn make_if_missing(
        &self,
        attempts: &mut Attempts,
        error: Error,
    ) -> Result<(), LockError> {
        if error.code() != Some(ErrorCode::NO_NODE) {
            return Ok(attempts.again(&self.client, error).await?);
        }
        match self.client.create(&self.path, &self.seed, CreateMode::Persistent).await {
            Ok(_) => Ok(()),
            Err(error) if error.code() == Some(ErrorCode::NODE_EXISTS) => Ok(()),
            Err(error) if error.code() == Some(ErrorCode::NO_NODE) => {
                match parents::above(&self.path) {
                    Some(parent) => Ok(parents::make(&self.client, parent, OPEN_ACL).await?),
                    None => Err(error.into()), // it is the chroot that is missing
                }
            }
            // Making it twice makes it once.
            Err(error) => Ok(attempts.again_if_unknown(&self.client, error).await?),
        }
    }
}

fn versioned(data: Option<Bytes>, stat: Stat) -> Versioned {
    Versioned { value: data.unwrap_or_default(), stat }
}
