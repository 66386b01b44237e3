//! Checks of the server's certificate that leave something out, on explicit demand.

use std::sync::Arc;

use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{
    CryptoProvider, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

/// Accepts certificates that the usual check rejects.
#[derive(Debug)]
pub(crate) enum Lenient {
    /// Any name, if the chain is right.
    AnyName(Arc<WebPkiServerVerifier>),
    /// Any certificate.
    Anything(Arc<CryptoProvider>),
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Self::AnyName(usual) = self else { return Ok(ServerCertVerified::assertion()) };
        // The name is checked last, so everything else is right.
        match usual.verify_server_cert(end_entity, intermediates, name, ocsp, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            result => result,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match self {
            Self::AnyName(usual) => usual.verify_tls12_signature(message, certificate, signature),
            Self::Anything(provider) => {
                let schemes = &provider.signature_verification_algorithms;
                verify_tls12_signature(message, certificate, signature, schemes)
            }
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match self {
            Self::AnyName(usual) => usual.verify_tls13_signature(message, certificate, signature),
            Self::Anything(provider) => {
                let schemes = &provider.signature_verification_algorithms;
                verify_tls13_signature(message, certificate, signature, schemes)
            }
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        match self {
            Self::AnyName(usual) => usual.supported_verify_schemes(),
            Self::Anything(provider) => {
                provider.signature_verification_algorithms.supported_schemes()
            }
        }
    }
}
