//! Spans and events for `tracing`, with the feature of that name.

use std::time::Duration;

use tokio::time::Instant;
use tracing::{Span, debug, field, info_span, warn};
use zk_session::SessionId;

use crate::deadline::now;
use crate::error::{LockError, LossReason};
use crate::fencing_token::FencingToken;

pub(crate) const IS_ON: bool = true;

/// Reports that the node of a lock that is held was deleted by somebody else.
pub(crate) fn node_deleted(node: &str, session_id: SessionId) {
    warn!(node, session = %session_id, "lock lost: its node was deleted");
}

/// Reports that a candidate cannot stand for election until somebody mends the reason.
pub(crate) fn not_elected(path: &str, error: &LockError) {
    warn!(path, %error, "a candidate cannot stand; it tries again");
}

/// The span of an acquisition: from the first request to the lock, or until the caller gives up.
#[derive(Debug)]
pub(crate) struct AcquireSpan {
    /// `None` once the lock is granted.
    span: Option<Span>,
    begun: Instant,
}

impl AcquireSpan {
    pub(crate) fn begin(path: &str) -> Self {
        let empty = field::Empty;
        let span = info_span!("zk.acquire", path, node = empty, token = empty);
        Self { span: Some(span), begun: now() }
    }

    /// Returns how long the acquisition has taken.
    pub(crate) fn granted(&mut self, node: &str, token: FencingToken) -> Option<Duration> {
        let span = self.span.take()?;
        let waited = now() - self.begun;
        span.record("node", node).record("token", field::display(token));
        debug!(parent: &span, waited_ms = ms(waited), "lock acquired");
        Some(waited)
    }
}

impl Drop for AcquireSpan {
    fn drop(&mut self) {
        if let Some(span) = &self.span {
            let waited_ms = ms(now() - self.begun);
            debug!(parent: span, waited_ms, "acquisition given up");
        }
    }
}

/// The span of a hold: from the grant until the lock is released or passed on.
#[derive(Debug)]
pub(crate) struct HoldSpan(Span);

impl HoldSpan {
    pub(crate) fn begin(
        path: &str,
        node: &str,
        token: FencingToken,
        waited: Option<Duration>,
        session_id: SessionId,
    ) -> Self {
        let waited_ms = waited.map(ms);
        Self(info_span!("zk.hold", path, node, %token, session = %session_id, waited_ms))
    }

    /// Reports how long the lock was held, why it was lost before, if it was, and how long the lease
    /// would have lasted.
    pub(crate) fn end(&self, held: Duration, loss: Option<LossReason>, left: Duration) {
        let (span, held_ms) = (&self.0, ms(held));
        match loss {
            None => debug!(parent: span, held_ms, left_ms = ms(left), "lock released"),
            Some(reason) => {
                warn!(parent: span, held_ms, left_ms = ms(left), %reason, "a lost lock was given up");
            }
        }
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
