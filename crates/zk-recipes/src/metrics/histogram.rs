//! Histograms of durations.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::limits::HISTOGRAM_BOUNDS;

/// Counts of durations by their length, which any task may add to.
#[derive(Debug, Default)]
pub(super) struct Histogram {
    /// One for each bound, and one for what is longer.
    counts: [AtomicU64; HISTOGRAM_BOUNDS.len() + 1],
    sum_us: AtomicU64,
}

impl Histogram {
    pub(super) fn add(&self, time: Duration) {
        let at = HISTOGRAM_BOUNDS.partition_point(|bound| *bound < time);
        self.counts[at].fetch_add(1, Ordering::Relaxed);
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    pub(super) fn snapshot(&self) -> HistogramSnapshot {
        let counts = self.counts.each_ref().map(|count| count.load(Ordering::Relaxed));
        let sum = Duration::from_micros(self.sum_us.load(Ordering::Relaxed));
        HistogramSnapshot { counts, sum }
    }
}

/// Durations, counted by their length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistogramSnapshot {
    counts: [u64; HISTOGRAM_BOUNDS.len() + 1],
    sum: Duration,
}

impl HistogramSnapshot {
    /// Returns the number of durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the sum of the durations.
    #[must_use]
    pub fn sum(&self) -> Duration {
        self.sum
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_counted_up_to_their_bound() {
        let histogram = Histogram::default();
        for ms in [0, 1, 2, 2, 7, 1_000_000] {
            histogram.add(Duration::from_millis(ms));
        }
        let snapshot = histogram.snapshot();
        assert_eq!(snapshot.count(), 6);
        assert_eq!(snapshot.sum(), Duration::from_millis(1_000_012));
        let upto = |ms| {
            let bound = Duration::from_millis(ms);
            snapshot.buckets().find(|(it, _)| *it == bound).unwrap().1
        };
        assert_eq!([upto(1), upto(2), upto(5), upto(10)], [2, 4, 4, 5]);
        assert_eq!(snapshot.buckets().last().unwrap().1, 5, "one is longer than all bounds");
    }

    #[test]
    fn bounds_grow() {
        assert!(HISTOGRAM_BOUNDS.is_sorted_by(|one, other| one < other));
    }
}
