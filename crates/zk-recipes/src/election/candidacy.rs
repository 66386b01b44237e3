//! A candidacy in the background: a task that stands for election over any number of sessions.

use std::fmt;
use std::future::Future;
use std::ops::ControlFlow::{self, Break, Continue};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};
use tokio::sync::{oneshot, watch};
use zk_session::{Client, RetryOn, SessionManager};

use crate::error::{LockError, LossReason};
use crate::fencing_token::FencingToken;
use crate::hold::Guard;
use crate::limits::{REQUEUE_PAUSE, STANDING_PAUSE_PART};
use crate::observe::not_elected;
use crate::queue::Queue;
use crate::queue::spec::QueueSpec;
use crate::queue::waiter::Waiter;
use crate::terms::{HeldLock, Interruption, ReleaseOnDrop, pause};

/// A candidacy that runs in the background, from [`Election::stand`](crate::Election::stand).
///
/// The candidate waits for its turn, leads, and stands again when it has lost the leadership, on the
/// next session if the current one has ended. A leader leads until it resigns. An attempt that fails is
/// followed by another one, also after a rejection that only somebody else can mend:
/// [`failure`](Self::failure) and the log tell of it. Only the end of the [`SessionManager`] ends the
/// candidacy without a call.
///
/// Dropping this handle resigns, without waiting for the server's confirmation. The node is deleted
/// in the background, over reconnects. The handle keeps the sessions of its manager open.
#[must_use = "dropping the candidacy resigns"]
pub struct Candidacy {
    /// Dropping it tells the task that the handle was dropped.
    resign: oneshot::Sender<()>,
    leadership: watch::Receiver<Leadership>,
}

/// State of a [`Candidacy`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Leadership {
    /// The candidate does not lead. It waits for its turn, or for the next session.
    Waiting {
        /// The last interruption: a lost leadership or a failed attempt. `None` at first.
        after: Option<Interruption>,
    },
    /// The candidate was elected. It leads while [`HeldLock::token`] succeeds.
    Leading {
        /// The fencing token of this term, larger than the tokens of all earlier leaders.
        token: FencingToken,
        /// The leadership. Its methods read the clock: they report the loss of the leadership also
        /// in a copy that was made before.
        held: HeldLock,
    },
    /// The candidate stands no longer. `Ok` if it has resigned, or if the runtime of its session was
    /// shut down. Otherwise the result of [`Candidacy::resign`], or the end of its session manager.
    Ended(Result<(), LockError>),
}

impl Leadership {
    /// Returns true if the candidate provably leads now. The clock decides this, not the moment at
    /// which this value was made.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.token().is_some()
    }

    /// Returns the fencing token if the candidate provably leads now.
    #[must_use]
    pub fn token(&self) -> Option<FencingToken> {
        match self {
            Self::Leading { held, .. } => held.token().ok(),
            _ => None,
        }
    }

    /// Returns why the last attempt to stand has failed, if that does not pass by itself.
    #[must_use]
    pub fn failure(&self) -> Option<&LockError> {
        match self {
            Self::Waiting { after: Some(Interruption::NotAcquired(error)) } => {
                Some(error).filter(|error| error.retry_on() == RetryOn::Never)
            }
            _ => None,
        }
    }

    /// Returns the state without a leadership that is lost.
    fn now(self) -> Self {
        match self {
            Self::Leading { token, held } => match held.token() {
                Ok(_) => Self::Leading { token, held },
                Err(error) => Self::Waiting { after: Some(lost(Some(token), error)) },
            },
            other => other,
        }
    }
}

impl Candidacy {
    pub(super) fn begin(sessions: &SessionManager, spec: Arc<QueueSpec>) -> Self {
        let (resign, resigned) = oneshot::channel();
        let (state, leadership) = watch::channel(Leadership::Waiting { after: None });
        let task = CandidacyTask { sessions: sessions.clone(), spec, state };
        // Without a runtime the task is dropped, and the candidacy has ended.
        drop(sessions.client().runtime().spawn(task.run(resigned)));
        Self { resign, leadership }
    }

    /// Returns true if the candidate provably leads now. Sends no request.
    ///
    /// The call reads the clock. It returns false before any leader of the ensemble can expire the
    /// session, whether or not the task of the candidacy has run since.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.leadership.borrow().is_leader()
    }

    /// Returns the state of the candidacy now. [`Leadership::Leading`] means that the candidate
    /// provably leads. Sends no request.
    #[must_use]
    pub fn leadership(&self) -> Leadership {
        self.leadership.borrow().clone().now()
    }

    /// Subscribes to the states of the candidacy. A slow subscriber skips states, but not the last.
    ///
    /// A copy of [`Leadership::Leading`] does not change when the leadership is lost: ask it with
    /// [`Leadership::is_leader`].
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Leadership> {
        self.leadership.clone()
    }

    /// Waits until the candidate leads. Returns at once if it does.
    ///
    /// # Errors
    /// The error with which the candidacy has ended; [`LockError::Lost`] if it has ended without one.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing: the candidate still stands.
    pub async fn wait_to_lead(&self) -> Result<HeldLock, LockError> {
        let mut leadership = self.leadership.clone();
        let is_decided = |now: &Leadership| now.is_leader() || matches!(now, Leadership::Ended(_));
        match leadership.wait_for(is_decided).await.as_deref() {
            Ok(Leadership::Leading { held, .. }) => Ok(held.clone()),
            Ok(Leadership::Ended(Err(error))) => Err(error.clone()),
            _ => Err(LockError::Lost(LossReason::Released)),
        }
    }

    /// Waits until an attempt to stand fails for a reason that does not pass by itself, and returns it: a
    /// missing permission or chroot, or a node of another recipe. Returns at once if the last attempt has
    /// failed so. The candidate still stands, and leads once the reason is gone.
    ///
    /// A service that is to report it:
    ///
    /// ```no_run
    /// # async fn example(candidacy: zk_recipes::Candidacy) {
    /// let failure = candidacy.failure().await;
    /// eprintln!("this instance cannot lead: {failure}");
    /// # }
    /// ```
    ///
    /// If the candidacy has ended, the call returns as [`wait_to_lead`](Self::wait_to_lead) does.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn failure(&self) -> LockError {
        let mut leadership = self.leadership.clone();
        let is_told =
            |now: &Leadership| now.failure().is_some() || matches!(now, Leadership::Ended(_));
        match leadership.wait_for(is_told).await.as_deref() {
            Ok(Leadership::Ended(Err(error))) => error.clone(),
            Ok(told) => told.failure().cloned().unwrap_or(LockError::Lost(LossReason::Released)),
            Err(_) => LockError::Lost(LossReason::Released),
        }
    }

    /// Resigns: the candidate leads and stands no longer. Waits until the server has confirmed the
    /// deletion of its node. The node of a leadership that it has lost before is deleted in the
    /// background.
    ///
    /// # Errors
    /// * [`LockError::Lost`] if the candidate had been elected, and did not provably lead at the call
    ///   or the server found no node. In both cases another candidate may have led at the same time.
    /// * The error of a failed request. The session deletes the node later, unless the server has
    ///   rejected the deletion: then it stays until the session ends.
    /// * The error with which the candidacy had ended before.
    ///
    /// # Cancel safety
    /// The call itself resigns. Dropping the future only ends the wait for the confirmation.
    pub fn resign(self) -> impl Future<Output = Result<(), LockError>> + Send + use<> {
        let Self { resign, mut leadership } = self;
        // An error means that the candidacy has ended.
        let _ = resign.send(());
        async move {
            match leadership.wait_for(|now| matches!(now, Leadership::Ended(_))).await.as_deref() {
                Ok(Leadership::Ended(ended)) => ended.clone(),
                // The task reports its end in every case.
                _ => Ok(()),
            }
        }
    }
}

impl fmt::Debug for Candidacy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Candidacy").field("leadership", &self.leadership()).finish_non_exhaustive()
    }
}

/// The task of a candidacy. Dropping it reports the end of the candidacy.
struct CandidacyTask {
    sessions: SessionManager,
    spec: Arc<QueueSpec>,
    state: watch::Sender<Leadership>,
}

/// The result of a candidacy.
type Ended = Result<(), LockError>;

/// Ready when the candidate is to resign: `Ok` if the caller waits for the confirmation, an error if
/// it has dropped the handle.
type Resigned = oneshot::Receiver<()>;

impl CandidacyTask {
    async fn run(self, mut resigned: Resigned) {
        let ended = self.stand(&mut resigned).await;
        self.state.send_replace(Leadership::Ended(ended));
    }

    /// Stands and leads until the candidacy ends.
    async fn stand(&self, resigned: &mut Resigned) -> Result<(), LockError> {
        let mut failures = 0;
        loop {
            let client = match select(&mut *resigned, pin!(self.sessions.open_client())).await {
                Either::Left(_) => return Ok(()),
                Either::Right((client, _)) => client?,
            };
            let after = match self.queue(&client, resigned).await {
                Ok(Continue(guard)) => {
                    failures = 0;
                    self.lead(&client, guard, resigned).await
                }
                Ok(Break(ended)) => Break(ended),
                Err(error) => {
                    failures = if error.retry_on() == RetryOn::Never { failures + 1 } else { 0 };
                    if failures > 0 {
                        not_elected(&self.spec.path, &error);
                    }
                    self.waits(Interruption::NotAcquired(error));
                    let time = pause_after(failures, client.session_timeout());
                    match select(&mut *resigned, pin!(pause(&client, time))).await {
                        Either::Left(_) => return Ok(()),
                        Either::Right(((), _)) => continue,
                    }
                }
            };
            match after {
                Continue(after) => self.waits(after),
                Break(ended) => return ended,
            }
        }
    }

    fn waits(&self, after: Interruption) {
        self.state.send_replace(Leadership::Waiting { after: Some(after) });
    }

    /// Queues until the candidate is elected or resigns.
    async fn queue(
        &self,
        client: &Client,
        resigned: &mut Resigned,
    ) -> Result<ControlFlow<Ended, Guard>, LockError> {
        let mut waiter = Waiter::new(&Queue::new(client, self.spec.clone()));
        let is_awaited = match select(resigned, pin!(waiter.acquire())).await {
            Either::Left((is_awaited, _)) => is_awaited.is_ok(),
            Either::Right((granted, _)) => return Ok(Continue(Guard::new(granted?))),
        };
        // Otherwise dropping the waiter deletes its node.
        let left = if is_awaited { waiter.contender.leave_confirmed().await } else { Ok(()) };
        Ok(Break(left))
    }

    /// Leads until the leadership is lost or the candidate resigns.
    async fn lead(
        &self,
        client: &Client,
        guard: Guard,
        resigned: &mut Resigned,
    ) -> ControlFlow<Ended, Interruption> {
        let token = match guard.token() {
            Ok(token) => token,
            Err(error) => return Continue(lost(None, error)),
        };
        let held = HeldLock::new(client, Box::new(guard));
        let _released = ReleaseOnDrop(held.clone());
        self.state.send_replace(Leadership::Leading { token, held: held.clone() });
        match select(resigned, pin!(held.lost())).await {
            Either::Right((reason, _)) => {
                Continue(Interruption::Lost { token: Some(token), reason })
            }
            Either::Left((is_awaited, _)) => match held.take() {
                Some(guard) if is_awaited.is_ok() => Break(guard.release_boxed().await),
                _ => Break(Ok(())), // dropping the guard deletes its node
            },
        }
    }
}

/// Returns the pause before the next attempt. It is longer after each failure in a row that does not pass by
/// itself, such as a missing permission. Somebody may mend it.
fn pause_after(failures: u32, session_timeout: Duration) -> Duration {
    let longest = STANDING_PAUSE_PART.of(session_timeout).max(REQUEUE_PAUSE);
    REQUEUE_PAUSE.saturating_mul(1 << failures.min(16)).min(longest)
}

/// Why a lock is not held: a loss of the leadership, or a failed attempt.
fn lost(token: Option<FencingToken>, error: LockError) -> Interruption {
    match error {
        LockError::Lost(reason) => Interruption::Lost { token, reason },
        error => Interruption::NotAcquired(error),
    }
}

impl Drop for CandidacyTask {
    fn drop(&mut self) {
        self.state.send_if_modified(|state| match state {
            Leadership::Ended(_) => false,
            _ => {
                *state = Leadership::Ended(Ok(()));
                true
            }
        });
    }
}
