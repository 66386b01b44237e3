//! A process of buyers: it runs its share of them concurrently, over one session.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{self, mpsc::UnboundedReceiver, mpsc::unbounded_channel};
use tokio::task::JoinSet;
use zk_recipes::session::Client;
use zk_recipes::{Guard, LocalQueueLimits, LockError, Mutex};

use crate::shop::Token;
use crate::{Failure, now_ns};

/// The first argument of the processes that this program starts. It is not for users.
pub(crate) const PROCESS: &str = "--buyers-process";

/// The last argument, if the buyers of a process share a node.
pub(crate) const LOCAL_QUEUE: &str = "local-queue";

/// The first request of each process. The answer opens the shop.
pub(crate) const READY: &str = "ready";

/// The longest time that a buyer waits between reading the stock and writing it.
const THINK_MAX_US: u64 = 2_000;

/// Runs the buyers. The arguments are their number and, for the rounds with a lock, the address of
/// the ensemble, the path of the lock, and [`LOCAL_QUEUE`] if they queue locally.
pub(crate) async fn run(arguments: &[String]) -> Result<(), Failure> {
    let [buyers, lock @ ..] = arguments else { return Err("how many buyers?".into()) };
    let buyers = buyers.parse()?;
    let [connect, path, queue @ ..] = lock else { return visit_all(buyers, None).await };
    let client = Client::connect(connect).await?;
    let mut lock = Mutex::new(&client, path)?;
    if queue == [LOCAL_QUEUE] {
        lock = lock.with_local_queue(LocalQueueLimits::default());
    }
    let visited = visit_all(buyers, Some(lock)).await;
    // The server deletes the nodes of buyers that were not served.
    client.close().await;
    visited
}

/// Starts all buyers when the shop opens, and returns when all have been served.
async fn visit_all(buyers: u32, lock: Option<Mutex>) -> Result<(), Failure> {
    let shop = Shop::reach();
    shop.ask(READY.to_owned()).await?;
    let mut visits = JoinSet::new();
    for _ in 0..buyers {
        let (shop, lock) = (shop.clone(), lock.clone());
        visits.spawn(async move {
            match lock {
                Some(lock) => visit_with_lock(&shop, &lock).await,
                None => buy(&shop, None).await, // the race: another buyer may read the same stock
            }
        });
    }
    while let Some(visit) = visits.join_next().await {
        visit??;
    }
    Ok(())
}

/// The same purchase under the lock.
async fn visit_with_lock(shop: &Shop, lock: &Mutex) -> Result<(), Failure> {
    let guard = lock.acquire().await?;
    let granted_ns = now_ns();
    let (czxid, pass) = token(Some(&guard))?;
    buy(shop, Some(&guard)).await?;
    let release_called_ns = now_ns();
    // Fails if the lock was not provably held until now. Another buyer may have been in the shop at
    // the same time then, and only the token has kept the two apart.
    guard.release().await?;
    shop.ask(format!("held {czxid} {pass} {granted_ns} {release_called_ns}")).await?;
    Ok(())
}

/// Reads the stock, waits a short time, and writes it back.
async fn buy(shop: &Shop, guard: Option<&Guard>) -> Result<(), Failure> {
    let (czxid, pass) = token(guard)?;
    let stock = shop.ask(format!("read {czxid} {pass}")).await?;
    if stock > 0 {
        tokio::time::sleep(think_time()).await;
        // The token is read again right before the write: the lock may be lost during the wait.
        let (czxid, pass) = token(guard)?;
        shop.ask(format!("sell {czxid} {pass} {}", stock - 1)).await?;
    }
    Ok(())
}

fn token(guard: Option<&Guard>) -> Result<Token, LockError> {
    let Some(guard) = guard else { return Ok((0, 0)) };
    guard.token().map(|token| (token.czxid(), token.pass()))
}

/// Returns a random time. The hash maps of the standard library start from random keys.
fn think_time() -> Duration {
    let random = RandomState::new().build_hasher().finish();
    Duration::from_micros(random % (THINK_MAX_US + 1))
}

/// The way to the shop, which is in the process that has started this one: the standard output and
/// input, for one request at a time.
#[derive(Clone)]
struct Shop {
    replies: Arc<sync::Mutex<UnboundedReceiver<String>>>,
}

impl Shop {
    fn reach() -> Self {
        let (tell, replies) = unbounded_channel();
        std::thread::spawn(move || {
            for line in io::stdin().lines().map_while(Result::ok) {
                let _ = tell.send(line);
            }
            std::process::exit(1); // the shop has closed, and has said why
        });
        Self { replies: Arc::new(sync::Mutex::new(replies)) }
    }

    async fn ask(&self, request: String) -> Result<u32, Failure> {
        let mut replies = self.replies.lock().await;
        writeln!(io::stdout(), "{request}")?;
        let reply = replies.recv().await.unwrap_or_default();
        reply.parse().map_err(|_| reply.into())
    }
}
