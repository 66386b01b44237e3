//! End of a session: every waiting caller is answered exactly once.

use super::link::Link;
use super::{Handles, Output, Session};
use crate::error::{ErrorKind, Outcome};
use crate::planted::Planted;
use crate::{SessionEnd, SessionEvent};

impl<H: Handles> Session<H> {
    /// Ends the session permanently. The outputs are the replies first, then the watches, then the
    /// one terminal event.
    pub(super) fn end(&mut self, end: SessionEnd) {
        if self.end_reason().is_some() {
            return;
        }
        if !matches!(self.link, Link::Waiting { .. }) {
            self.outputs.push_back(Output::Disconnect);
        }
        let kind = ErrorKind::SessionEnded(end);
        self.deadlines.clear();
        self.fail_inflight(&kind);
        while let Some(request) = self.queue.pop() {
            match Planted::EndLeavesQueued.is_on() {
                true => std::mem::forget(request.to),
                false => self.fail(request.to, &kind, Outcome::NotApplied),
            }
        }
        for credential in std::mem::take(&mut self.credentials) {
            for to in credential.into_waiters() {
                self.fail(to, &kind, Outcome::NotApplied);
            }
        }
        for (to, was_sent) in self.cleanup_tasks.drain() {
            let outcome = if was_sent { Outcome::Unknown } else { Outcome::NotApplied };
            self.fail(to, &kind, outcome);
        }
        let (one_shots, streams) = self.watches.drain();
        let one_shots = one_shots.into_iter().map(|to| Output::Watch { to, result: Err(end) });
        self.outputs.extend(one_shots);
        let streams = streams.into_iter().map(|to| Output::Stream { to, notice: Err(end) });
        self.outputs.extend(streams);
        self.outbound.reset();
        self.search = None;
        self.closing = None;
        self.link = Link::Ended(end);
        let session_id = self.identity.session_id;
        self.event(match end {
            SessionEnd::AuthFailed => SessionEvent::AuthFailed { session_id },
            SessionEnd::Closed => SessionEvent::Closed { session_id },
            SessionEnd::Detached => SessionEvent::Detached { session_id },
            cause => SessionEvent::Expired { session_id, cause },
        });
        let lease_state = self.lease_state();
        self.outputs.push_back(Output::LeaseState(lease_state));
    }

    fn fail(&mut self, to: H::Reply, kind: &ErrorKind, outcome: Outcome) {
        let result = Err((kind.clone(), outcome));
        self.outputs.push_back(Output::Reply { to, result });
    }
}
