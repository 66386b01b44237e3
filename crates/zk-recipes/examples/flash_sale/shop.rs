//! The shop: an SQLite file with one number in stock, and the list of purchases.
//!
//! It is the resource that the lock protects, and it checks the fencing token. It
//! knows nothing of the lock; a token is just a number that grows from one holder
//! to the next.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::Mutex;
use tokio::task;

/// How long SQLite waits for another process to finish its transaction; so long
/// that SQLite itself is never what fails.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) enum ShopError {
    /// The token is smaller than one that was seen before: whoever brings it was
    /// overtaken by another holder of the lock.
    Overtaken {
        token: i64,
    },
    Sqlite(rusqlite::Error),
    /// The thread at work on the file broke down.
    Thread(task::JoinError),
}

/// One connection to the file, shared by all tasks of the process.
#[derive(Clone)]
pub(crate) struct Shop {
    connection: Arc<Mutex<Connection>>,
}

impl Shop {
    /// Makes the file.
    pub(crate) fn create(file: &Path, items: u32) -> Result<Self, ShopError> {
        let connection = connect(file)?;
        connection.execute_batch(
            "PRAGMA journal_mode = WAL;
             CREATE TABLE shop (stock INTEGER NOT NULL, largest_token INTEGER NOT NULL);
             CREATE TABLE purchases (buyer INTEGER PRIMARY KEY, token INTEGER);",
        )?;
        connection.execute("INSERT INTO shop VALUES (?1, 0)", [items])?;
        Ok(Self::new(connection))
    }

    pub(crate) fn open(file: &Path) -> Result<Self, ShopError> {
        Ok(Self::new(connect(file)?))
    }

    fn new(connection: Connection) -> Self {
        Self { connection: Arc::new(Mutex::new(connection)) }
    }

    /// Reads the stock. A holder of the lock gives its token along here already,
    /// and not only with the write: otherwise a holder that was overtaken could
    /// still write between this reading and the write that is based on it.
    pub(crate) async fn stock(&self, token: Option<i64>) -> Result<u32, ShopError> {
        self.transaction(move |transaction| {
            if let Some(token) = token {
                admit(transaction, token)?;
            }
            Ok(transaction.query_row("SELECT stock FROM shop", [], |row| row.get(0))?)
        })
        .await
    }

    /// Writes down a purchase and the stock that is left, as the buyer reckons.
    pub(crate) async fn sell(
        &self,
        buyer: u32,
        left: u32,
        token: Option<i64>,
    ) -> Result<(), ShopError> {
        self.transaction(move |transaction| {
            if let Some(token) = token {
                admit(transaction, token)?;
            }
            transaction.execute("UPDATE shop SET stock = ?1", [left])?;
            transaction.execute("INSERT INTO purchases VALUES (?1, ?2)", (buyer, token))?;
            Ok(())
        })
        .await
    }

    /// How many purchases are written down.
    pub(crate) async fn sold(&self) -> Result<u32, ShopError> {
        self.transaction(|transaction| {
            Ok(transaction.query_row("SELECT count(*) FROM purchases", [], |row| row.get(0))?)
        })
        .await
    }

    /// Does `work` in one transaction, on a thread that may block.
    async fn transaction<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, ShopError> + Send + 'static,
    ) -> Result<T, ShopError> {
        let mut connection = self.connection.clone().lock_owned().await;
        let worked = task::spawn_blocking(move || {
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let value = work(&transaction)?;
            transaction.commit()?;
            Ok(value)
        });
        worked.await.map_err(ShopError::Thread)?
    }
}

/// The check that makes the lock safe: a token is remembered, and every smaller one
/// is refused from then on. Between the moment when a holder has looked at its lock
/// and the moment when its write arrives here, any amount of time may pass (a
/// paused virtual machine, a swapped-out process, a slow network), and somebody
/// else may have got the lock. The holder cannot know; only this place can.
///
/// It must be in one transaction with what it protects.
fn admit(transaction: &Transaction<'_>, token: i64) -> Result<(), ShopError> {
    let admitted = transaction
        .execute("UPDATE shop SET largest_token = ?1 WHERE largest_token <= ?1", [token])?;
    match admitted {
        0 => Err(ShopError::Overtaken { token }),
        _ => Ok(()),
    }
}

fn connect(file: &Path) -> Result<Connection, ShopError> {
    let connection = Connection::open(file)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // The file is thrown away: nothing of it needs to survive a power cut.
    connection.pragma_update(None, "synchronous", "OFF")?;
    Ok(connection)
}

impl From<rusqlite::Error> for ShopError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl fmt::Display for ShopError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overtaken { token } => {
                write!(f, "the shop has seen a larger token than {token}")
            }
            Self::Sqlite(error) => write!(f, "SQLite: {error}"),
            Self::Thread(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for ShopError {}
