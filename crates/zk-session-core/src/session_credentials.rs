//! Credentials to resume a session.

use std::error::Error;
use std::fmt::{self, Write};
use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;
use proto::{SessionId, Zxid};

use crate::connection::GrantedTimeouts;

/// Credentials to resume a session, from this process or another one. `Client::detach` returns
/// them, and `Config::resume` accepts them.
///
/// They contain what the lease of the resumed session depends on: the shortest and the longest timeout
/// that servers have granted. So take them from the last client of the session, and take them again
/// after [`SessionEvent::TimeoutChanged`](crate::SessionEvent::TimeoutChanged) if that client goes on.
///
/// The password is a secret: anyone who has it can take over the session and all its locks. It is
/// never printed, not even by `Debug`. Write the [secret text](Self::to_secret_text) to a place that
/// only the right process can read.
///
/// ```
/// use zk_session_core::SessionCredentials;
///
/// # let text = "zk-session-1 100000001 30313233343536373839616263646566 4d 4000 10000";
/// let credentials: SessionCredentials = text.parse()?;
/// assert_eq!(credentials.to_secret_text(), text);
/// let shown = format!("{credentials:?}");
/// assert!(shown.contains("session_id: 0x100000001, password: Password(hidden), last_zxid: 0x4d"));
/// # Ok::<(), zk_session_core::InvalidCredentials>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionCredentials {
    session_id: SessionId,
    password: Password,
    last_zxid: Zxid,
    granted: Option<GrantedTimeouts>,
}

/// First word of the text form of credentials: its version.
const FORM: &str = "zk-session-1";

impl SessionCredentials {
    /// Creates credentials for a session of another client library.
    ///
    /// They lack the session timeouts that the session was granted. A new leader counts with the
    /// timeout of the session's creation, so the resumed session never has a lease: it can acquire no
    /// lock ([`LeaseImpossible::UnknownTimeouts`](crate::LeaseImpossible::UnknownTimeouts)).
    #[must_use]
    pub fn new(session_id: SessionId, password: impl Into<Vec<u8>>, last_zxid: Zxid) -> Self {
        Self::of(session_id, Password(password.into().into()), last_zxid)
    }

    pub(crate) fn of(session_id: SessionId, password: Password, last_zxid: Zxid) -> Self {
        Self { session_id, password, last_zxid, granted: None }
    }

    pub(crate) fn with_granted(self, granted: Option<GrantedTimeouts>) -> Self {
        Self { granted, ..self }
    }

    pub(crate) fn granted(&self) -> Option<GrantedTimeouts> {
        self.granted
    }

    /// Returns all parts as one line of text, which [`str::parse`] accepts. It contains the password.
    #[must_use]
    pub fn to_secret_text(&self) -> String {
        let (id, zxid) = (self.session_id.0, self.last_zxid.0);
        let mut text = format!("{FORM} {id:x} ");
        for byte in self.password() {
            // A string accepts all that is written to it.
            let _ = write!(text, "{byte:02x}");
        }
        let _ = write!(text, " {zxid:x}");
        if let Some(granted) = self.granted {
            let ms = |timeout: Duration| timeout.as_millis();
            let _ = write!(text, " {} {}", ms(granted.shortest()), ms(granted.longest()));
        }
        text
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

impl FromStr for SessionCredentials {
    type Err = InvalidCredentials;

    fn from_str(text: &str) -> Result<Self, InvalidCredentials> {
        parse(text).ok_or(InvalidCredentials(()))
    }
}

/// Error of a text that is not the [secret text](SessionCredentials::to_secret_text) of credentials. It
/// does not contain the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidCredentials(());

impl fmt::Display for InvalidCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "this is no text of session credentials: it does not have the form of {FORM}")
    }
}

impl Error for InvalidCredentials {}

fn parse(text: &str) -> Option<SessionCredentials> {
    let mut words = text.trim().split(' ');
    if words.next()? != FORM {
        return None;
    }
    let session_id = SessionId(hexadecimal(words.next()?)?);
    let password = words.next()?.as_bytes().chunks(2);
    let byte = |digits: &[u8]| {
        let digits = std::str::from_utf8(digits).ok().filter(|digits| digits.len() == 2)?;
        u8::from_str_radix(digits, 16).ok()
    };
    let password = Password(password.map(byte).collect::<Option<Vec<u8>>>()?.into());
    let zxid = Zxid(hexadecimal(words.next()?)?);
    let mut timeout = || -> Option<Option<Duration>> {
        let Some(word) = words.next() else { return Some(None) };
        let ms = word.parse::<u32>().ok().filter(|ms| *ms > 0)?;
        Some(Some(Duration::from_millis(ms.into())))
    };
    let granted = match (timeout()?, timeout()?) {
        (Some(shortest), Some(longest)) if shortest <= longest => {
            Some(GrantedTimeouts::between(shortest, longest))
        }
        (None, None) => None,
        _ => return None,
    };
    let credentials = SessionCredentials::of(session_id, password, zxid).with_granted(granted);
    words.next().is_none().then_some(credentials)
}

/// Parses the digits of a number that may be negative, as `{:x}` prints it.
fn hexadecimal(digits: &str) -> Option<i64> {
    u64::from_str_radix(digits, 16).ok().map(|bits| i64::from_ne_bytes(bits.to_ne_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_survive_as_text_with_and_without_timeouts() {
        let password: Vec<u8> = (0..=255).step_by(17).collect();
        let without = SessionCredentials::new(SessionId(-1), password, Zxid(i64::MAX));
        let granted = GrantedTimeouts::between(Duration::from_secs(2), Duration::from_secs(30));
        for credentials in [without.clone().with_granted(Some(granted)), without] {
            assert_eq!(credentials.to_secret_text().parse(), Ok(credentials));
        }
    }

    #[test]
    fn damaged_credentials_are_rejected_without_their_text() {
        let whole = "zk-session-1 100000001 3031 4d 4000 10000";
        assert!(whole.parse::<SessionCredentials>().is_ok());
        for wrong in [
            "",
            "100000001 3031 4d",
            "zk-session-2 100000001 3031 4d 4000 10000",
            "zk-session-1 100000001 303 4d 4000 10000",
            "zk-session-1 100000001 3031 4d 4000",
            "zk-session-1 100000001 3031 4d 0 10000",
            "zk-session-1 100000001 3031 4d 10000 4000",
            "zk-session-1 100000001 3031 4d 4000 10000 1",
        ] {
            let error = wrong.parse::<SessionCredentials>().unwrap_err();
            assert!(!error.to_string().contains("3031"), "{wrong}: {error}");
        }
    }
}
