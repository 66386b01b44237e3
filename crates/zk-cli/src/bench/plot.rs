//! Times as a line of text, with a plot of how they are distributed.

use std::time::Duration;

use serde_json::{Value, json};

use super::measure::Times;

/// The head above the lines.
pub(super) const HEAD: &str =
    "WORK       PER SECOND        P50        P99        MAX   31 µs … 1 s";

/// Columns of the plot: the first one ends at 31 µs, each one at twice the time of the one before,
/// and the last one has all that is longer.
const COLUMNS: usize = 17;
const FIRST_COLUMN: Duration = Duration::from_micros(31);

pub(super) fn line(name: &str, times: &Times) -> String {
    let shown = |time: Duration| format!("{:.2} ms", time.as_secs_f64() * 1_000.0);
    format!(
        "{name:<10} {:>10.0} {:>10} {:>10} {:>10}   {}",
        per_second(times),
        shown(quantile(times, 50)),
        shown(quantile(times, 99)),
        shown(quantile(times, 100)),
        bars(&columns(times)),
    )
}

pub(super) fn to_json(name: &str, times: &Times) -> Value {
    let micros = |time: Duration| u64::try_from(time.as_micros()).ok();
    json!({
        "work": name,
        "count": times.each.len(),
        "per_second": per_second(times),
        "p50_us": micros(quantile(times, 50)),
        "p99_us": micros(quantile(times, 99)),
        "max_us": micros(quantile(times, 100)),
    })
}

fn per_second(times: &Times) -> f64 {
    let count = u32::try_from(times.each.len()).unwrap_or(u32::MAX);
    f64::from(count) / times.all.as_secs_f64()
}

/// Returns the time that so many of a hundred do not exceed.
fn quantile(times: &Times, percent: usize) -> Duration {
    let rank = (times.each.len() * percent).div_ceil(100).saturating_sub(1);
    times.each.get(rank).copied().unwrap_or_default()
}

fn columns(times: &Times) -> [usize; COLUMNS] {
    let mut columns = [0; COLUMNS];
    for time in &times.each {
        let mut end = FIRST_COLUMN;
        let mut column = 0;
        while *time > end && column + 1 < COLUMNS {
            end *= 2;
            column += 1;
        }
        columns[column] += 1;
    }
    columns
}

/// Draws a bar for each column. The longest bar fills the line. A column with any time has a bar.
fn bars(columns: &[usize]) -> String {
    let most = columns.iter().copied().max().unwrap_or(0).max(1);
    let bar = |count: &usize| match *count {
        0 => ' ',
        count => BARS[(count * BARS.len()).div_ceil(most) - 1],
    };
    columns.iter().map(bar).collect::<String>().trim_end().to_owned()
}

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

#[cfg(test)]
mod tests {
    use super::*;

    fn times(micros: &[u64]) -> Times {
        let each = micros.iter().map(|micros| Duration::from_micros(*micros)).collect();
        Times { each, all: Duration::from_secs(2) }
    }

    #[test]
    fn line_has_quantiles_and_bars() {
        let mut micros = vec![30; 90];
        micros.extend([100; 9]);
        micros.push(5_000_000);
        assert_eq!(
            line("read", &times(&micros)),
            "read               50    0.03 ms    0.10 ms 5000.00 ms   █ ▁             ▁"
        );
    }

    #[test]
    fn line_without_times_has_zeros() {
        let line = line("lock", &times(&[]));
        assert!(line.starts_with("lock                0    0.00 ms"), "{line}");
    }
}
