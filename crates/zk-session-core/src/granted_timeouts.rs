//! Session timeouts that servers have granted to one session.

use std::time::Duration;

use crate::limits::LEAST_GRANTED_PART;

/// Shortest and longest timeout that a session was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) struct GrantedTimeouts {
    shortest: Duration,
    longest: Duration,
}

impl GrantedTimeouts {
    pub(crate) fn of(timeout: Duration) -> Self {
        Self { shortest: timeout, longest: timeout }
    }

    /// Returns the timeouts of a session that was granted others, too.
    pub(crate) fn between(shortest: Duration, longest: Duration) -> Self {
        Self { shortest: shortest.min(longest), longest: longest.max(shortest) }
    }

    pub(crate) fn add(&mut self, timeout: Duration) {
        *self = Self::between(self.shortest.min(timeout), self.longest.max(timeout));
    }

    pub(crate) fn shortest(self) -> Duration {
        self.shortest
    }

    pub(crate) fn longest(self) -> Duration {
        self.longest
    }

    /// Returns the shortest timeout that any server may grant: assumption 4 of
    /// [`LeaseAssumptions`](crate::LeaseAssumptions).
    pub(crate) fn least(self) -> Duration {
        LEAST_GRANTED_PART.of(self.longest).min(self.shortest)
    }
}
