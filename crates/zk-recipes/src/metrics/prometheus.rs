//! The text format of Prometheus.

use zk_session::PrometheusPage;

use super::LockMetricsSnapshot;

impl LockMetricsSnapshot {
    /// Writes the values in the text format of Prometheus. `labels` go to each of them, for example
    /// `lock="stock"`; they may be empty. Their values must be escaped already.
    ///
    /// A page may contain this once, because the format names each metric in one place only;
    /// [`PrometheusPage::join`] makes one page of several locks.
    ///
    /// | name | kind |
    /// |---|---|
    /// | `zk_lock_waiting`, `zk_lock_held` | gauges |
    /// | `zk_lock_acquired_total`, `zk_lock_given_up_total` | counters |
    /// | `zk_lock_lost_total`, with the label `reason` | counter |
    /// | `zk_lock_wait_seconds`, `zk_lock_hand_off_seconds` | histograms |
    /// | `zk_lock_hold_seconds`, `zk_lock_lease_left_seconds` | histograms |
    ///
    /// Queries that matter:
    ///
    /// ```text
    /// sum by (reason) (increase(zk_lock_lost_total[5m])) > 0                      a lock was lost
    /// histogram_quantile(0.99, rate(zk_lock_wait_seconds_bucket[5m]))             how long callers wait
    /// histogram_quantile(0.99, rate(zk_lock_hand_off_seconds_bucket[5m])) > 0.1   hand-offs are slow
    /// histogram_quantile(0.01, rate(zk_lock_lease_left_seconds_bucket[1h])) < 2   the margin is short
    /// zk_lock_waiting > 100                                                       the queue grows
    /// ```
    ///
    /// [`Stats::prometheus`](zk_session::Stats::prometheus) has those of the session.
    #[must_use]
    pub fn prometheus(&self, labels: &str) -> String {
        let mut page = PrometheusPage::new(labels);
        page.gauge("zk_lock_waiting", "Contenders that wait.", self.waiting);
        page.gauge("zk_lock_held", "Locks and permits that are held.", self.held);
        page.counter("zk_lock_acquired_total", "Locks acquired.", self.acquired);
        let given_up = "Attempts that ended without the lock.";
        page.counter("zk_lock_given_up_total", given_up, self.given_up);
        let lost = [
            ("session_ended", self.lost_session),
            ("lease_ended", self.lost_lease),
            ("process_paused", self.lost_pause),
            ("node_deleted", self.lost_node),
        ];
        let help = "Locks that were lost while they were held.";
        page.counters("zk_lock_lost_total", help, "reason", &lost);
        page.histogram("zk_lock_wait_seconds", "Time in the queue until the lock.", &self.wait);
        let hand_off = "Time from the event that the contender ahead has gone to the lock.";
        page.histogram("zk_lock_hand_off_seconds", hand_off, &self.hand_off);
        page.histogram("zk_lock_hold_seconds", "Time from the lock to its end.", &self.hold);
        let left = "Time that the lease would have lasted at the release.";
        page.histogram("zk_lock_lease_left_seconds", left, &self.lease_left);
        page.into_text()
    }
}
