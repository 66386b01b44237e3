//! Histograms of durations.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::limits::{HISTOGRAM_BOUNDS, HISTOGRAM_BOUNDS_NS};

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
