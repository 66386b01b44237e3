//! The clock of all sessions of this process: the only place of this crate that reads a clock.
//!
//! It is tokio's clock, so that a test can pause it, plus the time for which the machine was
//! suspended. A lease must count that time, because the ensemble counts it: on Linux and macOS,
//! `Instant` stops while the machine sleeps.
//!
//! The wall clock shows when to check. It continues during a suspension, so afterwards it has moved
//! against the monotonic clock. It also moves when an administrator sets it. On Linux,
//! `/proc/uptime` counts suspensions and ignores such changes, so it decides how long the machine
//! slept. Elsewhere, a wall clock that is set forward counts as a suspension. That can lose a lock,
//! and must not happen between a touch and its proof. A hypervisor that pauses a virtual machine
//! may stop all of its clocks; no clock inside the machine can show that.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// Returns the current time of the sessions, as of the last [`observe`].
pub(crate) fn now() -> Instant {
    running() + slept()
}

/// Checks whether the machine was suspended. It is called before each check of a lease, and by the
/// driver before it passes the time of new input to the core.
pub(crate) fn observe() {
    let reading = Reading::take();
    let clock = CLOCK.get_or_init(|| SleepClock::new(reading, Uptime::take()));
    clock.observe(reading, Uptime::take);
}

/// Returns when a tokio timer must fire for a deadline of a session.
pub(crate) fn timer(deadline: Instant) -> tokio::time::Instant {
    instant(deadline).into()
}

/// Returns a time of the sessions as callers read the clock, unless the machine is suspended before it.
pub(crate) fn instant(time: Instant) -> Instant {
    time.checked_sub(slept()).unwrap_or(time)
}

static CLOCK: OnceLock<SleepClock> = OnceLock::new();

#[allow(clippy::disallowed_methods, reason = "the driver is who tells the core the time")]
fn running() -> Instant {
    tokio::time::Instant::now().into_std()
}

fn slept() -> Duration {
    Duration::from_nanos(slept_nanos())
}

/// Returns how long the machine was suspended, in nanoseconds. The driver compares it in each round.
pub(crate) fn slept_nanos() -> u64 {
    CLOCK.get().map_or(0, |clock| clock.slept.load(Ordering::Acquire))
}

/// Time since the machine booted, including suspensions, read together with a clock that stops
/// during them.
///
/// A thread that is preempted between two clocks reads one of them late. That is no suspension, so
/// both are read again until little time has passed between them. The time that does pass counts as
/// suspension, which is the safe side.
#[derive(Clone, Copy, Debug)]
struct Uptime {
    /// The running clock before the uptime was read.
    before: Instant,
    since_boot: Duration,
    /// The running clock after the uptime was read.
    after: Instant,
}

impl Uptime {
    /// Reads both clocks, if the platform has an uptime.
    #[allow(clippy::disallowed_methods, reason = "compared with each other, not relied upon")]
    fn take() -> Option<Self> {
        Self::read(Instant::now, || {
            let text = std::fs::read_to_string("/proc/uptime").ok()?;
            Duration::try_from_secs_f64(text.split(' ').next()?.parse().ok()?).ok()
        })
    }

    fn read(
        mut running: impl FnMut() -> Instant,
        mut since_boot: impl FnMut() -> Option<Duration>,
    ) -> Option<Self> {
        let mut tries = UPTIME_TRIES;
        loop {
            let read = Self { before: running(), since_boot: since_boot()?, after: running() };
            tries -= 1;
            if tries == 0 || read.after.duration_since(read.before) < UPTIME_UNIT {
                return Some(read);
            }
        }
    }

    /// Returns at most how long the machine was suspended since an earlier reading.
    fn slept_since(self, earlier: Self) -> Duration {
        let ran = self.before.saturating_duration_since(earlier.after);
        self.since_boot.saturating_sub(earlier.since_boot).saturating_sub(ran)
    }
}

/// A clock that stops while the machine sleeps and a clock that does not, read together.
#[derive(Clone, Copy, Debug)]
struct Reading {
    running: Instant,
    wall: SystemTime,
}

impl Reading {
    #[allow(clippy::disallowed_methods, reason = "compared with each other, not relied upon")]
    fn take() -> Self {
        Self { running: Instant::now(), wall: SystemTime::now() }
    }
}

/// Sums up how long the machine slept.
#[derive(Debug)]
struct SleepClock {
    first: Reading,
    /// The uptime at the first reading.
    uptime: Option<Uptime>,
    /// In nanoseconds.
    slept: AtomicU64,
    /// How far the wall clock was ahead of the running clock, when that difference was last
    /// explained. In nanoseconds since the first reading.
    ahead: AtomicI64,
}

impl SleepClock {
    fn new(first: Reading, uptime: Option<Uptime>) -> Self {
        Self { first, uptime, slept: AtomicU64::new(0), ahead: AtomicI64::new(0) }
    }

    fn slept(&self) -> Duration {
        Duration::from_nanos(self.slept.load(Ordering::Acquire))
    }

    fn observe(&self, reading: Reading, uptime: impl FnOnce() -> Option<Uptime>) {
        let ran = reading.running.saturating_duration_since(self.first.running);
        let ahead = match reading.wall.duration_since(self.first.wall + ran) {
            Ok(ahead) => signed(ahead),
            Err(behind) => -signed(behind.duration()),
        };
        let (slept, before) = (self.slept(), self.ahead.load(Ordering::Acquire));
        if ahead.abs_diff(before) < NOTICEABLE_NANOS {
            return;
        }
        let total = match self.uptime.zip(uptime()) {
            Some((first, now)) => now.slept_since(first),
            None => {
                slept + Duration::from_nanos(ahead.saturating_sub(before).max(0).unsigned_abs())
            }
        };
        if total > slept + UPTIME_ERROR {
            self.slept.fetch_max(signed(total).unsigned_abs(), Ordering::AcqRel);
        }
        // This store is last, so that no other thread sees the difference as explained before it is
        // counted.
        self.ahead.store(ahead, Ordering::Release);
    }
}

fn signed(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// Smallest difference of the two clocks that counts. Without a suspension, they differ by less
/// between two checks: NTP slews a clock by less than a thousandth, and a check that sees this
/// difference starts anew.
const NOTICEABLE_NANOS: u64 = 50_000_000;

/// The uptime has a resolution of a hundredth of a second.
const UPTIME_UNIT: Duration = Duration::from_millis(10);

/// Largest suspension that may be an error of measurement: one unit for the resolution, and one for
/// the time that passes around each of the two readings.
const UPTIME_ERROR: Duration = UPTIME_UNIT.saturating_mul(3);

/// How often the uptime is read before the time that passed in between counts as suspension. A
/// thread that has just been scheduled keeps its processor for longer than a reading takes.
const UPTIME_TRIES: u32 = 20;

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A machine with clocks that a test moves.
    struct Machine {
        now: Reading,
        uptime: Option<Duration>,
        clock: SleepClock,
    }

    const SEC: Duration = Duration::from_secs(1);

    fn at_once(running: Instant, since_boot: Duration) -> Uptime {
        Uptime { before: running, since_boot, after: running }
    }

    impl Machine {
        fn new(uptime: Option<Duration>) -> Self {
            let now = Reading::take();
            let first = uptime.map(|since_boot| at_once(now.running, since_boot));
            Self { now, uptime, clock: SleepClock::new(now, first) }
        }

        fn run(&mut self, time: Duration) {
            self.now.running += time;
            self.now.wall += time;
            self.uptime = self.uptime.map(|uptime| uptime + time);
        }

        fn sleep(&mut self, time: Duration) {
            self.now.wall += time;
            self.uptime = self.uptime.map(|uptime| uptime + time);
        }

        fn slept(&self) -> Duration {
            let uptime = self.uptime.map(|since_boot| at_once(self.now.running, since_boot));
            self.clock.observe(self.now, || uptime);
            self.clock.slept()
        }
    }

    /// Reads the uptime of a machine that has run for `passed`. Each reading takes this time before and
    /// after the clock is read.
    fn read_slowly(
        start: Instant,
        passed: &Cell<Duration>,
        mut takes: impl FnMut() -> [Duration; 2],
    ) -> Uptime {
        let read = Uptime::read(
            || start + passed.get(),
            || {
                let [before, after] = takes();
                let told = 1_000 * SEC + passed.get() + before;
                passed.set(passed.get() + before + after);
                Some(told)
            },
        );
        read.unwrap()
    }

    #[test]
    fn preempted_thread_is_not_counted_as_suspension() {
        let machine = Machine::new(Some(1_000 * SEC));
        let (start, late) = (machine.now, SEC / 5);
        // Preempted between the running clock and the wall clock, and twice more before the uptime.
        let reading = Reading { running: start.running, wall: start.wall + late };
        let mut preemptions = [late, late].into_iter();
        let takes = || [preemptions.next().unwrap_or_default(), Duration::ZERO];
        let uptime = read_slowly(start.running, &Cell::new(late), takes);
        machine.clock.observe(reading, || Some(uptime));
        assert_eq!(machine.clock.slept(), Duration::ZERO);
    }

    #[test]
    fn slow_uptime_readings_count_as_suspension() {
        let (start, passed) = (Reading::take().running, Cell::new(Duration::ZERO));
        let [first, later] = [(); 2].map(|()| read_slowly(start, &passed, || [SEC; 2]));
        let slept = later.slept_since(first);
        assert_eq!(slept, SEC * 2, "a second after the first, one before the later");
    }

    #[test]
    fn suspension_is_counted_with_and_without_uptime() {
        for uptime in [Some(1_000 * SEC), None] {
            let mut machine = Machine::new(uptime);
            machine.run(5 * SEC);
            assert_eq!(machine.slept(), Duration::ZERO);
            machine.sleep(30 * SEC);
            machine.run(SEC);
            assert_eq!(machine.slept(), 30 * SEC, "{uptime:?}");
            machine.run(100 * SEC);
            machine.sleep(2 * SEC);
            assert_eq!(machine.slept(), 32 * SEC, "{uptime:?}");
            assert_eq!(machine.slept(), 32 * SEC, "once");
        }
    }

    #[test]
    fn changed_wall_clock_is_no_suspension_if_uptime_is_known() {
        let mut machine = Machine::new(Some(1_000 * SEC));
        machine.now.wall += 3_600 * SEC;
        assert_eq!(machine.slept(), Duration::ZERO);
        machine.now.wall -= 7_200 * SEC;
        assert_eq!(machine.slept(), Duration::ZERO);
        machine.sleep(5 * SEC);
        assert_eq!(machine.slept(), 5 * SEC, "seen all the same");

        let mut other = Machine::new(None);
        other.now.wall -= 7_200 * SEC;
        assert_eq!(other.slept(), Duration::ZERO);
        other.now.wall += SEC;
        assert_eq!(other.slept(), SEC, "on the safe side");
    }

    #[test]
    fn wall_clock_drift_is_no_suspension() {
        let mut machine = Machine::new(Some(1_000 * SEC));
        for _ in 0..10_000 {
            machine.run(SEC);
            machine.now.wall += Duration::from_micros(500);
            assert_eq!(machine.slept(), Duration::ZERO);
        }
    }

    #[test]
    fn suspension_moves_deadlines_but_not_timers() {
        observe();
        let clock = CLOCK.get().unwrap();
        let (before, deadline) = (now(), running() + 100 * SEC);
        clock.slept.fetch_add(signed(5 * SEC).unsigned_abs(), Ordering::AcqRel);
        assert!(now() >= before + 5 * SEC && now() < before + 60 * SEC);
        assert!(timer(deadline).into_std() <= deadline - 5 * SEC);
        assert!(instant(now()) <= running(), "callers see the clock that they can read");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn uptime_of_this_machine_is_read() {
        let (first, later) = (Uptime::take().unwrap(), Uptime::take().unwrap());
        assert!(first.since_boot > Duration::ZERO && later.since_boot >= first.since_boot);
    }

    #[test]
    fn uptime_reading_is_repeated_only_if_slow() {
        let just = UPTIME_UNIT - Duration::from_nanos(1);
        for (takes, expected) in [(Duration::ZERO, 1), (just, 1), (UPTIME_UNIT, UPTIME_TRIES)] {
            let mut readings = 0;
            read_slowly(Reading::take().running, &Cell::default(), || {
                readings += 1;
                [takes, Duration::ZERO]
            });
            assert_eq!(readings, expected, "if each takes {takes:?}");
        }
    }

    #[test]
    fn small_differences_of_clocks_count_once_they_add_up() {
        let noticeable = Duration::from_nanos(NOTICEABLE_NANOS);
        let less = noticeable - Duration::from_nanos(1);
        let mut machine = Machine::new(None);
        machine.sleep(less);
        assert_eq!(machine.slept(), Duration::ZERO);
        machine.sleep(Duration::from_nanos(1));
        assert_eq!(machine.slept(), noticeable);

        // With an uptime, a suspension that may be an error of measurement does not count.
        let mut machine = Machine::new(Some(1_000 * SEC));
        machine.now.wall += SEC;
        machine.sleep(UPTIME_ERROR);
        assert_eq!(machine.slept(), Duration::ZERO);
        machine.now.wall += SEC;
        machine.sleep(Duration::from_millis(10));
        assert_eq!(machine.slept(), UPTIME_ERROR + Duration::from_millis(10));
    }

    #[test]
    fn now_never_goes_back_on_this_machine() {
        observe();
        let before = now();
        observe();
        assert!(now() >= before && timer(before) <= tokio::time::Instant::from_std(before));
    }
}
