//! A worker process: it runs its share of the buyers concurrently, over one session.

use std::error::Error;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, BufRead, Write};
use std::process::ExitCode;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use zk_recipes::session::Client;
use zk_recipes::{Guard, LocalQueueLimits, Mutex};

use crate::args::{Job, LockAt, Queue};
use crate::clock::now_ns;
use crate::line::{Answer, GO, Holding, Line, Visit};
use crate::shop::Shop;
use crate::token::Token;

/// The longest time that a buyer waits between reading the stock and writing it.
const THINK_MAX_US: u64 = 2_000;

type AnyError = Box<dyn Error + Send + Sync>;

pub(crate) async fn run(job: Job) -> ExitCode {
    let mut orders = orders();
    match work(&job, &mut orders).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&Line::Failed(error.to_string()));
            ExitCode::FAILURE
        }
    }
}

async fn work(job: &Job, orders: &mut mpsc::UnboundedReceiver<()>) -> Result<(), AnyError> {
    let shop = Shop::open(&job.shop)?;
    let Some(LockAt { connect, path, queue }) = &job.lock else {
        return serve(job, &shop, None, orders).await;
    };
    let client = Client::connect(connect).await?;
    let lock = Mutex::new(&client, path)?;
    let lock = match queue {
        Queue::Ensemble => lock,
        // All buyers of this process share one node.
        Queue::Local => lock.with_local_queue(LocalQueueLimits::default()),
    };
    let served = serve(job, &shop, Some(&lock), orders).await;
    // Closes the session, so that the server deletes the nodes of buyers that were not served at
    // once.
    client.close().await;
    served
}

/// Starts all buyers at the word "go". Returns when all of them are served, or when the process
/// that sends the orders has exited.
async fn serve(
    job: &Job,
    shop: &Shop,
    lock: Option<&Mutex>,
    orders: &mut mpsc::UnboundedReceiver<()>,
) -> Result<(), AnyError> {
    say(&Line::Ready);
    if orders.recv().await.is_none() {
        return Ok(());
    }
    let mut buyers = JoinSet::new();
    for number in 0..job.buyers {
        let buyer = job.first_buyer + number;
        let (shop, lock) = (shop.clone(), lock.cloned());
        buyers.spawn(async move {
            match lock {
                Some(lock) => visit_with_lock(&shop, buyer, &lock).await,
                None => visit(&shop, buyer).await,
            }
        });
    }
    loop {
        tokio::select! {
            served = buyers.join_next() => match served {
                Some(visit) => say(&Line::Served(visit??)),
                None => return Ok(()),
            },
            order = orders.recv() => if order.is_none() {
                return Ok(());
            },
        }
    }
}

/// The race: another buyer may read the same stock.
async fn visit(shop: &Shop, buyer: u32) -> Result<Visit, AnyError> {
    let answer = buy(shop, buyer, None).await?;
    Ok(Visit { answer, answered_ns: now_ns(), holding: None })
}

/// The same purchase under the lock.
async fn visit_with_lock(shop: &Shop, buyer: u32, lock: &Mutex) -> Result<Visit, AnyError> {
    let guard = lock.acquire().await?;
    let granted_ns = now_ns();
    let token = guard.token()?.into();
    let answer = buy(shop, buyer, Some(&guard)).await?;
    let release_called_ns = now_ns();
    // Fails if the lock was not provably held until now. Another buyer may have been in the shop at
    // the same time then, and only the token has kept the two apart.
    guard.release().await?;
    Ok(Visit {
        answer,
        answered_ns: release_called_ns,
        holding: Some(Holding { token, granted_ns, release_called_ns }),
    })
}

/// Reads the stock, waits a short time, and writes it back.
async fn buy(shop: &Shop, buyer: u32, guard: Option<&Guard>) -> Result<Answer, AnyError> {
    let stock = shop.stock(token(guard)?).await?;
    if stock == 0 {
        return Ok(Answer::SoldOut);
    }
    tokio::time::sleep(think_time()).await;
    // The token is checked again right before the write: the lock may be lost during the wait.
    shop.sell(buyer, stock - 1, token(guard)?).await?;
    Ok(Answer::Bought)
}

fn token(guard: Option<&Guard>) -> Result<Option<Token>, AnyError> {
    match guard {
        Some(guard) => Ok(Some(guard.token()?.into())),
        None => Ok(None),
    }
}

/// Returns a random time. The hash maps of the standard library start from random keys.
fn think_time() -> Duration {
    let random = RandomState::new().build_hasher().finish();
    Duration::from_micros(random % (THINK_MAX_US + 1))
}

/// Returns one item for each "go" on the standard input, and ends when the input is closed. The
/// input is also closed when the process at the other end is killed. A thread reads it, since a
/// blocking read may never return.
fn orders() -> mpsc::UnboundedReceiver<()> {
    let (tell, orders) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if line == GO && tell.send(()).is_err() {
                return;
            }
        }
    });
    orders
}

fn say(line: &Line) {
    let mut stdout = io::stdout().lock();
    // If the output has no reader, the standard input is about to end, too.
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}
