//! Counters, gauges and histograms of locks, and the text format of Prometheus.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub use zk_session::HistogramSnapshot;

use zk_session::{Histogram, Prometheus, PrometheusPage};

use crate::error::LossReason;

/// Counters, gauges and histograms of the locks that it is given to, with `with_metrics`.
///
/// The handle is cheap to clone. One may serve all locks of a service, or each lock has its own. A
/// lock without metrics measures nothing.
///
/// [`snapshot`](Self::snapshot) returns the values, for any exporter.
/// [`Prometheus`] writes them in Prometheus' text format; the example
/// `http_service` serves it at `/metrics`. For the session see
/// [`Client::stats`](zk_session::Client::stats), which has the latency of requests.
///
/// ```no_run
/// # async fn example(client: zk_session::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_recipes::session::Prometheus;
/// use zk_recipes::{LockMetrics, Mutex};
///
/// let metrics = LockMetrics::new();
/// let lock = Mutex::new(&client, "/locks/stock")?.with_metrics(&metrics);
/// lock.acquire().await?.release().await?;
/// assert_eq!(metrics.snapshot().acquired, 1);
/// println!("{}", metrics.snapshot().prometheus("lock=\"stock\""));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
pub struct LockMetrics(Arc<Values>);

#[derive(Debug, Default)]
struct Values {
    waiting: AtomicU64,
    held: AtomicU64,
    acquired: AtomicU64,
    given_up: AtomicU64,
    lost_session: AtomicU64,
    lost_lease: AtomicU64,
    lost_pause: AtomicU64,
    lost_node: AtomicU64,
    wait: Histogram,
    hand_off: Histogram,
    hold: Histogram,
    lease_left: Histogram,
}

/// Values of [`LockMetrics`] at one moment. Counters never decrease.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockMetricsSnapshot {
    /// Number of contenders in the queue of the ensemble. Tasks that wait in a local queue, for
    /// their turn at a semaphore, or for another task of the same owner, are not among them.
    pub waiting: u64,
    /// Number of locks, or permits, that are held now.
    pub held: u64,
    /// Number of times a lock or a permit was acquired. A re-entry does not count, except for a
    /// reader beside its own writer, and a writer that becomes a reader.
    pub acquired: u64,
    /// Number of contenders that left the queue without the lock: after a timeout, a dropped future,
    /// an error, or for `try_acquire` because the lock was not free in the ensemble.
    pub given_up: u64,
    /// Number of locks that were lost with their session. The reason of a loss is the one that is
    /// known when the guard of the lost lock is released or dropped.
    pub lost_session: u64,
    /// Number of locks that were lost because the ensemble did not answer within the lease.
    pub lost_lease: u64,
    /// Number of locks that were lost because the process did not run.
    pub lost_pause: u64,
    /// Number of locks that were lost because somebody deleted their nodes.
    pub lost_node: u64,
    /// Time in the queue of the ensemble, until the lock was acquired.
    pub wait: HistogramSnapshot,
    /// Time from the moment at which a waiter learns that the contender ahead of it has gone, until
    /// it acquires the lock. Contenders that did not wait are not counted.
    ///
    /// It begins when the waiter's task handles the event. It contains the requests that the waiter
    /// still needs, for example a list of the queue. With a [`Ticket`](crate::Ticket) it contains the time
    /// until the caller acquires the lock. At a semaphore it begins with the last event before the
    /// permits are free: the waiter's turn, the release of a permit, or a higher limit.
    pub hand_off: HistogramSnapshot,
    /// Time from the acquisition to the release, or until the guard of a lost lock is dropped.
    pub hold: HistogramSnapshot,
    /// Time for which the lease would have lasted at the release: the margin of the lock. A margin
    /// that is often short calls for a longer session timeout, or for shorter holds.
    pub lease_left: HistogramSnapshot,
}

impl LockMetrics {
    /// Returns metrics that count from zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the values at this moment.
    #[must_use]
    pub fn snapshot(&self) -> LockMetricsSnapshot {
        let values = &*self.0;
        let of = |value: &AtomicU64| value.load(Ordering::Relaxed);
        LockMetricsSnapshot {
            waiting: of(&values.waiting),
            held: of(&values.held),
            acquired: of(&values.acquired),
            given_up: of(&values.given_up),
            lost_session: of(&values.lost_session),
            lost_lease: of(&values.lost_lease),
            lost_pause: of(&values.lost_pause),
            lost_node: of(&values.lost_node),
            wait: values.wait.snapshot(),
            hand_off: values.hand_off.snapshot(),
            hold: values.hold.snapshot(),
            lease_left: values.lease_left.snapshot(),
        }
    }

    pub(crate) fn began_to_wait(&self) {
        self.0.waiting.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn waited(&self, time: Duration, hand_off: Option<Duration>) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
        self.0.wait.record(time);
        if let Some(hand_off) = hand_off {
            self.0.hand_off.record(hand_off);
        }
    }

    pub(crate) fn gave_up(&self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
        self.0.given_up.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn acquired(&self) {
        self.0.acquired.fetch_add(1, Ordering::Relaxed);
        self.0.held.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn ended(&self, held: Duration, loss: Option<LossReason>, lease_left: Duration) {
        let values = &*self.0;
        values.held.fetch_sub(1, Ordering::Relaxed);
        values.hold.record(held);
        let lost = match loss {
            None | Some(LossReason::Released) => return values.lease_left.record(lease_left),
            Some(LossReason::SessionEnded(_)) => &values.lost_session,
            Some(LossReason::LeaseDeadlinePassed) => &values.lost_lease,
            Some(LossReason::ProcessPaused(_)) => &values.lost_pause,
            Some(LossReason::NodeDeleted) => &values.lost_node,
        };
        lost.fetch_add(1, Ordering::Relaxed);
    }
}

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
impl Prometheus for LockMetricsSnapshot {
    fn prometheus(&self, labels: &str) -> String {
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
