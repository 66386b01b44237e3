//! Failures of rustls, in the words of the session.

use std::io;
use std::time::Duration;

use tokio_rustls::rustls::{AlertDescription, CertificateError, Error};
use zk_session::TlsFailure;

use crate::identity::Identity;

/// Returns an error of a connection over TLS with its [`TlsFailure`] inside.
pub(crate) fn explain(error: io::Error, identity: &Identity, is_handshake: bool) -> io::Error {
    let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    let failure = match cause {
        Some(cause) => of(cause, identity),
        // A server that does not speak TLS reads the greeting as a length, and closes. So does a
        // load balancer without servers, or a server that limits handshakes.
        None if is_handshake && error.kind() == io::ErrorKind::UnexpectedEof => {
            TlsFailure::ClosedByServer
        }
        None => return error,
    };
    io::Error::new(error.kind(), failure)
}

/// Returns the error of a failure before the connection.
pub(crate) fn refused(failure: TlsFailure) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, failure)
}

fn of(error: &Error, identity: &Identity) -> TlsFailure {
    match error {
        Error::InvalidCertificate(error) => of_certificate(error),
        Error::NoCertificatesPresented => TlsFailure::BadCertificate,
        Error::AlertReceived(alert) => of_alert(*alert, identity),
        Error::PeerIncompatible(_) => TlsFailure::NothingInCommon,
        Error::InvalidMessage(_) => TlsFailure::NotSpoken,
        _ => TlsFailure::Other,
    }
}

fn of_certificate(error: &CertificateError) -> TlsFailure {
    let span = |from: u64, to: u64| Duration::from_secs(to.saturating_sub(from));
    match error {
        CertificateError::UnknownIssuer => TlsFailure::UnknownIssuer,
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            TlsFailure::WrongName
        }
        CertificateError::Expired => TlsFailure::Expired(Duration::ZERO),
        CertificateError::ExpiredContext { time, not_after } => {
            TlsFailure::Expired(span(not_after.as_secs(), time.as_secs()))
        }
        CertificateError::NotValidYet => TlsFailure::NotYetValid(Duration::ZERO),
        CertificateError::NotValidYetContext { time, not_before } => {
            TlsFailure::NotYetValid(span(time.as_secs(), not_before.as_secs()))
        }
        _ => TlsFailure::BadCertificate,
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
        | AlertDescription::AccessDenied => match identity.has_certificate {
            true => TlsFailure::CertificateRefused,
            false => TlsFailure::CertificateRequired,
        },
        _ => TlsFailure::Other,
    }
}
