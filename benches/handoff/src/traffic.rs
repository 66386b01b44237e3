//! Traffic of a queue: for each hand-off and, if the queue drains, for each waiter from its enqueue to
//! its release.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::proxy::Counts;

/// Traffic of one contestant in one scenario.
pub(crate) struct Traffic {
    pub(crate) scenario: String,
    pub(crate) title: String,
    pub(crate) contestant: &'static str,
    pub(crate) waiters: usize,
    /// Each waiter of a queue that drains, from the start of the contest to its end.
    pub(crate) waiter: Option<Means>,
    /// Each hand-off, from the first release to the end.
    pub(crate) handoff: Means,
}

/// Counts from the start of a contest, and from the first release.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counted {
    pub(crate) contest: Counts,
    pub(crate) drain: Counts,
}

/// Means of counts.
pub(crate) struct Means {
    pub(crate) requests: f64,
    pub(crate) lists: f64,
    pub(crate) events: f64,
    pub(crate) bytes_sent: f64,
    pub(crate) frames_received: f64,
    pub(crate) bytes_received: f64,
}

impl Means {
    pub(crate) fn of(counts: Counts, number: usize) -> Self {
        let each = |count: u64| count as f64 / number as f64;
        Self {
            requests: each(counts.requests),
            lists: each(counts.lists),
            events: each(counts.events),
            bytes_sent: each(counts.bytes_sent),
            frames_received: each(counts.frames_received),
            bytes_received: each(counts.bytes_received),
        }
    }

    fn to_json(&self) -> Value {
        let rounded = |number: f64| (number * 100.0).round() / 100.0;
        json!({
            "requests": rounded(self.requests),
            "lists": rounded(self.lists),
            "events": rounded(self.events),
            "bytes_sent": rounded(self.bytes_sent),
            "answers_and_events": rounded(self.frames_received),
            "bytes_received": rounded(self.bytes_received),
        })
    }
}

pub(crate) fn to_json(traffic: &[Traffic]) -> Value {
    let entries = traffic.iter().map(|it| {
        json!({
            "scenario": it.scenario,
            "contestant": it.contestant,
            "waiters": it.waiters,
            "per_waiter": it.waiter.as_ref().map(Means::to_json),
            "per_handoff": it.handoff.to_json(),
        })
    });
    entries.collect()
}

/// Returns the table in Markdown; empty without traffic.
pub(crate) fn table(traffic: &[Traffic]) -> String {
    let mut text = String::new();
    if traffic.is_empty() {
        return text;
    }
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "\n| traffic of a queue | contestant | requests of a waiter | of these, lists | requests of a \
         hand-off | of these, lists | events | bytes from the server |"
    );
    let _ = writeln!(text, "|---|---|---:|---:|---:|---:|---:|---:|");
    let mut last = "";
    for Traffic { title, contestant, waiter, handoff, .. } in traffic {
        let name = if title == last { "" } else { title };
        last = title;
        let of_waiter = |count: fn(&Means) -> f64| {
            waiter.as_ref().map_or_else(String::new, |waiter| format!("{:.2}", count(waiter)))
        };
        let _ = writeln!(
            text,
            "| {name} | {contestant} | {} | {} | {:.2} | {:.2} | {:.2} | {:.0} |",
            of_waiter(|waiter| waiter.requests),
            of_waiter(|waiter| waiter.lists),
            handoff.requests,
            handoff.lists,
            handoff.events,
            handoff.bytes_received,
        );
    }
    text
}
