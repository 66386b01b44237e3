//! Observation of acquisitions and holds: for traces, and for the metrics of a lock that has some.

use std::time::{Duration, Instant};

use crate::error::LossReason;
use crate::fencing_token::FencingToken;
use crate::metrics::LockMetrics;
use crate::queue::kind::Kind;
use crate::trace;

/// An acquisition: from the first request to the lock, or until the caller gives up.
#[derive(Debug)]
pub(crate) struct Acquire {
    trace: trace::Acquire,
    /// On the heap: waiters of locks without metrics do not need this memory.
    measured: Option<Box<Measured>>,
}

#[derive(Debug)]
struct Measured {
    metrics: LockMetrics,
    begun: Instant,
}

impl Measured {
    fn begin(kind: &Kind) -> Option<Box<Self>> {
        let metrics = kind.metrics.clone()?;
        Some(Box::new(Self { metrics, begun: now() }))
    }

    fn time(&self) -> Duration {
        now().saturating_duration_since(self.begun)
    }
}

impl Acquire {
    pub(crate) fn begin(kind: &Kind) -> Self {
        let measured = Measured::begin(kind);
        if let Some(measured) = &measured {
            measured.metrics.began_to_wait();
        }
        Self { trace: trace::Acquire::begin(&kind.path), measured }
    }

    pub(crate) fn granted(&mut self, node: &str, token: FencingToken) {
        self.trace.granted(node, token);
        if let Some(measured) = self.measured.take() {
            measured.metrics.waited(measured.time());
        }
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        if let Some(measured) = &self.measured {
            measured.metrics.gave_up();
        }
    }
}

/// A hold: from the grant until the lock is released or passed on.
#[derive(Debug)]
pub(crate) struct Hold {
    trace: trace::Hold,
    /// On the heap: waiters of locks without metrics do not need this memory.
    measured: Option<Box<Measured>>,
}

impl Hold {
    pub(crate) fn begin(
        kind: &Kind,
        node: &str,
        token: FencingToken,
        session_id: impl FnOnce() -> i64,
    ) -> Self {
        let measured = Measured::begin(kind);
        if let Some(measured) = &measured {
            measured.metrics.acquired();
        }
        Self { trace: trace::Hold::begin(&kind.path, node, token, session_id), measured }
    }

    /// Returns the state of a hold that nobody has taken yet.
    pub(crate) fn not_begun() -> Self {
        Self { trace: trace::Hold::not_begun(), measured: None }
    }

    /// Returns true if somebody observes the hold.
    pub(crate) fn is_observed(&self) -> bool {
        self.measured.is_some() || self.trace.is_on()
    }

    /// Reports the end, at the first call: why the lock was lost before, if it was, and how long the
    /// lease would have lasted.
    pub(crate) fn end(&mut self, loss: Option<LossReason>, left: Duration) {
        self.trace.end(loss, left);
        if let Some(measured) = self.measured.take() {
            measured.metrics.ended(measured.time(), loss, left);
        }
    }
}

/// The clock of tokio, which stops while the machine sleeps.
#[allow(clippy::disallowed_methods, reason = "the times are for reports only")]
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
