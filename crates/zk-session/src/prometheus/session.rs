//! Metrics of a session.

use zk_session_core::Stats;

use super::{Prometheus, PrometheusPage};

/// The counters start again with the next session; those of
/// [`SessionTotals`](crate::SessionTotals) go on. A lost connection is followed by a reconnect, or by
/// the end of the session.
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
impl Prometheus for Stats {
    fn prometheus(&self, labels: &str) -> String {
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

    use zk_session_core::Histogram;

    use super::*;

    #[test]
    fn joined_pages_name_each_metric_once() {
        let [one, mut two] = [Stats::default(), Stats::default()];
        two.ping_round_trip = Some(Duration::from_millis(2));
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
        let latency = Histogram::default();
        latency.record(Duration::from_micros(150));
        latency.record(Duration::from_millis(30));
        let mut stats = Stats::default();
        (stats.in_flight, stats.recursive_watches) = (3, 2);
        stats.request_latency = latency.snapshot();
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
