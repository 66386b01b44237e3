//! Life on a server that has lost its quorum, and the search for one that has not.
//!
//! A read-only server answers reads out of what it knew last. It gives out sessions of
//! its own, which no other server has heard of, and refuses those of the ensemble. So the
//! id it gives is told to whoever wants to know and never presented to anybody: this
//! session still has id 0, no ephemeral nodes, and no lease, and the first read-write
//! server that is found makes a new session.
//!
//! The Java client looks for one over a connection of its own, in its IO thread. Here the
//! driver is asked to, by [`Output::Probe`], and this session goes on meanwhile.

use std::time::{Duration, Instant};

use super::{Handles, Output, Session};
use crate::Host;
use crate::LossCause;
use crate::limits::{PROBE_PAUSE_MAX, PROBE_PAUSE_MIN, PROBE_TIMEOUT};

/// The search, while the connection is to a read-only server.
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
    /// True while the connection is to a read-only server.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.search.is_some()
    }

    /// What the server that [`Output::Probe`] named has said of itself. Anything else
    /// than that it takes writes, an answer that did not come included, is a no.
    pub fn handle_probed(&mut self, now: Instant, host: &Host, is_read_write: bool) {
        self.check_lease(now);
        let Some(search) = &mut self.search else { return };
        if search.asked.take_if(|asked| asked == host).is_none() {
            return; // too late, or never asked
        }
        search.due = now + search.pause;
        if is_read_write && self.hosts.prefer(host) {
            self.drop_link(now, LossCause::ReadOnly);
        }
    }

    pub(super) fn probe_due(&self) -> Option<Instant> {
        self.search.as_ref().map(|search| search.due)
    }

    /// Asks the next server, unless there is no other one: when the quorum is back
    /// the server closes all its connections by itself.
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
