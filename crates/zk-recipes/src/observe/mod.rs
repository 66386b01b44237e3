//! Observation of acquisitions and holds: for traces, and for the metrics of a lock that has some.
//!
//! A waiter and a hold have an observer only if somebody wants to see them. It is told of the edges of
//! their states, and decides nothing.

mod metrics;
#[cfg_attr(feature = "tracing", path = "trace_on.rs")]
#[cfg_attr(not(feature = "tracing"), path = "trace_off.rs")]
mod trace;

use std::time::Duration;

use tokio::time::Instant;
use zk_session::SessionId;

pub use self::metrics::{HistogramSnapshot, LockMetrics, LockMetricsSnapshot};
pub(crate) use self::trace::{IS_ON as IS_TRACED, node_deleted, not_elected};
use crate::deadline::now;
use crate::error::LossReason;
use crate::fencing_token::FencingToken;

/// Observer of an acquisition: from the first request to the lock, or until the caller gives up.
#[derive(Debug)]
pub(crate) struct AcquireObserver {
    path: String,
    trace: Option<trace::AcquireSpan>,
    hand_off: HandOffPhase,
    /// `None` once the lock is granted.
    metrics: Option<LockMetrics>,
    begun: Instant,
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
    pub(crate) fn begin(path: &str, metrics: Option<&LockMetrics>) -> Box<Self> {
        if let Some(metrics) = metrics {
            metrics.began_to_wait();
        }
        Box::new(Self {
            path: path.to_owned(),
            trace: Some(trace::AcquireSpan::begin(path)),
            hand_off: HandOffPhase::NotNeeded,
            metrics: metrics.cloned(),
            begun: now(),
        })
    }

    /// Observes the wait for a turn, whose hand-off [continues](Self::continue_hand_off) later.
    pub(crate) fn of_turn() -> Box<Self> {
        let (hand_off, begun) = (HandOffPhase::NotNeeded, now());
        Box::new(Self { path: String::new(), trace: None, hand_off, metrics: None, begun })
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

    /// Ends the acquisition, and begins to observe the hold.
    pub(crate) fn granted(
        mut self,
        node: &str,
        token: FencingToken,
        session_id: SessionId,
    ) -> Box<HoldObserver> {
        let waited = self.trace.as_mut().and_then(|trace| trace.granted(node, token));
        let metrics = self.metrics.take();
        if let Some(metrics) = &metrics {
            let now = now();
            let hand_off = match self.hand_off {
                HandOffPhase::Begun(at) => Some(now.saturating_duration_since(at)),
                HandOffPhase::NotNeeded | HandOffPhase::Blocked => None,
            };
            metrics.waited(now.saturating_duration_since(self.begun), hand_off);
        }
        HoldObserver::begin(&self.path, metrics, node, token, waited, session_id)
    }
}

impl Drop for AcquireObserver {
    fn drop(&mut self) {
        if let Some(metrics) = &self.metrics {
            metrics.gave_up();
        }
    }
}

/// Observer of a holder: from the grant until the lock is released or passed on. Dropping it reports
/// the end.
#[derive(Debug)]
pub(crate) struct HoldObserver {
    trace: trace::HoldSpan,
    metrics: Option<LockMetrics>,
    begun: Instant,
    loss: Option<LossReason>,
    /// For how long the lease would have lasted.
    left: Duration,
}

impl HoldObserver {
    pub(crate) fn begin(
        path: &str,
        metrics: Option<LockMetrics>,
        node: &str,
        token: FencingToken,
        waited: Option<Duration>,
        session_id: SessionId,
    ) -> Box<Self> {
        if let Some(metrics) = &metrics {
            metrics.acquired();
        }
        let trace = trace::HoldSpan::begin(path, node, token, waited, session_id);
        Box::new(Self { trace, metrics, begun: now(), loss: None, left: Duration::ZERO })
    }

    /// Notes why the lock was lost before its release, if it was, and how long the lease would have
    /// lasted.
    pub(crate) fn ends(&mut self, loss: Option<LossReason>, left: Duration) {
        (self.loss, self.left) = (loss, left);
    }

    /// Notes that the release has found no node.
    pub(crate) fn node_was_gone(&mut self) {
        self.loss.get_or_insert(LossReason::NodeDeleted);
    }
}

impl Drop for HoldObserver {
    fn drop(&mut self) {
        let held = now().saturating_duration_since(self.begun);
        self.trace.end(held, self.loss, self.left);
        if let Some(metrics) = &self.metrics {
            metrics.ended(held, self.loss, self.left);
        }
    }
}
