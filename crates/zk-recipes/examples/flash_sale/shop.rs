//! The shop: an SQLite file with one number in stock, and the list of purchases.
//!
//! It is the resource that the lock protects, and it checks the fencing token. It does not use the
//! lock itself. For the shop, a token is a pair of numbers that grows from one holder to the next.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::Mutex;
use tokio::task;

use crate::token::Token;

/// Time for which SQLite waits for the transaction of another process. It is long enough that
/// SQLite itself never causes a failure.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) enum ShopError {
    /// The token is smaller than a token that the shop has seen before: another holder of the lock
    /// has overtaken this one.
    Overtaken {
        token: Token,
    },
    Sqlite(rusqlite::Error),
    /// The blocking thread that accesses the file failed.
    Thread(task::JoinError),
}

/// One connection to the file, shared by all tasks of the process.
#[derive(Clone)]
pub(crate) struct Shop {
    connection: Arc<Mutex<Connection>>,
}

impl Shop {
    /// Creates the file.
    pub(crate) fn create(file: &Path, items: u32) -> Result<Self, ShopError> {
        let connection = connect(file)?;
        connection.execute_batch(
            "PRAGMA journal_mode = WAL;
             CREATE TABLE shop (stock INTEGER NOT NULL,
                 largest_czxid INTEGER NOT NULL, largest_pass INTEGER NOT NULL);
             CREATE TABLE purchases (buyer INTEGER PRIMARY KEY, czxid INTEGER, pass INTEGER);",
        )?;
        connection.execute("INSERT INTO shop VALUES (?1, 0, 0)", [items])?;
        Ok(Self::new(connection))
    }

    pub(crate) fn open(file: &Path) -> Result<Self, ShopError> {
        Ok(Self::new(connect(file)?))
    }

    fn new(connection: Connection) -> Self {
        Self { connection: Arc::new(Mutex::new(connection)) }
    }

    /// Reads the stock. A holder of the lock passes its token here too, not only with the write.
    /// Otherwise an overtaken holder could still write between this read and the write that is
    /// based on it.
    pub(crate) async fn stock(&self, token: Option<Token>) -> Result<u32, ShopError> {
        self.transaction(move |transaction| {
            if let Some(token) = token {
                admit(transaction, token)?;
            }
            Ok(transaction.query_row("SELECT stock FROM shop", [], |row| row.get(0))?)
        })
        .await
    }

    /// Records a purchase and the remaining stock, as the buyer has computed it.
    pub(crate) async fn sell(
        &self,
        buyer: u32,
        left: u32,
        token: Option<Token>,
    ) -> Result<(), ShopError> {
        self.transaction(move |transaction| {
            if let Some(token) = token {
                admit(transaction, token)?;
            }
            transaction.execute("UPDATE shop SET stock = ?1", [left])?;
            let (czxid, pass) = token.map(|token| (token.czxid, token.pass)).unzip();
            let purchase = (buyer, czxid, pass);
            transaction.execute("INSERT INTO purchases VALUES (?1, ?2, ?3)", purchase)?;
            Ok(())
        })
        .await
    }

    /// Returns the number of recorded purchases.
    pub(crate) async fn sold(&self) -> Result<u32, ShopError> {
        self.transaction(|transaction| {
            Ok(transaction.query_row("SELECT count(*) FROM purchases", [], |row| row.get(0))?)
        })
        .await
    }

    /// Runs `work` in one transaction, on a thread that may block.
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

/// Checks the fencing token: the shop stores each token, and rejects every smaller one from then
/// on. This check makes the lock safe.
///
/// Any amount of time may pass between a holder's check of its lock and the arrival of its write
/// here. A paused virtual machine, a swapped-out process or a slow network can cause this. Another
/// holder may have acquired the lock in between. The holder cannot detect this; only the resource
/// can.
///
/// The check must be in one transaction with the data that it protects.
fn admit(transaction: &Transaction<'_>, token: Token) -> Result<(), ShopError> {
    let admitted = transaction.execute(
        "UPDATE shop SET largest_czxid = ?1, largest_pass = ?2
         WHERE (largest_czxid, largest_pass) <= (?1, ?2)",
        (token.czxid, token.pass),
    )?;
    match admitted {
        0 => Err(ShopError::Overtaken { token }),
        _ => Ok(()),
    }
}

fn connect(file: &Path) -> Result<Connection, ShopError> {
    let connection = Connection::open(file)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // The file is deleted after the sale, so it need not survive a power failure.
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
