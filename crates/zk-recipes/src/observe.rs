//! Observation of acquisitions and holds: for traces, and for the metrics of a lock that has some.

use std::time::{Duration, Instant};

use zk_session::SessionId;

use crate::error::LossReason;
use crate::fencing_token::FencingToken;
use crate::metrics::LockMetrics;
use crate::queue::spec::QueueSpec;
use crate::trace;

/// An acquisition: from the first request to the lock, or until the caller gives up.
#[derive(Debug)]
pub(crate) struct Acquire {
    trace: trace::AcquireSpan,
    /// On the heap: waiters of locks without metrics do not need this memory.
    measured: Option<Box<Measured>>,
}

#[derive(Debug)]
struct Measured {
    /// `None` for a turn, which is not an acquisition of its own.
    metrics: Option<LockMetrics>,
    begun: Instant,
    hand_off: HandOffPhase,
}

/// Progress of a hand-off to a waiter.
#[derive(Clone, Copy, Debug)]
enum HandOffPhase {
    /// No contender has blocked this one.
    NotNeeded,
    /// Other contenders block this one.
    Blocked,
    /// No contender blocks this one any longer, and it has known so since this time.
    Begun(Instant),
}

impl Acquire {
    pub(crate) fn begin(spec: &QueueSpec) -> Self {
        let measured = spec.metrics.clone().map(|metrics| {
            metrics.began_to_wait();
            Measured { metrics: Some(metrics), begun: now(), hand_off: HandOffPhase::NotNeeded }
                .into()
        });
        Self { trace: trace::AcquireSpan::begin(&spec.path), measured }
    }

    /// Marks this acquisition as the turn before an acquisition of `spec`. A hand-off may begin with
    /// the turn; see [`continue_hand_off`](Self::continue_hand_off).
    pub(crate) fn precede(&mut self, spec: &QueueSpec) {
        if spec.metrics.is_some() {
            let turn = Measured { metrics: None, begun: now(), hand_off: HandOffPhase::NotNeeded };
            self.measured = Some(turn.into());
        }
    }

    /// Continues the hand-off of the turn before this acquisition.
    pub(crate) fn continue_hand_off(&mut self, turn: &Self) {
        if let (Some(measured), Some(turn)) = (&mut self.measured, &turn.measured) {
            measured.hand_off = turn.hand_off;
        }
    }

    /// Notes that other contenders block this one.
    pub(crate) fn blocked(&mut self) {
        self.set_hand_off(|_| HandOffPhase::Blocked);
    }

    /// Notes that nothing is known to block this contender any longer, if anything has blocked it.
    pub(crate) fn unblocked(&mut self) {
        self.set_hand_off(|before| match before {
            HandOffPhase::Blocked => HandOffPhase::Begun(now()),
            HandOffPhase::NotNeeded | HandOffPhase::Begun(_) => before,
        });
    }

    /// Notes that the contender queues again, at the end.
    pub(crate) fn restarted(&mut self) {
        self.set_hand_off(|_| HandOffPhase::NotNeeded);
    }

    /// Returns how long the acquisition has taken, if the hold is traced.
    pub(crate) fn granted(&mut self, node: &str, token: FencingToken) -> Option<Duration> {
        let waited = self.trace.granted(node, token);
        let Some(measured) = self.measured.take() else { return waited };
        if let Some(metrics) = measured.metrics {
            let now = now();
            let hand_off = match measured.hand_off {
                HandOffPhase::Begun(at) => Some(now.saturating_duration_since(at)),
                HandOffPhase::NotNeeded | HandOffPhase::Blocked => None,
            };
            metrics.waited(now.saturating_duration_since(measured.begun), hand_off);
        }
        waited
    }

    fn set_hand_off(&mut self, next: impl FnOnce(HandOffPhase) -> HandOffPhase) {
        if let Some(measured) = &mut self.measured {
            measured.hand_off = next(measured.hand_off);
        }
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        if let Some(metrics) = self.measured.as_ref().and_then(|it| it.metrics.as_ref()) {
            metrics.gave_up();
        }
    }
}

/// A hold that somebody observes: from the grant until the lock is released or passed on.
#[derive(Debug)]
pub(crate) struct Hold {
    trace: trace::HoldSpan,
    metrics: Option<LockMetrics>,
    begun: Instant,
}

impl Hold {
    /// Returns `None` if nobody observes the hold. On the heap: most locks do not need this memory.
    pub(crate) fn begin(
        spec: &QueueSpec,
        node: &str,
        token: FencingToken,
        waited: Option<Duration>,
        session_id: impl FnOnce() -> SessionId,
    ) -> Option<Box<Self>> {
        let metrics = spec.metrics.clone();
        if metrics.is_none() && !trace::IS_ON {
            return None;
        }
        if let Some(metrics) = &metrics {
            metrics.acquired();
        }
        let trace = trace::HoldSpan::begin(&spec.path, node, token, waited, session_id);
        Some(Box::new(Self { trace, metrics, begun: now() }))
    }

    /// Reports the end: why the lock was lost before, if it was, and how long the lease would have
    /// lasted.
    pub(crate) fn end(self, loss: Option<LossReason>, left: Duration) {
        let held = now().saturating_duration_since(self.begun);
        self.trace.end(held, loss, left);
        if let Some(metrics) = self.metrics {
            metrics.ended(held, loss, left);
        }
    }
}

/// The clock of tokio, which stops while the machine sleeps.
#[allow(clippy::disallowed_methods, reason = "the times are for reports only")]
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
