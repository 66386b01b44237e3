//! Plots of a run: the distribution of latencies, and their growth with the queue.

use plotters::style::RGBColor;

use crate::results::{Results, Row};
use crate::roster;
use crate::svg::{Axis, Chart, Line};
use crate::traffic::Traffic;

/// Returns each plot that has data, with its file name.
pub(crate) fn all(results: &Results) -> Vec<(String, Chart)> {
    let distributions = results
        .rows
        .iter()
        .filter(|row| DISTRIBUTIONS.contains(&row.name.as_str()))
        .map(|row| (format!("{}.svg", row.name), distribution(row)));
    let growths = [1, 0].into_iter().filter_map(|hold_ms| {
        let rows: Vec<&Row> = results
            .rows
            .iter()
            .filter(|row| row.name.starts_with("handoff-") && row.hold_ms == hold_ms)
            .collect();
        (rows.len() > 1).then(|| (format!("waiters-{hold_ms}ms.svg"), growth(&rows, hold_ms)))
    });
    let herd = herd(&results.traffic).map(|chart| ("herd.svg".to_owned(), chart));
    distributions.chain(growths).chain(herd).collect()
}

/// Draws what a hand-off costs with and without a queue. Returns `None` without both.
fn herd(traffic: &[Traffic]) -> Option<Chart> {
    let line = |(contestant, what, colour, of): (&str, &str, RGBColor, fn(&Traffic) -> f64)| {
        let own = traffic
            .iter()
            .filter(|it| it.contestant == contestant && it.scenario.starts_with("herd-"));
        let points: Vec<_> = own.map(|it| (it.waiters as f64, of(it))).collect();
        let name = format!("{contestant}, {what}");
        (points.len() > 1).then_some(Line { name, colour, points, marks: true })
    };
    let lines: Option<Vec<Line>> = [
        (
            roster::HERD,
            "requests",
            RGBColor(0xd5, 0x5e, 0x00),
            (|it| it.handoff.requests) as fn(&Traffic) -> f64,
        ),
        (roster::HERD, "events", RGBColor(0xe6, 0x9f, 0x00), |it| it.handoff.events),
        (roster::OURS, "requests", RGBColor(0x00, 0x72, 0xb2), |it| it.handoff.requests),
        (roster::OURS, "events", RGBColor(0x56, 0xb4, 0xe9), |it| it.handoff.events),
    ]
    .into_iter()
    .map(line)
    .collect();
    Some(Chart {
        title: "one node for all (herd), and a queue (ours)".to_owned(),
        x: Axis::logarithmic("waiters at the start, each holds once"),
        y: Axis::logarithmic("mean for each hand-off"),
        lines: lines?,
    })
}

fn distribution(row: &Row) -> Chart {
    let line = |(name, samples): &(&'static str, crate::stats::Samples)| Line {
        name: (*name).to_owned(),
        colour: colour_of(name),
        points: (0..=STEPS)
            .map(|step| PART_SHOWN * f64::from(step) / f64::from(STEPS))
            .map(|part| (samples.quantile_us(part), part * 100.0))
            .collect(),
        marks: false,
    };
    Chart {
        title: row.title.clone(),
        x: Axis::logarithmic("latency in microseconds, up to p99"),
        y: Axis::linear("% of samples at most that", 0.0, 100.0),
        lines: row.entries.iter().map(line).collect(),
    }
}

fn growth(rows: &[&Row], hold_ms: u128) -> Chart {
    let mut names: Vec<&'static str> = Vec::new();
    for (name, _) in rows.iter().flat_map(|row| &row.entries) {
        if !names.contains(name) {
            names.push(name);
        }
    }
    let line = |name: &'static str| Line {
        name: name.to_owned(),
        colour: colour_of(name),
        points: rows
            .iter()
            .filter_map(|row| Some((row.waiters as f64, row.of(name)?.quantile_us(0.5))))
            .collect(),
        marks: true,
    };
    Chart {
        title: format!("hand-off by the number of waiters, hold {hold_ms} ms"),
        x: Axis::logarithmic("waiters"),
        y: Axis::logarithmic("median, microseconds"),
        lines: names.into_iter().map(line).collect(),
    }
}

/// Returns the colour of a contestant. Readers with colour blindness can distinguish these colours.
fn colour_of(name: &str) -> RGBColor {
    match name {
        "ours" => RGBColor(0xd5, 0x5e, 0x00),
        "floor" => RGBColor(0x66, 0x66, 0x66),
        "classic" => RGBColor(0x00, 0x72, 0xb2),
        "marked" => RGBColor(0x56, 0xb4, 0xe9),
        "zookeeper-client" => RGBColor(0x00, 0x9e, 0x73),
        "curator" => RGBColor(0xcc, 0x79, 0xa7),
        "ours-tls" => RGBColor(0xe6, 0x9f, 0x00),
        "marked-tls" => RGBColor(0x00, 0x33, 0x66),
        _ => RGBColor(0xa0, 0x80, 0x00),
    }
}

const DISTRIBUTIONS: [&str; 4] =
    ["handoff-10-1ms", "handoff-10-0ms", "handoff-1000-1ms", "uncontended-acquire"];
/// The largest quantile in a plot. Later samples show the scheduler, and would compress the rest of
/// the plot.
const PART_SHOWN: f64 = 0.99;
/// Steps between the points of a distribution.
const STEPS: u32 = 200;
