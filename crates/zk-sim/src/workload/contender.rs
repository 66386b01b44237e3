//! Behaviour of contenders for any lock: they acquire it in one of several ways, hold and check it
//! for a while, and release it.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zk_recipes::{LockError, LockGuard, LossReason};
use zk_session::{ErrorOrigin, SessionId};

use super::{Seat, impatient};
use crate::clock::now;
use crate::holding::{Failures, Holding};
use crate::oracle::Claim;
use crate::recipe::Recipe;
use crate::server_faults::isolate;
use crate::world::World;

/// An attempt to acquire a lock. The oracle counts it as in progress until it is dropped.
pub(crate) struct Attempt {
    world: Arc<World>,
    pub(crate) number: u64,
    pub(crate) label: String,
}

impl Attempt {
    pub(crate) fn begin(seat: &Seat) -> Self {
        let (world, number) = (Arc::clone(&seat.world), seat.world.next_number());
        let label = format!("{}#{number}", seat.name);
        world.oracle().attempt_begins(number, label.clone());
        Self { world, number, label }
    }

    /// Begins an attempt that may own `nodes` nodes at a time.
    pub(crate) fn begin_with(seat: &Seat, nodes: usize) -> Self {
        let this = Self::begin(seat);
        seat.world.oracle().may_have(this.number, nodes);
        this
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.world.oracle().attempt_is_over(self.number);
    }
}

/// A way to acquire a lock: without a limit, within a time, or with one try.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asking {
    Waiting,
    Within(Duration),
    Once,
}

/// Acquires a lock in one of several ways. Returns `None` if it was not acquired or the future was
/// dropped.
pub(crate) async fn take<T, E, F>(
    seat: &mut Seat,
    attempt: &Attempt,
    ask: impl FnOnce(Asking) -> F,
) -> Result<Option<T>, E>
where
    F: Future<Output = Result<Option<T>, E>>,
{
    let styles = seat.world.plan.styles;
    let all = styles.acquire + styles.with_timeout + styles.one_try + styles.dropped;
    let style = seat.rng.below(all);
    let time_limit = seat.rng.millis(seat.world.plan.hold.longest);
    if style < styles.acquire {
        return ask(Asking::Waiting).await;
    }
    if style < styles.acquire + styles.with_timeout {
        return ask(Asking::Within(time_limit)).await;
    }
    if style < styles.acquire + styles.with_timeout + styles.one_try {
        return ask(Asking::Once).await;
    }
    let polls = seat.rng.below(12);
    let Some(result) = impatient(polls, ask(Asking::Waiting)).await else {
        let number = attempt.number;
        seat.world.oracle().log(format_args!("#{number} dropped after {polls} polls"));
        return Ok(None);
    };
    result
}

/// Handles the result of an acquisition: holds and releases the guard, if there is one. Returns
/// true if the session is over.
pub(crate) async fn settle<G: LockGuard + 'static, E: Into<Failures>>(
    seat: &mut Seat,
    attempt: Attempt,
    asked: Result<Option<G>, E>,
    claims: impl FnOnce(&G) -> Vec<Claim>,
) -> bool {
    match asked {
        Ok(Some(guard)) => {
            let claims = claims(&guard);
            let guard = enter(seat, guard, claims, &attempt);
            keep(seat, &guard, attempt.number).await;
            give_up(seat, guard, attempt).await;
            false
        }
        Ok(None) => {
            drop(attempt);
            rest(seat).await;
            false
        }
        Err(error) => {
            drop(attempt);
            let is_over = judge(seat, "acquire", error);
            if !is_over {
                rest(seat).await;
            }
            is_over
        }
    }
}

/// Sleeps for a while. Without it, a contender could retry a held lock forever while the clock
/// stands still.
pub(crate) async fn rest(seat: &mut Seat) {
    let pause = seat.world.plan.think.max(seat.world.plan.hold.longest / 50);
    sleep(seat.rng.around(pause) + Duration::from_millis(1)).await;
}

/// Reports a new guard to the oracle.
pub(crate) fn enter<G: Holding>(
    seat: &Seat,
    guard: G,
    claims: Vec<Claim>,
    attempt: &Attempt,
) -> Arc<G> {
    let guard = Arc::new(guard);
    let session = seat.client.session_id();
    seat.world.oracle().granted(attempt.number, &guard, claims, session, seat.timeout);
    guard
}

/// Holds a guard for a while, and checks it from time to time.
pub(crate) async fn keep<G: Holding>(seat: &mut Seat, guard: &Arc<G>, number: u64) {
    let plan = seat.world.plan.hold;
    let is_calm = seat.world.is_draining();
    let session = seat.client.session_id();
    let mut isolated = seat.world.plan.isolate;
    if !is_calm && seat.rng.chance(seat.world.plan.quiet) {
        be_quiet(seat).await;
        let checked = guard.check().await;
        seat.world.oracle().log(format_args!("#{number} was quiet, checked: {checked:?}"));
        isolated = isolated.max(0.5);
    }
    let is_isolated = !is_calm
        && seat.rng.chance(isolated)
        && isolate(&seat.world, session, seat.timeout * 4, &mut seat.rng);
    let is_long = !is_calm && seat.rng.chance(plan.tail);
    let (time, steps) = match (is_isolated, is_long) {
        (true, _) => (seat.timeout * 3, 4),
        (false, true) => (seat.rng.millis(plan.longest), 4),
        (false, false) => (seat.rng.around(plan.typical), seat.rng.between(1, 2)),
    };
    let keeps_a_lost_guard = seat.rng.chance(0.2);
    for _ in 0..steps {
        match guard.tokens() {
            Ok(tokens) => seat.world.oracle().write(number, &tokens),
            Err(_) => {
                must_be_told(seat, guard, number).await;
                if !keeps_a_lost_guard {
                    break;
                }
            }
        }
        step(seat, guard, number, time / u32::try_from(steps).unwrap_or(1)).await;
    }
    seat.world.oracle().check();
}

/// Sends nothing for most of the timeout. The process is frozen, or the contender is idle.
pub(crate) async fn be_quiet(seat: &mut Seat) {
    let time = seat.timeout.mul_f64(0.4 + 0.4 * seat.rng.unit());
    if seat.rng.chance(0.5) {
        seat.world.oracle().fault("quiet", format_args!("{} stands still for {time:?}", seat.name));
        seat.process.freeze(now() + time);
    } else {
        seat.world.oracle().fault("quiet", format_args!("{} is idle for {time:?}", seat.name));
    }
    sleep(time).await;
}

/// Holds the lock for `time`, in one of several ways.
async fn step<G: Holding>(seat: &mut Seat, guard: &Arc<G>, number: u64, time: Duration) {
    match seat.rng.below(8) {
        0 => {
            let checked = guard.check().await;
            let node_gone = matches!(checked, Err(LockError::Lost(LossReason::NodeDeleted)));
            seat.world.oracle().log(format_args!("#{number} checked: {checked:?}"));
            if node_gone && guard.is_held() && !was_operated(seat, guard) {
                let text = format!("#{number}: nobody deleted any of {:?}", guard.nodes());
                seat.world.oracle().violated("I3", text);
            }
        }
        1 | 2 if !seat.lost_is_watched.swap(true, Ordering::Relaxed) => {
            let lost = timeout(time, guard.lost()).await;
            seat.lost_is_watched.store(false, Ordering::Relaxed);
            if let Ok(reason) = lost {
                seat.world.oracle().log(format_args!("#{number} was told: {reason:?}"));
                expect_true(seat, guard, number, reason);
            }
        }
        _ if time.is_zero() => {}
        _ => sleep(time).await,
    }
}

/// Checks a loss that a guard has reported.
fn expect_true<G: Holding>(seat: &Seat, guard: &Arc<G>, number: u64, reason: LossReason) {
    let is_there =
        |node: &String| seat.world.server.with(|ensemble| ensemble.tree().contains(node));
    let is_there = reason == LossReason::NodeDeleted && guard.nodes().iter().all(is_there);
    if (is_there || guard.is_held()) && !was_operated(seat, guard) {
        let text =
            format!("#{number} was told of a loss, {reason:?}, and is held or has its nodes");
        seat.world.oracle().violated("I3", text);
    }
}

fn was_operated<G: Holding>(seat: &Seat, guard: &Arc<G>) -> bool {
    let session = seat.client.session_id();
    let oracle = seat.world.oracle();
    guard.nodes().iter().any(|node| oracle.was_operated(node, session))
}

/// Checks that a lost guard reports its loss by `lost()` too.
async fn must_be_told<G: Holding>(seat: &Seat, guard: &Arc<G>, number: u64) {
    if seat.lost_is_watched.swap(true, Ordering::Relaxed) {
        return;
    }
    // Several waits, each with time for the driver. A wait while the process stood still does not
    // count.
    let (mut told, mut looks) = (None, 0);
    while told.is_none() && looks < 20 {
        told = timeout(Duration::from_millis(200), guard.lost()).await.ok();
        looks += if seat.process.stood_still() { 0 } else { 1 };
    }
    seat.lost_is_watched.store(false, Ordering::Relaxed);
    match told {
        Some(reason) => expect_true(seat, guard, number, reason),
        None => seat.world.oracle().violated("I3", format!("#{number} is lost and was not told")),
    }
}

pub(crate) async fn give_up<G>(seat: &mut Seat, guard: Arc<G>, attempt: Attempt)
where
    G: LockGuard + 'static,
{
    let number = attempt.number;
    let nodes = Holding::nodes(&*guard);
    let Some(guard) = Arc::into_inner(guard) else { return };
    let style = seat.rng.below(20);
    seat.world.oracle().gives_up(number, style, &nodes);
    match style {
        0 => {
            // Closes the client, without waiting for any reply.
            drop(seat.client.close());
            drop(guard);
        }
        1..=5 => drop(guard),
        6 => {
            let polls = seat.rng.below(4);
            drop(impatient(polls, Box::new(guard).release_boxed()).await);
        }
        _ => match Box::new(guard).release_boxed().await {
            Ok(()) => {
                let there = |node: &&String| {
                    seat.world.server.with(|ensemble| ensemble.tree().contains(node))
                };
                let mut there: Vec<&String> = nodes.iter().filter(there).collect();
                let mut oracle = seat.world.oracle();
                // An operator may have created a node of the same name.
                there.retain(|node| !oracle.was_operated(node, SessionId::NONE));
                // A local queue keeps the node for the next holder.
                if !there.is_empty() && seat.world.plan.recipe != Recipe::LocalQueue {
                    let text = format!("#{number} was released, {there:?} is there");
                    oracle.violated("I7", text);
                }
                if seat.world.plan.recipe == Recipe::MultiLock {
                    oracle.gave_up(number, &nodes);
                }
            }
            Err(error) => {
                judge(seat, "release", error);
            }
        },
    }
}

/// Returns true if the session is over. Any other error is a violation, unless the recipe may
/// return it.
pub(crate) fn judge(seat: &Seat, what: &str, failures: impl Into<Failures>) -> bool {
    let has_several = seat.world.plan.recipe == Recipe::MultiLock;
    let mut any_over = false;
    for error in failures.into().0 {
        let (is_over, is_fine) = match &error {
            LockError::Client(error) => (error.origin() == ErrorOrigin::Session, false),
            // While a multi-lock waits for its next lock, it may lose one that it holds.
            LockError::Lost(_) => (false, what != "acquire" || has_several),
            // A single try does not wait for a connection.
            LockError::NotConnected { .. } => (false, what == "acquire"),
            LockError::NodeDeleted { .. } => (false, seat.world.oracle().any_operated()),
            _ => (false, false),
        };
        let name = format!("{} {what}", seat.name);
        any_over |= super::judge(&seat.world, "I7", &name, &error, (is_over, is_fine));
    }
    any_over
}

/// Acquires a lock that has the usual three methods.
macro_rules! ask {
    ($lock:expr) => {
        |asking| async move {
            match asking {
                $crate::workload::contender::Asking::Waiting => $lock.acquire().await.map(Some),
                $crate::workload::contender::Asking::Within(time) => {
                    $lock.acquire_timeout(time).await
                }
                $crate::workload::contender::Asking::Once => $lock.try_acquire().await,
            }
        }
    };
}
pub(crate) use ask;
