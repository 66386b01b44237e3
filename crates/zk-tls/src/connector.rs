//! The connector, and the stream of a connection.

use std::future::Future;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::{fmt, io};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Semaphore;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ProtocolVersion};
use zk_session::{Connector, Host, Tcp, TlsFailure, Transport};

use crate::failure::{explain, explain_handshake, refused};
use crate::identity::Identity;
use crate::limits::FILE_READS_MAX;

/// TLS over another connector, by default TCP.
///
/// Hosts with `tls://` in the connect string, and hosts without a scheme, get TLS. Hosts with
/// `tcp://` get the plain connection.
#[derive(Clone)]
pub struct Tls<C = Tcp> {
    inner: C,
    configuration: Configuration,
    name: Option<ServerName<'static>>,
    has_certificate: bool,
}

#[derive(Clone)]
pub(crate) enum Configuration {
    Fixed(Arc<ClientConfig>),
    /// Reads the files of a configuration.
    Read(Arc<Read>, Arc<Semaphore>),
}

type Read = dyn Fn() -> io::Result<Arc<ClientConfig>> + Send + Sync;

impl Configuration {
    pub(crate) fn reading(
        read: impl Fn() -> io::Result<Arc<ClientConfig>> + Send + Sync + 'static,
    ) -> Self {
        Self::Read(Arc::new(read), Arc::new(Semaphore::new(FILE_READS_MAX)))
    }

    /// Returns the configuration of the next connection. Files are read on a thread for blocking
    /// calls.
    async fn next(self) -> io::Result<Arc<ClientConfig>> {
        match self {
            Self::Fixed(config) => Ok(config),
            Self::Read(read, permits) => {
                let permit = permits.acquire_owned().await.map_err(io::Error::other)?;
                let reading = tokio::task::spawn_blocking(move || {
                    let config = read();
                    drop(permit);
                    config
                });
                reading.await.map_err(io::Error::other)?
            }
        }
    }
}

impl Tls<Tcp> {
    /// Returns a connector with a configuration of the application's own. TLS sessions are not
    /// resumed.
    #[must_use]
    pub fn with_config(config: Arc<ClientConfig>) -> Self {
        let has_certificate = config.client_auth_cert_resolver.has_certs();
        Self::new(Configuration::Fixed(config), None, has_certificate)
    }

    pub(crate) fn new(
        configuration: Configuration,
        name: Option<ServerName<'static>>,
        has_certificate: bool,
    ) -> Self {
        Self { inner: Tcp, configuration, name, has_certificate }
    }
}

impl<C> Tls<C> {
    /// Replaces the transport below TLS.
    #[must_use]
    pub fn over<D>(self, inner: D) -> Tls<D> {
        let Self { configuration, name, has_certificate, .. } = self;
        Tls { inner, configuration, name, has_certificate }
    }
}

impl<C: Connector> Connector for Tls<C> {
    type Stream = TlsStream<C::Stream>;

    fn resolve(
        &self,
        host: &Host,
    ) -> impl Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'static {
        // A name that no certificate can have is reported before it is looked up.
        let needs_name = self.name.is_none() && host.transport() != Transport::Tcp;
        let named = if needs_name { name_of(host).map(drop) } else { Ok(()) };
        let host = plain(host);
        let addresses: Pin<Box<dyn Future<Output = _> + Send>> =
            Box::pin(self.inner.resolve(&host));
        async move {
            named?;
            addresses.await
        }
    }

    fn connect(
        &self,
        host: &Host,
    ) -> impl Future<Output = io::Result<Self::Stream>> + Send + 'static {
        let is_plain = host.transport() == Transport::Tcp;
        let below = plain(host);
        let connected: Pin<Box<dyn Future<Output = _> + Send>> =
            Box::pin(self.inner.connect(&below));
        let name = self.name.clone().map_or_else(|| name_of(host), Ok);
        let configuration = self.configuration.clone();
        let identity = Identity::new(self.has_certificate);
        async move {
            if is_plain {
                return connected.await.map(TlsStream::plain);
            }
            let (name, config) = (name?, configuration.next().await?);
            let stream = connected.await?;
            let config = Arc::new(identity.watch(&config));
            let limited = TlsConnector::from(config).connect_with(name, stream, |connection| {
                connection.set_buffer_limit(Some(BUFFER_MAX));
            });
            let stream = limited.await.map_err(|error| explain_handshake(error, &identity))?;
            Ok(TlsStream { stream: Either::Tls(Box::new(stream)), identity })
        }
    }

    fn is_plain(&self, host: &Host) -> bool {
        host.transport() == Transport::Tcp && self.inner.is_plain(&plain(host))
    }

    fn uses_tls(&self, host: &Host) -> bool {
        host.transport() != Transport::Tcp
    }

    fn abandon(&self, stream: &Self::Stream) {
        self.inner.abandon(stream.get_ref());
    }

    fn local_address(&self, stream: &Self::Stream) -> Option<IpAddr> {
        self.inner.local_address(stream.get_ref())
    }

    fn peer_address(&self, stream: &Self::Stream) -> Option<IpAddr> {
        self.inner.peer_address(stream.get_ref())
    }
}

/// Returns the host for the connector below TLS.
fn plain(host: &Host) -> Host {
    host.clone().with_transport(Transport::Any)
}

/// Plaintext that TLS accepts before it is written. A ping cannot overtake it.
const BUFFER_MAX: usize = 16 * 1024;

/// Returns the name to expect in the certificate. An address has no zone there.
fn name_of(host: &Host) -> io::Result<ServerName<'static>> {
    let name = host.name();
    let without_zone = name.split_once('%').map_or(name, |(address, _zone)| address);
    if let Ok(address) = without_zone.parse::<Ipv6Addr>() {
        return Ok(ServerName::from(IpAddr::V6(address)));
    }
    ServerName::try_from(name.to_owned())
        .map_err(|_| refused(TlsFailure::NoServerName(name.into())))
}

/// Prints no key.
impl<C: fmt::Debug> fmt::Debug for Tls<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("inner", &self.inner)
            .field("name", &self.name)
            .field("has_certificate", &self.has_certificate)
            .finish_non_exhaustive()
    }
}

/// Stream of a connection, with TLS or, for a host with `tcp://`, without.
pub struct TlsStream<S> {
    stream: Either<S>,
    identity: Identity,
}

enum Either<S> {
    Plain(S),
    Tls(Box<tokio_rustls::client::TlsStream<S>>),
}

impl<S> TlsStream<S> {
    /// Returns a stream without TLS, of the same type as those with it.
    pub fn plain(stream: S) -> Self {
        Self { stream: Either::Plain(stream), identity: Identity::new(false) }
    }

    /// Returns the stream below TLS, or the plain one.
    pub fn get_ref(&self) -> &S {
        match &self.stream {
            Either::Plain(stream) => stream,
            Either::Tls(stream) => stream.get_ref().0,
        }
    }

    /// Returns the certificates that the server has sent, and the version of TLS. Returns `None` for
    /// a plain connection.
    pub(crate) fn handshake(
        &self,
    ) -> Option<(&[CertificateDer<'static>], Option<ProtocolVersion>)> {
        match &self.stream {
            Either::Plain(_) => None,
            Either::Tls(stream) => {
                let connection = stream.get_ref().1;
                let chain = connection.peer_certificates().unwrap_or_default();
                Some((chain, connection.protocol_version()))
            }
        }
    }

    fn explained<T>(&self, result: io::Result<T>) -> io::Result<T> {
        result.map_err(|error| explain(error, &self.identity))
    }
}

impl<S> fmt::Debug for TlsStream<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.stream {
            Either::Plain(_) => "TlsStream(plain)",
            Either::Tls(_) => "TlsStream(TLS)",
        })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for TlsStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = match &mut self.stream {
            Either::Plain(stream) => return Pin::new(stream).poll_read(cx, buffer),
            Either::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        };
        read.map(|result| match self.explained(result) {
            // Netty ends a connection without `close_notify`: that is its end, and no attack, as
            // every frame has its length.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
            result => result,
        })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TlsStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = match &mut self.stream {
            Either::Plain(stream) => return Pin::new(stream).poll_write(cx, bytes),
            Either::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        };
        written.map(|result| self.explained(result))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = match &mut self.stream {
            Either::Plain(stream) => return Pin::new(stream).poll_write_vectored(cx, slices),
            Either::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        };
        written.map(|result| self.explained(result))
    }

    fn is_write_vectored(&self) -> bool {
        matches!(&self.stream, Either::Plain(stream) if stream.is_write_vectored())
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = match &mut self.stream {
            Either::Plain(stream) => return Pin::new(stream).poll_flush(cx),
            Either::Tls(stream) => Pin::new(stream).poll_flush(cx),
        };
        flushed.map(|result| self.explained(result))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Either::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Either::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Waker;

    use super::*;

    /// One thread runs the reads in their order, so the last one is after all others.
    #[test]
    fn dropped_attempts_leave_few_reads_behind() {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.max_blocking_threads(1).build().unwrap();
        let reads = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&reads);
        let configuration = Configuration::reading(move || {
            counted.fetch_add(1, Ordering::SeqCst);
            Err(io::ErrorKind::NotFound.into())
        });
        let (release, is_held) = std::sync::mpsc::channel::<()>();
        runtime.block_on(async {
            let held = tokio::task::spawn_blocking(move || is_held.recv());
            for _ in 0..10 * FILE_READS_MAX {
                let mut attempt = Box::pin(configuration.clone().next());
                let _ = attempt.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            }
            drop(release);
            assert!(held.await.unwrap().is_err());
            assert!(configuration.next().await.is_err());
        });
        assert_eq!(reads.load(Ordering::SeqCst), FILE_READS_MAX + 1);
    }
}
