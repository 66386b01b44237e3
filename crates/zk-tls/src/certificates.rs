//! Certificates and keys, from files or texts in PEM.

use std::fs;
use std::io;
use std::path::PathBuf;

use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer,
};
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

    /// Returns the file for a command line that mends it.
    fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Text(_) => "FILE".to_owned(),
        }
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
    all(source, "x509", "there is no certificate in PEM (BEGIN CERTIFICATE)")
}

pub(crate) fn revocation_lists(
    sources: &[Source],
) -> io::Result<Vec<CertificateRevocationListDer<'static>>> {
    let mut lists = Vec::new();
    for source in sources {
        lists.extend(all(source, "crl", "there is no revocation list in PEM (BEGIN X509 CRL)")?);
    }
    Ok(lists)
}

/// Reads a private key in PKCS#8, PKCS#1 or SEC1.
pub(crate) fn key(source: &Source) -> io::Result<PrivateKeyDer<'static>> {
    let text = source.read()?;
    let is_encrypted = [&b"ENCRYPTED PRIVATE KEY"[..], b"Proc-Type: 4,ENCRYPTED"]
        .iter()
        .any(|mark| text.windows(mark.len()).any(|part| part == *mark));
    if is_encrypted {
        let file = source.name();
        return Err(source.unfit(&format!(
            "the private key is encrypted; decrypt it: openssl pkey -in {file} -out decrypted.pem"
        )));
    }
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| {
        source.unfit(&why_not(
            source,
            &text,
            &error,
            "pkey",
            "there is no private key in PEM (BEGIN PRIVATE KEY)",
        ))
    })
}

/// Reads all items of a kind, of which there must be one. `openssl` is the command of openssl for this
/// kind, and `none` the error if there is none.
fn all<T: PemObject>(source: &Source, openssl: &str, none: &str) -> io::Result<Vec<T>> {
    let text = source.read()?;
    let items: Result<Vec<T>, pem::Error> = T::pem_slice_iter(&text).collect();
    match items {
        Ok(items) if !items.is_empty() => Ok(items),
        Ok(_) => {
            Err(source.unfit(&why_not(source, &text, &pem::Error::NoItemsFound, openssl, none)))
        }
        Err(error) => Err(source.unfit(&why_not(source, &text, &error, openssl, none))),
    }
}

/// Returns why a text has nothing that can be used. `none` is the reason if it is PEM of another kind.
fn why_not(source: &Source, text: &[u8], error: &pem::Error, openssl: &str, none: &str) -> String {
    let file = source.name();
    let has = |mark: &[u8]| text.windows(mark.len()).any(|part| part == mark);
    match (error, text) {
        (pem::Error::NoItemsFound, [0xfe, 0xed, 0xfe, 0xed, ..]) => format!(
            "this is a key store of Java (JKS), not PEM; turn it into PEM: keytool -importkeystore \
             -srckeystore {file} -destkeystore store.p12 -deststoretype PKCS12 && openssl pkcs12 -in \
             store.p12 -nodes -out store.pem"
        ),
        (pem::Error::NoItemsFound, [0x30, ..]) => format!(
            "this is PKCS#12 or DER, not PEM; turn it into PEM: openssl pkcs12 -in {file} -nodes -out \
             store.pem, or openssl {openssl} -inform DER -in {file} -out {openssl}.pem"
        ),
        (pem::Error::NoItemsFound, [0xef, 0xbb, 0xbf, ..]) => {
            "the file begins with a byte-order mark: save it without one".to_owned()
        }
        (pem::Error::NoItemsFound, _) if has(b"BEGIN TRUSTED CERTIFICATE") => format!(
            "a trusted certificate is a form of openssl alone: openssl x509 -in {file} -out \
             certificate.pem"
        ),
        (pem::Error::NoItemsFound, _) => none.to_owned(),
        (pem::Error::MissingSectionEnd { .. }, _) => {
            "the file ends in the middle of an item in PEM: it is not complete".to_owned()
        }
        (error, _) => format!("this is not correct PEM: {error}"),
    }
}
