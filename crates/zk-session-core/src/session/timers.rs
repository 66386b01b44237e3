//! Table of all deadlines of a session.
//!
//! No timer is armed or stopped: each deadline follows from the state. "T" is the session timeout,
//! of which at most a [minute](crate::limits::IDLE_LIMIT_MAX) counts where it is marked with a
//! star. The table is in the order in which deadlines that pass together are handled. A
//! [`DisconnectReason`] in it means that the connection ends for this reason.
//!
//! | [`Timer`] | due | why, and what happens |
//! |---|---|---|
//! | `LeaseEnd` | the end of the lease | a leader may expire the session: the guards are lost |
//! | `CloseLimit` | `close_timeout` after `close`; at once after `detach` | the session ends |
//! | `Expiry` | 4/3 T after an acknowledgement | no server may ever report it: the session ends |
//! | `Request` | the deadline of a caller | the request fails with `TimedOut` |
//! | `Move` | at once after a new list of servers | the connection ends: `Rebalanced` |
//! | `Attempt` | at the end of the back-off | a connection is requested |
//! | `AttemptLimit` | `connection/pace.rs`; twice for each attempt | the server is slow: `IdleTimeout` |
//! | `Silence` | 2/3 T* without a byte | the server may be dead: `IdleTimeout` |
//! | `Stall` | T* with the oldest request unanswered | requests are stuck: `RequestTimeout` |
//! | `Acknowledgement` | 2/3 T* with nothing but events | requests are stuck: `RequestTimeout` |
//! | `Close` | half of `close_timeout` after `close` | clean-up takes too long: closeSession is sent |
//! | `Lease` | by the [rule of the lease](crate::lease) | a sync or an empty transaction is sent |
//! | `Ping` | T/3 or less without a packet | the server would expire the session: a ping is sent |
//! | `Probe` | at the end of the search's pause | the server is read-only: the next one is probed |
//! | `CleanUp` | T/10 to T/5 after a rejection | the server was busy: clean-up tasks are sent again |
//! | `Removal` | 100 ms after a watch was dropped | nothing uses it: a removeWatches is sent |
//!
//! While the lease is claimed, `Silence` and `Ping` come sooner; see
//! [`Liveness::silence_due`](crate::requests::Liveness::silence_due) and `ping_due`. The fractions
//! are constants of [`limits`](crate::limits).

use std::io;
use std::time::Instant;

use proto::Ping;

use super::Session;
use crate::connection::GrantedTimeouts;
use crate::limits::{PING_INTERVAL_MAX, PING_PART};
use crate::{DisconnectReason, Handles, IoFailure, Output, SaslFailure, SessionEnd};

/// Declares the timers in the order of the table.
macro_rules! timers {
    ($($timer:ident)*) => {
        /// Deadline of a session. See the table in the [module documentation](self).
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        enum Timer {
            $($timer,)*
        }

        impl Timer {
            const ALL: &[Self] = &[$(Self::$timer,)*];
        }

        impl<H: Handles> Session<H> {
            /// Returns the earliest deadline. The calls are written out so that each is inlined:
            /// every turn of the driver asks for this.
            pub(super) fn next_deadline(&self) -> Option<Instant> {
                if self.end_reason().is_some() {
                    return None;
                }
                let mut next = None;
                $(next = earlier(next, self.due(Timer::$timer));)*
                next
            }
        }
    };
}

timers! {
    LeaseEnd CloseLimit Expiry Request Move Attempt AttemptLimit Silence Stall Acknowledgement
    Close Lease Ping Probe CleanUp Removal
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
        self.pauses.expect_turn(due);
        due
    }

    /// Handles the deadlines that have passed. The call is harmless if there is none.
    pub fn handle_timeout(&mut self, now: Instant) {
        for timer in Timer::ALL {
            let has_ended = self.end_reason().is_some();
            if !has_ended && self.due(*timer).is_some_and(|due| due <= now) {
                self.fire(now, *timer);
            }
        }
    }

    /// Returns when a deadline of a session that has not ended passes, if it applies.
    #[inline(always)]
    fn due(&self, timer: Timer) -> Option<Instant> {
        let timeout = self.identity.timeout();
        let liveness = self.requests.liveness();
        let oldest = self.requests.oldest();
        let up = self.is_connected().then_some(liveness);
        match timer {
            Timer::CloseLimit => self.closing_until(),
            // The session of a read-only server cannot expire: nothing depends on it.
            Timer::Expiry if !self.identity.exists() => None,
            Timer::Expiry => liveness.expiry_due(timeout),
            Timer::Request => self.requests.next_deadline(),
            Timer::Move => self.connection.move_due(),
            Timer::Attempt => self.connection.next_attempt_due(),
            Timer::AttemptLimit => self.connection.attempt_deadline(),
            Timer::Silence => {
                let lease_end = || self.lease.end_to_prevent(liveness.up());
                // After closeSession nothing more is sent, and the server still has to answer it.
                up.filter(|up| up.has_unanswered() || self.closing.is_some())
                    .map(|up| up.silence_due(timeout, lease_end, oldest))
            }
            Timer::Stall => up?.stall_due(timeout, oldest),
            Timer::Acknowledgement => up?.ack_due(timeout, oldest),
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
                let host = self.connection.attempt(now, &self.pace(now));
                self.outputs.push(Output::Connect(host));
            }
            Timer::AttemptLimit if self.connection.is_preparing() => {
                // The server is not at fault.
                let late = IoFailure::from(io::ErrorKind::TimedOut);
                let late = DisconnectReason::Sasl(SaslFailure::NotPrepared(late));
                self.disconnect(now, self.in_time_or(late));
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

    /// Sends the request that the lease needs. The commit of a request to the leader may be slow. The
    /// ping in front of a claimed lease's request shows whether the server is alive.
    fn keep_lease(&mut self, now: Instant) {
        let Some((_, request)) = self.lease_request_due() else { return };
        let is_ping_due = self.ping_due().is_some_and(|due| due <= now);
        let is_unasked = self.requests.liveness().unanswered_ping().is_none();
        let needs_ping = is_ping_due || (self.lease.is_claimed() && is_unasked);
        self.send_lease_request(now, needs_ping.then_some(Ping), request);
    }

    /// Returns when the next ping is due.
    ///
    /// A ping is due when nothing was sent for a third of the timeout, so that one lost ping does
    /// not endanger the session. It is due sooner while the lease is claimed: pings are the touches
    /// that the next lease requests prove.
    fn ping_due(&self) -> Option<Instant> {
        // closeSession is the last request on a connection.
        if !self.is_connected() || self.is_close_sent() {
            return None;
        }
        // The lease uses the shortest timeout so far, even if a server grants a longer one.
        let (granted, touch_every) = if self.is_read_only() {
            (None, None)
        } else {
            (self.lease.granted(), self.lease.touch_every())
        };
        let shortest = granted.map(GrantedTimeouts::shortest);
        let timeout = self.identity.timeout();
        let timeout = shortest.map_or(timeout, |shortest| shortest.min(timeout));
        let interval = PING_PART.of(timeout).min(PING_INTERVAL_MAX);
        self.requests.liveness().ping_due(touch_every.map_or(interval, |every| every.min(interval)))
    }
}

// Each turn of the driver compares all deadlines.
#[inline(always)]
fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
