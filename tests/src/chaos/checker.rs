//! The checker: judges a history of contenders by the promises of a lock.
//!
//! The checker is pure: the same events give the same verdict. It applies these rules:
//!
//! * A guard is valid from the return of `acquire` until the last time that its `token()` was `Ok`.
//!   Guards that exclude each other are never valid at the same time.
//! * `lost()` returns before the next guard is granted. A process that was stopped in between is
//!   excused, because it could not run.
//! * `token()` fails after `lost()` has returned.
//! * Tokens grow from one guard to the next, except among guards that are valid together.
//! * A guard is granted before it is lost or released, and ends once.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};

use super::event::{Access, Event, What};
pub use super::violation::{Pair, Violation};

/// Judges a history. The order of the events does not matter, except among those of equal time.
pub fn check(events: &[Event]) -> Verdict {
    let mut events: Vec<&Event> = events.iter().collect();
    events.sort_by_key(|event| event.at_us);
    let mut reader = Reader::default();
    for event in events {
        reader.read(event);
    }
    let Reader { grants, mut verdict, .. } = reader;
    let mut locks: BTreeMap<&str, Vec<&Grant>> = BTreeMap::new();
    for grant in &grants {
        locks.entry(&grant.lock).or_default().push(grant);
    }
    for grants in locks.values() {
        for (index, grant) in grants.iter().enumerate() {
            verdict.compare(grant, &grants[..index]);
            verdict.measure(grant, grants);
        }
    }
    verdict
}

/// Result of judging one or more histories.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Number of grants.
    pub grants: usize,
    /// Number of lost guards, by reason.
    pub losses: BTreeMap<String, usize>,
    /// For each lost guard, the time in microseconds from its end to the first grant that it
    /// excludes. A negative margin is a violation as well.
    pub margins_us: Vec<i64>,
    /// Broken promises.
    pub violations: Vec<Violation>,
}

impl Verdict {
    /// Adds the verdict of another history.
    pub fn add(&mut self, other: Self) {
        self.grants += other.grants;
        for (reason, count) in other.losses {
            *self.losses.entry(reason).or_default() += count;
        }
        self.margins_us.extend(other.margins_us);
        self.violations.extend(other.violations);
    }

    /// Compares a grant with the earlier grants.
    fn compare(&mut self, grant: &Grant, earlier: &[&Grant]) {
        for other in earlier.iter().filter(|other| other.excludes(grant)) {
            let pair = || other.before(grant);
            match other.end_us().cmp(&grant.from_us) {
                Ordering::Greater if other.valid_until_us > grant.from_us => {
                    let by_us = other.valid_until_us - grant.from_us;
                    self.violations.push(Violation::TwoValidGuards { pair: pair(), by_us });
                }
                Ordering::Greater => {
                    let by_us = other.end_us() - grant.from_us;
                    self.violations.push(Violation::LateLoss { pair: pair(), by_us });
                }
                _ => {}
            }
            if other.token >= grant.token {
                self.violations.push(Violation::TokenWentBack { pair: pair() });
            }
        }
        let Access::Permits { taken, of } = grant.access else { return };
        let others: u32 = permits_at(grant.from_us, earlier);
        if others + taken > of {
            let violation = Violation::TooManyPermits {
                lock: grant.lock.clone(),
                at_us: grant.from_us,
                taken: others + taken,
                of,
            };
            self.violations.push(violation);
        }
    }

    /// Measures the margin of a lost grant: the time until the first grant that it excludes.
    fn measure(&mut self, lost: &Grant, grants: &[&Grant]) {
        if lost.lost_us.is_none() {
            return;
        }
        // The grants are sorted by start, so `earlier` has those that started before `next`.
        let next = grants.iter().enumerate().find(|(index, next)| {
            next.from_us >= lost.from_us
                && !std::ptr::eq(**next, lost)
                && (lost.excludes(next) || lost.leaves_too_few(next, &grants[..*index]))
        });
        if let Some((_, next)) = next {
            let (next, end) = (next.from_us.cast_signed(), lost.end_us().cast_signed());
            self.margins_us.push(next - end);
        }
    }
}

/// One guard, from its grant to its end.
#[derive(Debug)]
struct Grant {
    lock: String,
    contender: u32,
    access: Access,
    token: i64,
    from_us: u64,
    /// The last time that `token()` was `Ok`.
    valid_until_us: u64,
    /// When `lost()` returned, if the guard was lost.
    lost_us: Option<u64>,
    /// Whether the process was stopped after `valid_until_us`.
    was_stopped: bool,
}

impl Grant {
    /// Returns when the guard ended for its holder.
    fn end_us(&self) -> u64 {
        match self.lost_us {
            Some(lost_us) if !self.was_stopped => lost_us.max(self.valid_until_us),
            _ => self.valid_until_us,
        }
    }

    fn before(&self, second: &Self) -> Pair {
        Pair {
            lock: second.lock.clone(),
            contenders: [self.contender, second.contender],
            tokens: [self.token, second.token],
            at_us: second.from_us,
        }
    }

    /// Returns whether the two guards must never be valid together, regardless of other guards.
    fn excludes(&self, other: &Self) -> bool {
        matches!(
            (self.access, other.access),
            (Access::Exclusive, Access::Exclusive | Access::Shared)
                | (Access::Shared, Access::Exclusive)
        )
    }

    /// Returns whether the semaphore had too few permits for `next` while this guard was valid.
    fn leaves_too_few(&self, next: &Self, earlier: &[&Self]) -> bool {
        match (self.access, next.access) {
            (Access::Permits { taken: own, .. }, Access::Permits { taken, of }) => {
                let counted = self.valid_until_us >= next.from_us;
                let others = permits_at(next.from_us, earlier);
                others + taken + if counted { 0 } else { own } > of
            }
            _ => false,
        }
    }
}

/// Returns the number of permits in guards that are valid at a time.
fn permits_at(at_us: u64, grants: &[&Grant]) -> u32 {
    let valid = grants.iter().filter(|grant| grant.valid_until_us > at_us);
    valid
        .map(|grant| match grant.access {
            Access::Permits { taken, .. } => taken,
            Access::Exclusive | Access::Shared => 0,
        })
        .sum()
}

/// The last stop of a process.
#[derive(Clone, Copy, Debug)]
enum Stop {
    /// The process is still stopped, or it was continued and the engine has not recorded that yet.
    Since,
    Until(u64),
}

impl Stop {
    fn lasts_until(self, at_us: u64) -> bool {
        match self {
            Self::Since => true,
            Self::Until(end_us) => end_us >= at_us,
        }
    }
}

/// Reader that turns events into grants.
#[derive(Debug, Default)]
struct Reader {
    grants: Vec<Grant>,
    /// Index of the last grant of a contender and a lock, and whether that grant is still open.
    last: HashMap<(u32, String), (usize, bool)>,
    /// When a contender was last stopped or continued.
    last_stop: HashMap<u32, Stop>,
    verdict: Verdict,
}

impl Reader {
    fn read(&mut self, event: &Event) {
        match &event.what {
            What::Granted { access, token } => self.grant(event, *access, *token),
            What::Valid => self.extend(event),
            What::Lost { reason } => {
                let stop = self.last_stop.get(&event.contender).copied();
                if let Some(grant) = self.end(event) {
                    grant.lost_us = Some(event.at_us);
                    grant.was_stopped =
                        stop.is_some_and(|stop| stop.lasts_until(grant.valid_until_us));
                    *self.verdict.losses.entry(reason.clone()).or_default() += 1;
                }
            }
            What::Releasing => {
                self.end(event);
            }
            What::Stopped => {
                self.last_stop.insert(event.contender, Stop::Since);
            }
            What::Continued => {
                self.last_stop.insert(event.contender, Stop::Until(event.at_us));
            }
            What::Killed => {
                let own = self.last.iter_mut().filter(|((who, _), _)| *who == event.contender);
                own.for_each(|(_, (_, is_open))| *is_open = false);
            }
            What::Note(_) => {}
        }
    }

    fn grant(&mut self, event: &Event, access: Access, token: i64) {
        let key = (event.contender, event.lock.clone());
        if matches!(self.last.get(&key), Some((_, true))) {
            let event = Box::new(event.clone());
            self.verdict.violations.push(Violation::GrantedTwice { event });
        }
        self.last.insert(key, (self.grants.len(), true));
        self.verdict.grants += 1;
        self.grants.push(Grant {
            lock: event.lock.clone(),
            contender: event.contender,
            access,
            token,
            from_us: event.at_us,
            valid_until_us: event.at_us,
            lost_us: None,
            was_stopped: false,
        });
    }

    fn extend(&mut self, event: &Event) {
        match self.last.get(&(event.contender, event.lock.clone())) {
            Some((index, is_open)) => {
                let grant = &mut self.grants[*index];
                grant.valid_until_us = grant.valid_until_us.max(event.at_us);
                if !is_open {
                    let event = Box::new(event.clone());
                    self.verdict.violations.push(Violation::ValidAfterLoss { event });
                }
            }
            None => {
                let event = Box::new(event.clone());
                self.verdict.violations.push(Violation::NotGranted { event });
            }
        }
    }

    /// Ends the guard that an event concerns.
    fn end(&mut self, event: &Event) -> Option<&mut Grant> {
        match self.last.get_mut(&(event.contender, event.lock.clone())) {
            Some((index, is_open @ true)) => {
                *is_open = false;
                Some(&mut self.grants[*index])
            }
            _ => {
                let event = Box::new(event.clone());
                self.verdict.violations.push(Violation::NotGranted { event });
                None
            }
        }
    }
}

#[cfg(test)]
#[path = "checker_tests.rs"]
mod tests;
