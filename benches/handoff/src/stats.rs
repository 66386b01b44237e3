//! What the holds of a contest tell: whether they excluded each other, and how long it took from
//! each release to the owner after.

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

    /// Microseconds; `part` is 0 to 1.
    pub(crate) fn quantile_us(&self, part: f64) -> f64 {
        quantile(&self.sorted, part) / 1e3
    }

    /// Microseconds, one for each round.
    pub(crate) fn round_medians_us(&self) -> impl Iterator<Item = f64> {
        self.round_medians.iter().map(|median| median / 1e3)
    }
}

/// Between the two samples nearest to it, as far as it is from them.
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

/// From each release to the owner that it made; what was free when it was asked for is left out.
///
/// # Errors
/// If two owners held what only one may have, or one overtook another in the queue.
pub(crate) fn handoffs(job: &Job, holds: Vec<Hold>) -> Result<Vec<u64>, String> {
    // Of the last ones some may be missing whose release had not returned when the contest ended.
    let settled = settled_until(&holds);
    let pairs = match job.kind {
        Kind::Semaphore => {
            let holds = holds.into_iter().filter(|hold| hold.owner < settled).collect();
            releases_of_permits(job.permits, holds)
        }
        Kind::Handoff | Kind::Uncontended | Kind::ReadWrite => releases_in_order(holds)?,
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

/// When the last ones came to own.
fn settled_until(holds: &[Hold]) -> u64 {
    let mut owners: Vec<u64> = holds.iter().map(|hold| hold.owner).collect();
    owners.sort_unstable();
    owners.get(owners.len().saturating_sub(UNSETTLED)).copied().unwrap_or(0)
}

/// Each hold with the last release that had to come before it: of every holder ahead of it in the
/// queue, or of every writer if it is a reader's.
fn releases_in_order(mut holds: Vec<Hold>) -> Result<Vec<(u64, Hold)>, String> {
    if let Some(unknown) = holds.iter().find(|hold| hold.order < 0) {
        return Err(format!("whose turn it was is not known: {unknown:?}"));
    }
    // One that is overtaken comes after a release that is later than its own ownership.
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

/// Whoever comes to own as number `permits + n` needs the release that is number `n` in time.
fn releases_of_permits(permits: usize, mut holds: Vec<Hold>) -> Vec<(u64, Hold)> {
    holds.sort_unstable_by_key(|hold| hold.owner);
    let mut releases: Vec<u64> = holds.iter().map(|hold| hold.release).collect();
    releases.sort_unstable();
    releases.into_iter().zip(holds.into_iter().skip(permits)).collect()
}

/// How long the lock was held.
pub(crate) fn hold_times(holds: &[Hold]) -> Vec<u64> {
    holds.iter().map(|hold| hold.release - hold.owner).collect()
}

/// How long the call of acquire took.
pub(crate) fn acquires(holds: &[Hold]) -> Vec<u64> {
    warm(holds).map(|hold| hold.owner - hold.call).collect()
}

/// How long the call of release took.
pub(crate) fn releases(holds: &[Hold]) -> Vec<u64> {
    warm(holds).map(|hold| hold.released - hold.release).collect()
}

fn warm(holds: &[Hold]) -> impl Iterator<Item = &Hold> {
    holds.iter().skip(holds.len() / 10)
}

/// More than can be on their way back from a release at a time.
const UNSETTLED: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn job(line: &str) -> Job {
        Job::parse(line).unwrap()
    }

    /// Holds of 10 ns, each 5 ns after the one before it, with numbers in the same order.
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

    const MUTEX: &str = "run handoff a:1 /a 2 2 0 100 1 1";

    #[test]
    fn a_handoff_is_from_release_to_owner() {
        let samples = handoffs(&job(MUTEX), in_turn(20)).unwrap();
        assert_eq!(samples, vec![5; 20 - UNSETTLED - 1]);
    }

    #[test]
    fn who_came_after_the_release_was_not_handed_anything() {
        let mut holds = in_turn(20);
        holds[3].call = holds[2].release + 1;
        let samples = handoffs(&job(MUTEX), holds).unwrap();
        assert_eq!(samples.len(), 20 - UNSETTLED - 2);
    }

    #[test]
    fn two_owners_at_a_time_are_found() {
        let mut holds = in_turn(20);
        holds[3].owner = holds[2].release - 1;
        let error = handoffs(&job(MUTEX), holds).unwrap_err();
        assert!(error.starts_with("NOT EXCLUSIVE"), "{error}");
    }

    #[test]
    fn who_is_overtaken_is_found() {
        let mut holds = in_turn(20);
        (holds[3].order, holds[4].order) = (4, 3);
        assert!(handoffs(&job(MUTEX), holds).is_err());
    }

    #[test]
    fn readers_may_overlap_each_other_and_no_writer() {
        let line = "run read-write a:1 /a 2 2 0 100 1 1";
        let mut holds = in_turn(20);
        holds[3].shared = true;
        holds[4].shared = true;
        holds[4].owner = holds[3].release - 5;
        assert!(handoffs(&job(line), holds.clone()).is_ok());
        holds[4].shared = false;
        assert!(handoffs(&job(line), holds).is_err());
    }

    #[test]
    fn a_semaphore_hands_on_one_of_its_permits() {
        let line = "run semaphore a:1 /a 2 2 0 100 2 1";
        let mut holds = in_turn(20);
        for hold in &mut holds {
            hold.release += 15;
        }
        let samples = handoffs(&job(line), holds.clone()).unwrap();
        assert_eq!(samples, vec![5; 20 - UNSETTLED - 2]);
        assert!(handoffs(&job(MUTEX), holds).is_err());
    }

    #[test]
    fn quantiles_lie_between_samples() {
        let mut samples = Samples::default();
        samples.add_round(vec![3_000, 1_000]);
        samples.add_round(vec![5_000]);
        assert_eq!(samples.quantile_us(0.5), 3.0);
        assert_eq!(samples.quantile_us(0.25), 2.0);
        assert_eq!(samples.quantile_us(1.0), 5.0);
        assert_eq!(samples.round_medians_us().collect::<Vec<_>>(), [2.0, 5.0]);
    }
}
