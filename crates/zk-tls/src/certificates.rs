//! Certificates and keys, from files or texts in PEM.

use std::fs;
use std::io;
use std::path::PathBuf;

use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use zk_session::TlsFailure;

use crate::failure::refused;

/// Where a text in PEM comes from.
#[derive(Clone)]
pub(crate) enum Source {
    File(PathBuf),
    Text(Vec<u8>),
}

impl Source {
    /// Returns the error of a source without anything that can be used.
    pub(crate) fn unfit(&self, reason: &str) -> io::Error {
        refused(TlsFailure::FileUnfit(match self {
            Self::File(path) => format!("{}: {reason}", path.display()).into(),
            Self::Text(_) => reason.into(),
        }))
    }

    fn read(&self) -> io::Result<Vec<u8>> {
        match self {
            Self::Text(text) => Ok(text.clone()),
            Self::File(path) => {
                let unreadable = |error: io::Error| {
                    let named = format!("{}: {error}", path.display());
                    let error = io::Error::new(error.kind(), named);
                    refused(TlsFailure::FileUnreadable(error.into()))
                };
                // A pipe has its text once, and each connection reads the file again.
                if !fs::metadata(path).map_err(unreadable)?.is_file() {
                    return Err(self.unfit(
                        "not a regular file, which is needed because each connection reads it again",
                    ));
                }
                fs::read(path).map_err(unreadable)
            }
        }
    }
}

/// Reads the authorities that the client trusts.
pub(crate) fn authorities(sources: &[Source]) -> io::Result<RootCertStore> {
    let mut store = RootCertStore::empty();
    for source in sources {
        for certificate in chain(source)? {
            let unfit = |_| source.unfit("the certificate of an authority cannot be used");
            store.add(certificate).map_err(unfit)?;
        }
    }
    Ok(store)
}

/// Reads a chain of certificates, the first of which is the client's own.
pub(crate) fn chain(source: &Source) -> io::Result<Vec<CertificateDer<'static>>> {
    let text = source.read()?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    chain
        .ok()
        .filter(|chain| !chain.is_empty())
        .ok_or_else(|| source.unfit("there is no certificate in PEM (BEGIN CERTIFICATE)"))
}

/// Reads a private key in PKCS#8, PKCS#1 or SEC1.
pub(crate) fn key(source: &Source) -> io::Result<PrivateKeyDer<'static>> {
    let text = source.read()?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|_| {
        source.unfit("there is no private key in PEM (BEGIN PRIVATE KEY), or it is encrypted")
    })
}
