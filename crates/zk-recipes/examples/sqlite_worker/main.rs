//! A worker that pays invoices from an SQLite file. Any number of workers may run. One of them
//! works, and the next one takes over when it exits or its session expires.
//!
//! ```sh
//! cargo run -p zk-recipes --example sqlite_worker                 # two workers, one of which expires
//! cargo run -p zk-recipes --example sqlite_worker -- HOST:PORT FILE   # one worker, on a real server
//! ```

#![allow(clippy::disallowed_macros, reason = "a program that people watch")]

mod ledger;
mod worker;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;

use zk_recipes::session::{Config, SessionManager};
use zk_testing::TestServer;

use crate::ledger::Ledger;

/// Number of invoices in a new ledger.
const INVOICES: u32 = 20;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    match &given[..] {
        [] => demonstrate().await,
        [connect_string, file] => {
            let sessions = SessionManager::connect(Config::new(connect_string)?).await?;
            let paid = worker::work("worker", &sessions, Path::new(file)).await?;
            println!("{paid} invoices paid by this worker");
            Ok(())
        }
        _ => Err("usage: sqlite_worker [HOST:PORT FILE]".into()),
    }
}

/// Runs two workers on a server of this process, and expires the session of the first one.
async fn demonstrate() -> Result<(), Box<dyn Error + Send + Sync>> {
    let server = TestServer::start().await?;
    let file: PathBuf =
        std::env::temp_dir().join(format!("invoices-{}.sqlite", std::process::id()));
    drop(std::fs::remove_file(&file));
    Ledger::create(&file, INVOICES)?;
    let mut workers = Vec::new();
    for name in ["one", "two"] {
        let config = Config::new(&server.connect_string())?;
        let sessions = SessionManager::connect(config).await?;
        let (file, first) = (file.clone(), sessions.client().session_id());
        workers
            .push((first, tokio::spawn(async move { worker::work(name, &sessions, &file).await })));
    }
    tokio::time::sleep(Duration::from_millis(200)).await; // some invoices are paid by then
    if let Some((session_id, _)) = workers.first() {
        server.expire(*session_id);
    }
    for (_, worker) in workers {
        println!("{} invoices paid by one worker", worker.await??);
    }
    println!("{} of {INVOICES} invoices are paid, each once", Ledger::open(&file)?.paid()?);
    drop(std::fs::remove_file(&file));
    Ok(())
}
