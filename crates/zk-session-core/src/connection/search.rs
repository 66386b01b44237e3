//! Search for a read-write server, while the connection is to a read-only one.
//!
//! A read-only server has lost its quorum and answers reads from its last known state. It assigns
//! sessions of its own, which no other server recognizes, and refuses the sessions of the ensemble.
//! This session reports the assigned id in its event and never presents it to a server. The session
//! still has id 0, no ephemeral nodes and no lease. The first read-write server that is found
//! creates a new session.
//!
//! The Java client searches over a separate connection in its IO thread. Here
//! [`Output::Probe`](crate::Output::Probe) requests the search from the driver, and this session
//! continues meanwhile.

use std::time::{Duration, Instant};

use super::hosts::Hosts;
use crate::Host;
use crate::limits::{PROBE_PAUSE_MAX, PROBE_PAUSE_MIN, PROBE_TIMEOUT};

/// Search for a read-write server.
#[derive(Debug)]
pub(super) struct Search {
    due: Instant,
    pause: Duration,
    asked: Option<Host>,
}

impl Search {
    pub(super) fn new(now: Instant) -> Self {
        Self { due: now + PROBE_PAUSE_MIN, pause: PROBE_PAUSE_MIN, asked: None }
    }

    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// Returns the next server to probe, if there is another one. A single server needs no probe:
    /// when its quorum is back, it closes all its connections by itself.
    pub(super) fn next(&mut self, now: Instant, hosts: &mut Hosts) -> Option<Host> {
        self.pause = (self.pause * 2).min(PROBE_PAUSE_MAX);
        self.due = now + self.pause.max(PROBE_TIMEOUT);
        self.asked = hosts.next_to_probe();
        self.asked.clone()
    }

    /// Notes the answer of a server. Returns false if this server was not asked, or not last.
    pub(super) fn answered(&mut self, now: Instant, host: &Host) -> bool {
        let was_asked = self.asked.take_if(|asked| asked == host).is_some();
        if was_asked {
            self.due = now + self.pause;
        }
        was_asked
    }
}
