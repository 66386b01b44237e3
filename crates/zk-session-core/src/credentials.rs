//! Credentials of the session, sent on every connection before anything else.

use std::collections::VecDeque;
use std::time::Instant;

use bytes::Bytes;
use proto::{AuthPacket, ErrorCode, OpCode};

use super::deadlines::{DeadlineOwner, Due, RequestId};
use super::handles::{Handle, Recipient, Waiter};
use super::{Failure, Handles, Output, Reply, Session};
use crate::SessionEnd;
use crate::error::{ErrorKind, Outcome};
use crate::limits::{CREDENTIALS_MAX, REQUESTS_MAX};

/// Credential, sent on every connection before anything else.
#[derive(Debug)]
pub(super) struct Credential<R> {
    scheme: String,
    auth: Auth,
    /// Callers that wait for a reply. One reply of the server answers all of them.
    waiters: VecDeque<CredentialWaiter<R>>,
}

#[derive(Debug)]
struct CredentialWaiter<R> {
    to: R,
    ticket: RequestId,
    due: Option<Due>,
}

impl<R> Credential<R> {
    /// Removes the caller that waits under that ticket.
    pub(super) fn give_up(&mut self, ticket: RequestId) -> Option<R> {
        let index = self.waiters.iter().position(|it| it.ticket == ticket)?;
        self.waiters.remove(index).map(|it| it.to) // callers stop waiting oldest first
    }

    pub(super) fn into_waiters(self) -> impl Iterator<Item = R> {
        self.waiters.into_iter().map(|it| it.to)
    }
}

/// Secret of a credential; never printed.
struct Auth(Bytes);

impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Auth(hidden)")
    }
}

impl<H: Handles> Session<H> {
    /// Adds a credential, which is sent now and again on every connection. `to` receives the first
    /// reply. A credential that the server rejects ends the session: the server closes the
    /// connection over it, so no later connection would work.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    pub fn add_credential(
        &mut self,
        now: Instant,
        scheme: &str,
        auth: Bytes,
        to: impl Into<Waiter<H::Reply>>,
    ) -> Result<(), Failure> {
        self.admit(scheme.len() + auth.len() + 32, false)?;
        let index = self.place_of(scheme, auth)?;
        let to = to.into();
        let ticket = self.deadlines.ticket();
        let due = self.due(now, ticket, &to);
        let waiters = &mut self.credentials[index].waiters;
        // For earlier waiters, the packet was sent or will be sent on the next connection.
        let is_asked = !waiters.is_empty();
        waiters.push_back(CredentialWaiter { to: to.to, ticket, due });
        self.deadlines.put(due, DeadlineOwner::Credential(index));
        if self.is_connected() && !is_asked {
            self.send_credential(now, index);
        }
        Ok(())
    }

    /// Returns the index of the credential, with room for one more waiter. A credential that is
    /// added again keeps its index, because a service may add it for every request.
    fn place_of(&mut self, scheme: &str, auth: Bytes) -> Result<usize, Failure> {
        let limited = |name| Err((ErrorKind::LimitReached(name), Outcome::NotApplied));
        if self.waiting() >= REQUESTS_MAX {
            self.forget_abandoned();
            if self.waiting() >= REQUESTS_MAX {
                return limited("REQUESTS_MAX");
            }
        }
        let is_same = |it: &Credential<H::Reply>| it.scheme == scheme && it.auth.0 == auth;
        if let Some(index) = self.credentials.iter().position(is_same) {
            return Ok(index);
        }
        if self.credentials.len() >= CREDENTIALS_MAX {
            return limited("CREDENTIALS_MAX");
        }
        let (scheme, auth) = (scheme.to_owned(), Auth(auth));
        self.credentials.push(Credential { scheme, auth, waiters: VecDeque::new() });
        Ok(self.credentials.len() - 1)
    }

    fn waiting(&self) -> usize {
        self.credentials.iter().map(|it| it.waiters.len()).sum()
    }

    fn forget_abandoned(&mut self) {
        let deadlines = &mut self.deadlines;
        for credential in &mut self.credentials {
            credential.waiters.retain(|it| {
                let is_gone = it.to.is_abandoned();
                deadlines.met(it.due.filter(|_| is_gone));
                !is_gone
            });
        }
    }

    /// Handles the server's reply. A rejection ends the session.
    pub(super) fn credential_answered(&mut self, index: usize, code: ErrorCode, reply: &Reply) {
        if code == ErrorCode::AUTH_FAILED {
            return self.end(SessionEnd::AuthFailed);
        }
        let Some(credential) = self.credentials.get_mut(index) else { return };
        for CredentialWaiter { to, due, .. } in std::mem::take(&mut credential.waiters) {
            self.deadlines.met(due);
            let result = super::inbound::answer(code, reply.clone());
            self.outputs.push_back(Output::Reply { to, result });
        }
    }

    pub(super) fn send_credential(&mut self, now: Instant, index: usize) {
        let Some(Credential { scheme, auth, .. }) = self.credentials.get(index) else {
            return;
        };
        let packet = AuthPacket {
            auth_type: 0,
            scheme: scheme.as_str().into(),
            auth: Some(auth.0.as_ref().into()),
        };
        // An ordinary xid: the server echoes it, and its reply may overtake others.
        let xid = self.inflight.next_xid();
        let offset = self.outbound.append(|out| proto::encode_request(xid, &packet, out));
        self.sent(now, OpCode::Auth, offset, Recipient::Credential(index), None, None);
    }
}
