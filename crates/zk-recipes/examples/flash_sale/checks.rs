//! What the lock and the shop promise, checked against what happened.

use std::time::Duration;

use crate::args::Plan;
use crate::line::Holding;
use crate::round::Outcome;

/// The promises that were broken in a round with the lock, in words.
pub(crate) fn broken_promises(plan: &Plan, outcome: &Outcome) -> Vec<String> {
    let mut broken = Vec::new();
    let expected = plan.items.min(plan.buyers);
    if outcome.sold != expected {
        let sold = outcome.sold;
        broken.push(format!("{sold} items were sold, not {expected}"));
    }
    if u64::from(outcome.sold) + u64::from(outcome.stock_left) != u64::from(plan.items) {
        let (sold, left) = (outcome.sold, outcome.stock_left);
        broken.push(format!("{sold} sold and {left} left are not {}", plan.items));
    }
    if outcome.bought != outcome.sold {
        let (bought, sold) = (outcome.bought, outcome.sold);
        broken.push(format!("{bought} buyers say they bought, the book has {sold}"));
    }
    if outcome.bought + outcome.sold_out != plan.buyers {
        let answers = outcome.bought + outcome.sold_out;
        broken.push(format!("{answers} answers for {} buyers", plan.buyers));
    }
    if u32::try_from(outcome.holdings.len()) != Ok(plan.buyers) {
        let holdings = outcome.holdings.len();
        broken.push(format!("{holdings} tokens for {} buyers", plan.buyers));
    }
    broken.extend(tokens_out_of_order(&outcome.holdings));
    broken.extend(overlaps(&outcome.holdings));
    broken
}

/// Every holder's token must be larger than those of all holders before.
fn tokens_out_of_order(holdings: &[Holding]) -> Option<String> {
    let mut granted = holdings.to_vec();
    granted.sort_by_key(|holding| holding.granted_ns);
    let wrong = pairs(&granted).find(|(earlier, later)| later.token <= earlier.token);
    wrong.map(|(earlier, later)| {
        let (first, second) = (earlier.token, later.token);
        format!("token {second} was granted after token {first}, which is not smaller")
    })
}

/// No holder may get the lock before the holder before has called `release`.
fn overlaps(holdings: &[Holding]) -> Option<String> {
    let wrong =
        pairs(holdings).find(|(earlier, later)| later.granted_ns < earlier.release_called_ns);
    wrong.map(|(earlier, later)| {
        let (first, second) = (earlier.token, later.token);
        format!(
            "token {second} was granted while the holder of token {first} still had the lock \
             (unless the system's clock was set back meanwhile)"
        )
    })
}

/// Hand-off times, sorted. A hand-off is measured from the moment when one holder
/// **calls** `release` to the moment when the `acquire` of the next one has
/// **returned**, mostly in another process. It takes the delete to the server, the
/// watch event from the server, the list of the queue to see who is first, and
/// whatever the processes wait for a processor. What a holder does while it holds
/// the lock is not in it; nor is the time the server's answer takes to come back
/// to the one who released.
pub(crate) fn hand_offs(holdings: &[Holding]) -> Vec<Duration> {
    let mut hand_offs: Vec<Duration> = pairs(holdings)
        .map(|(earlier, later)| later.granted_ns.saturating_sub(earlier.release_called_ns))
        .map(Duration::from_nanos)
        .collect();
    hand_offs.sort();
    hand_offs
}

/// The smallest value that `percent` of all values do not exceed.
pub(crate) fn percentile(sorted: &[Duration], percent: usize) -> Option<Duration> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.checked_sub(1)?).copied()
}

/// Each holding with the next one.
fn pairs(holdings: &[Holding]) -> impl Iterator<Item = (&Holding, &Holding)> {
    holdings.iter().zip(holdings.iter().skip(1))
}
