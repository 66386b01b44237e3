//! One round of the sale: starts the workers, listens, and adds up.

use std::path::Path;
use std::time::Duration;

use tokio::time::MissedTickBehavior;

use crate::args::{Job, LockAt, Plan};
use crate::clock::now_ns;
use crate::crew::{Crew, Said};
use crate::failure::Failure;
use crate::line::{Answer, Holding, Line, Visit};
use crate::progress::{Progress, TICK};
use crate::shop::{Shop, ShopError};
use crate::stop::Stop;

/// How long nothing may be heard of any worker: well above the time in which a
/// session without an ensemble ends and says so. Counted in ticks of the progress.
const SILENCE_MAX_TICKS: u32 = 600;

/// What came of a round.
pub(crate) struct Outcome {
    /// Purchases in the shop's book.
    pub(crate) sold: u32,
    /// What the shop's book says is left.
    pub(crate) stock_left: u32,
    /// Buyers who said that they bought.
    pub(crate) bought: u32,
    /// Buyers who said that they were told "sold out".
    pub(crate) sold_out: u32,
    /// In the order of the tokens.
    pub(crate) holdings: Vec<Holding>,
    /// From the word "go" to the last purchase.
    pub(crate) selling: Duration,
    /// From the word "go" to the last answer.
    pub(crate) all: Duration,
}

/// Sells the shop's items to the plan's buyers.
pub(crate) async fn run(
    plan: &Plan,
    shop: &Path,
    lock: Option<&LockAt>,
    stop: &mut Stop,
) -> Result<Outcome, Failure> {
    let name = match lock {
        Some(_) => "with lock",
        None => "without lock",
    };
    let mut progress = Progress::new(name, plan.buyers);
    let mut crew = Crew::hire(&jobs(plan, shop, lock))?;
    let served = tokio::select! {
        served = serve(&mut crew, plan.buyers, &mut progress) => served,
        () = stop.heard() => Err(Failure::Stopped),
    };
    match &served {
        Ok(_) => progress.finish(),
        Err(_) => progress.abandon(),
    }
    crew.dismiss().await;
    add_up(shop, served?).await
}

/// Spreads the buyers over the processes, as evenly as it goes.
fn jobs(plan: &Plan, shop: &Path, lock: Option<&LockAt>) -> Vec<Job> {
    let mut first_buyer = 1;
    let mut jobs = Vec::new();
    for number in 0..plan.processes {
        let one_more = u32::from(number < plan.buyers % plan.processes);
        let buyers = plan.buyers / plan.processes + one_more;
        jobs.push(Job {
            shop: shop.to_owned(),
            first_buyer,
            buyers,
            lock: lock.cloned(),
        });
        first_buyer += buyers;
    }
    jobs
}

struct Served {
    started_ns: u64,
    visits: Vec<Visit>,
}

/// Listens until all buyers are served.
async fn serve(
    crew: &mut Crew,
    buyers: u32,
    progress: &mut Progress,
) -> Result<Served, Failure> {
    let mut served = Served {
        started_ns: 0,
        visits: Vec::new(),
    };
    let mut ready = 0;
    let mut silent_ticks = 0;
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while u32::try_from(served.visits.len()).is_ok_and(|visits| visits < buyers) {
        let (number, said) = tokio::select! {
            heard = crew.hear() => heard,
            _ = ticks.tick() => {
                silent_ticks += 1;
                if silent_ticks > SILENCE_MAX_TICKS {
                    let why = "nothing was heard of any worker for a minute";
                    return Err(Failure::Broken(why.to_owned()));
                }
                progress.tick();
                continue;
            }
        };
        silent_ticks = 0;
        match said {
            Said::Line(Line::Ready) => {
                ready += 1;
                if ready == crew.len() {
                    served.started_ns = now_ns();
                    crew.go().await?;
                }
            }
            Said::Line(Line::Served(visit)) => {
                progress.count(visit.answer);
                served.visits.push(visit);
            }
            Said::Line(Line::Failed(why)) => return Err(worker_failed(number, &why)),
            Said::Nonsense(line) => {
                return Err(worker_failed(number, &format!("it said {line:?}")));
            }
            Said::Nothing if served.visits.is_empty() || progress.is_behind(number) => {
                let end = crew.obituary(number).await;
                return Err(worker_failed(number, &format!("it ended early, {end}")));
            }
            Said::Nothing => {}
        }
    }
    Ok(served)
}

fn worker_failed(number: usize, why: &str) -> Failure {
    Failure::broken(format_args!("worker {}", number + 1), why)
}
