//! The client's certificate in one handshake: whether there is one, and whether the server asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_rustls::rustls::client::ResolvesClientCert;
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{ClientConfig, SignatureScheme};

/// Certificate of the client in one handshake, and whether the server has requested it.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) has_certificate: bool,
    /// Set once the server has sent a `CertificateRequest`.
    is_requested: Arc<AtomicBool>,
}

impl Identity {
    pub(crate) fn new(has_certificate: bool) -> Self {
        Self { has_certificate, is_requested: Arc::default() }
    }

    /// Returns a copy of the configuration that notes the server's `CertificateRequest` here. The
    /// copy must be used for one connection only.
    pub(crate) fn watch(&self, config: &ClientConfig) -> ClientConfig {
        let mut config = config.clone();
        let inner = Arc::clone(&config.client_auth_cert_resolver);
        let is_requested = Arc::clone(&self.is_requested);
        config.client_auth_cert_resolver = Arc::new(Watched { inner, is_requested });
        config
    }

    /// Returns true once the server has sent a `CertificateRequest`.
    pub(crate) fn is_requested(&self) -> bool {
        self.is_requested.load(Ordering::Relaxed)
    }
}

/// Resolver that notes its calls: rustls calls it only for a `CertificateRequest`.
#[derive(Debug)]
struct Watched {
    inner: Arc<dyn ResolvesClientCert>,
    is_requested: Arc<AtomicBool>,
}

impl ResolvesClientCert for Watched {
    fn resolve(
        &self,
        root_hint_subjects: &[&[u8]],
        schemes: &[SignatureScheme],
    ) -> Option<Arc<CertifiedKey>> {
        self.is_requested.store(true, Ordering::Relaxed);
        self.inner.resolve(root_hint_subjects, schemes)
    }

    fn only_raw_public_keys(&self) -> bool {
        self.inner.only_raw_public_keys()
    }

    fn has_certs(&self) -> bool {
        self.inner.has_certs()
    }
}
