//! Checks that the lock and the shop have kept their promises, and the table.

use crate::Plan;
use crate::shop::{Holding, Shop};

const NOTES: &str = "
  purchases/s: from the start, when all buyers come at once, to the last purchase
  hand-off: from one holder's call of release to the return of the next acquire
  local queue: the buyers of a process share a node, and pass the lock to each other
";

/// Returns a table with all rounds side by side.
pub(crate) fn table(plan: &Plan, rounds: [&Shop; 3]) -> String {
    let line = |label: &str, [without, with, local]: [String; 3]| {
        format!("  {label:24}{without:>17}{with:>17}{local:>17}\n")
    };
    let row = |label: &str, cell: &dyn Fn(&Shop) -> String| line(label, rounds.map(cell));
    [
        line("", ["without lock", "with lock,", "with lock,"].map(str::to_owned)),
        line("", ["", "a node each", "local queue"].map(str::to_owned)),
        row("sold", &|shop| shop.sold.to_string()),
        row("oversold by", &|shop| shop.sold.saturating_sub(plan.items).to_string()),
        row("told \"sold out\"", &|shop| shop.sold_out.to_string()),
        row("in stock, says the shop", &|shop| shop.stock.to_string()),
        row("purchases/s", &|shop| {
            format!("{:.0}", f64::from(shop.sold) / shop.seconds_until(shop.last_sale_ns))
        }),
        row("all buyers served in", &|shop| {
            format!("{:.2} s", shop.seconds_until(shop.last_visit_ns))
        }),
        row("hand-off p50 / p99", &hand_off),
        NOTES.to_owned(),
    ]
    .concat()
}

/// Returns percentiles of the hand-offs. One starts when a holder **calls** `release`, and ends when
/// the next holder's `acquire` has **returned**, mostly in another process.
///
/// It contains the delete request to the server, the watch event from the server, and the time in
/// which the processes wait for a processor. It does not contain the work of a holder, or the reply
/// to the releasing holder.
fn hand_off(shop: &Shop) -> String {
    let holdings = in_order(shop);
    let mut hand_offs: Vec<u64> = pairs(&holdings)
        .map(|(earlier, later)| later.granted_ns.saturating_sub(earlier.release_called_ns))
        .collect();
    hand_offs.sort_unstable();
    if hand_offs.is_empty() {
        return "-".to_owned();
    }
    let percentile =
        |percent: usize| hand_offs[(hand_offs.len() * percent).div_ceil(100) - 1] / 1000;
    format!("{} / {} us", percentile(50), percentile(99))
}

/// Prints the checks of a round with the lock. Returns false if one has failed.
pub(crate) fn verdict(plan: &Plan, round: &str, shop: &mut Shop) -> bool {
    println!("\n{round}:");
    let mut broken = Vec::new();
    let mut expect = |what: &str, found: u32, expected: u32| {
        if found != expected {
            broken.push(format!("{found} {what}, not {expected}"));
        }
    };
    expect("items were sold", shop.sold, plan.items.min(plan.buyers));
    expect("items are sold or left", shop.sold + shop.stock, plan.items);
    expect("buyers were served", shop.sold + shop.sold_out, plan.buyers);
    let holders = (1..).zip(&shop.holdings).last().map_or(0, |(count, _)| count);
    expect("buyers held the lock", holders, plan.buyers);
    let holdings = in_order(shop);
    for (Holding { token: first, release_called_ns, .. }, later) in pairs(&holdings) {
        let second = later.token;
        if second <= *first {
            broken.push(format!("token {second:?} follows {first:?}, which is not smaller"));
        }
        if later.granted_ns < *release_called_ns {
            broken.push(format!("token {second:?} was granted while {first:?} was held"));
        }
    }
    // Plays a holder that was paused: the first holder of the sale resumes now and writes.
    if let [Holding { token, .. }, _, ..] = &holdings[..] {
        match shop.sell(*token, plan.items) {
            Err(refusal) => println!("  a late write with token {token:?} was {refusal}"),
            Ok(_) => broken.push(format!("a late write with token {token:?} was let in")),
        }
    }
    if broken.is_empty() {
        println!("  tokens grew from holder to holder, and there were no two holders at a time");
    }
    for why in &broken {
        println!("  CHECK FAILED: {why}");
    }
    broken.is_empty()
}

/// Returns the holdings in the order in which the lock was granted.
fn in_order(shop: &Shop) -> Vec<Holding> {
    let mut holdings = shop.holdings.clone();
    holdings.sort_unstable_by_key(|holding| holding.granted_ns);
    holdings
}

/// Returns each holding with the next one.
fn pairs(holdings: &[Holding]) -> impl Iterator<Item = (&Holding, &Holding)> {
    holdings.iter().zip(holdings.iter().skip(1))
}
