//! One round of the sale: it starts the workers, collects their messages, and sums them up.

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

/// Maximum time without a message of any worker, in ticks of the progress. It is well above the
/// time after which a session without an ensemble ends with an error.
const SILENCE_MAX_TICKS: u32 = 600;

/// The result of a round.
pub(crate) struct Outcome {
    /// Purchases in the shop's book.
    pub(crate) sold: u32,
    /// Items that the shop's book lists as left.
    pub(crate) stock_left: u32,
    /// Buyers that reported a purchase.
    pub(crate) bought: u32,
    /// Buyers that reported "sold out".
    pub(crate) sold_out: u32,
    /// In the order of the tokens.
    pub(crate) holdings: Vec<Holding>,
    /// From the start of the buyers to the last purchase.
    pub(crate) selling: Duration,
    /// From the start of the buyers to the last answer.
    pub(crate) all: Duration,
}

/// Sells the shop's items to the plan's buyers.
pub(crate) async fn run(
    plan: &Plan,
    shop: &Shop,
    file: &Path,
    lock: Option<&LockAt>,
    stop: &mut Stop,
) -> Result<Outcome, Failure> {
    let name = lock.map_or("without a lock", |lock| lock.queue.round());
    let jobs = jobs(plan, file, lock);
    let mut serving = Serving {
        crew: Crew::hire(&jobs)?,
        progress: Progress::new(name, plan.buyers),
        missing: jobs.iter().map(|job| job.buyers).collect(),
        ready: 0,
        started_ns: 0,
        visits: Vec::new(),
    };
    let served = tokio::select! {
        served = serving.until_all_served() => served,
        () = stop.heard() => Err(Failure::Stopped),
    };
    match served {
        Ok(()) => serving.progress.finish(),
        Err(_) => serving.progress.abandon(),
    }
    serving.crew.dismiss().await;
    served?;
    let added_up = add_up(serving, shop).await;
    added_up.map_err(|error| Failure::broken("cannot read the shop's book", error))
}

/// Spreads the buyers over the processes as evenly as possible.
fn jobs(plan: &Plan, file: &Path, lock: Option<&LockAt>) -> Vec<Job> {
    let mut first_buyer = 1;
    let mut jobs = Vec::new();
    for number in 0..plan.processes {
        let one_more = u32::from(number < plan.buyers % plan.processes);
        let buyers = plan.buyers / plan.processes + one_more;
        jobs.push(Job { shop: file.to_owned(), first_buyer, buyers, lock: lock.cloned() });
        first_buyer += buyers;
    }
    jobs
}

/// A round in progress.
struct Serving {
    crew: Crew,
    progress: Progress,
    /// Number of buyers without a reported answer, by worker.
    missing: Vec<u32>,
    ready: usize,
    started_ns: u64,
    visits: Vec<Visit>,
}

impl Serving {
    /// Handles the messages until all buyers are served.
    async fn until_all_served(&mut self) -> Result<(), Failure> {
        let mut silent_ticks = 0;
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while self.missing.iter().any(|missing| *missing > 0) {
            tokio::select! {
                (number, said) = self.crew.hear() => {
                    silent_ticks = 0;
                    self.heard(number, said).await?;
                }
                _ = ticks.tick() => {
                    silent_ticks += 1;
                    if silent_ticks > SILENCE_MAX_TICKS {
                        let why = "nothing was heard of any worker for a minute";
                        return Err(Failure::Broken(why.to_owned()));
                    }
                    self.progress.tick();
                }
            }
        }
        Ok(())
    }

    async fn heard(&mut self, number: usize, said: Said) -> Result<(), Failure> {
        let missing = &mut self.missing[number];
        let why = match said {
            Said::Line(Line::Ready) => {
                self.ready += 1;
                if self.ready == self.missing.len() {
                    self.started_ns = now_ns();
                    self.crew.go().await?;
                }
                return Ok(());
            }
            Said::Line(Line::Served(visit)) if *missing > 0 => {
                *missing -= 1;
                self.progress.count(visit.answer);
                self.visits.push(visit);
                return Ok(());
            }
            Said::Line(Line::Failed(why)) => why,
            Said::Line(Line::Served(_)) => "it served more buyers than it has".to_owned(),
            Said::Nonsense(line) => format!("it said {line:?}"),
            Said::Nothing if *missing == 0 => return Ok(()),
            Said::Nothing => format!("it ended early, {}", self.crew.obituary(number).await),
        };
        Err(Failure::broken(format_args!("worker {}", number + 1), why))
    }
}

async fn add_up(serving: Serving, shop: &Shop) -> Result<Outcome, ShopError> {
    let since_start = |ns: u64| Duration::from_nanos(ns.saturating_sub(serving.started_ns));
    let mut outcome = Outcome {
        sold: shop.sold().await?,
        stock_left: shop.stock(None).await?,
        bought: 0,
        sold_out: 0,
        holdings: Vec::new(),
        selling: Duration::ZERO,
        all: Duration::ZERO,
    };
    for visit in &serving.visits {
        let answered = since_start(visit.answered_ns);
        match visit.answer {
            Answer::Bought => {
                outcome.bought += 1;
                outcome.selling = outcome.selling.max(answered);
            }
            Answer::SoldOut => outcome.sold_out += 1,
        }
        outcome.all = outcome.all.max(answered);
        outcome.holdings.extend(visit.holding);
    }
    outcome.holdings.sort_by_key(|holding| holding.token);
    Ok(outcome)
}
