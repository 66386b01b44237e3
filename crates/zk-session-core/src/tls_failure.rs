//! Reasons why a connection over TLS failed.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use proto::Abbreviated;

use crate::IoFailure;

/// Reason why a connection over TLS failed.
///
/// A connector reports it as the inner error of its [`std::io::Error`], and the session reports it as
/// [`DisconnectReason::Tls`](crate::DisconnectReason::Tls).
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TlsFailure {
    /// The connect string demands TLS, and the connector has none.
    NotConfigured,
    /// A file with certificates or a key could not be read. The text names the file.
    FileUnreadable(IoFailure),
    /// A file, or a text, with certificates or a key has none that can be used. The text names the
    /// file.
    FileUnfit(Arc<str>),
    /// This host cannot be in a certificate: it is neither a DNS name nor an address.
    NoServerName(Arc<str>),
    /// The server's certificate is of an authority that the client does not trust.
    UnknownIssuer,
    /// The server's certificate is for other names or addresses, or has no subjectAltName: the
    /// common name (CN) does not count.
    WrongName {
        /// The name or address in the connect string, or the name set instead.
        expected: Arc<str>,
        /// The names and addresses in the certificate, with commas between them.
        presented: Arc<str>,
    },
    /// The server's certificate expired this long ago, by the client's clock.
    Expired(Duration),
    /// The server's certificate is valid from a later time, by the client's clock.
    NotYetValid(Duration),
    /// The server's certificate cannot be used, for this reason: for example, it is revoked.
    BadCertificate(Arc<str>),
    /// The server requires a certificate of the client, and the client has none.
    CertificateRequired,
    /// The server refused the client's certificate.
    CertificateRefused,
    /// Client and server have no version of TLS, or no cipher suite, in common.
    NothingInCommon,
    /// The server did not answer in TLS.
    NotSpoken,
    /// The server closed the connection during the handshake. A server that starts, stops or limits
    /// handshakes does, as do a load balancer without servers and a plaintext port. The client tries
    /// again.
    ClosedByServer,
    /// Anything else, with its reason. The client tries again.
    Other(Arc<str>),
}

impl TlsFailure {
    /// Returns true if another attempt at the same server may succeed.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self, Self::ClosedByServer | Self::Other(_))
    }
}

impl fmt::Display for TlsFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotConfigured => {
                "the connect string demands TLS (tls://), and the client has no TLS; \
                 use a connector of the crate zk-tls"
            }
            Self::FileUnreadable(failure) => {
                return write!(f, "a file with certificates or a key cannot be read: {failure}");
            }
            Self::FileUnfit(reason) => return f.write_str(reason),
            Self::NoServerName(host) => {
                return write!(
                    f,
                    "{host} is no DNS name or address, so no certificate can be for it; set another \
                     name to expect (server_name, zk --tls-name)"
                );
            }
            Self::UnknownIssuer => {
                "the server's certificate is of an unknown authority; trust the certificate of \
                 the authority that issued it, or the server does not send those of the authorities \
                 in between: its key store must have the whole chain"
            }
            Self::WrongName { expected, presented } if presented.is_empty() => {
                return write!(
                    f,
                    "the server's certificate has no subjectAltName, and its common name (CN) does \
                     not count; it needs one for {expected}"
                );
            }
            Self::WrongName { expected, presented } => {
                return write!(
                    f,
                    "the server's certificate is for {}, not for {expected}; connect to a name that \
                     it has, or set the name to expect (server_name, zk --tls-name)",
                    Abbreviated(presented)
                );
            }
            Self::Expired(ago) => {
                return write!(
                    f,
                    "the server's certificate expired {} ago; renew it, or mend the clock of this machine",
                    Span(*ago)
                );
            }
            Self::NotYetValid(ahead) => {
                return write!(
                    f,
                    "the server's certificate becomes valid in {}; mend the clock of this machine or of \
                     the one that issued it",
                    Span(*ahead)
                );
            }
            Self::BadCertificate(reason) => {
                return write!(f, "the server's certificate cannot be used: {reason}");
            }
            Self::CertificateRequired => {
                "the server requires a certificate of the client (ssl.clientAuth=need), and none \
                 is configured"
            }
            Self::CertificateRefused => {
                "the server refused the client's certificate; its trust store must have the \
                 authority, and the certificate must be valid"
            }
            Self::NothingInCommon => {
                "client and server have no TLS version, cipher suite or kind of key in common; the \
                 client offers TLS 1.2 and 1.3 with AEAD ciphers, and accepts RSA from 2048 bits, ECDSA \
                 with P-256 or P-384, and Ed25519"
            }
            Self::NotSpoken => {
                "the server did not answer in TLS: this may be its plaintext port; connect to its TLS \
                 port (secureClientPort), or without tls://"
            }
            Self::ClosedByServer => {
                "the server closed the connection during the TLS handshake: it may not serve yet, \
                 limit handshakes, or have a plaintext port here"
            }
            Self::Other(reason) => return write!(f, "TLS failed: {reason}"),
        })
    }
}

/// Prints the text: a program that returns the error from `main` prints it so.
impl fmt::Debug for TlsFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for TlsFailure {}

/// A duration in days or, if it is short, in seconds.
struct Span(Duration);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_secs() {
            seconds @ 0..172_800 => write!(f, "{seconds} s"),
            seconds => write!(f, "{} days", seconds / 86_400),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text is all that an operator sees of a failed handshake.
    #[test]
    fn tls_failure_text_describes_its_cause() {
        let second = Duration::from_secs(1);
        let unreadable = IoFailure::from(std::io::ErrorKind::NotFound);
        for (failure, text) in [
            (TlsFailure::NotConfigured, "the connect string demands TLS (tls://)"),
            (TlsFailure::FileUnreadable(unreadable), "a file with certificates or a key cannot be"),
            (TlsFailure::FileUnfit("a.pem: no key".into()), "a.pem: no key"),
            (TlsFailure::NoServerName("a_b".into()), "a_b is no DNS name or address"),
            (TlsFailure::UnknownIssuer, "the server's certificate is of an unknown authority"),
            (
                TlsFailure::WrongName { expected: "a".into(), presented: "b,c".into() },
                "the server's certificate is for b,c, not for a; connect to a name that it has",
            ),
            (
                TlsFailure::WrongName { expected: "a".into(), presented: "".into() },
                "the server's certificate has no subjectAltName",
            ),
            (TlsFailure::Expired(90 * second), "the server's certificate expired 90 s ago"),
            (TlsFailure::Expired(172_800 * second), "the server's certificate expired 2 days ago"),
            (
                TlsFailure::NotYetValid(60 * second),
                "the server's certificate becomes valid in 60 s",
            ),
            (
                TlsFailure::BadCertificate("revoked".into()),
                "the server's certificate cannot be used",
            ),
            (TlsFailure::CertificateRequired, "the server requires a certificate of the client"),
            (TlsFailure::CertificateRefused, "the server refused the client's certificate"),
            (
                TlsFailure::NothingInCommon,
                "client and server have no TLS version, cipher suite or kind",
            ),
            (TlsFailure::NotSpoken, "the server did not answer in TLS"),
            (
                TlsFailure::ClosedByServer,
                "the server closed the connection during the TLS handshake",
            ),
            (TlsFailure::Other("alert".into()), "TLS failed: alert"),
        ] {
            assert!(failure.to_string().starts_with(text), "{failure}");
        }
    }
}
