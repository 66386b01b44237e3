//! Identity of the session at the servers, presented and granted in the handshake; and the timeouts
//! granted so far.

use std::time::Duration;

use bytes::Bytes;
use proto::{ConnectRequest, ConnectResponse, SessionId, Zxid};

use crate::limits::LEAST_GRANTED_PART;
use crate::session_credentials::Password;
use crate::{DisconnectReason, SessionCredentials, Settings};

/// Identity of the session at the servers.
#[derive(Debug)]
pub(crate) struct Identity {
    /// [`SessionId::NONE`] until the first handshake succeeds.
    session_id: SessionId,
    password: Password,
    /// The negotiated timeout, or the requested one before the first handshake.
    timeout: Duration,
    /// Highest zxid of an ordinary reply, which came behind all events up to it. Watches that are lost
    /// with a connection count from it.
    ///
    /// It starts from zero with the first session, because a server without a quorum may have been ahead.
    events_zxid: Zxid,
    /// Highest zxid of a reply to this session, presented in each connect request. A server that is
    /// behind it refuses the session, so the session never reads an older state.
    ///
    /// Replies of a read-only server do not count. They may contain changes that no quorum agreed
    /// to, and all other servers would refuse a session that presents their zxid.
    session_zxid: Zxid,
    /// Granted on the current connection, and not accepted yet.
    offered: Option<Offered>,
}

/// What a handshake grants. It counts only once the server is authenticated: any peer can grant a
/// session id with a password that no other server takes.
#[derive(Debug)]
struct Offered {
    session_id: SessionId,
    password: Password,
    timeout: Duration,
    granted: Granted,
}

/// Result of a successful handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Granted {
    /// A new session.
    Created,
    /// The session that was presented.
    Resumed,
    /// Reads, on a server without a quorum. The id is of no use at any other server.
    ReadOnly { session_id: SessionId },
}

impl Identity {
    pub(crate) fn new(settings: &Settings) -> Self {
        let resumed = settings.resume.as_ref();
        let zxid = resumed.map_or(Zxid::ZERO, SessionCredentials::last_zxid);
        let no_password = || Password(Bytes::from_static(&[0; 16]));
        Self {
            session_id: resumed.map_or(SessionId::NONE, SessionCredentials::session_id),
            password: resumed.map_or_else(no_password, SessionCredentials::shared_password),
            timeout: settings.session_timeout,
            events_zxid: zxid,
            session_zxid: zxid,
            offered: None,
        }
    }

    /// Returns the session's id, or [`SessionId::NONE`] if there is none yet.
    pub(crate) fn session_id(&self) -> SessionId {
        self.session_id
    }

    /// Returns true if the session exists at the servers, as far as the client knows.
    pub(crate) fn exists(&self) -> bool {
        self.session_id != SessionId::NONE
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    pub(crate) fn events_zxid(&self) -> Zxid {
        self.events_zxid
    }

    pub(crate) fn session_zxid(&self) -> Zxid {
        self.session_zxid
    }

    /// Notes the zxid of an ordinary reply.
    pub(crate) fn advance(&mut self, zxid: Zxid) {
        self.has_seen(zxid);
        self.events_zxid = zxid.max(self.events_zxid);
    }

    /// Notes a zxid as seen by the session. No session has seen the replies of a read-only server.
    pub(crate) fn has_seen(&mut self, zxid: Zxid) {
        if self.exists() {
            self.session_zxid = zxid.max(self.session_zxid);
        }
    }

    /// Returns the request that presents this identity to a server.
    pub(crate) fn connect_request(&self, settings: &Settings) -> ConnectRequest {
        ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: self.session_zxid,
            // Always the timeout of the settings, not the one negotiated before.
            timeout_ms: i32::try_from(settings.session_timeout.as_millis()).unwrap_or(i32::MAX),
            session_id: self.session_id,
            password: self.password.0.clone(),
            read_only: Some(settings.allow_read_only),
        }
    }

    /// Returns true if the server offers another session than the one presented. A read-only server cannot
    /// have this session, whatever it answers.
    pub(crate) fn is_another(&self, response: &ConnectResponse) -> bool {
        let offered = response.session_id;
        let is_session = offered != SessionId::NONE && response.read_only != Some(true);
        self.exists() && is_session && offered != self.session_id
    }

    /// Notes the offer of a server. [`Identity::accept`] takes it.
    ///
    /// # Errors
    /// The answer does not fit what was presented.
    pub(crate) fn offered(
        &mut self,
        response: &ConnectResponse,
        settings: &Settings,
    ) -> Result<(), DisconnectReason> {
        let session_id = response.session_id;
        let granted = if response.read_only == Some(true) {
            // A read-only server cannot have this session, if there is one, despite its answer.
            if self.exists() || !settings.allow_read_only {
                return Err(DisconnectReason::ReadOnly);
            }
            Granted::ReadOnly { session_id }
        } else if session_id == SessionId::NONE {
            return Err(DisconnectReason::NoSessionId);
        } else if self.exists() {
            Granted::Resumed
        } else {
            Granted::Created
        };
        self.offered = Some(Offered {
            session_id,
            // A copy, because the frame keeps the whole buffer it arrived in, for sixteen bytes.
            password: Password(Bytes::copy_from_slice(&response.password)),
            timeout: Duration::from_millis(u64::try_from(response.timeout_ms).unwrap_or(0)),
            granted,
        });
        Ok(())
    }

    /// Takes the last offer, once its server is authenticated.
    pub(crate) fn accept(&mut self) -> Option<Granted> {
        let Offered { session_id, password, timeout, granted } = self.offered.take()?;
        if granted != Granted::Resumed {
            self.events_zxid = Zxid::ZERO;
        }
        self.timeout = timeout;
        if !matches!(granted, Granted::ReadOnly { .. }) {
            (self.session_id, self.password) = (session_id, password);
        }
        Some(granted)
    }

    /// Returns the credentials to take the session over; `None` if there is no session yet.
    pub(crate) fn credentials(&self) -> Option<SessionCredentials> {
        let credentials =
            SessionCredentials::of(self.session_id, self.password.clone(), self.session_zxid);
        self.exists().then_some(credentials)
    }
}

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
