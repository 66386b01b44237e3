//! Evaluation of the holds of a contest: mutual exclusion, and the time from each release to the
//! next owner.

use zk_benches::contest::{Hold, Job, Kind};

/// Latencies of one contestant in one scenario, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Samples {
    sorted: Vec<u64>,
    /// The median of each round.
    round_medians: Vec<f64>,
}

impl Samples {
    pub(crate) fn add_round(&mut self, mut samples: Vec<u64>) {
        if samples.is_empty() {
            return;
        }
        samples.sort_unstable();
        self.round_medians.push(quantile(&samples, 0.5));
        self.sorted.extend(samples);
        self.sorted.sort_unstable();
    }

    pub(crate) fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Returns a quantile in microseconds; `part` is 0 to 1.
    pub(crate) fn quantile_us(&self, part: f64) -> f64 {
        quantile(&self.sorted, part) / 1e3
    }

    /// Returns the median of each round, in microseconds.
    pub(crate) fn round_medians_us(&self) -> impl Iterator<Item = f64> {
        self.round_medians.iter().map(|median| median / 1e3)
    }
}

/// Returns the median of samples in any order.
pub(crate) fn median(samples: &[u64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    quantile(&sorted, 0.5)
}

/// Interpolates between the two nearest samples.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a position within a list, which is no more than its length and not negative"
)]
fn quantile(sorted: &[u64], part: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let at = part.clamp(0.0, 1.0) * last as f64;
    let (below, above) = (at.floor() as usize, at.ceil() as usize);
    let (low, high) = (sorted[below] as f64, sorted[above.min(last)] as f64);
    low + (high - low) * (at - at.floor())
}

/// Returns the time from each release to the next owner. A lock that was free when it was requested
/// is left out.
///
/// # Errors
/// Returns an error if two owners held what only one may hold, or if one overtook another in the queue.
pub(crate) fn handoffs(job: &Job, holds: Vec<Hold>) -> Result<Vec<u64>, String> {
    // The last holds are left out: some releases before them may not have returned when the contest
    // ended. If each waiter holds once, the contest ends after the last release.
    let settled = if job.again { settled_until(&holds) } else { u64::MAX };
    let pairs = match job.kind {
        Kind::Semaphore => {
            let holds = holds.into_iter().filter(|hold| hold.owner < settled).collect();
            releases_of_permits(job.permits, holds)
        }
        Kind::Handoff | Kind::Uncontended | Kind::ReadWrite => releases_in_order(holds)?,
        Kind::Connect => Vec::new(),
    };
    let mut samples = Vec::new();
    for (release, hold) in pairs {
        let Some(latency) = hold.owner.checked_sub(release) else {
            return Err(format!(
                "NOT EXCLUSIVE: an owner {} ns before the release that made it one: {hold:?}",
                release - hold.owner
            ));
        };
        if release >= hold.call && hold.owner < settled {
            samples.push(latency);
        }
    }
    Ok(samples)
}

/// Returns when the last [`UNSETTLED`] holds began.
fn settled_until(holds: &[Hold]) -> u64 {
    let mut owners: Vec<u64> = holds.iter().map(|hold| hold.owner).collect();
    owners.sort_unstable();
    owners.get(owners.len().saturating_sub(UNSETTLED)).copied().unwrap_or(0)
}

/// Returns each hold with the last release that must precede it: of every holder ahead of it in the
/// queue, or of every writer ahead of it if it is a reader's.
fn releases_in_order(mut holds: Vec<Hold>) -> Result<Vec<(u64, Hold)>, String> {
    if let Some(unknown) = holds.iter().find(|hold| hold.order < 0) {
        return Err(format!("whose turn it was is not known: {unknown:?}"));
    }
    // A hold that was overtaken follows a release that is later than its own start.
    holds.sort_unstable_by_key(|hold| hold.order);
    let (mut of_all, mut of_writers) = (None, None);
    let mut pairs = Vec::new();
    for hold in holds {
        if let Some(release) = if hold.shared { of_writers } else { of_all } {
            pairs.push((release, hold));
        }
        of_all = of_all.max(Some(hold.release));
        if !hold.shared {
            of_writers = of_writers.max(Some(hold.release));
        }
    }
    Ok(pairs)
}

/// Pairs holds and releases in the order of time: owner number `permits + n` needs release number
/// `n`.
fn releases_of_permits(permits: usize, mut holds: Vec<Hold>) -> Vec<(u64, Hold)> {
    holds.sort_unstable_by_key(|hold| hold.owner);
    let mut releases: Vec<u64> = holds.iter().map(|hold| hold.release).collect();
    releases.sort_unstable();
    releases.into_iter().zip(holds.into_iter().skip(permits)).collect()
}

/// Returns the duration of each hold.
pub(crate) fn hold_times(holds: &[Hold]) -> Vec<u64> {
    holds.iter().map(|hold| hold.release - hold.owner).collect()
}

/// Returns the durations of the acquire calls.
pub(crate) fn acquires(holds: &[Hold]) -> Vec<u64> {
    warm(holds).map(|hold| hold.owner - hold.call).collect()
}

/// Returns the durations of the release calls.
pub(crate) fn releases(holds: &[Hold]) -> Vec<u64> {
    warm(holds).map(|hold| hold.released - hold.release).collect()
}

fn warm(holds: &[Hold]) -> impl Iterator<Item = &Hold> {
    holds.iter().skip(holds.len() / 10)
}

/// More than the number of releases that can be in flight at a time.
const UNSETTLED: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn job(line: &str) -> Job {
        Job::parse(line).unwrap()
    }

    /// Returns holds of 10 ns, each 5 ns after the one before it, with sequence numbers in the same
    /// order.
    fn in_turn(count: u64) -> Vec<Hold> {
        (0..count)
            .map(|turn| Hold {
                call: 0,
                owner: 15 * turn,
                release: 15 * turn + 10,
                released: 15 * turn + 12,
                order: i64::try_from(turn).unwrap(),
                shared: false,
            })
            .collect()
    }

    const MUTEX: &str = "run handoff a:1 /a 2 2 0 100 1 1 1";

    #[test]
    fn handoff_time_runs_from_release_to_next_owner() {
        let samples = handoffs(&job(MUTEX), in_turn(20)).unwrap();
        assert_eq!(samples, vec![5; 20 - UNSETTLED - 1]);
    }

    #[test]
    fn acquire_called_after_the_release_is_no_handoff() {
        let mut holds = in_turn(20);
        holds[3].call = holds[2].release + 1;
        let samples = handoffs(&job(MUTEX), holds).unwrap();
        assert_eq!(samples.len(), 20 - UNSETTLED - 2);
    }

    #[test]
    fn overlapping_owners_are_an_error() {
        let mut holds = in_turn(20);
        holds[3].owner = holds[2].release - 1;
        let error = handoffs(&job(MUTEX), holds).unwrap_err();
        assert!(error.starts_with("NOT EXCLUSIVE"), "{error}");
    }

    #[test]
    fn overtaking_in_the_queue_is_an_error() {
        let mut holds = in_turn(20);
        (holds[3].order, holds[4].order) = (4, 3);
        assert!(handoffs(&job(MUTEX), holds).is_err());
    }

    #[test]
    fn readers_may_overlap_readers_but_no_writer() {
        let line = "run read-write a:1 /a 2 2 0 100 1 1 1";
        let mut holds = in_turn(20);
        holds[3].shared = true;
        holds[4].shared = true;
        holds[4].owner = holds[3].release - 5;
        assert!(handoffs(&job(line), holds.clone()).is_ok());
        holds[4].shared = false;
        assert!(handoffs(&job(line), holds).is_err());
    }

    #[test]
    fn semaphore_owners_may_overlap_up_to_the_permits() {
        let line = "run semaphore a:1 /a 2 2 0 100 2 1 1";
        let mut holds = in_turn(20);
        for hold in &mut holds {
            hold.release += 15;
        }
        let samples = handoffs(&job(line), holds.clone()).unwrap();
        assert_eq!(samples, vec![5; 20 - UNSETTLED - 2]);
        assert!(handoffs(&job(MUTEX), holds).is_err());
    }

    #[test]
    fn quantiles_are_interpolated_between_samples() {
        let mut samples = Samples::default();
        samples.add_round(vec![3_000, 1_000]);
        samples.add_round(vec![5_000]);
        assert_eq!(samples.quantile_us(0.5), 3.0);
        assert_eq!(samples.quantile_us(0.25), 2.0);
        assert_eq!(samples.quantile_us(1.0), 5.0);
        assert_eq!(samples.round_medians_us().collect::<Vec<_>>(), [2.0, 5.0]);
    }
}
