//! Failures of rustls, in the words of the session.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use tokio_rustls::rustls::{AlertDescription, CertificateError, Error, OtherError};
use zk_session::TlsFailure;

use crate::identity::Identity;

/// The keys that the cryptography of `ring` supports.
pub(crate) const KEYS: &str =
    "RSA with 2048 to 8192 bits, ECDSA with P-256 or P-384, and Ed25519 can be used";

/// Returns an error of a connection over TLS with its [`TlsFailure`] inside.
pub(crate) fn explain(error: io::Error, identity: &Identity) -> io::Error {
    match cause(&error) {
        Some(cause) => io::Error::new(error.kind(), of(cause, identity)),
        None => error,
    }
}

/// Returns an error of a handshake with its [`TlsFailure`] inside.
pub(crate) fn explain_handshake(error: io::Error, identity: &Identity) -> io::Error {
    match cause(&error) {
        // A server that does not speak TLS reads the greeting as a length, and closes. A load
        // balancer without servers, and a server that limits handshakes, close as well.
        None if is_close(error.kind()) => io::Error::new(error.kind(), TlsFailure::ClosedByServer),
        _ => explain(error, identity),
    }
}

/// Returns true if the server has ended the connection. With unread bytes, a close is a reset.
fn is_close(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(kind, UnexpectedEof | ConnectionReset | ConnectionAborted | BrokenPipe)
}

fn cause(error: &io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref()
}

/// Returns the failure in an error of this crate.
pub(crate) fn failure_in(error: io::Error) -> TlsFailure {
    error.downcast().unwrap_or_else(|other: io::Error| TlsFailure::Other(other.to_string().into()))
}

/// Returns the error of a failure before the connection.
pub(crate) fn refused(failure: TlsFailure) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, failure)
}

fn of(error: &Error, identity: &Identity) -> TlsFailure {
    match error {
        Error::InvalidCertificate(error) => of_certificate(error),
        Error::NoCertificatesPresented => {
            TlsFailure::BadCertificate("the server has sent none".into())
        }
        Error::AlertReceived(alert) => of_alert(*alert, identity),
        Error::PeerIncompatible(_) => TlsFailure::NothingInCommon,
        Error::InvalidMessage(_) => TlsFailure::NotSpoken,
        error => TlsFailure::Other(error.to_string().into()),
    }
}

/// Returns the failure for a server's certificate that rustls rejects.
pub(crate) fn of_certificate(error: &CertificateError) -> TlsFailure {
    let span = |from: u64, to: u64| Duration::from_secs(to.saturating_sub(from));
    match error {
        CertificateError::UnknownIssuer => TlsFailure::UnknownIssuer,
        CertificateError::NotValidForNameContext { expected, presented } => {
            let presented: Vec<String> = presented.iter().map(|name| named(name)).collect();
            TlsFailure::WrongName {
                expected: expected.to_str().into(),
                presented: presented.join(", ").into(),
            }
        }
        CertificateError::Expired => TlsFailure::Expired(Duration::ZERO),
        CertificateError::ExpiredContext { time, not_after } => {
            TlsFailure::Expired(span(not_after.as_secs(), time.as_secs()))
        }
        CertificateError::NotValidYet => TlsFailure::NotYetValid(Duration::ZERO),
        CertificateError::NotValidYetContext { time, not_before } => {
            TlsFailure::NotYetValid(span(time.as_secs(), not_before.as_secs()))
        }
        error => TlsFailure::BadCertificate(reason(error).into()),
    }
}

/// Returns a name as messages show it. An address that was issued as a DNS name does not count as one.
fn named(name: &str) -> String {
    let shown = plain(name);
    if name.starts_with("DnsName") && shown.parse::<IpAddr>().is_ok() {
        format!("{shown} (as a DNS name, which does not count for an address)")
    } else {
        shown
    }
}

/// Returns a name without the kind that rustls prints around it, as in `DnsName("zk1")`.
pub(crate) fn plain(name: &str) -> String {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    inner.unwrap_or(name).trim_matches('"').to_owned()
}

pub(crate) fn reason(error: &CertificateError) -> String {
    match error {
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "it is not for servers; its extendedKeyUsage needs serverAuth".to_owned()
        }
        CertificateError::BadSignature
        | CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            format!("a signature of it, or with its key, is wrong or of an unknown kind; {KEYS}")
        }
        CertificateError::UnknownRevocationStatus => {
            "its issuer has no revocation list, and with one list all issuers need one".to_owned()
        }
        CertificateError::Revoked => "its issuer has revoked it".to_owned(),
        // These have only the name of a variant of webpki.
        CertificateError::Other(OtherError(inner)) => match inner.to_string().as_str() {
            "CaUsedAsEndEntity" => "it is the certificate of an authority (CA:TRUE); the server \
                                    needs one of its own, which the authority issues"
                .to_owned(),
            "UnsupportedCertVersion" => "it is of X.509 version 1, which has no subjectAltName; \
                                         issue one of version 3"
                .to_owned(),
            other => other.to_owned(),
        },
        error => error.to_string(),
    }
}

/// The server rejects the client with an alert. Under TLS 1.3 it arrives with the first read.
fn of_alert(alert: AlertDescription, identity: &Identity) -> TlsFailure {
    match alert {
        AlertDescription::ProtocolVersion | AlertDescription::InsufficientSecurity => {
            TlsFailure::NothingInCommon
        }
        AlertDescription::CertificateRequired => TlsFailure::CertificateRequired,
        // Java sends `bad_certificate` for a missing one, and `handshake_failure` for most else.
        // OpenSSL sends `handshake_failure` for a missing one under TLS 1.2. Only an agreed version
        // and cipher suite lead to the request for a certificate.
        AlertDescription::HandshakeFailure if !identity.is_requested() => {
            TlsFailure::NothingInCommon
        }
        AlertDescription::HandshakeFailure
        | AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnknownCA
        | AlertDescription::AccessDenied => {
            if identity.has_certificate {
                TlsFailure::CertificateRefused
            } else {
                TlsFailure::CertificateRequired
            }
        }
        // Java, under TLS 1.3: `CertificateVerify` finds no kind of signature for the key.
        AlertDescription::InternalError => TlsFailure::Other(
            format!(
                "the server sent the alert InternalError, and its log has the reason; if that is a \
                 signature algorithm, it has a key of a kind that the client does not accept: {KEYS}"
            )
            .into(),
        ),
        alert => TlsFailure::Other(format!("the server sent the alert {alert:?}").into()),
    }
}

#[cfg(test)]
mod tests {
    use tokio_rustls::rustls::client::danger::ServerCertVerifier;
    use tokio_rustls::rustls::pki_types::pem::PemObject;
    use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};

    use super::*;
    use crate::{Tls, TlsBuilder};

    #[test]
    fn names_are_shown_without_their_kind() {
        assert_eq!(plain("DnsName(\"zk1.example\")"), "zk1.example");
        assert_eq!(plain("IpAddress(127.0.0.1)"), "127.0.0.1");
        assert_eq!(plain("zk1"), "zk1");
    }

    fn verified(file: &str, name: &str, tls: &TlsBuilder) -> Result<(), String> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/certificates/");
        let own = CertificateDer::from_pem_file(format!("{folder}{file}")).unwrap();
        let name = ServerName::try_from(name).unwrap();
        let verifier = tls.usual_verifier().unwrap();
        match verifier.verify_server_cert(&own, &[], &name, &[], UnixTime::now()) {
            Err(Error::InvalidCertificate(error)) => Err(of_certificate(&error).to_string()),
            Err(error) => panic!("{error}"),
            Ok(_) => Ok(()),
        }
    }

    fn trusting() -> TlsBuilder {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/certificates/");
        Tls::builder().ca_file(format!("{folder}authority.pem"))
    }

    #[test]
    fn address_that_is_a_dns_name_is_told_apart() {
        let failure = verified("address-as-name.pem", "127.0.0.1", &trusting()).unwrap_err();
        assert!(failure.contains("127.0.0.1 (as a DNS name, which does not count"), "{failure}");
        assert!(failure.contains("not for 127.0.0.1"), "{failure}");
    }

    #[test]
    fn missing_certificate_in_between_is_told() {
        let failure = verified("below.pem", "localhost", &trusting()).unwrap_err();
        assert!(failure.contains("or the server does not send"), "{failure}");
    }

    #[test]
    fn revoked_certificate_is_rejected_with_a_list() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/certificates/");
        let tls = trusting().crl_file(format!("{folder}authority.crl.pem"));
        assert_eq!(verified("revoked.pem", "localhost", &trusting()), Ok(()));
        let failure = verified("revoked.pem", "localhost", &tls).unwrap_err();
        assert!(failure.ends_with("its issuer has revoked it"), "{failure}");
        assert_eq!(
            verified("rsa-1024.pem", "localhost", &tls),
            Ok(()),
            "the list is of its issuer"
        );
    }

    /// The server of zk-testing refuses the certificate.
    #[test]
    fn certificate_of_version_1_is_reported_as_such() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/certificates/");
        let tls = Tls::builder().ca_file(format!("{folder}authority.pem"));
        let own = CertificateDer::from_pem_file(format!("{folder}version-1.pem")).unwrap();
        let verifier = tls.usual_verifier().unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let verified = verifier.verify_server_cert(&own, &[], &name, &[], UnixTime::now());
        let Err(Error::InvalidCertificate(error)) = verified else { panic!("{verified:?}") };
        let failure = of_certificate(&error).to_string();
        assert!(failure.contains("X.509 version 1"), "{failure}");
    }
}
