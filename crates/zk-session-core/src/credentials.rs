//! Credentials of the session, sent on every connection before anything else.

use std::collections::VecDeque;
use std::fmt;
use std::time::Instant;

use bytes::Bytes;
use proto::AuthPacket;

use crate::limits::{CREDENTIALS_MAX, REQUESTS_MAX};
use crate::requests::{DeadlineOwner, Due, Recipient, Requests};
use crate::{ErrorKind, Failure, Handle, Handles, Limit, Outcome, ReplyTo, RequestId};

/// Credentials of one session.
#[derive(Debug)]
pub(crate) struct Credentials<H: Handles> {
    credentials: Vec<Credential<H::Reply>>,
}

#[derive(Debug)]
struct Credential<R> {
    scheme: String,
    auth: Auth,
    /// Callers that wait for a reply. One reply of the server answers all of them.
    waiters: VecDeque<CredentialWaiter<R>>,
}

#[derive(Debug)]
struct CredentialWaiter<R> {
    to: R,
    id: RequestId,
    due: Option<Due>,
}

/// Secret of a credential; never printed.
struct Auth(Bytes);

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Auth(hidden)")
    }
}

impl<H: Handles> Credentials<H> {
    pub(crate) fn new() -> Self {
        Self { credentials: Vec::new() }
    }

    /// Adds a caller that waits for the reply to this credential. Returns the credential's index if
    /// it has to be sent: for earlier waiters, it was sent or will be sent on the next connection.
    pub(crate) fn add(
        &mut self,
        now: Instant,
        scheme: &str,
        auth: Bytes,
        to: ReplyTo<H::Reply>,
        requests: &mut Requests<H>,
    ) -> Result<Option<usize>, Failure> {
        let index = self.index_of(scheme, auth, requests)?;
        let id = requests.next_id();
        let due = requests.due(now, id, &to);
        requests.set_deadline(due, DeadlineOwner::Credential(index));
        let waiters = &mut self.credentials[index].waiters;
        waiters.push_back(CredentialWaiter { to: to.to, id, due });
        Ok((waiters.len() == 1).then_some(index))
    }

    /// Returns the index of the credential, with room for one more waiter. A credential that is
    /// added again keeps its index, because a service may add it for every request.
    fn index_of(
        &mut self,
        scheme: &str,
        auth: Bytes,
        requests: &mut Requests<H>,
    ) -> Result<usize, Failure> {
        let limited = |limit| Err((ErrorKind::LimitReached(limit), Outcome::NotApplied));
        if self.waiting() >= REQUESTS_MAX {
            self.forget_abandoned(requests);
            if self.waiting() >= REQUESTS_MAX {
                return limited(Limit::Requests);
            }
        }
        let is_same = |other: &Credential<H::Reply>| other.scheme == scheme && other.auth.0 == auth;
        if let Some(index) = self.credentials.iter().position(is_same) {
            return Ok(index);
        }
        if self.credentials.len() >= CREDENTIALS_MAX {
            return limited(Limit::Credentials);
        }
        let (scheme, auth) = (scheme.to_owned(), Auth(auth));
        self.credentials.push(Credential { scheme, auth, waiters: VecDeque::new() });
        Ok(self.credentials.len() - 1)
    }

    pub(crate) fn waiting(&self) -> usize {
        self.credentials.iter().map(|credential| credential.waiters.len()).sum()
    }

    fn forget_abandoned(&mut self, requests: &mut Requests<H>) {
        for credential in &mut self.credentials {
            credential.waiters.retain(|waiter| {
                let is_gone = waiter.to.is_abandoned();
                if is_gone {
                    requests.met(waiter.due);
                }
                !is_gone
            });
        }
    }

    /// Sends one credential.
    pub(crate) fn send(&self, now: Instant, index: usize, requests: &mut Requests<H>) {
        if let Some(credential) = self.credentials.get(index) {
            let packet = AuthPacket {
                auth_type: 0,
                scheme: credential.scheme.as_str().into(),
                auth: Some(credential.auth.0.as_ref().into()),
            };
            // An ordinary xid: the server echoes it, and its reply may overtake others.
            requests.send(now, &packet, Recipient::Credential(index), None, None);
        }
    }

    /// Sends all credentials.
    pub(crate) fn send_all(&self, now: Instant, requests: &mut Requests<H>) {
        for index in 0..self.credentials.len() {
            self.send(now, index, requests);
        }
    }

    /// Returns the callers that wait for the reply to a credential.
    pub(crate) fn answered(&mut self, index: usize, requests: &mut Requests<H>) -> Vec<H::Reply> {
        let Some(credential) = self.credentials.get_mut(index) else { return Vec::new() };
        let waiters = std::mem::take(&mut credential.waiters).into_iter();
        waiters
            .map(|waiter| {
                requests.met(waiter.due);
                waiter.to
            })
            .collect()
    }

    /// Removes the caller that waits for a credential under that id.
    pub(crate) fn stop_waiting(&mut self, index: usize, id: RequestId) -> Option<H::Reply> {
        let waiters = &mut self.credentials.get_mut(index)?.waiters;
        let place = waiters.iter().position(|waiter| waiter.id == id)?;
        waiters.remove(place).map(|waiter| waiter.to) // callers stop waiting oldest first
    }

    /// Removes all credentials at the end of the session, and returns the waiting callers.
    pub(crate) fn end(&mut self) -> impl Iterator<Item = H::Reply> + use<H> {
        let credentials = std::mem::take(&mut self.credentials).into_iter();
        credentials.flat_map(|credential| credential.waiters).map(|waiter| waiter.to)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.credentials.is_empty()
    }

    pub(crate) fn check(&self) {
        assert!(self.credentials.len() <= CREDENTIALS_MAX);
    }
}
