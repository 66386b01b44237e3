//! The whole sale: a round without the lock, two rounds with it, and the verdict.

use std::iter;
use std::path::PathBuf;
use std::time::Duration;

use zk_recipes::session::{Client, Config, Error};

use crate::args::{LockAt, Plan, Queue};
use crate::checks::broken_promises;
use crate::clock::now_ns;
use crate::failure::Failure;
use crate::locker::Ensemble;
use crate::round::{self, Outcome};
use crate::shop::{Shop, ShopError};
use crate::stop::Stop;
use crate::table::{self, print};

/// Time within which the ensemble must answer; after that it counts as unreachable.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit for the removal of the lock's path.
const CLEAN_UP_TIMEOUT: Duration = Duration::from_secs(2);

/// Parent path of the locks of all sales.
const LOCKS: &str = "/flash-sale";

pub(crate) async fn run(plan: &Plan) -> Result<(), Failure> {
    let ensemble = Ensemble::of(plan).await?;
    let client = connect(&ensemble.connect).await?;
    let mut stop = Stop::listen()?;
    let folder = Folder::create()?;
    let lock = LockAt {
        connect: ensemble.connect.clone(),
        // Each sale uses its own path. It must not wait for buyers of another sale that was killed,
        // for example.
        path: format!("{LOCKS}/{}", folder.name),
        queue: Queue::Ensemble,
    };
    print(&format!(
        "items {}, buyers {}, processes {}; lock {} on {}\n",
        plan.items, plan.buyers, plan.processes, lock.path, ensemble
    ));
    let sold = all_rounds(plan, &folder, &lock, &mut stop).await;
    clean_up(&client, &lock.path).await;
    drop(ensemble); // a server of this process must run until here
    sold
}

async fn all_rounds(
    plan: &Plan,
    folder: &Folder,
    lock: &LockAt,
    stop: &mut Stop,
) -> Result<(), Failure> {
    let file = folder.path.join("without-lock.sqlite");
    let shop = Shop::create(&file, plan.items).map_err(no_shop)?;
    let without = round::run(plan, &shop, &file, None, stop).await?;

    let mut locked = Vec::new();
    for queue in [Queue::Ensemble, Queue::Local] {
        let file = folder.path.join(format!("{queue:?}.sqlite"));
        let shop = Shop::create(&file, plan.items).map_err(no_shop)?;
        let lock = LockAt { queue, ..lock.clone() };
        let outcome = round::run(plan, &shop, &file, Some(&lock), stop).await?;
        let late = write_late(plan, &outcome, &shop).await;
        locked.push(Locked { queue, outcome, late });
    }
    let outcomes: Vec<&Outcome> =
        iter::once(&without).chain(locked.iter().map(|locked| &locked.outcome)).collect();
    print(&table::rounds(plan, &outcomes));
    if without.sold <= plan.items {
        print(&not_oversold(plan, &without));
    }
    verdict(plan, locked)
}

/// A round with the lock.
struct Locked {
    queue: Queue,
    outcome: Outcome,
    /// The result of a late write: a description, or why it breaks a promise.
    late: Result<String, String>,
}

fn no_shop(error: ShopError) -> Failure {
    Failure::broken("cannot open the shop", error)
}

/// Plays a holder that was paused: the first holder of the sale resumes now and writes. The shop
/// must reject the write.
async fn write_late(plan: &Plan, with: &Outcome, shop: &Shop) -> Result<String, String> {
    let [first, .., last] = &with.holdings[..] else {
        return Ok("a late write was not tried: there was only one holder".to_owned());
    };
    let (late, largest) = (first.token, last.token);
    match shop.sell(plan.buyers + 1, plan.items, Some(late)).await {
        Err(ShopError::Overtaken { .. }) => {
            Ok(format!("a late write with token {late} was refused: the shop has seen {largest}"))
        }
        Err(error) => Err(format!("a late write failed for another reason: {error}")),
        Ok(()) => Err(format!("a late write with token {late} was let in, after {largest}")),
    }
}

/// Prints the checks of the rounds with the lock.
fn verdict(plan: &Plan, locked: Vec<Locked>) -> Result<(), Failure> {
    let mut all_kept = true;
    for Locked { queue, outcome, late } in locked {
        let mut broken = broken_promises(plan, &outcome);
        let late = late.unwrap_or_else(|why| {
            broken.push(why);
            String::new()
        });
        let round = queue.round();
        if broken.is_empty() {
            print(&format!(
                "\n{round}: tokens grew from holder to holder, no two holders at a time,\n\
                 {late}\n"
            ));
        }
        for why in &broken {
            print(&format!("\nCHECK FAILED {round}: {why}\n"));
        }
        all_kept &= broken.is_empty();
    }
    if all_kept { Ok(()) } else { Err(Failure::PromiseBroken) }
}

/// Reports a round without the lock that did not oversell by chance.
fn not_oversold(plan: &Plan, without: &Outcome) -> String {
    let (sold, left) = (without.sold, without.stock_left);
    if sold.saturating_add(left) == plan.items {
        return "\nwithout the lock: no race was seen this time\n".to_owned();
    }
    format!("\nwithout the lock: not oversold, but the book is wrong: {sold} sold, {left} left\n")
}

/// Opens the session that cleans up at the end. This also checks first of all that the ensemble can
/// be reached.
async fn connect(connect: &str) -> Result<Client, Failure> {
    let unavailable = |error: Error| Failure::Unavailable(error.to_string());
    let config = Config::new(connect).map_err(unavailable)?;
    let client = config.connect_timeout(CONNECT_TIMEOUT).connect().await.map_err(unavailable)?;
    match tokio::time::timeout(CONNECT_TIMEOUT, client.exists("/")).await {
        Ok(Ok(Some(_))) => Ok(client),
        Ok(Ok(None)) => Err(Failure::Usage(format!("{connect}: there is no such chroot"))),
        Ok(Err(error)) => Err(unavailable(error)),
        Err(_) => Err(Failure::Unavailable(format!("{connect}: no answer"))),
    }
}

/// Deletes the lock's path at once. It is a container, so the server would also remove it, in about
/// a minute. A failure here does no harm.
async fn clean_up(client: &Client, path: &str) {
    let deletes = async {
        let _ = client.delete(path, None).await;
        let _ = client.delete(LOCKS, None).await; // fails while another sale runs
        client.close().await;
    };
    let _ = tokio::time::timeout(CLEAN_UP_TIMEOUT, deletes).await;
}

/// A temporary folder. Dropping it removes the folder with its contents.
struct Folder {
    name: String,
    path: PathBuf,
}

impl Folder {
    fn create() -> Result<Self, Failure> {
        let name = format!("{}-{}", std::process::id(), now_ns());
        let path = std::env::temp_dir().join(format!("flash-sale-{name}"));
        match std::fs::create_dir(&path) {
            Ok(()) => Ok(Self { name, path }),
            Err(error) => Err(Failure::broken(path.display(), error)),
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            eprintln!("flash_sale: {} is left behind: {error}", self.path.display());
        }
    }
}
