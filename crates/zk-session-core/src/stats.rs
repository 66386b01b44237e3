//! Statistics of a session, and histograms of durations.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use proto::SessionId;

use crate::Host;
use crate::limits::{HISTOGRAM_BOUNDS, HISTOGRAM_BOUNDS_NS};

/// Snapshot of the statistics of a session. Counters begin with the client and never decrease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Id of the session; [`SessionId::NONE`] if there is none yet.
    pub session_id: SessionId,
    /// Server to which requests are sent, while connected.
    pub connected_to: Option<Host>,
    /// Number of requests that were sent and are not answered, including the session's own.
    pub in_flight: usize,
    /// Number of requests that wait for a connection.
    pub queued: usize,
    /// Bytes of the requests that wait for a connection.
    pub queued_bytes: usize,
    /// Bytes of sent requests that the connection has not accepted yet.
    pub unwritten_bytes: usize,
    /// Number of guaranteed deletes that no server has answered yet.
    pub clean_up_pending: usize,
    /// Number of frames encoded for servers, including handshakes and pings.
    pub frames_sent: u64,
    /// Number of bytes that connections have accepted.
    pub bytes_sent: u64,
    /// Number of frames received from servers.
    pub frames_received: u64,
    /// Bytes of the frames received from servers.
    pub bytes_received: u64,
    /// Number of established connections that were lost.
    pub connections_lost: u64,
    /// Time from the sending of a request until its reply is processed.
    ///
    /// A request is sent when the session passes it to the connection. Time in the connection's
    /// buffer counts; time [without a connection](Self::queued) does not. Every reply counts, also an
    /// error, and a reply for which no caller waits. Requests of the session itself count, except
    /// pings and lease requests: these overtake other requests, and have their own round-trip times.
    pub request_latency: HistogramSnapshot,
    /// Round-trip time of the last answered ping, to the server and back.
    pub ping_round_trip: Option<Duration>,
    /// Round-trip time of the last answered lease request, to the leader and back or including a
    /// round of the quorum.
    pub heartbeat_round_trip: Option<Duration>,
    /// Number of one-shot watches that have not fired.
    pub one_shot_watches: usize,
    /// Number of persistent watches of a node and all its descendants.
    pub recursive_watches: usize,
    /// Number of persistent watches of a node and its list of children.
    pub persistent_watches: usize,
    /// Time for which the lease stays valid if nothing more arrives; `None` if it is not valid.
    pub lease_left: Option<Duration>,
    /// Evidence for the lease, which explains why it ended.
    pub lease: LeaseStats,
}

/// Evidence for a lease. All values are ages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseStats {
    /// Age of the time from which the session timeout counts, by the evidence so far.
    pub proven: Option<Duration>,
    /// Time since the last answered request that only a leader answers was sent.
    pub leader_answered: Option<Duration>,
    /// Time since the last answered request that a quorum agreed to was sent.
    pub quorum_answered: Option<Duration>,
    /// Time since the oldest unanswered request was sent.
    pub oldest_unanswered: Option<Duration>,
}

impl Stats {
    /// Notes that a frame of this length has arrived.
    pub(crate) fn received(&mut self, len: usize) {
        self.frames_received += 1;
        self.bytes_received += u64::try_from(4 + len).unwrap_or(u64::MAX);
    }
}

/// One for each bound, and one for longer durations.
const BUCKETS: usize = HISTOGRAM_BOUNDS.len() + 1;

/// Histogram of durations that several tasks record. Recording neither locks nor allocates.
#[derive(Debug, Default)]
pub struct Histogram {
    counts: [AtomicU64; BUCKETS],
    sum_ns: AtomicU64,
}

impl Histogram {
    /// Records a duration.
    pub fn record(&self, time: Duration) {
        let ns = nanoseconds(time);
        self.counts[bucket_of(ns)].fetch_add(1, Ordering::Relaxed);
        self.sum_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// Returns the values at this moment.
    #[must_use]
    pub fn snapshot(&self) -> HistogramSnapshot {
        let counts = self.counts.each_ref().map(|count| count.load(Ordering::Relaxed));
        HistogramSnapshot { counts, sum_ns: self.sum_ns.load(Ordering::Relaxed) }
    }
}

/// Values of a histogram of durations at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistogramSnapshot {
    counts: [u64; BUCKETS],
    sum_ns: u64,
}

impl HistogramSnapshot {
    /// Records a duration, for an owner that needs no [`Histogram`] because only one task records.
    #[inline]
    pub(crate) fn record(&mut self, time: Duration) {
        let ns = nanoseconds(time);
        self.counts[bucket_of(ns)] += 1;
        self.sum_ns = self.sum_ns.wrapping_add(ns);
    }

    /// Returns the number of durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the sum of the durations.
    #[must_use]
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum_ns)
    }

    /// Returns, for each of [`HISTOGRAM_BOUNDS`], the number of durations of at most that length.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        let mut below = 0;
        HISTOGRAM_BOUNDS.iter().zip(&self.counts).map(move |(bound, count)| {
            below += count;
            (*bound, below)
        })
    }
}

/// Returns the index of the first bound that a duration does not exceed. The search is linear,
/// because most round trips are within the first bounds.
#[inline]
fn bucket_of(ns: u64) -> usize {
    HISTOGRAM_BOUNDS_NS.iter().position(|bound| ns <= *bound).unwrap_or(BUCKETS - 1)
}

/// Returns a duration in nanoseconds, up to 584 years.
#[inline]
fn nanoseconds(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1_000_000_000).saturating_add(time.subsec_nanos().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stats_print_the_session_id_in_hexadecimal() {
        let stats =
            Stats { session_id: SessionId(0x1_0000_0002), in_flight: 3, ..Stats::default() };
        let printed = format!("{stats:?}");
        assert!(printed.starts_with("Stats { session_id: 0x100000002, "), "{printed}");
        assert!(printed.contains("in_flight: 3"), "{printed}");
    }

    #[test]
    fn durations_are_counted_up_to_their_bound() {
        let (histogram, mut alone) = (Histogram::default(), HistogramSnapshot::default());
        for ms in [0, 1, 2, 2, 7, 1_000_000] {
            histogram.record(Duration::from_millis(ms));
            alone.record(Duration::from_millis(ms));
        }
        let snapshot = histogram.snapshot();
        assert_eq!(snapshot, alone);
        assert_eq!(snapshot.count(), 6);
        assert_eq!(snapshot.sum(), Duration::from_millis(1_000_012));
        let upto = |ms| {
            let bound = Duration::from_millis(ms);
            snapshot.buckets().find(|(other, _)| *other == bound).unwrap().1
        };
        assert_eq!([upto(1), upto(2), upto(5), upto(10)], [2, 4, 4, 5]);
        assert_eq!(snapshot.buckets().last().unwrap().1, 5, "one is longer than all bounds");
    }

    #[test]
    fn bounds_grow() {
        assert!(HISTOGRAM_BOUNDS.is_sorted_by(|one, other| one < other));
    }
}
