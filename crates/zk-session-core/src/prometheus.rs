//! The text format of Prometheus.

use std::fmt::{Display, Write};

use crate::{HistogramSnapshot, Stats};

/// Page of metrics in the text format of Prometheus.
///
/// Help texts must fit on a line, and the values of labels must be escaped already. A page may
/// contain each metric once, because the format names it in one place only.
///
/// ```
/// use zk_session_core::PrometheusPage;
///
/// let mut page = PrometheusPage::new("lock=\"stock\"");
/// page.gauge("waiting", "Contenders that wait.", 3);
/// let text = "# HELP waiting Contenders that wait.\n# TYPE waiting gauge\nwaiting{lock=\"stock\"} 3\n";
/// assert_eq!(page.into_text(), text);
/// ```
#[derive(Clone, Debug)]
pub struct PrometheusPage<'a> {
    text: String,
    labels: &'a str,
}

impl<'a> PrometheusPage<'a> {
    /// Creates an empty page. `labels` go to each value, for example `lock="stock"`; they may be
    /// empty.
    #[must_use]
    pub fn new(labels: &'a str) -> Self {
        Self { text: String::new(), labels }
    }

    /// Adds a value that rises and falls.
    pub fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.head(name, "gauge", help);
        self.line(name, "", value);
    }

    /// Adds a value for each of several values of `label`.
    pub fn gauges<V: Display>(&mut self, name: &str, help: &str, label: &str, all: &[(&str, V)]) {
        self.head(name, "gauge", help);
        self.lines(name, label, all);
    }

    /// Adds a value that never decreases. By convention, its name ends in `_total`.
    pub fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.head(name, "counter", help);
        self.line(name, "", value);
    }

    /// Adds a counter for each of several values of `label`.
    pub fn counters(&mut self, name: &str, help: &str, label: &str, all: &[(&str, u64)]) {
        self.head(name, "counter", help);
        self.lines(name, label, all);
    }

    /// Adds a histogram. By convention, its name ends in `_seconds`.
    pub fn histogram(&mut self, name: &str, help: &str, histogram: &HistogramSnapshot) {
        self.head(name, "histogram", help);
        let bucket = format!("{name}_bucket");
        for (bound, count) in histogram.buckets() {
            self.line(&bucket, &format!("le=\"{}\"", bound.as_secs_f64()), count);
        }
        self.line(&bucket, "le=\"+Inf\"", histogram.count());
        self.line(&format!("{name}_sum"), "", histogram.sum().as_secs_f64());
        self.line(&format!("{name}_count"), "", histogram.count());
    }

    /// Joins pages into one, which names each metric once. The pages differ in their labels: for
    /// example, each is of another lock.
    ///
    /// ```
    /// use zk_session_core::PrometheusPage;
    ///
    /// let waiting = |labels, number: u64| {
    ///     let mut page = PrometheusPage::new(labels);
    ///     page.gauge("waiting", "Contenders that wait.", number);
    ///     page.into_text()
    /// };
    /// let page = PrometheusPage::join([waiting("lock=\"a\"", 3), waiting("lock=\"b\"", 0)]);
    /// assert!(page.ends_with("waiting{lock=\"a\"} 3\nwaiting{lock=\"b\"} 0\n"));
    /// ```
    #[must_use]
    pub fn join(pages: impl IntoIterator<Item = String>) -> String {
        // The first line of each metric, which has its name, and all of its lines.
        let mut metrics: Vec<(String, String)> = Vec::new();
        for page in pages {
            let (mut at, mut is_new) = (0, false);
            for line in page.lines() {
                if line.starts_with("# HELP ") {
                    let known = metrics.iter().position(|(head, _)| head == line);
                    (at, is_new) = (known.unwrap_or(metrics.len()), known.is_none());
                    if is_new {
                        metrics.push((line.to_owned(), String::new()));
                    }
                }
                let is_wanted = is_new || !line.starts_with('#');
                if let (Some((_, lines)), true) = (metrics.get_mut(at), is_wanted) {
                    lines.push_str(line);
                    lines.push('\n');
                }
            }
        }
        metrics.into_iter().map(|(_, lines)| lines).collect()
    }

    /// Returns the text of the page.
    #[must_use]
    pub fn into_text(self) -> String {
        self.text
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn lines<V: Display>(&mut self, name: &str, label: &str, all: &[(&str, V)]) {
        for (of, value) in all {
            self.line(name, &format!("{label}=\"{of}\""), value);
        }
    }

    fn line(&mut self, name: &str, label: &str, value: impl Display) {
        let both = [self.labels, label];
        let labels: Vec<&str> = both.into_iter().filter(|label| !label.is_empty()).collect();
        let _ = if labels.is_empty() {
            writeln!(self.text, "{name} {value}")
        } else {
            writeln!(self.text, "{name}{{{}}} {value}", labels.join(","))
        };
    }
}

impl Stats {
    /// Writes the values in the text format of Prometheus. `labels` go to each of them, for example
    /// `ensemble="stock"`; they may be empty. Their values must be escaped already.
    ///
    /// A page may contain this once, because the format names each metric in one place only;
    /// [`PrometheusPage::join`] makes one page of several sessions. The counters start again with the
    /// next session: `SessionManager::totals` has those over all sessions. A lost connection is
    /// followed by a reconnect, or by the end of the session.
    ///
    /// | name | kind |
    /// |---|---|
    /// | `zk_connected`: 1 while connected | gauge |
    /// | `zk_requests_in_flight`, `zk_requests_queued` | gauges |
    /// | `zk_request_latency_seconds` | histogram |
    /// | `zk_ping_round_trip_seconds`, `zk_lease_round_trip_seconds`, once measured | gauges |
    /// | `zk_connections_lost_total` | counter |
    /// | `zk_sent_bytes_total`, `zk_received_bytes_total` | counters |
    /// | `zk_unwritten_bytes` | gauge |
    /// | `zk_watches`, with the label `kind` | gauge |
    /// | `zk_clean_up_pending` | gauge |
    ///
    /// Queries that matter:
    ///
    /// ```text
    /// zk_connected == 0                                                               no server
    /// increase(zk_connections_lost_total[5m]) > 3                                     it reconnects often
    /// histogram_quantile(0.99, rate(zk_request_latency_seconds_bucket[5m])) > 0.5     replies are slow
    /// zk_requests_in_flight + zk_requests_queued > 1000                               replies are missing
    /// rate(zk_sent_bytes_total[5m]) + rate(zk_received_bytes_total[5m])               traffic
    /// sum(zk_watches) > 100000                                                        watches leak
    /// ```
    #[must_use]
    pub fn prometheus(&self, labels: &str) -> String {
        let mut page = PrometheusPage::new(labels);
        let connected = u8::from(self.connected_to.is_some());
        page.gauge("zk_connected", "1 while connected to a server.", connected);
        page.gauge("zk_requests_in_flight", "Sent requests without a reply.", self.in_flight);
        page.gauge("zk_requests_queued", "Requests that wait for a connection.", self.queued);
        let latency = "Time from the sending of a request to its reply.";
        page.histogram("zk_request_latency_seconds", latency, &self.request_latency);
        if let Some(time) = self.ping_round_trip {
            let help = "Round trip of the last ping.";
            page.gauge("zk_ping_round_trip_seconds", help, time.as_secs_f64());
        }
        if let Some(time) = self.heartbeat_round_trip {
            let help = "Round trip of the last lease request.";
            page.gauge("zk_lease_round_trip_seconds", help, time.as_secs_f64());
        }
        let lost = "Established connections that were lost.";
        page.counter("zk_connections_lost_total", lost, self.connections_lost);
        page.counter("zk_sent_bytes_total", "Bytes sent to servers.", self.bytes_sent);
        let received = "Bytes received from servers.";
        page.counter("zk_received_bytes_total", received, self.bytes_received);
        let unwritten = "Bytes that the connection has not accepted yet.";
        page.gauge("zk_unwritten_bytes", unwritten, self.unwritten_bytes);
        let watches = [
            ("one_shot", self.one_shot_watches),
            ("persistent", self.persistent_watches),
            ("recursive", self.recursive_watches),
        ];
        page.gauges("zk_watches", "Watches that have not fired.", "kind", &watches);
        let pending = "Guaranteed deletes without a reply.";
        page.gauge("zk_clean_up_pending", pending, self.clean_up_pending);
        page.into_text()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn counters_of_a_label_have_a_line_for_each_value() {
        let mut page = PrometheusPage::new("of=\"a\"");
        page.counters("lost_total", "Lost locks.", "why", &[("expired", 3), ("deleted", 0)]);
        let text = "# HELP lost_total Lost locks.\n# TYPE lost_total counter\n\
                    lost_total{of=\"a\",why=\"expired\"} 3\nlost_total{of=\"a\",why=\"deleted\"} 0\n";
        assert_eq!(page.into_text(), text);
    }

    #[test]
    fn joined_pages_name_each_metric_once() {
        let one = Stats { in_flight: 3, ..Stats::default() };
        let two = Stats { ping_round_trip: Some(Duration::from_millis(2)), ..Stats::default() };
        let (one, two) = (one.prometheus("of=\"a\""), two.prometheus("of=\"b\""));
        let page = PrometheusPage::join([one.clone(), two.clone()]);
        let mut heads: Vec<&str> = page.lines().filter(|line| line.starts_with('#')).collect();
        let all = heads.len();
        heads.sort_unstable();
        heads.dedup();
        assert_eq!(heads.len(), all, "{page}");
        for line in one.lines().chain(two.lines()) {
            assert!(page.lines().any(|printed| printed == line), "{line} in {page}");
        }
        let (a, b) = ("zk_requests_queued{of=\"a\"} 0\n", "zk_requests_queued{of=\"b\"} 0\n");
        assert!(page.contains(&[a, b].concat()), "{page}");
        assert_eq!(PrometheusPage::join([one.clone()]), one);
    }

    #[test]
    fn page_of_a_session_has_every_value_with_its_labels() {
        let mut stats = Stats { in_flight: 3, recursive_watches: 2, ..Stats::default() };
        stats.request_latency.record(Duration::from_micros(150));
        stats.request_latency.record(Duration::from_millis(30));
        stats.ping_round_trip = Some(Duration::from_millis(2));
        let page = stats.prometheus("of=\"a\"");
        for line in [
            "# TYPE zk_connected gauge",
            "zk_connected{of=\"a\"} 0",
            "zk_requests_in_flight{of=\"a\"} 3",
            "zk_requests_queued{of=\"a\"} 0",
            "# TYPE zk_request_latency_seconds histogram",
            "zk_request_latency_seconds_bucket{of=\"a\",le=\"0.0001\"} 0",
            "zk_request_latency_seconds_bucket{of=\"a\",le=\"0.0002\"} 1",
            "zk_request_latency_seconds_bucket{of=\"a\",le=\"+Inf\"} 2",
            "zk_request_latency_seconds_sum{of=\"a\"} 0.03015",
            "zk_request_latency_seconds_count{of=\"a\"} 2",
            "zk_ping_round_trip_seconds{of=\"a\"} 0.002",
            "# TYPE zk_connections_lost_total counter",
            "zk_connections_lost_total{of=\"a\"} 0",
            "zk_sent_bytes_total{of=\"a\"} 0",
            "zk_received_bytes_total{of=\"a\"} 0",
            "zk_unwritten_bytes{of=\"a\"} 0",
            "# TYPE zk_watches gauge",
            "zk_watches{of=\"a\",kind=\"one_shot\"} 0",
            "zk_watches{of=\"a\",kind=\"recursive\"} 2",
            "zk_clean_up_pending{of=\"a\"} 0",
        ] {
            assert!(page.lines().any(|printed| printed == line), "{line} in {page}");
        }
        assert!(!page.contains("zk_lease_round_trip_seconds"), "not measured yet: {page}");
        assert!(stats.prometheus("").contains("\nzk_watches{kind=\"recursive\"} 2\n"));
    }
}
