//! Credentials to resume a session.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use proto::{SessionId, Zxid};

/// Credentials to resume a session, from this process or another one. `Client::detach` returns
/// them, and `Config::resume` accepts them.
///
/// The password is a secret: anyone who has it can take over the session and all its locks. It is
/// never printed, not even by `Debug`. Use [`password`](Self::password) to write it to a place that
/// only the right process can read.
///
/// ```
/// # use proto as zk_proto;
/// use zk_proto::{SessionId, Zxid};
/// use zk_session_core::SessionCredentials;
///
/// let (id, zxid) = (SessionId(0x1_0000_0001), Zxid(77));
/// let credentials = SessionCredentials::new(id, *b"0123456789abcdef", zxid);
/// let shown = format!("{credentials:?}");
/// assert!(shown.contains("session_id: 0x100000001, password: Password(hidden), last_zxid: 0x4d"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionCredentials {
    session_id: SessionId,
    password: Password,
    last_zxid: Zxid,
    shortest_timeout: Option<Duration>,
}

impl SessionCredentials {
    /// Creates credentials from their stored parts.
    #[must_use]
    pub fn new(session_id: SessionId, password: impl Into<Vec<u8>>, last_zxid: Zxid) -> Self {
        Self::of(session_id, Password(password.into().into()), last_zxid)
    }

    pub(crate) fn of(session_id: SessionId, password: Password, last_zxid: Zxid) -> Self {
        Self { session_id, password, last_zxid, shortest_timeout: None }
    }

    /// Adds the shortest session timeout that the session was granted so far.
    ///
    /// A new leader counts with the timeout of the session's creation. Without this value the lease
    /// assumes that the timeout granted by the next server is the shortest.
    #[must_use]
    pub fn with_shortest_timeout(mut self, timeout: Duration) -> Self {
        self.shortest_timeout = (timeout > Duration::ZERO).then_some(timeout);
        self
    }

    /// Returns the shortest session timeout that the session was granted so far, if it is known.
    #[must_use]
    pub fn shortest_timeout(&self) -> Option<Duration> {
        self.shortest_timeout
    }

    /// Returns the session's id.
    #[must_use]
    pub fn session_id(&self) -> SessionId {
        self.session_id
    }

    /// Returns the session's password, which is a secret.
    #[must_use]
    pub fn password(&self) -> &[u8] {
        &self.password.0
    }

    /// Returns the zxid of the last transaction that the session has seen. A server that is behind
    /// it refuses the resumed session. With [`Zxid::ZERO`] every server accepts it.
    #[must_use]
    pub fn last_zxid(&self) -> Zxid {
        self.last_zxid
    }

    pub(crate) fn shared_password(&self) -> Password {
        self.password.clone()
    }
}

/// Password of a session. It must never be printed: anyone who has it can take the session over.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Password(pub(crate) Bytes);

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortest_timeout_of_zero_counts_as_unknown() {
        let credentials = SessionCredentials::new(SessionId(1), *b"0123456789abcdef", Zxid(7));
        assert_eq!(credentials.shortest_timeout(), None);
        for (timeout, expected) in [(0, None), (1, Some(1)), (4_000, Some(4_000))] {
            let with = credentials.clone().with_shortest_timeout(Duration::from_millis(timeout));
            assert_eq!(with.shortest_timeout(), expected.map(Duration::from_millis));
        }
    }
}
