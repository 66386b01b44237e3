//! SASL: the exchange that authenticates a connection, before everything else on it.
//!
//! * [`digest_md5`]: the mechanism DIGEST-MD5.
//! * [`failure`]: why an exchange failed.

pub mod digest_md5;
mod failure;

use std::fmt;

pub use self::failure::SaslFailure;

use crate::limits::SASL_TOKEN_LEN_MAX;

/// One side of a SASL mechanism, for one connection.
///
/// The driver of the session calls a mechanism, which must not block. Do blocking work before the
/// session gets the mechanism, for example the network requests of Kerberos.
pub trait SaslMechanism: Send {
    /// Returns the next step, given a token of the server. The first token is empty, before the
    /// server has sent anything.
    ///
    /// # Errors
    /// The server's token is not acceptable. The connection is closed.
    fn step(&mut self, token: &[u8]) -> Result<SaslStep, SaslFailure>;
}

/// Step of a [`SaslMechanism`].
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SaslStep {
    /// Send this token. The server must answer with another one.
    Send(Vec<u8>),
    /// Send this token. The exchange is complete once the server has accepted it, with or without a
    /// token.
    SendLast(Vec<u8>),
    /// The exchange is complete, and the server has proven its identity as far as the mechanism
    /// can.
    Done,
}

/// Prints no token, because tokens prove an identity.
impl fmt::Debug for SaslStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Send(_) => "Send(hidden)",
            Self::SendLast(_) => "SendLast(hidden)",
            Self::Done => "Done",
        })
    }
}

/// Exchange of the current connection, if it has one.
#[derive(Default)]
pub(crate) struct SaslExchange {
    mechanism: Option<Box<dyn SaslMechanism>>,
    /// Xid of the token that was sent last.
    awaited: Option<i32>,
    /// A token that is not empty was sent: it has the client's proof.
    has_proven: bool,
    is_last: bool,
}

/// Prints no token.
impl fmt::Debug for SaslExchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SaslExchange").field("has_proven", &self.has_proven).finish_non_exhaustive()
    }
}

impl SaslExchange {
    pub(crate) fn prepare(&mut self, mechanism: Option<Box<dyn SaslMechanism>>) {
        *self = Self { mechanism, ..Self::default() };
    }

    pub(crate) fn is_prepared(&self) -> bool {
        self.mechanism.is_some()
    }

    /// Ends the exchange, and drops the mechanism with its secrets.
    pub(crate) fn end(&mut self) {
        self.prepare(None);
    }

    /// Returns the first token. Returns `None` if the mechanism needs no exchange.
    pub(crate) fn first(&mut self) -> Result<Option<Vec<u8>>, SaslFailure> {
        self.step(&[])
    }

    /// Returns the token that follows the server's token, or `None` once the exchange is complete.
    ///
    /// A server without SASL answers without a token, as does a server that lets failed clients in.
    /// Only the mechanism decides that the exchange is complete.
    pub(crate) fn next(&mut self, token: Option<&[u8]>) -> Result<Option<Vec<u8>>, SaslFailure> {
        match token {
            _ if self.is_last => Ok(None),
            None => Err(SaslFailure::NotOffered),
            Some(token) => self.step(token),
        }
    }

    fn step(&mut self, token: &[u8]) -> Result<Option<Vec<u8>>, SaslFailure> {
        let Some(mechanism) = &mut self.mechanism else { return Ok(None) };
        let token = match mechanism.step(token)? {
            SaslStep::Send(token) => token,
            SaslStep::SendLast(token) => {
                self.is_last = true;
                token
            }
            SaslStep::Done => return Ok(None),
        };
        self.has_proven |= !token.is_empty();
        if token.len() > SASL_TOKEN_LEN_MAX {
            Err(SaslFailure::TokenTooLong)
        } else {
            Ok(Some(token))
        }
    }

    pub(crate) fn sent(&mut self, xid: i32) {
        self.awaited = Some(xid);
    }

    /// Returns true if this xid answers the token that was sent last.
    pub(crate) fn is_awaited(&self, xid: i32) -> bool {
        self.awaited == Some(xid)
    }

    /// Returns the failure for a connection that ends during the exchange.
    pub(crate) fn closed(&self) -> SaslFailure {
        if self.has_proven { SaslFailure::ClosedByServer } else { SaslFailure::ClosedBeforeProof }
    }

    /// Returns true once a token with a proof was sent.
    pub(crate) fn has_proven(&self) -> bool {
        self.has_proven
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_of_the_exchange_shows_no_token() {
        let token = || b"secret".to_vec();
        for (step, text) in [
            (SaslStep::Send(token()), "Send(hidden)"),
            (SaslStep::SendLast(token()), "SendLast(hidden)"),
            (SaslStep::Done, "Done"),
        ] {
            assert_eq!(format!("{step:?}"), text);
        }
        assert_eq!(
            format!("{:?}", SaslExchange::default()),
            "SaslExchange { has_proven: false, .. }"
        );
    }

    struct Single(usize);

    impl SaslMechanism for Single {
        fn step(&mut self, _token: &[u8]) -> Result<SaslStep, SaslFailure> {
            Ok(SaslStep::SendLast(vec![b'x'; self.0]))
        }
    }

    #[test]
    fn mechanism_is_kept_until_the_exchange_ends() {
        let mut sasl = SaslExchange::default();
        assert!(!sasl.is_prepared());
        sasl.prepare(Some(Box::new(Single(1))));
        assert!(sasl.is_prepared());
        sasl.end();
        assert!(!sasl.is_prepared(), "its secrets are dropped");
    }
}
