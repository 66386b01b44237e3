//! Holds a second, and the longest wait.

use std::fmt::Write;

use serde_json::{Value, json};
use zk_benches::contest::Hold;

/// Throughput of one contestant in one scenario.
pub(crate) struct Throughput {
    pub(crate) title: String,
    pub(crate) contestant: &'static str,
    pub(crate) rate: Rate,
}

/// Throughput of one contest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rate {
    pub(crate) holds_per_second: f64,
    /// The longest time from a call of acquire to the hold.
    pub(crate) longest_wait_ms: f64,
}

impl Rate {
    pub(crate) fn of(holds: &[Hold]) -> Self {
        let first = holds.iter().map(|hold| hold.owner).min().unwrap_or(0);
        let last = holds.iter().map(|hold| hold.release).max().unwrap_or(0);
        let waits = holds.iter().map(|hold| hold.owner - hold.call.max(first));
        Self {
            holds_per_second: holds.len() as f64 / (last - first) as f64 * 1e9,
            longest_wait_ms: waits.max().unwrap_or(0) as f64 / 1e6,
        }
    }
}

pub(crate) fn to_json(throughput: &[Throughput]) -> Value {
    let entries = throughput.iter().map(|it| {
        json!({
            "contestant": it.contestant,
            "holds_per_second": it.rate.holds_per_second.round(),
            "longest_wait_ms": (it.rate.longest_wait_ms * 100.0).round() / 100.0,
        })
    });
    entries.collect()
}

/// Returns the table in Markdown; empty without throughput.
pub(crate) fn table(throughput: &[Throughput]) -> String {
    let mut text = String::new();
    if throughput.is_empty() {
        return text;
    }
    // Writing to a string cannot fail.
    let _ = writeln!(text, "\n| throughput | contestant | holds a second | longest wait |");
    let _ = writeln!(text, "|---|---|---:|---:|");
    for Throughput { title, contestant, rate } in throughput {
        let Rate { holds_per_second, longest_wait_ms } = rate;
        let _ = writeln!(
            text,
            "| {title} | {contestant} | {holds_per_second:.0} | {longest_wait_ms:.1} ms |"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_counts_holds_and_waits_from_the_first_hold() {
        let hold = |call, owner| Hold { call, owner, release: owner + 500, ..Hold::default() };
        let rate = Rate::of(&[hold(0, 1_000_000), hold(0, 1_500_500), hold(1_400_000, 1_999_500)]);
        assert_eq!(rate, Rate { holds_per_second: 3_000.0, longest_wait_ms: 0.5995 });
    }
}
