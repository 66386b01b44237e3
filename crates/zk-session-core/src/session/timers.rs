//! Table of all deadlines of a session.
//!
//! No timer is armed or stopped: each deadline follows from the state. "T" is the session timeout,
//! of which at most a [minute](crate::limits::IDLE_LIMIT_MAX) counts where it is marked with a
//! star. The table is in the order in which deadlines that pass together are handled.
//!
//! | [`Timer`] | due | why, and what happens |
//! |---|---|---|
//! | `CloseLimit` | `close_timeout` after `close`; at once after `detach` | Callers of `close` must not wait longer: the session ends |
//! | `Expiry` | 4/3 T after the last acknowledgement | The server has expired the session, although no server may ever say so: the session ends |
//! | `Request` | the earliest deadline of a caller | The caller is told that its request timed out |
//! | `Move` | at once after a new list of servers | This server has too much load, or was removed: the connection is dropped |
//! | `Attempt` | at the end of the back-off | A connection is requested |
//! | `AttemptLimit` | [a share of T](crate::limits::ATTEMPTS_PER_TIMEOUT) after the begin of an attempt, and again after its connection | Another server may be faster: the attempt is given up |
//! | `Silence` | 2/3 T* without a byte; sooner for a claimed lease | The server is dead or cut off: the connection is dropped |
//! | `Stall` | T* without an answer to the oldest request | The server no longer works through its requests: the connection is dropped |
//! | `Acknowledgement` | 2/3 T* with an unanswered request and without any answer | The server sends events only: the connection is dropped |
//! | `Close` | half of `close_timeout` after `close` | Clean-up is taking too long: closeSession is sent |
//! | `Lease` | by the [rule of the lease](crate::lease) | The claimed lease needs evidence: a sync or an empty transaction is sent, with a ping |
//! | `Ping` | T/3 after the last packet, at most [ten seconds](crate::limits::PING_INTERVAL_MAX); sooner for a claimed lease | The server would expire the session: a ping is sent |
//! | `Probe` | the pause of the search | The server is read-only: the next server is probed |
//! | `CleanUp` | T/10 to T/5 after a rejection | The server was too busy: clean-up tasks are sent again |
//! | `Removal` | [a moment](crate::limits::REMOVAL_DELAY) after a watch was dropped | No caller uses the watch: it is removed from the server |
//! | `LeaseEnd` | the end of the lease | The locks may be lost: their guards are told |

use std::time::Instant;

use super::Session;
use crate::limits::{PING_INTERVAL_MAX, PING_PART};
use crate::{DisconnectReason, Handles, Output, SessionEnd};

/// Deadline of a session. See the table in the [module documentation](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
    CloseLimit,
    Expiry,
    Request,
    Move,
    Attempt,
    AttemptLimit,
    Silence,
    Stall,
    Acknowledgement,
    Close,
    Lease,
    Ping,
    Probe,
    CleanUp,
    Removal,
    LeaseEnd,
}

impl Timer {
    const ALL: [Self; 16] = [
        Self::CloseLimit,
        Self::Expiry,
        Self::Request,
        Self::Move,
        Self::Attempt,
        Self::AttemptLimit,
        Self::Silence,
        Self::Stall,
        Self::Acknowledgement,
        Self::Close,
        Self::Lease,
        Self::Ping,
        Self::Probe,
        Self::CleanUp,
        Self::Removal,
        Self::LeaseEnd,
    ];
}

impl<H: Handles> Session<H> {
    /// Begins a turn of the driver. A turn that is [much later](crate::limits::PAUSE_NOTICED) than
    /// [`poll_timeout`](Self::poll_timeout) requested means that this process did not run
    /// meanwhile. Errors and events that result from the pause report it.
    pub fn handle_turn(&mut self, now: Instant) {
        self.pauses.turn(now);
    }

    /// Returns the latest time at which [`handle_timeout`](Self::handle_timeout) must be called;
    /// `None` once the session has ended.
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        let due = self.next_deadline();
        self.pauses.ask_for(due);
        due
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        Timer::ALL.into_iter().filter_map(|timer| self.due(timer)).min()
    }

    /// Handles the deadlines that have passed. The call is harmless if there is none.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.check_lease(now);
        for timer in Timer::ALL {
            if self.due(timer).is_some_and(|due| due <= now) {
                self.fire(now, timer);
            }
        }
    }

    /// Returns when a deadline passes, if it applies.
    fn due(&self, timer: Timer) -> Option<Instant> {
        if self.end_reason().is_some() {
            return None;
        }
        let timeout = self.identity.timeout();
        let up = self.is_connected().then_some(&self.requests);
        match timer {
            Timer::CloseLimit => self.closing_until(),
            // The session of a read-only server cannot expire: nothing depends on it.
            Timer::Expiry if !self.identity.exists() => None,
            Timer::Expiry => self.requests.liveness().expiry_due(timeout),
            Timer::Request => self.requests.next_deadline(),
            Timer::Move => self.connection.move_due(),
            Timer::Attempt => self.connection.next_attempt_due(),
            Timer::AttemptLimit => self.connection.attempt_deadline(),
            Timer::Silence => {
                let lease_end = self.lease.end_to_prevent(self.requests.liveness().up());
                up?.silence_due(timeout, self.closing.is_some(), lease_end)
            }
            Timer::Stall => up?.stall_due(timeout),
            Timer::Acknowledgement => up?.ack_due(timeout),
            Timer::Close => self.close_due(),
            Timer::Lease => self.lease_request_due().map(|(due, _)| due),
            Timer::Ping => self.ping_due(),
            Timer::Probe => self.connection.probe_due(),
            Timer::CleanUp => up.and_then(|_| self.clean_up.retry_due()),
            // closeSession is the last request.
            Timer::Removal if self.closing.is_some() => None,
            Timer::Removal => up.and_then(|_| self.watches.removal_due()),
            Timer::LeaseEnd => self.lease.deadline(),
        }
    }

    fn fire(&mut self, now: Instant, timer: Timer) {
        match timer {
            Timer::CloseLimit => {
                if let Some(end) = self.closing_as() {
                    self.end(end);
                }
            }
            Timer::Expiry => {
                let since = self.requests.liveness().acknowledged_at();
                let paused = since.and_then(|since| self.pauses.since(since, now));
                self.end(self.closing_as().unwrap_or(SessionEnd::ExpiredLocally { paused }));
            }
            Timer::Request => self.fail_late(now),
            Timer::Move => self.disconnect(now, DisconnectReason::Rebalanced),
            Timer::Attempt => {
                let host = self.connection.attempt(now, self.identity.timeout());
                self.outputs.push(Output::Connect(host));
            }
            Timer::AttemptLimit | Timer::Silence => {
                self.disconnect(now, self.in_time_or(DisconnectReason::IdleTimeout));
            }
            Timer::Stall | Timer::Acknowledgement => {
                self.disconnect(now, self.in_time_or(DisconnectReason::RequestTimeout));
            }
            Timer::Close => self.send_close(now),
            Timer::Lease => self.keep_lease(now),
            Timer::Ping => self.requests.ping(now),
            Timer::Probe => {
                if let Some(host) = self.connection.next_to_probe(now) {
                    self.outputs.push(Output::Probe(host));
                }
            }
            Timer::CleanUp => {
                self.clean_up.retry();
                self.send_clean_up(now);
            }
            Timer::Removal => self.remove_watches(now),
            Timer::LeaseEnd => self.check_lease(now),
        }
    }

    /// Returns the cause for which the connection is closed: the given one, unless this turn is
    /// late.
    fn in_time_or(&self, cause: DisconnectReason) -> DisconnectReason {
        self.pauses.this_turn().map_or(cause, DisconnectReason::ProcessPaused)
    }

    /// Sends the request that a claimed lease needs. The commit of a request to the leader may be
    /// slow. The ping in front of it shows whether the server is alive.
    fn keep_lease(&mut self, now: Instant) {
        let Some((_, request)) = self.lease_request_due() else { return };
        let is_ping_due = self.ping_due().is_some_and(|due| due <= now);
        let with_ping = is_ping_due || self.requests.liveness().unanswered_ping().is_none();
        self.send_lease_request(now, with_ping, request);
    }

    /// Returns when the next ping is due.
    ///
    /// A ping is due when nothing was sent for a third of the timeout, so that one lost ping does
    /// not endanger the session. It is due sooner while the lease is claimed: pings are the touches
    /// that the next lease requests prove.
    fn ping_due(&self) -> Option<Instant> {
        // closeSession is the last request on a connection.
        if !self.is_connected() || self.is_close_said() {
            return None;
        }
        // The lease uses the shortest timeout so far, even if a server grants a longer one.
        let shortest = self.lease.shortest_timeout().filter(|_| !self.is_read_only());
        let timeout = self.identity.timeout();
        let timeout = shortest.map_or(timeout, |it| it.min(timeout));
        let interval = self.lease.touch_every().unwrap_or_else(|| PING_PART.of(timeout));
        self.requests.liveness().ping_due(interval.min(PING_INTERVAL_MAX))
    }
}
