//! The whole sale: a round without the lock, a round with it, and the verdict.

use std::path::PathBuf;
use std::time::Duration;

use zk_recipes::session::{Client, Config, Error};

use crate::args::{LockAt, Plan};
use crate::checks::broken_promises;
use crate::clock::now_ns;
use crate::failure::Failure;
use crate::locker::Ensemble;
use crate::round::{self, Outcome};
use crate::shop::{Shop, ShopError};
use crate::stop::Stop;
use crate::table::{self, print};

/// How long the ensemble may take to answer before it counts as unreachable.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long removing the lock's path may take.
const CLEAN_UP_TIMEOUT: Duration = Duration::from_secs(2);

/// Where the locks of all sales are.
const LOCKS: &str = "/flash-sale";

pub(crate) async fn run(plan: &Plan) -> Result<(), Failure> {
    let ensemble = Ensemble::of(plan).await?;
    let client = connect(&ensemble.connect).await?;
    let mut stop = Stop::listen()?;
    let folder = Folder::create()?;
    let lock = LockAt {
        connect: ensemble.connect.clone(),
        // Its own for every sale: who was not served in another one, for example
        // because it was killed, must not be waited for in this one.
        path: format!("{LOCKS}/{}", folder.name),
    };
    print(&format!(
        "items {}, buyers {}, processes {}; lock {} on {}\n",
        plan.items, plan.buyers, plan.processes, lock.path, ensemble
    ));
    let sold = both_rounds(plan, &folder, &lock, &mut stop).await;
    clean_up(&client, &lock.path).await;
    drop(ensemble); // a server of its own is needed up to here
    sold
}

async fn both_rounds(
    plan: &Plan,
    folder: &Folder,
    lock: &LockAt,
    stop: &mut Stop,
) -> Result<(), Failure> {
    let file = folder.path.join("without-lock.sqlite");
    let shop = Shop::create(&file, plan.items).map_err(no_shop)?;
    let without = round::run(plan, &shop, &file, None, stop).await?;

    let file = folder.path.join("with-lock.sqlite");
    let shop = Shop::create(&file, plan.items).map_err(no_shop)?;
    let with = round::run(plan, &shop, &file, Some(lock), stop).await?;
    let late = write_late(plan, &with, &shop).await;

    print(&table::rounds(plan, &without, &with));
    verdict(plan, &without, &with, late)
}

fn no_shop(error: ShopError) -> Failure {
    Failure::broken("cannot open the shop", error)
}

/// Plays the holder that was paused: the first one of the sale, which wakes up now
/// and goes on to write. The shop must not let it.
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

fn verdict(
    plan: &Plan,
    without: &Outcome,
    with: &Outcome,
    late: Result<String, String>,
) -> Result<(), Failure> {
    if without.sold <= plan.items {
        print(&not_oversold(plan, without));
    }
    let mut broken = broken_promises(plan, with);
    let late = late.unwrap_or_else(|why| {
        broken.push(why);
        String::new()
    });
    if broken.is_empty() {
        print(&format!(
            "\nwith the lock: tokens grew from holder to holder, no two holders at a time,\n\
             {late}\n"
        ));
        return Ok(());
    }
    for why in broken {
        print(&format!("\nCHECK FAILED with the lock: {why}\n"));
    }
    Err(Failure::PromiseBroken)
}

/// Even without the lock the buyers may be lucky.
fn not_oversold(plan: &Plan, without: &Outcome) -> String {
    let (sold, left) = (without.sold, without.stock_left);
    if sold.saturating_add(left) == plan.items {
        return "\nwithout the lock: no race was seen this time\n".to_owned();
    }
    format!("\nwithout the lock: not oversold, but the book is wrong: {sold} sold, {left} left\n")
}

/// Opens the session that cleans up at the end, and finds out first of all whether
/// there is anything to connect to.
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

/// Removes the lock's path right away. It is a container, which the server would
/// remove too, in a minute or so; so it does not matter if this fails.
async fn clean_up(client: &Client, path: &str) {
    let deletes = async {
        let _ = client.delete(path, None).await;
        let _ = client.delete(LOCKS, None).await; // stays if another sale is on
        client.close().await;
    };
    let _ = tokio::time::timeout(CLEAN_UP_TIMEOUT, deletes).await;
}

/// A temporary folder, removed with all that is in it.
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
