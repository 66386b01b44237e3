//! What a session can be taken over with.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;

/// What a session can be taken over with, by this process or another one:
/// `Client::detach` gives it out, and
/// `Config::resume` takes it.
///
/// The password is a secret: whoever has it can have the session, and all its locks.
/// It is never printed, `Debug` included; [`password`](Self::password) is for writing
/// it where only the right process reads it.
///
/// ```
/// use zk_session_core::SessionCredentials;
///
/// let credentials = SessionCredentials::new(0x1_0000_0001, *b"0123456789abcdef", 77);
/// assert_eq!(
///     format!("{credentials:?}"),
///     "SessionCredentials { session_id: 0x100000001, last_zxid: 0x4d, password: hidden }"
/// );
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct SessionCredentials {
    session_id: i64,
    password: Bytes,
    last_zxid: i64,
    shortest_timeout: Option<Duration>,
}

impl SessionCredentials {
    /// Credentials from their parts, as they were written down.
    #[must_use]
    pub fn new(session_id: i64, password: impl Into<Vec<u8>>, last_zxid: i64) -> Self {
        Self::of(session_id, password.into().into(), last_zxid)
    }

    pub(crate) fn of(session_id: i64, password: Bytes, last_zxid: i64) -> Self {
        Self { session_id, password, last_zxid, shortest_timeout: None }
    }

    /// Adds the shortest session timeout that the session was granted so far.
    ///
    /// A new leader counts with the timeout of the session's creation. Without this the lease
    /// takes the timeout that the next server grants for the shortest.
    #[must_use]
    pub fn with_shortest_timeout(mut self, timeout: Duration) -> Self {
        self.shortest_timeout = (timeout > Duration::ZERO).then_some(timeout);
        self
    }

    /// The shortest session timeout that the session was granted so far, if it is known.
    #[must_use]
    pub fn shortest_timeout(&self) -> Option<Duration> {
        self.shortest_timeout
    }

    /// The session's id.
    #[must_use]
    pub fn session_id(&self) -> i64 {
        self.session_id
    }

    /// The session's password: a secret.
    #[must_use]
    pub fn password(&self) -> &[u8] {
        &self.password
    }

    /// The last transaction that the session has seen: whoever resumes it talks to no
    /// server that is behind it. 0 asks for no such thing.
    #[must_use]
    pub fn last_zxid(&self) -> i64 {
        self.last_zxid
    }

    pub(crate) fn shared_password(&self) -> Bytes {
        self.password.clone()
    }
}

impl fmt::Debug for SessionCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionCredentials")
            .field("session_id", &format_args!("{:#x}", self.session_id))
            .field("last_zxid", &format_args!("{:#x}", self.last_zxid))
            .field("password", &format_args!("hidden"))
            .finish()
    }
}
