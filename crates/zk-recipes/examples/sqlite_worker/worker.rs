//! The work of a worker, and the loop around it.

use std::error::Error;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use zk_recipes::session::SessionManager;
use zk_recipes::{HeldLock, run_whenever_held};

use crate::ledger::Ledger;

/// Time that the payment of an invoice takes.
const TAKES: Duration = Duration::from_millis(20);

type Failure = Box<dyn Error + Send + Sync>;

/// Pays invoices whenever this worker holds the lock, until all are paid. Returns how many it paid.
pub(crate) async fn work(
    name: &str,
    sessions: &SessionManager,
    file: &Path,
) -> Result<u32, Failure> {
    // Shared with the blocking thread that writes. The ZooKeeper lock lets only one worker write.
    let ledger = Arc::new(Mutex::new(Ledger::open(file)?));
    let mut paid = 0;
    loop {
        let number = run_whenever_held(
            sessions,
            |client| zk_recipes::Mutex::new(client, "/locks/invoices"),
            |held| pay_one(name.to_owned(), held, Arc::clone(&ledger)),
            |interruption| eprintln!("{name}: {interruption}"),
        );
        match number.await? {
            Some(number) => {
                paid += 1;
                println!("{name}: invoice {number}");
            }
            None => return Ok(paid),
        }
    }
}

/// Pays the next invoice with the token of the lock.
async fn pay_one(
    name: String,
    held: HeldLock,
    ledger: Arc<Mutex<Ledger>>,
) -> Result<Option<u32>, Failure> {
    tokio::time::sleep(TAKES).await; // the work; it is dropped here when the lock is lost
    let token = held.token()?.czxid();
    let written = tokio::task::spawn_blocking(move || {
        let mut ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
        ledger.pay_next(&name, token)
    });
    Ok(written.await??)
}
