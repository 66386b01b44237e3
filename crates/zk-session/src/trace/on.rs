//! With tracing.

use std::future::Future;
use std::time::{Duration, Instant};

use proto::{Abbreviated, ErrorCode, SessionId};
use tracing::instrument::{Instrument, Instrumented};
use tracing::{Span, debug, debug_span, error, info, info_span, warn};
use zk_session_core::{Error, Host, IoFailure, LeaseState, Operation, SessionEvent};

use crate::clock::now;
use crate::limits::SLOW_REQUEST;

/// Reports a change in the life of a session.
pub(crate) fn announce(event: &SessionEvent) {
    match event {
        SessionEvent::Connected { session_id, timeout, host } => {
            info!(session = %session_id, %host, timeout_ms = ms(*timeout), "connected");
        }
        SessionEvent::Reconnected { session_id, timeout, host } => {
            info!(session = %session_id, %host, timeout_ms = ms(*timeout), "reconnected");
        }
        SessionEvent::TimeoutChanged { session_id, before, timeout } => {
            let (before_ms, timeout_ms) = (ms(*before), ms(*timeout));
            warn!(session = %session_id, before_ms, timeout_ms, "session timeout changed");
        }
        SessionEvent::ReadOnly { host, .. } => warn!(%host, "connected to a read-only server"),
        SessionEvent::Suspended { session_id, cause } => {
            warn!(session = %session_id, %cause, "disconnected");
        }
        SessionEvent::Expired { session_id, cause } => {
            error!(session = %session_id, %cause, "session expired");
        }
        SessionEvent::AuthFailed { session_id, cause } => {
            error!(session = %session_id, %cause, "authentication failed");
        }
        SessionEvent::Closed { session_id } => info!(session = %session_id, "session closed"),
        SessionEvent::Detached { session_id } => {
            info!(session = %session_id, "session detached");
        }
        SessionEvent::CleanUpFailed { path, code } => {
            warn!(path = %Abbreviated(path), %code, "a node cannot be deleted");
        }
        SessionEvent::CleanUpBacklog { nodes } => {
            warn!(nodes, "nodes wait to be deleted behind pending deletions");
        }
        event => debug!(%event),
    }
}

/// Reports that the lease has ended, and with it every lock of the session. `claimed_by` returns the
/// session if there is such a lock.
pub(crate) fn lease_ended(claimed_by: impl FnOnce() -> Option<SessionId>, state: &LeaseState) {
    // The end of the session has an event of its own.
    if state.closing.is_some() || state.ended.is_some() {
        return;
    }
    let paused_ms = state.paused.map_or(0, ms);
    if let Some(session) = claimed_by() {
        warn!(%session, paused_ms, "lease ended: all locks of the session are lost");
    }
}

/// Reports that a list of servers gave none.
pub(crate) fn server_list_failed(failure: &IoFailure) {
    warn!(%failure, "no newer list of servers was found");
}

/// Reports the servers that a list gave.
pub(crate) fn servers_replaced(servers: &[Host]) {
    debug!(?servers, "list of servers discovered");
}

/// Reports that the session has the servers of the ensemble's configuration.
pub(crate) fn members_followed(config: &str) {
    debug!(%config, "list of servers follows the members of the ensemble");
}

/// Reports why the session does not have the servers of the ensemble's configuration.
pub(crate) fn members_not_followed(why: &Error) {
    info!(%why, "list of servers does not follow the members of the ensemble");
}

/// Puts an attempt to open a session into a span.
pub(crate) fn connect<F: Future>(servers: &str, attempt: F) -> Instrumented<F> {
    attempt.instrument(info_span!("zk.connect", servers))
}

/// The span of a request, which ends when its caller has the reply, or does not wait any more.
#[derive(Debug)]
pub(crate) struct RequestSpan {
    span: Span,
    begun: Instant,
}

impl RequestSpan {
    pub(crate) fn begin(operation: Operation, path: &str) -> Self {
        let (operation, error) = (operation.name(), tracing::field::Empty);
        let span = debug_span!("zk.request", operation, path = %Abbreviated(path), error);
        Self { span, begun: now() }
    }

    /// Records the result, and reports a request that was slow or throttled.
    pub(crate) fn end(&self, operation: Operation, path: &str, error: Option<&Error>) {
        let (took, path) = (now().saturating_duration_since(self.begun), Abbreviated(path));
        let operation = operation.name();
        if let Some(error) = error {
            self.span.record("error", tracing::field::display(error));
            if error.code() == Some(ErrorCode::THROTTLED_OP) {
                warn!(parent: &self.span, operation, %path, "the server throttles requests");
            }
        }
        if took >= SLOW_REQUEST {
            warn!(parent: &self.span, operation, %path, took_ms = ms(took), "slow request");
        }
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
