//! Text summaries of margins.

use std::fmt::Write;

/// Formats minimum, percentiles and a histogram of margins in microseconds.
pub fn margins(margins_us: &[i64]) -> String {
    let mut sorted = margins_us.to_vec();
    sorted.sort_unstable();
    let [Some(min), Some(p1), Some(p50), Some(p99), Some(max)] =
        [0, 1, 50, 99, 100].map(|percent| percentile(&sorted, percent))
    else {
        return "margins: none\n".to_owned();
    };
    let mut text = format!(
        "margins of {}: min {} ms, p1 {} ms, p50 {} ms, p99 {} ms, max {} ms\n",
        sorted.len(),
        ms(min),
        ms(p1),
        ms(p50),
        ms(p99),
        ms(max)
    );
    let width_us = width(max - min.min(0));
    let first = min.div_euclid(width_us);
    for bucket in first..=max.div_euclid(width_us) {
        let from = bucket * width_us;
        let count = sorted.iter().filter(|delay| delay.div_euclid(width_us) == bucket).count();
        let bar = "#".repeat((count * BAR_LEN).div_ceil(sorted.len()));
        let _ = writeln!(text, "{:>7} .. {:>6} ms {count:>5} {bar}", ms(from), ms(from + width_us));
    }
    text
}

/// Returns the percentile of sorted numbers; `None` if there are none.
pub fn percentile(sorted: &[i64], percent: usize) -> Option<i64> {
    let last = sorted.len().checked_sub(1)?;
    Some(sorted[last * percent / 100])
}

/// Returns a round bucket width, so that at most a dozen buckets cover `span_us`.
fn width(span_us: i64) -> i64 {
    let widths = (0..7).flat_map(|power| [1, 2, 5].map(|digit| digit * 10_i64.pow(power + 3)));
    widths.into_iter().find(|width| span_us / width < BUCKETS).unwrap_or(i64::MAX)
}

fn ms(us: i64) -> i64 {
    us.div_euclid(1_000)
}

const BUCKETS: i64 = 12;
const BAR_LEN: usize = 50;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn margins_report_has_percentiles_and_histogram() {
        let text = margins(&[-1_500, 2_000, 2_500, 9_000]);
        let mut lines = text.lines();
        let first = lines.next().unwrap();
        assert_eq!(first, "margins of 4: min -2 ms, p1 -2 ms, p50 2 ms, p99 2 ms, max 9 ms");
        let total: usize = lines
            .map(|line| line.split_whitespace().nth(4).unwrap())
            .map(|count| count.parse::<usize>().unwrap())
            .sum();
        assert_eq!(total, 4, "{text}");
        assert_eq!(margins(&[]), "margins: none\n");
    }
}
