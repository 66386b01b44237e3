//! Observation of acquisitions and holds: for traces, and for the metrics of a lock that has some.

use std::time::Duration;

use tokio::time::Instant;
use zk_session::SessionId;

use crate::deadline::now;
use crate::error::LossReason;
use crate::fencing_token::FencingToken;
use crate::metrics::LockMetrics;
use crate::trace;

/// Observer of an acquisition: from the first request to the lock, or until the caller gives up.
#[derive(Debug)]
pub(crate) struct AcquireObserver {
    trace: trace::AcquireSpan,
    hand_off: HandOffPhase,
    /// The metrics, and the time at which the acquisition began. On the heap: waiters of locks
    /// without metrics do not need this memory.
    measured: Option<Box<(LockMetrics, Instant)>>,
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

impl AcquireObserver {
    pub(crate) fn begin(path: &str, metrics: Option<&LockMetrics>) -> Self {
        let measured = metrics.map(|metrics| {
            metrics.began_to_wait();
            Box::new((metrics.clone(), now()))
        });
        let trace = trace::AcquireSpan::begin(path);
        Self { trace, hand_off: HandOffPhase::NotNeeded, measured }
    }

    /// Continues the hand-off that has begun with the turn before this acquisition.
    pub(crate) fn continue_hand_off(&mut self, turn: &Self) {
        self.hand_off = turn.hand_off;
    }

    /// Notes that other contenders block this one.
    pub(crate) fn blocked(&mut self) {
        self.hand_off = HandOffPhase::Blocked;
    }

    /// Notes that nothing is known to block this contender any longer, if anything has blocked it.
    pub(crate) fn unblocked(&mut self) {
        if let HandOffPhase::Blocked = self.hand_off {
            self.hand_off = HandOffPhase::Begun(now());
        }
    }

    /// Notes that the contender queues again, at the end.
    pub(crate) fn restarted(&mut self) {
        self.hand_off = HandOffPhase::NotNeeded;
    }

    /// Returns how long the acquisition has taken, if the hold is traced.
    pub(crate) fn granted(&mut self, node: &str, token: FencingToken) -> Option<Duration> {
        let waited = self.trace.granted(node, token);
        if let Some((metrics, begun)) = self.measured.take().map(|measured| *measured) {
            let now = now();
            let hand_off = match self.hand_off {
                HandOffPhase::Begun(at) => Some(now.saturating_duration_since(at)),
                HandOffPhase::NotNeeded | HandOffPhase::Blocked => None,
            };
            metrics.waited(now.saturating_duration_since(begun), hand_off);
        }
        waited
    }
}

impl Drop for AcquireObserver {
    fn drop(&mut self) {
        if let Some(measured) = &self.measured {
            measured.0.gave_up();
        }
    }
}

/// Observer of a hold: from the grant until the lock is released or passed on.
#[derive(Debug)]
pub(crate) struct HoldObserver {
    trace: trace::HoldSpan,
    metrics: Option<LockMetrics>,
    begun: Instant,
}

impl HoldObserver {
    /// Returns `None` if nobody observes the hold. On the heap: most locks do not need this memory.
    pub(crate) fn begin(
        path: &str,
        metrics: Option<&LockMetrics>,
        node: &str,
        token: FencingToken,
        waited: Option<Duration>,
        session_id: impl FnOnce() -> SessionId,
    ) -> Option<Box<Self>> {
        if metrics.is_none() && !trace::IS_ON {
            return None;
        }
        if let Some(metrics) = metrics {
            metrics.acquired();
        }
        let trace = trace::HoldSpan::begin(path, node, token, waited, session_id);
        Some(Box::new(Self { trace, metrics: metrics.cloned(), begun: now() }))
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
