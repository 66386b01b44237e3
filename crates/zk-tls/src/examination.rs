//! Names and expiry of a server's certificates, for tools that examine a server.

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::ServerCertVerifier;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{CertificateError, Error, ProtocolVersion, RootCertStore};
use zk_session::{Connector, Host, TlsFailure};

use crate::builder::TlsBuilder;
use crate::failure::{of_certificate, plain, refused};

/// The certificates that a server sends; see [`TlsBuilder::examine`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerCertificates {
    /// Names and addresses for which the server's own certificate is valid. Empty if it has none, or
    /// if it cannot be used. No session accepts a certificate without names.
    pub names: Vec<String>,
    /// End of the time in which the whole chain is valid, or why it cannot be used now: without
    /// authorities that are trusted, [`TlsFailure::UnknownIssuer`]. The names are not compared with
    /// those of the server.
    pub valid_until: Result<SystemTime, TlsFailure>,
    /// Number of certificates, the server's own among them.
    pub sent: usize,
    /// Whether the connection has TLS 1.3. Otherwise it has TLS 1.2.
    pub is_tls13: bool,
}

impl TlsBuilder {
    /// Connects to a server over TCP, and returns the names and the expiry of its certificates.
    ///
    /// The connection is closed without a request. It is made even if a session would refuse the
    /// certificates, so that the reason can be found.
    ///
    /// # Errors
    /// Returns an error if there is no connection, if the handshake fails for another reason than
    /// the server's certificates, or if a file of this builder cannot be used.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub async fn examine(&self, host: &Host) -> io::Result<ServerCertificates> {
        let builder = self.clone();
        // A read that hangs must not keep the thread.
        let reading = tokio::task::spawn_blocking(move || {
            let has_authorities = !builder.trusts_nobody();
            let verifier = has_authorities.then(|| builder.usual_verifier()).transpose()?;
            builder.dangerous_skip_all_checks().checked().map(|tls| (verifier, tls))
        });
        let (verifier, tls) = reading.await.map_err(io::Error::other)??;
        let stream = tls.connect(host).await?;
        let (chain, version) = stream.handshake().unwrap_or_default();
        let verifier = verifier.as_ref();
        Ok(ServerCertificates {
            names: verifier.map(|usual| names(usual, chain)).unwrap_or_default(),
            valid_until: match verifier {
                Some(usual) => valid_until(usual, chain),
                None => Err(TlsFailure::UnknownIssuer),
            },
            sent: chain.len(),
            is_tls13: version == Some(ProtocolVersion::TLSv1_3),
        })
    }

    /// Returns the end of the time in which the client's own certificate is valid. Returns `None` if
    /// the client has none. Servers that refuse an expired certificate do not say why.
    ///
    /// # Errors
    /// Returns an error if a file of this builder cannot be used.
    pub fn client_certificate_expiry(&self) -> io::Result<Option<SystemTime>> {
        let Some(own) = self.client_certificate()? else { return Ok(None) };
        // The time of the certificate is checked before its purpose and its issuer. Any issuer will do.
        let mut any = RootCertStore::empty();
        let unfit = |error: Error| refused(TlsFailure::FileUnfit(error.to_string().into()));
        any.add(own.clone()).map_err(unfit)?;
        let end = UnixTime::since_unix_epoch(Duration::from_secs(END_OF_TIME));
        let end = match verify(&self.verifier(any)?, &[own], end) {
            Err(Error::InvalidCertificate(CertificateError::ExpiredContext {
                not_after, ..
            })) => not_after,
            _ => end,
        };
        Ok(Some(UNIX_EPOCH + Duration::from_secs(end.as_secs())))
    }
}

/// Returns the names, which the usual check reports when it expects another one.
fn names(verifier: &Arc<WebPkiServerVerifier>, chain: &[CertificateDer<'_>]) -> Vec<String> {
    match verify(verifier, chain, UnixTime::now()) {
        Err(Error::InvalidCertificate(CertificateError::NotValidForNameContext {
            presented,
            ..
        })) => presented.iter().map(|name| plain(name)).collect(),
        _ => Vec::new(),
    }
}

/// Returns the last moment at which no certificate of the chain has expired. Each expired one tells
/// its own end.
fn valid_until(
    verifier: &Arc<WebPkiServerVerifier>,
    chain: &[CertificateDer<'_>],
) -> Result<SystemTime, TlsFailure> {
    validity(verify(verifier, chain, UnixTime::now()))?;
    let mut time = UnixTime::since_unix_epoch(Duration::from_secs(END_OF_TIME));
    // Each round but the last finds one expired certificate.
    for _ in 0..=chain.len() {
        match verify(verifier, chain, time) {
            Err(Error::InvalidCertificate(CertificateError::ExpiredContext {
                not_after, ..
            })) => time = not_after,
            verified => {
                validity(verified)?;
                break;
            }
        }
    }
    Ok(UNIX_EPOCH + Duration::from_secs(time.as_secs()))
}

/// Ignores that the name is another one, which is checked last.
fn validity(verified: Result<(), Error>) -> Result<(), TlsFailure> {
    match verified {
        Ok(())
        | Err(Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        )) => Ok(()),
        Err(Error::InvalidCertificate(error)) => Err(of_certificate(&error)),
        Err(error) => Err(TlsFailure::BadCertificate(error.to_string().into())),
    }
}

/// Checks the chain, for a name that no certificate has (RFC 2606): the name is checked last.
fn verify(
    verifier: &Arc<WebPkiServerVerifier>,
    chain: &[CertificateDer<'_>],
    time: UnixTime,
) -> Result<(), Error> {
    let (own, others) = chain.split_first().ok_or(Error::NoCertificatesPresented)?;
    let name = ServerName::try_from("zk-examination.invalid");
    let name = name.map_err(|_| Error::General("the name".to_owned()))?;
    verifier.verify_server_cert(own, others, &name, &[], time).map(drop)
}

/// Seconds of the year 9999, in which certificates without an end expire (RFC 5280, 4.1.2.5).
const END_OF_TIME: u64 = 253_402_300_799;
