//! The stock race: many buyers in several processes read the stock of a shop, think for a short
//! time, and write back one item less. They do this without a lock, with a `Mutex`, and with a
//! `Mutex` that has a local queue.
//!
//! ```text
//! cargo run -p flash-sale                               # with an in-memory server of its own
//! cargo run -p flash-sale -- --connect 127.0.0.1:2181   # with a real ensemble
//! ```
//!
//! Without the lock two buyers read the same number, and the shop sells more than its stock. With
//! the lock it sells exactly its stock. With a local queue the buyers of a process share a node, and
//! most hand-offs need no request.
//!
//! `buyers.rs` shows how a buyer uses the lock. `shop.rs` shows how a resource checks the fencing
//! token; without that check no lock is safe from a holder that was paused. `round.rs` starts this
//! program again for the buyers, and `report.rs` checks and prints what they did.

mod buyers;
mod report;
mod round;
mod shop;

use std::fmt::Display;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use zk_recipes::session::Config;
use zk_testing::TestServer;

const HELP: &str = "\
Sells a stock to more buyers than there are items: without a lock, with one, and
with one for which the buyers of a process queue locally.

  --connect HOST:PORT,...   the ZooKeeper ensemble to lock with; by default a
                            server in this process, in memory
  --processes N             processes of the buyers; default 5
  --buyers N                buyers, all processes together; default 1500
  --items N                 items in stock; default 100

Exit status: 0 if all checks passed, 64 on wrong use, 69 without an ensemble, else 1.
";

/// The exit status, and a message for the standard error output.
struct Failure(u8, String);

impl<E: Display> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(1, error.to_string())
    }
}

fn wrong_use(error: impl Display) -> Failure {
    Failure(64, format!("{error} (--help tells more)"))
}

/// Parameters of a sale.
struct Plan {
    /// The ensemble to lock with; `None` starts a server for this sale.
    connect: Option<String>,
    processes: u32,
    buyers: u32,
    items: u32,
}

fn main() -> ExitCode {
    let Err(Failure(status, message)) = start() else { return ExitCode::SUCCESS };
    eprintln!("flash-sale: {message}");
    ExitCode::from(status)
}

fn start() -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(run(std::env::args().skip(1)));
    // After a failure a thread may still wait for a buyer.
    runtime.shutdown_background();
    done
}

async fn run(mut arguments: impl Iterator<Item = String>) -> Result<(), Failure> {
    let mut plan = Plan { connect: None, processes: 5, buyers: 1500, items: 100 };
    while let Some(name) = arguments.next() {
        match name.as_str() {
            buyers::PROCESS => return buyers::run(&arguments.collect::<Vec<_>>()).await,
            "--connect" => plan.connect = Some(arguments.next().unwrap_or_default()),
            // By default a ZooKeeper server accepts 60 connections from one address.
            "--processes" => plan.processes = number(&name, arguments.next(), 50)?,
            // The work grows with the square of the buyers: each lists the whole queue.
            "--buyers" => plan.buyers = number(&name, arguments.next(), 10_000)?,
            "--items" => plan.items = number(&name, arguments.next(), 1_000_000)?,
            "--help" | "-h" => {
                print!("{HELP}");
                return Ok(());
            }
            _ => return Err(wrong_use(format!("there is no option `{name}`"))),
        }
    }
    plan.processes = plan.processes.min(plan.buyers);
    sell(&plan).await
}

fn number(name: &str, text: Option<String>, max: u32) -> Result<u32, Failure> {
    let number = text.and_then(|text| text.parse().ok());
    let number = number.filter(|number| (1..=max).contains(number));
    number.ok_or_else(|| wrong_use(format!("{name} takes a number from 1 to {max}")))
}

/// Sells in three rounds, and checks the two with the lock.
async fn sell(plan: &Plan) -> Result<(), Failure> {
    // Serves nobody if there is another ensemble. It stops at the end of this function.
    let own = TestServer::start().await?;
    let note = if plan.connect.is_none() { ", an in-memory server of its own" } else { "" };
    let connect = plan.connect.clone().unwrap_or_else(|| own.connect_string());
    let client = Config::new(&connect).map_err(wrong_use)?.connect().await;
    let client = client.map_err(|error| Failure(69, error.to_string()))?;
    // A path of its own: a sale must not wait for the buyers of another one that was killed.
    let path = format!("{LOCKS}/{}", now_ns());
    let Plan { processes, buyers, items, .. } = plan;
    println!(
        "items {items}, buyers {buyers}, processes {processes}; lock {path} on {connect}{note}"
    );
    let (connect, path) = (connect.as_str(), path.as_str());
    let without = round::run(plan, &[]).await?;
    let mut with = round::run(plan, &[connect, path]).await?;
    let mut local = round::run(plan, &[connect, path, buyers::LOCAL_QUEUE]).await?;

    print!("\n{}", report::table(plan, [&without, &with, &local]));
    if without.sold + without.stock == plan.items {
        println!("\nwithout a lock: no race was seen this time");
    }
    let broken = [("with the lock", &mut with), ("with a local queue", &mut local)];
    let all_kept = broken.map(|(round, shop)| report::verdict(plan, round, shop)) == [true; 2];
    // The server deletes the path too, in about a minute, since it is a container.
    let _ = client.delete(path, None).await;
    let _ = client.delete(LOCKS, None).await; // fails while another sale runs
    client.close().await;
    if all_kept { Ok(()) } else { Err("a check failed, see above".into()) }
}

/// Returns the nanoseconds since 1970. The standard library has no monotonic clock with readings
/// that can be compared across processes.
#[expect(clippy::disallowed_methods, reason = "the only place of this program that reads a clock")]
fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Parent path of the locks of all sales.
const LOCKS: &str = "/flash-sale";
