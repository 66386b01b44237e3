//! Connections to a read-only server, and the search for a read-write server.
//!
//! A read-only server has lost its quorum and answers reads from its last known state. It assigns
//! sessions of its own, which no other server recognizes, and refuses the sessions of the ensemble.
//! This session reports the assigned id in its event and never presents it to a server. The session
//! still has id 0, no ephemeral nodes and no lease. The first read-write server that is found
//! creates a new session.
//!
//! The Java client searches over a separate connection in its IO thread. Here [`Output::Probe`]
//! requests the search from the driver, and this session continues meanwhile.

use std::time::{Duration, Instant};

use super::{Handles, Output, Session};
use crate::DisconnectReason;
use crate::Host;
use crate::limits::{PROBE_PAUSE_MAX, PROBE_PAUSE_MIN, PROBE_TIMEOUT};

/// Search for a read-write server, while the connection is to a read-only one.
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
}

impl<H: Handles> Session<H> {
    /// Returns true while the connection is to a read-only server.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.search.is_some()
    }

    /// Reports the answer of the server that [`Output::Probe`] named. `is_read_write` is true only
    /// if the server answered that it accepts writes. It is false for any other answer, and for a
    /// missing one.
    pub fn handle_probed(&mut self, now: Instant, host: &Host, is_read_write: bool) {
        self.check_lease(now);
        let Some(search) = &mut self.search else { return };
        if search.asked.take_if(|asked| asked == host).is_none() {
            return; // the answer is late, or there was no probe
        }
        search.due = now + search.pause;
        if is_read_write && self.hosts.prefer(host) {
            self.drop_link(now, DisconnectReason::ReadOnly);
        }
    }

    pub(super) fn probe_due(&self) -> Option<Instant> {
        self.search.as_ref().map(|search| search.due)
    }

    /// Probes the next server, if there is another one. A single server needs no probe: when its
    /// quorum is back, it closes all its connections by itself.
    pub(super) fn send_probe(&mut self, now: Instant) {
        let Some(search) = &mut self.search else { return };
        search.pause = (search.pause * 2).min(PROBE_PAUSE_MAX);
        search.due = now + search.pause.max(PROBE_TIMEOUT);
        search.asked = self.hosts.next_to_probe();
        if let Some(host) = &search.asked {
            self.outputs.push_back(Output::Probe(host.clone()));
        }
    }
}
