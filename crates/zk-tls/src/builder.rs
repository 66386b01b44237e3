//! Settings of a connector with TLS.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::{CertificateError, ClientConfig, Error, RootCertStore};
use zk_session::{Tcp, TlsFailure};

use crate::certificates::{self, Source};
use crate::connector::{Configuration, Tls};
use crate::failure::{KEYS, failure_in, reason, refused};
use crate::verifier::Lenient;

/// Settings of a [`Tls`] connector.
///
/// Files are read again for each connection, so that certificates can be replaced without a new
/// session. They must be regular files, no pipes. A connection for which a file cannot be read or is
/// incomplete fails, and the session tries again: replace files by renaming.
#[derive(Clone)]
#[must_use = "a builder does nothing before `build`"]
pub struct TlsBuilder {
    provider: Option<Arc<CryptoProvider>>,
    authorities: Vec<Source>,
    revoked: Vec<Source>,
    client: Option<(Source, Source)>,
    name: Option<String>,
    checks: Checks,
}

/// Checks of the server's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Checks {
    All,
    AllButTheName,
    Nothing,
}

impl Tls<Tcp> {
    /// Returns a builder, with the cryptography of `ring` if that feature is enabled.
    pub fn builder() -> TlsBuilder {
        #[cfg(feature = "ring")]
        let provider = Some(Arc::new(tokio_rustls::rustls::crypto::ring::default_provider()));
        #[cfg(not(feature = "ring"))]
        let provider = None;
        TlsBuilder::new(provider)
    }
}

impl TlsBuilder {
    fn new(provider: Option<Arc<CryptoProvider>>) -> Self {
        let checks = Checks::All;
        let (authorities, revoked) = (Vec::new(), Vec::new());
        Self { provider, authorities, revoked, client: None, name: None, checks }
    }

    /// Trusts the authorities in a file with certificates in PEM. Can be called again for more.
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.authorities.push(Source::File(path.into()));
        self
    }

    /// Trusts the authorities in a text with certificates in PEM. Can be called again for more.
    pub fn ca_pem(mut self, text: impl Into<Vec<u8>>) -> Self {
        self.authorities.push(Source::Text(text.into()));
        self
    }

    /// Rejects the certificates in a file with revocation lists in PEM. Can be called again for more.
    ///
    /// With a list, every certificate between a server and a trusted authority needs one of its issuer: a
    /// certificate whose issuer has no list is rejected, too. A list that is out of date still counts.
    pub fn crl_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.revoked.push(Source::File(path.into()));
        self
    }

    /// Rejects the certificates in a text with revocation lists in PEM; otherwise like
    /// [`crl_file`](Self::crl_file).
    pub fn crl_pem(mut self, text: impl Into<Vec<u8>>) -> Self {
        self.revoked.push(Source::Text(text.into()));
        self
    }

    /// Presents a certificate to servers that ask for one (mTLS). The first file has the client's
    /// certificate and those of the authorities between it and the server's trust store; the second
    /// has its key, in PKCS#8, PKCS#1 or SEC1, not encrypted. Both may be the same file. The cryptography of
    /// `ring` has RSA with 2,048 to 8,192 bits, ECDSA with the curves P-256 and P-384, and Ed25519.
    ///
    /// The server knows the client as `x509:<subject>`, the last part first (RFC 2253): for example
    /// `x509:O=example,CN=app`.
    pub fn client_certificate_files(
        mut self,
        chain: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Self {
        self.client = Some((Source::File(chain.into()), Source::File(key.into())));
        self
    }

    /// Presents a certificate, from texts in PEM; otherwise like
    /// [`client_certificate_files`](Self::client_certificate_files).
    pub fn client_certificate_pem(
        mut self,
        chain: impl Into<Vec<u8>>,
        key: impl Into<Vec<u8>>,
    ) -> Self {
        self.client = Some((Source::Text(chain.into()), Source::Text(key.into())));
        self
    }

    /// Expects this name or address in the certificate of every server, instead of the one in the
    /// connect string. A name is also sent to the server (SNI), an address is not.
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// **Dangerous.** Accepts a certificate with any name, if a trusted authority issued it. Anybody
    /// with such a certificate can then pretend to be the server. Prefer
    /// [`server_name`](Self::server_name).
    pub fn dangerous_skip_name_check(mut self) -> Self {
        self.checks = Checks::AllButTheName;
        self
    }

    /// **Dangerous.** Accepts every certificate, so that anybody on the way can read and change
    /// everything, including passwords. Only for experiments.
    pub fn dangerous_skip_all_checks(mut self) -> Self {
        self.checks = Checks::Nothing;
        self
    }

    /// Returns the connector, over plain TCP. See [`Tls::over`] for other transports.
    ///
    /// # Errors
    /// A file cannot be read or has nothing that can be used, the name is invalid, or no authority
    /// is trusted.
    pub fn build(self) -> Result<Tls<Tcp>, TlsFailure> {
        self.checked().map_err(failure_in)
    }

    pub(crate) fn checked(self) -> io::Result<Tls<Tcp>> {
        let valid = |name: String| {
            let unfit = refused(TlsFailure::NoServerName(name.as_str().into()));
            ServerName::try_from(name).map_err(|_| unfit)
        };
        let name = self.name.clone().map(valid).transpose()?;
        let has_certificate = self.client.is_some();
        self.configure()?;
        let configuration = Configuration::reading(move || self.configure());
        Ok(Tls::new(configuration, name, has_certificate))
    }

    /// Returns the usual check of the server's certificate, against the trusted authorities.
    pub(crate) fn usual_verifier(&self) -> io::Result<Arc<WebPkiServerVerifier>> {
        self.verifier(certificates::authorities(&self.authorities)?)
    }

    /// Returns the usual check of a certificate, against these authorities.
    pub(crate) fn verifier(&self, roots: RootCertStore) -> io::Result<Arc<WebPkiServerVerifier>> {
        let provider = Arc::clone(self.provider()?);
        let lists = certificates::revocation_lists(&self.revoked)?;
        let usual = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
        usual.with_crls(lists).build().map_err(|error| {
            let what =
                "the certificates of the authorities, or the revocation lists, cannot be used";
            unfit(&format!("{what}: {error}"))
        })
    }

    pub(crate) fn trusts_nobody(&self) -> bool {
        self.authorities.is_empty()
    }

    pub(crate) fn client_certificate(&self) -> io::Result<Option<CertificateDer<'static>>> {
        let Some((source, _)) = &self.client else { return Ok(None) };
        let own = certificates::chain(source)?.into_iter().next();
        // rustls has no other failure of a certificate that it does not verify.
        match own.as_ref().map(ParsedCertificate::try_from) {
            Some(Err(Error::InvalidCertificate(error))) => Err(unfit_certificate(source, &error)),
            _ => Ok(own),
        }
    }

    fn provider(&self) -> io::Result<&Arc<CryptoProvider>> {
        let missing = "there is no cryptography: enable the feature `ring` of zk-tls";
        self.provider.as_ref().ok_or_else(|| unfit(missing))
    }

    /// Reads all files, and returns the configuration of one connection.
    fn configure(&self) -> io::Result<Arc<ClientConfig>> {
        let provider = self.provider()?;
        let builder = ClientConfig::builder_with_provider(Arc::clone(provider));
        let builder = builder
            .with_safe_default_protocol_versions()
            .map_err(|_| unfit("the cryptography has neither TLS 1.2 nor 1.3"))?;
        let authorities = match self.checks {
            Checks::Nothing => RootCertStore::empty(),
            _ => certificates::authorities(&self.authorities)?,
        };
        if authorities.is_empty() && self.checks != Checks::Nothing {
            return Err(unfit("no certificate authority is trusted: name one with ca_file"));
        }
        let builder = match self.checks {
            Checks::All => builder.with_webpki_verifier(self.verifier(authorities)?),
            Checks::AllButTheName => {
                let usual = self.usual_verifier()?;
                builder
                    .dangerous()
                    .with_custom_certificate_verifier(Arc::new(Lenient::AnyName(usual)))
            }
            Checks::Nothing => {
                let anything = Lenient::Anything(Arc::clone(provider));
                builder.dangerous().with_custom_certificate_verifier(Arc::new(anything))
            }
        };
        let Some((chain, key)) = &self.client else {
            return Ok(Arc::new(builder.with_no_client_auth()));
        };
        let config =
            builder.with_client_auth_cert(certificates::chain(chain)?, certificates::key(key)?);
        let config = config.map_err(|error| match error {
            Error::InconsistentKeys(_) => {
                key.unfit("the client's key does not fit its certificate")
            }
            Error::InvalidCertificate(error) => unfit_certificate(chain, &error),
            error => key.unfit(&format!("the client's key cannot be used: {error}; {KEYS}")),
        })?;
        Ok(Arc::new(config))
    }
}

fn unfit_certificate(chain: &Source, error: &CertificateError) -> io::Error {
    chain.unfit(&format!("the client's certificate cannot be used: {}", reason(error)))
}

fn unfit(reason: &str) -> io::Error {
    refused(TlsFailure::FileUnfit(reason.into()))
}

/// Prints no key.
impl fmt::Debug for TlsBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsBuilder")
            .field("authorities", &self.authorities.len())
            .field("has_certificate", &self.client.is_some())
            .field("name", &self.name)
            .field("checks", &self.checks)
            .finish()
    }
}
