//! The output at the end of a sale.

use std::io::{self, Write};
use std::time::Duration;

use crate::args::Plan;
use crate::checks::{hand_offs, percentile};
use crate::round::Outcome;

const NOTES: &str = "
  purchases/s: from the start, when all buyers come at once, to the last purchase
  hand-off: from one holder's call of release to the return of the next acquire
  local queue: the buyers of a process share a node, and pass the lock to each other
";

/// Returns a table with all rounds side by side.
pub(crate) fn rounds(plan: &Plan, rounds: &[&Outcome]) -> String {
    let row = |label: &str, column: &dyn Fn(&Outcome) -> String| {
        let cells: String = rounds.iter().map(|round| format!("{:>17}", column(round))).collect();
        format!("  {label:24}{cells}\n")
    };
    let rows = [
        format!("\n  {:24}{:>17}{:>17}{:>17}\n", "", "without lock", "with lock,", "with lock,"),
        format!("  {:24}{:>17}{:>17}{:>17}\n", "", "", "a node each", "local queue"),
        row("items", &|_| plan.items.to_string()),
        row("buyers", &|_| plan.buyers.to_string()),
        row("sold", &|round| round.sold.to_string()),
        row("oversold by", &|round| round.sold.saturating_sub(plan.items).to_string()),
        row("told \"sold out\"", &|round| round.sold_out.to_string()),
        row("in stock, says the book", &|round| round.stock_left.to_string()),
        row("purchases/s", &|round| per_second(round.bought, round.selling)),
        row("all buyers served in", &|round| format!("{:.2} s", round.all.as_secs_f64())),
        row("hand-off p50 / p99", &hand_off),
        NOTES.to_owned(),
    ];
    rows.concat()
}

fn per_second(count: u32, time: Duration) -> String {
    match time.is_zero() {
        true => "-".to_owned(),
        false => format!("{:.0}", f64::from(count) / time.as_secs_f64()),
    }
}

fn hand_off(round: &Outcome) -> String {
    let sorted = hand_offs(&round.holdings);
    match (percentile(&sorted, 50), percentile(&sorted, 99)) {
        (Some(p50), Some(p99)) => format!("{} / {} us", p50.as_micros(), p99.as_micros()),
        _ => "-".to_owned(),
    }
}

/// Writes to the standard output, and ignores a missing reader.
pub(crate) fn print(text: &str) {
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}
