//! Ports over which the servers are reachable with TLS.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::{fmt, io};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};
use tokio_rustls::server::TlsStream;

use super::TestServer;
use crate::server::Ensemble;

/// Certificates of a [`TlsPort`], in PEM, and its demands on clients.
#[derive(Clone, Default)]
pub struct TlsSettings {
    certificate: Vec<u8>,
    client_ca: Option<Vec<u8>>,
    needs_client: bool,
    /// Certificates of clients, and the subject of each.
    subjects: Vec<(Vec<u8>, String)>,
    versions: Vec<&'static SupportedProtocolVersion>,
}

impl TlsSettings {
    /// Takes the server's key and certificate, in one text as in a PEM key store of ZooKeeper.
    #[must_use]
    pub fn new(key_and_certificate: impl Into<Vec<u8>>) -> Self {
        let versions = vec![&TLS12, &TLS13];
        Self { certificate: key_and_certificate.into(), versions, ..Self::default() }
    }

    /// Asks clients for a certificate of these authorities, as `ssl.clientAuth=want` does.
    #[must_use]
    pub fn want_client_certificate(mut self, ca: impl Into<Vec<u8>>) -> Self {
        (self.client_ca, self.needs_client) = (Some(ca.into()), false);
        self
    }

    /// Requires a certificate of these authorities, as `ssl.clientAuth=need` does.
    #[must_use]
    pub fn need_client_certificate(mut self, ca: impl Into<Vec<u8>>) -> Self {
        (self.client_ca, self.needs_client) = (Some(ca.into()), true);
        self
    }

    /// Gives clients with this certificate, in PEM, the identity `x509:<subject>`. A real server reads
    /// the subject from the certificate, with the last part first: `O=example,OU=shop,CN=app`. Here a
    /// certificate without a subject gives no identity.
    #[must_use]
    pub fn subject_of(
        mut self,
        certificate: impl Into<Vec<u8>>,
        subject: impl Into<String>,
    ) -> Self {
        self.subjects.push((certificate.into(), subject.into()));
        self
    }

    /// Speaks only TLS 1.2, as servers before 3.9 do by default.
    #[must_use]
    pub fn only_tls_1_2(mut self) -> Self {
        self.versions = vec![&TLS12];
        self
    }

    /// Speaks only TLS 1.3, as servers from 3.9.0 to 3.9.5 do by default.
    #[must_use]
    pub fn only_tls_1_3(mut self) -> Self {
        self.versions = vec![&TLS13];
        self
    }

    fn greeter(&self, server: &TestServer) -> io::Result<Greeter> {
        if self.client_ca.is_some() {
            server.with(Ensemble::add_x509);
        }
        let subject = |(certificate, subject): &(Vec<u8>, String)| {
            let certificate = CertificateDer::from_pem_slice(certificate);
            Ok((certificate.map_err(io::Error::other)?, subject.clone()))
        };
        let subjects: io::Result<Vec<_>> = self.subjects.iter().map(subject).collect();
        Ok(Greeter { acceptor: self.acceptor()?, subjects: subjects?.into() })
    }

    fn acceptor(&self) -> io::Result<TlsAcceptor> {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_protocol_versions(&self.versions).map_err(io::Error::other)?;
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some(ca) => {
                let mut roots = RootCertStore::empty();
                for certificate in CertificateDer::pem_slice_iter(ca) {
                    let certificate = certificate.map_err(io::Error::other)?;
                    roots.add(certificate).map_err(io::Error::other)?;
                }
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                let verifier =
                    if self.needs_client { verifier } else { verifier.allow_unauthenticated() };
                builder.with_client_cert_verifier(verifier.build().map_err(io::Error::other)?)
            }
        };
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.certificate).collect();
        let key = PrivateKeyDer::from_pem_slice(&self.certificate).map_err(io::Error::other)?;
        let config = builder.with_single_cert(chain.map_err(io::Error::other)?, key);
        Ok(TlsAcceptor::from(Arc::new(config.map_err(io::Error::other)?)))
    }
}

/// Prints no key.
impl fmt::Debug for TlsSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsSettings")
            .field("has_client_ca", &self.client_ca.is_some())
            .field("needs_client", &self.needs_client)
            .field(
                "subjects",
                &self.subjects.iter().map(|(_, subject)| subject).collect::<Vec<_>>(),
            )
            .finish_non_exhaustive()
    }
}

/// A port of 127.0.0.1 over which one server is reachable with TLS. Dropping it closes the port and
/// all its connections.
///
/// A client's certificate is checked, and gives the identity that
/// [`TlsSettings::subject_of`] has for it.
///
/// ```no_run
/// # async fn example(key_and_certificate: Vec<u8>) -> std::io::Result<()> {
/// use zk_testing::{TestServer, TlsPort, TlsSettings};
///
/// let server = TestServer::in_memory();
/// let port = TlsPort::listen(&server, 0, &TlsSettings::new(key_and_certificate)).await?;
/// println!("tls://{}", port.address());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TlsPort {
    server: TestServer,
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

struct State {
    /// It greets the next connections; `None` to close them in mid handshake.
    greeter: Option<Greeter>,
    /// Number of connections that were closed in mid handshake.
    broken: usize,
    tasks: Vec<AbortHandle>,
}

/// Does the handshake with clients, and knows who they are.
#[derive(Clone)]
struct Greeter {
    acceptor: TlsAcceptor,
    subjects: Arc<[(CertificateDer<'static>, String)]>,
}

impl Greeter {
    /// Returns the stream of a client, and the subject of its certificate.
    async fn greet(self, stream: TcpStream) -> io::Result<(TlsStream<TcpStream>, Option<String>)> {
        let stream = self.acceptor.accept(stream).await?;
        let own = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        let known = self.subjects.iter().find(|(certificate, _)| Some(certificate) == own);
        let subject = known.map(|(_, subject)| subject.clone());
        Ok((stream, subject))
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("tasks", &self.tasks.len()).finish_non_exhaustive()
    }
}

impl TlsPort {
    /// Opens a free port for one server, counted from 0.
    ///
    /// # Errors
    /// There is no free port, or a certificate cannot be used.
    pub async fn listen(
        server: &TestServer,
        number: usize,
        settings: &TlsSettings,
    ) -> io::Result<Self> {
        let greeter = Some(settings.greeter(server)?);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let state = Arc::new(Mutex::new(State { greeter, broken: 0, tasks: Vec::new() }));
        let accepting = tokio::spawn(accept(listener, server.clone(), number, Arc::clone(&state)));
        lock(&state).tasks.push(accepting.abort_handle());
        Ok(Self { server: server.clone(), address, state })
    }

    /// Returns the address of the port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Uses other certificates for the next connections: for example, an expired one.
    ///
    /// # Errors
    /// A certificate cannot be used.
    pub fn replace(&self, settings: &TlsSettings) -> io::Result<()> {
        lock(&self.state).greeter = Some(settings.greeter(&self.server)?);
        Ok(())
    }

    /// Closes the next connections in mid handshake, until [`replace`](Self::replace).
    pub fn break_handshakes(&self) {
        lock(&self.state).greeter = None;
    }

    /// Returns the number of connections that [`break_handshakes`](Self::break_handshakes) has
    /// closed so far.
    #[must_use]
    pub fn broken_handshakes(&self) -> usize {
        lock(&self.state).broken
    }

    /// Closes all connections.
    pub fn cut_all(&self) {
        lock(&self.state).tasks.drain(1..).for_each(|task| task.abort());
    }
}

impl Drop for TlsPort {
    fn drop(&mut self) {
        lock(&self.state).tasks.drain(..).for_each(|task| task.abort());
    }
}

fn lock(state: &Mutex<State>) -> std::sync::MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(
    listener: TcpListener,
    server: TestServer,
    number: usize,
    state: Arc<Mutex<State>>,
) {
    while let Ok((stream, _)) = listener.accept().await {
        // The call cannot fail on a fresh socket.
        let _ = stream.set_nodelay(true);
        let greeter = {
            let mut state = lock(&state);
            state.broken += usize::from(state.greeter.is_none());
            state.greeter.clone()
        };
        let serving = tokio::spawn(serve(stream, greeter, server.clone(), number));
        lock(&state).tasks.push(serving.abort_handle());
    }
}

async fn serve(stream: TcpStream, greeter: Option<Greeter>, server: TestServer, number: usize) {
    let Some(greeter) = greeter else { return };
    let Ok((mut outside, subject)) = greeter.greet(stream).await else { return };
    if let Ok(mut inside) = server.stream(number) {
        if let Some(subject) = subject {
            server.with(|ensemble| ensemble.identify(inside.id(), &subject));
        }
        // The end of either side ends the connection.
        let _ = copy_bidirectional(&mut outside, &mut inside).await;
    }
}
