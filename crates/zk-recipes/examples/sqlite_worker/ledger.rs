//! The resource that the lock protects: it rejects a token below the largest one it has seen.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, Error, OptionalExtension, Result};

pub(crate) struct Ledger {
    connection: Connection,
}

impl Ledger {
    pub(crate) fn create(file: &Path, invoices: u32) -> Result<Self> {
        let ledger = Self::open(file)?;
        ledger.connection.execute_batch(
            "CREATE TABLE fence (token INTEGER NOT NULL);
             INSERT INTO fence VALUES (0);
             CREATE TABLE invoices (number INTEGER PRIMARY KEY, paid_by TEXT, token INTEGER);",
        )?;
        for number in 1..=invoices {
            ledger.connection.execute("INSERT INTO invoices (number) VALUES (?1)", [number])?;
        }
        Ok(ledger)
    }

    pub(crate) fn open(file: &Path) -> Result<Self> {
        let connection = Connection::open(file)?;
        connection.busy_timeout(Duration::from_secs(5))?;
        Ok(Self { connection })
    }

    /// Pays the next invoice, in one transaction with the check of the token. Returns `None` if all
    /// invoices are paid.
    ///
    /// # Errors
    /// [`Error::QueryReturnedNoRows`] if a later holder of the lock has already used the ledger.
    pub(crate) fn pay_next(&mut self, by: &str, token: i64) -> Result<Option<u32>> {
        let transaction = self.connection.transaction()?;
        if transaction.execute("UPDATE fence SET token = ?1 WHERE token <= ?1", [token])? == 0 {
            return Err(Error::QueryReturnedNoRows);
        }
        let next = "SELECT min(number) FROM invoices WHERE paid_by IS NULL";
        let number: Option<u32> =
            transaction.query_row(next, [], |row| row.get(0)).optional()?.flatten();
        if let Some(number) = number {
            let pay = "UPDATE invoices SET paid_by = ?1, token = ?2 WHERE number = ?3";
            transaction.execute(pay, (by, token, number))?;
        }
        transaction.commit()?;
        Ok(number)
    }

    /// Returns the number of paid invoices.
    pub(crate) fn paid(&self) -> Result<u32> {
        let count = "SELECT count(*) FROM invoices WHERE paid_by IS NOT NULL";
        self.connection.query_row(count, [], |row| row.get(0))
    }
}
