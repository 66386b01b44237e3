//! Contenders for one [`Mutex`].

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zk_recipes::{Guard, LockError, Mutex};
use zk_session::Fault;

use super::{Impatient, Seat};
use crate::faults::isolate;
use crate::world::World;

/// Acquires, holds and gives up, over and over, until the session is over or no more is to be
/// begun.
pub(crate) async fn contend(mut seat: Seat) {
    let think = seat.world.plan.think;
    while !seat.world.is_draining() {
        let pause = seat.rng.around(think);
        if !pause.is_zero() {
            sleep(pause).await;
        }
        let Ok(lock) = Mutex::new(&seat.client, seat.world.plan.lock_path) else { return };
        let attempt = Attempt::begin(&seat);
        match acquire(&mut seat, lock.with_data(attempt.label.clone()), attempt.number).await {
            Ok(Some(guard)) => hold(&mut seat, guard, attempt).await,
            Ok(None) => {
                drop(attempt);
                // Time has to pass, or a lock that is held would be tried for ever.
                let pause = think.max(seat.world.plan.hold.longest / 50);
                sleep(seat.rng.around(pause) + Duration::from_millis(1)).await;
            }
            Err(error) => {
                drop(attempt);
                if judge(&seat, "acquire", &error) {
                    return;
                }
            }
        }
    }
}

/// Goes on in the oracle's books until it is dropped.
struct Attempt {
    world: Arc<World>,
    number: u64,
    label: String,
}

impl Attempt {
    fn begin(seat: &Seat) -> Self {
        let (world, number) = (Arc::clone(&seat.world), seat.world.next_number());
        let label = format!("{}#{number}", seat.name);
        world.oracle().attempt_begins(number, label.clone());
        Self { world, number, label }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.world.oracle().attempt_is_over(self.number);
    }
}

async fn acquire(seat: &mut Seat, lock: Mutex, number: u64) -> Result<Option<Guard>, LockError> {
    let styles = seat.world.plan.styles;
    let all = styles.acquire + styles.with_timeout + styles.one_try + styles.dropped;
    let style = seat.rng.below(all);
    let patience = seat.rng.millis(seat.world.plan.hold.longest);
    if style < styles.acquire {
        return lock.acquire().await.map(Some);
    }
    if style < styles.acquire + styles.with_timeout {
        return lock.acquire_timeout(patience).await;
    }
    if style < styles.acquire + styles.with_timeout + styles.one_try {
        return lock.try_acquire().await;
    }
    let patience = seat.rng.below(12);
    let future = Some(Box::pin(async move { lock.acquire().await }));
    let Some(result) = (Impatient { future, patience }).await else {
        seat.world.oracle().log(format_args!("#{number} dropped after {patience} polls"));
        return Ok(None);
    };
    result.map(Some)
}

async fn hold(seat: &mut Seat, guard: Guard, attempt: Attempt) {
    let number = attempt.number;
    let session = seat.client.session_id();
    let guard = Arc::new(guard);
    seat.world.oracle().granted(number, &guard, session, seat.timeout);
    let plan = seat.world.plan.hold;
    let is_calm = seat.world.is_draining();
    let is_isolated = !is_calm
        && seat.rng.chance(seat.world.plan.isolate)
        && isolate(&seat.world, session, seat.timeout * 4, &mut seat.rng);
    let is_long = !is_calm && seat.rng.chance(plan.tail);
    let (time, steps) = match (is_isolated, is_long) {
        (true, _) => (seat.timeout * 3, 4),
        (false, true) => (seat.rng.millis(plan.longest), 4),
        (false, false) => (seat.rng.around(plan.typical), seat.rng.between(1, 2)),
    };
    let keeps_a_lost_guard = seat.rng.chance(0.2);
    for _ in 0..steps {
        match guard.token() {
            Ok(token) => seat.world.oracle().write(number, token.get()),
            Err(_) => {
                must_be_told(seat, &guard, number).await;
                if !keeps_a_lost_guard {
                    break;
                }
            }
        }
        step(seat, &guard, number, time / u32::try_from(steps).unwrap_or(1)).await;
    }
    seat.world.oracle().check();
    give_up(seat, guard, attempt).await;
}

/// Holds the lock for a while, in one of several ways.
async fn step(seat: &mut Seat, guard: &Arc<Guard>, number: u64, time: Duration) {
    match seat.rng.below(8) {
        0 => {
            let checked = guard.check().await;
            let node_gone =
                matches!(checked, Err(LockError::Lost(zk_recipes::LossReason::NodeDeleted)));
            let session = seat.client.session_id();
            let mut oracle = seat.world.oracle();
            oracle.log(format_args!("#{number} checked: {checked:?}"));
            if node_gone && guard.is_held() && !oracle.was_operated(guard.node(), session) {
                oracle.violated("I3", format!("#{number}: nobody deleted {}", guard.node()));
            }
        }
        1 | 2 if !seat.lost_is_watched.swap(true, Ordering::Relaxed) => {
            let lost = timeout(time, guard.lost()).await;
            seat.lost_is_watched.store(false, Ordering::Relaxed);
            if let Ok(reason) = lost {
                let session = seat.client.session_id();
                let mut oracle = seat.world.oracle();
                oracle.log(format_args!("#{number} was told: {reason:?}"));
                if guard.is_held() && !oracle.was_operated(guard.node(), session) {
                    oracle.violated("I3", format!("#{number} was told of a loss and is held"));
                }
            }
        }
        _ if time.is_zero() => {}
        _ => sleep(time).await,
    }
}

/// A guard that says it is lost must say so by itself, too.
async fn must_be_told(seat: &Seat, guard: &Arc<Guard>, number: u64) {
    if seat.lost_is_watched.swap(true, Ordering::Relaxed) {
        return;
    }
    // Several looks, each with time for the driver. Where the process stood still there was none.
    let (mut told, mut looks) = (false, 0);
    while !told && looks < 20 {
        told = timeout(Duration::from_millis(200), guard.lost()).await.is_ok();
        looks += if seat.process.stood_still() { 0 } else { 1 };
    }
    seat.lost_is_watched.store(false, Ordering::Relaxed);
    if !told {
        seat.world.oracle().violated("I3", format!("#{number} is lost and was not told"));
    }
}

async fn give_up(seat: &mut Seat, guard: Arc<Guard>, attempt: Attempt) {
    let number = attempt.number;
    let node = guard.node().to_owned();
    let Some(guard) = Arc::into_inner(guard) else { return };
    let style = seat.rng.below(20);
    seat.world.oracle().log(format_args!("#{number} gives up, style {style}"));
    match style {
        0 => {
            // All of the client, without a word to anybody.
            drop(seat.client.close());
            drop(guard);
        }
        1..=5 => drop(guard),
        6 => {
            let future = Some(Box::pin(guard.release()));
            let patience = seat.rng.below(4);
            drop((Impatient { future, patience }).await);
        }
        _ => match guard.release().await {
            Ok(()) => {
                let there = seat.world.server.with(|truth| truth.tree().contains(&node));
                if there {
                    let text = format!("#{number} was released, {node} is there");
                    seat.world.oracle().violated("I7", text);
                }
            }
            Err(error) => {
                judge(seat, "release", &error);
            }
        },
    }
}

/// Whether the session is over; any other error is one that the recipe had to deal with itself.
fn judge(seat: &Seat, what: &str, error: &LockError) -> bool {
    let (is_over, is_fine) = match error {
        LockError::Client(error) => (error.fault() == Fault::Session, false),
        LockError::Lost(_) => (false, what == "release"),
        LockError::Vanished { .. } => (false, seat.world.oracle().any_operated()),
        _ => (false, false),
    };
    let mut oracle = seat.world.oracle();
    oracle.log(format_args!("{} {what}: {error}", seat.name));
    if !is_over && !is_fine {
        oracle.violated("I7", format!("{} {what}: {error}", seat.name));
    }
    is_over
}
