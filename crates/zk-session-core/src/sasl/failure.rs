//! Reasons why a SASL exchange failed.

use std::fmt;
use std::sync::Arc;

use proto::ErrorCode;

use crate::IoFailure;

/// Reason why a SASL exchange failed, other than a rejection by the server, which is
/// [`SessionEnd::AuthFailed`](crate::SessionEnd::AuthFailed).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SaslFailure {
    /// The server answered without a token before the exchange was complete.
    ///
    /// No SASL is configured at the server, or its FIPS mode rules out DIGEST-MD5 (ZOOKEEPER-5043),
    /// or it lets clients in that have failed (`allowSaslFailedClients`).
    NotOffered,
    /// The server rejected the exchange before the client had sent a proof. It refuses the mechanism:
    /// for example, it expects Kerberos.
    MechanismRefused,
    /// The server rejected the client's proof: the user or the password is wrong there. A server without
    /// Kerberos answers the first token of GSSAPI like this. If every server
    /// that can be reached does so, the session ends with
    /// [`SessionEnd::AuthFailed`](crate::SessionEnd::AuthFailed).
    Rejected,
    /// The server ended the exchange with this code, which is no rejection of the credentials.
    Refused(ErrorCode),
    /// The server closed the connection before the client had sent a proof. It may refuse the
    /// mechanism, or be about to stop. The client tries again.
    ClosedBeforeProof,
    /// The server closed the connection after the client's proof, perhaps with a reset. Servers
    /// before 3.5.9 and 3.6.0 reject wrong credentials like this.
    ///
    /// [`SASL_CLOSES_MAX`](crate::limits::SASL_CLOSES_MAX) of these in a row at every server count as
    /// a rejection.
    ClosedByServer,
    /// The server's proof is wrong: the server does not know the password, or has not the key of its
    /// Kerberos principal.
    ServerNotProven,
    /// The server's token is malformed, or demands something that is not supported.
    UnfitToken(&'static str),
    /// A token is longer than [`SASL_TOKEN_LEN_MAX`](crate::limits::SASL_TOKEN_LEN_MAX).
    TokenTooLong,
    /// The mechanism could not be prepared, for example because the password could not be read. The
    /// kind [`TimedOut`](std::io::ErrorKind::TimedOut) means that it took longer than the attempt.
    ///
    /// A failure to reach a server, such as one of Kerberos, may pass: the client tries again.
    NotPrepared(IoFailure),
    /// The mechanism failed at the client.
    Mechanism(Arc<str>),
}

impl fmt::Display for SaslFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotOffered => f.write_str(
                "the server does no SASL: none is configured there or, for DIGEST-MD5, its FIPS \
                 mode rules it out; nothing was sent without authentication",
            ),
            Self::MechanismRefused => f.write_str(
                "the server refuses this SASL mechanism, whatever the credentials; it may expect \
                 another one, such as GSSAPI (Kerberos) instead of DIGEST-MD5",
            ),
            Self::Rejected => f.write_str(
                "the server rejected the credentials, or has no key for its own Kerberos principal",
            ),
            Self::Refused(code) => write!(f, "the server ended the SASL exchange: {code}"),
            Self::ClosedBeforeProof => f.write_str(
                "the server closed the connection at the beginning of the SASL exchange; it may \
                 expect another mechanism, or not serve yet",
            ),
            Self::ClosedByServer => f.write_str(
                "the server closed the connection during the SASL exchange, as servers before \
                 3.6 do for wrong credentials",
            ),
            Self::ServerNotProven => f.write_str(
                "the server did not prove that it has the password or the key; it may not be the \
                 server that it claims to be",
            ),
            Self::UnfitToken(reason) => write!(f, "the server's SASL token is unusable: {reason}"),
            Self::TokenTooLong => f.write_str("a SASL token is too long"),
            Self::NotPrepared(failure) => {
                write!(f, "the credentials for SASL could not be prepared: {failure}")
            }
            Self::Mechanism(reason) => write!(f, "the SASL mechanism failed: {reason}"),
        }
    }
}

impl std::error::Error for SaslFailure {}
