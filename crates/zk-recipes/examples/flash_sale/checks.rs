//! Checks that the lock and the shop have kept their promises.

use std::time::Duration;

use crate::args::Plan;
use crate::line::Holding;
use crate::round::Outcome;

/// Returns a description of each promise that was broken in a round with the lock.
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

/// Checks that each holder's token is larger than the tokens of all earlier holders.
fn tokens_out_of_order(holdings: &[Holding]) -> Option<String> {
    let mut granted = holdings.to_vec();
    granted.sort_by_key(|holding| holding.granted_ns);
    let wrong = pairs(&granted).find(|(earlier, later)| later.token <= earlier.token);
    wrong.map(|(earlier, later)| {
        let (first, second) = (earlier.token, later.token);
        format!("token {second} was granted after token {first}, which is not smaller")
    })
}

/// Checks that no holder is granted the lock before the previous holder has called `release`.
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

/// Returns the sorted hand-off times. A hand-off starts when one holder **calls** `release`, and
/// ends when the next holder's `acquire` has **returned**, mostly in another process.
///
/// It contains the delete request to the server, the watch event from the server, and the time in
/// which the processes wait for a processor. It also contains a list of the queue if the next
/// holder has not read one in time. It does not contain the work of a holder, or the reply to the
/// releasing holder.
pub(crate) fn hand_offs(holdings: &[Holding]) -> Vec<Duration> {
    let mut hand_offs: Vec<Duration> = pairs(holdings)
        .map(|(earlier, later)| later.granted_ns.saturating_sub(earlier.release_called_ns))
        .map(Duration::from_nanos)
        .collect();
    hand_offs.sort();
    hand_offs
}

/// Returns the smallest value that at least `percent` percent of all values do not exceed.
pub(crate) fn percentile(sorted: &[Duration], percent: usize) -> Option<Duration> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.checked_sub(1)?).copied()
}

/// Returns each holding with the next one.
fn pairs(holdings: &[Holding]) -> impl Iterator<Item = (&Holding, &Holding)> {
    holdings.iter().zip(holdings.iter().skip(1))
}
