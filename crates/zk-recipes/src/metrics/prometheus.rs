//! The text format of Prometheus.

use std::fmt::Write;

use super::{HistogramSnapshot, LockMetricsSnapshot};

impl LockMetricsSnapshot {
    /// Writes the values in the text format of Prometheus. `labels` go to each of them, for example
    /// `lock="stock"`; they may be empty. Their values must be escaped already.
    ///
    /// A page may contain this once, because the format names each metric in one place only.
    ///
    /// | name | kind |
    /// |---|---|
    /// | `zk_lock_waiting`, `zk_lock_held` | gauges |
    /// | `zk_lock_acquired_total`, `zk_lock_given_up_total` | counters |
    /// | `zk_lock_lost_total`, with the label `reason` | counter |
    /// | `zk_lock_wait_seconds`, `zk_lock_hold_seconds`, `zk_lock_lease_left_seconds` | histograms |
    ///
    /// Queries that matter:
    ///
    /// ```text
    /// sum by (reason) (increase(zk_lock_lost_total[5m])) > 0                      a lock was lost
    /// histogram_quantile(0.99, rate(zk_lock_wait_seconds_bucket[5m]))             how long callers wait
    /// histogram_quantile(0.01, rate(zk_lock_lease_left_seconds_bucket[1h])) < 2   the margin is short
    /// zk_lock_waiting > 100                                                       the queue grows
    /// ```
    #[must_use]
    pub fn prometheus(&self, labels: &str) -> String {
        let mut page = Page { text: String::new(), labels };
        page.value("zk_lock_waiting", "gauge", "Contenders that wait.", self.waiting);
        page.value("zk_lock_held", "gauge", "Locks and permits that are held.", self.held);
        page.value("zk_lock_acquired_total", "counter", "Locks acquired.", self.acquired);
        let given_up = "Attempts that ended without the lock.";
        page.value("zk_lock_given_up_total", "counter", given_up, self.given_up);
        page.head("zk_lock_lost_total", "counter", "Locks that were lost while they were held.");
        for (reason, count) in [
            ("session_ended", self.lost_session),
            ("lease_ended", self.lost_lease),
            ("process_paused", self.lost_pause),
            ("node_deleted", self.lost_node),
        ] {
            page.line("zk_lock_lost_total", &format!("reason=\"{reason}\""), count);
        }
        page.histogram("zk_lock_wait_seconds", "Time in the queue until the lock.", &self.wait);
        page.histogram("zk_lock_hold_seconds", "Time from the lock to its end.", &self.hold);
        let left = "Time that the lease would have lasted at the release.";
        page.histogram("zk_lock_lease_left_seconds", left, &self.lease_left);
        page.text
    }
}

struct Page<'a> {
    text: String,
    labels: &'a str,
}

impl Page<'_> {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, name: &str, label: &str, value: impl std::fmt::Display) {
        let both = [self.labels, label];
        let labels: Vec<&str> = both.into_iter().filter(|it| !it.is_empty()).collect();
        let _ = match labels.is_empty() {
            true => writeln!(self.text, "{name} {value}"),
            false => writeln!(self.text, "{name}{{{}}} {value}", labels.join(",")),
        };
    }

    fn value(&mut self, name: &str, kind: &str, help: &str, value: u64) {
        self.head(name, kind, help);
        self.line(name, "", value);
    }

    fn histogram(&mut self, name: &str, help: &str, histogram: &HistogramSnapshot) {
        self.head(name, "histogram", help);
        let bucket = format!("{name}_bucket");
        for (bound, count) in histogram.buckets() {
            self.line(&bucket, &format!("le=\"{}\"", bound.as_secs_f64()), count);
        }
        self.line(&bucket, "le=\"+Inf\"", histogram.count());
        self.line(&format!("{name}_sum"), "", histogram.sum().as_secs_f64());
        self.line(&format!("{name}_count"), "", histogram.count());
    }
}
