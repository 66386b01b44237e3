//! The table of a run, in Markdown.

use std::fmt::Write;

use crate::results::Results;
use crate::stats::Samples;
use crate::{roster, throughput, traffic};

pub(crate) fn of(results: &Results) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "| scenario | contestant | p50 | p99 | to the floor | ours to it | p99, ours to it |"
    );
    let _ = writeln!(text, "|---|---|---:|---:|---:|---:|---:|");
    for row in &results.rows {
        let median = |name| row.of(name).map(|samples| samples.quantile_us(0.5));
        let (floor, ours) = (median(roster::FLOOR), median(roster::OURS));
        let late =
            |samples: &Samples| (samples.len() >= P99_FROM).then(|| samples.quantile_us(0.99));
        let ours_late = row.of(roster::OURS).and_then(late);
        let mut title = row.title.as_str();
        for (name, samples) in &row.entries {
            let p50 = samples.quantile_us(0.5);
            let _ = writeln!(
                text,
                "| {title} | {name} | {} | {} | {} | {} | {} |",
                micros(p50),
                late(samples).map_or_else(String::new, micros),
                ratio(floor.map(|floor| p50 / floor)),
                ratio(ours.filter(|_| *name != roster::OURS).map(|ours| ours / p50)),
                ratio(
                    ours_late
                        .filter(|_| *name != roster::OURS)
                        .zip(late(samples))
                        .map(|(a, b)| a / b)
                ),
            );
            title = "";
        }
    }
    text += &traffic::table(&results.traffic);
    text += &throughput::table(&results.throughput);
    for line in &results.skipped {
        let _ = writeln!(text, "\nSkipped: {line}");
    }
    text
}

/// Minimum number of samples for a p99.
const P99_FROM: usize = 100;

fn micros(us: f64) -> String {
    match us {
        ..10_000.0 => format!("{us:.0} us"),
        _ => format!("{:.1} ms", us / 1e3),
    }
}

fn ratio(ratio: Option<f64>) -> String {
    ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}x"))
}
