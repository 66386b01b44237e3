//! Totals over all sessions of a session manager.

use zk_session_core::SessionEnd;

use crate::prometheus::{Prometheus, PrometheusPage};

/// Numbers over all sessions of a [`SessionManager`](crate::SessionManager); see
/// [`SessionManager::totals`](crate::SessionManager::totals). They never decrease: unlike
/// [`Stats`](crate::Stats), they outlast the end of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionTotals {
    /// Sessions that were opened, the first one included.
    pub opened: u64,
    /// Sessions that expired, by the server's word or by the client's clock.
    pub expired: u64,
    /// Sessions that ended because a server rejected the credentials, or required other ones.
    pub rejected: u64,
    /// Sessions that the client closed because of its
    /// [backlog](crate::SessionEnd::CleanUpOverflow).
    pub overflowed: u64,
    /// Sessions that were closed or detached by the program.
    pub closed: u64,
    /// Failed attempts to open the next session, including one that stops the manager.
    pub failed_attempts: u64,
    /// Established connections that were lost.
    pub connections_lost: u64,
}

/// | name | kind |
/// |---|---|
/// | `zk_sessions_opened_total` | counter |
/// | `zk_sessions_ended_total`, with the label `reason` | counter |
/// | `zk_session_attempts_failed_total` | counter |
/// | `zk_session_connections_lost_total` | counter |
///
/// Queries that matter:
///
/// ```text
/// increase(zk_sessions_ended_total{reason="expired"}[15m]) > 0    locks and ephemeral nodes were lost
/// increase(zk_session_connections_lost_total[15m]) > 3            it reconnects often
/// increase(zk_session_attempts_failed_total[5m]) > 0              no next session
/// ```
///
/// The metrics of [`Stats`](crate::Stats) are those of the current session. Their counters start again
/// with the next session.
impl Prometheus for SessionTotals {
    fn prometheus(&self, labels: &str) -> String {
        let mut page = PrometheusPage::new(labels);
        page.counter("zk_sessions_opened_total", "Sessions opened.", self.opened);
        let ended = [
            ("expired", self.expired),
            ("rejected", self.rejected),
            ("overflowed", self.overflowed),
            ("closed", self.closed),
        ];
        page.counters("zk_sessions_ended_total", "Sessions that have ended.", "reason", &ended);
        let failed = "Failed attempts to open the next session.";
        page.counter("zk_session_attempts_failed_total", failed, self.failed_attempts);
        let lost = "Established connections that were lost, over all sessions.";
        page.counter("zk_session_connections_lost_total", lost, self.connections_lost);
        page.into_text()
    }
}

impl SessionTotals {
    /// Counts a session that has ended, and the connections that it lost.
    pub(super) fn count_end(&mut self, cause: SessionEnd, connections_lost: u64) {
        let ended = match cause {
            SessionEnd::Expired | SessionEnd::ExpiredLocally { .. } => &mut self.expired,
            SessionEnd::AuthFailed | SessionEnd::AuthRequired => &mut self.rejected,
            SessionEnd::CleanUpOverflow => &mut self.overflowed,
            _ => &mut self.closed,
        };
        *ended += 1;
        self.connections_lost += connections_lost;
    }
}
