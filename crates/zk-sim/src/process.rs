//! Model of a client's process. Its tasks can be frozen together, as by SIGSTOP, and killed
//! together.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, Sleep, sleep_until};
use zk_testing::Rng;

use crate::clock::now;
use crate::steps::Steps;

#[derive(Debug)]
pub(crate) struct Process {
    state: Mutex<State>,
    jitter: f64,
    is_killed: AtomicBool,
    steps: Arc<Steps>,
}

#[derive(Debug)]
struct State {
    frozen_until: Option<Instant>,
    rng: Rng,
    tasks: Vec<AbortHandle>,
    /// The time of the last poll, and the number of polls at that time.
    polls: (Instant, u32),
}

/// Maximum number of polls while the clock stands still. A process that exceeds it spins.
const POLLS_MAX: u32 = 200_000;

impl Process {
    pub(crate) fn new(rng: Rng, jitter: f64, steps: &Arc<Steps>) -> Arc<Self> {
        let state =
            Mutex::new(State { frozen_until: None, rng, tasks: Vec::new(), polls: (now(), 0) });
        let steps = Arc::clone(steps);
        Arc::new(Self { state, jitter, is_killed: AtomicBool::new(false), steps })
    }

    pub(crate) fn spawn<F>(self: &Arc<Self>, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let future = Box::pin(future);
        let task = tokio::spawn(Contained { process: Arc::clone(self), future, sleep: None });
        self.lock().tasks.push(task.abort_handle());
        task
    }

    /// Stops polling the tasks before `until`, even if they are woken.
    pub(crate) fn freeze(&self, until: Instant) {
        let mut state = self.lock();
        state.frozen_until = state.frozen_until.max(Some(until));
    }

    /// Returns true if the process is frozen or was within the last 200 ms.
    pub(crate) fn stood_still(&self) -> bool {
        let until = self.lock().frozen_until;
        until.is_some_and(|until| until + Duration::from_millis(200) > now())
    }

    /// Ends the process, as by SIGKILL. All tasks are dropped, the driver first, so that nothing
    /// more is sent to any server.
    pub(crate) fn kill(&self) {
        self.cut_off();
        for task in std::mem::take(&mut self.lock().tasks) {
            task.abort();
        }
    }

    /// Ends all connections of a process with a manager of sessions, without a close. Its tasks go on.
    pub(crate) fn cut_off(&self) {
        self.is_killed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_killed(&self) -> bool {
        self.is_killed.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A task of a process.
struct Contained<F> {
    process: Arc<Process>,
    future: Pin<Box<F>>,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl<F: Future> Future for Contained<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        this.process.steps.take();
        loop {
            if let Some(sleep) = &mut this.sleep {
                if sleep.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                this.sleep = None;
            }
            let mut state = this.process.lock();
            state.polls = match state.polls {
                (at, count) if at == now() => (at, count + 1),
                _ => (now(), 0),
            };
            assert!(state.polls.1 < POLLS_MAX, "I8: a client spins");
            if let Some(until) = state.frozen_until.filter(|until| *until > now()) {
                // The order in which the tasks wake is random.
                let late = Duration::from_millis(state.rng.below(3));
                drop(state);
                this.sleep = Some(Box::pin(sleep_until(until + late)));
                continue;
            }
            if this.process.jitter > 0.0 && state.rng.chance(this.process.jitter) {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            break;
        }
        this.future.as_mut().poll(cx)
    }
}
