//! Connections to servers, in the clear or over TLS.

use std::future::Future;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use zk_recipes::session::{ConnectString, Connector, Host, Tcp, TlsFailure};
use zk_tls::{Tls, TlsBuilder};

use crate::failure::Failure;

/// How servers are reached. With one type for both kinds of connections, the program has the code of a
/// session once.
#[derive(Clone)]
pub(crate) struct ServerConnector {
    way: Way,
    /// The addresses that every name gets. If there are none here, a name has its own.
    only: Vec<SocketAddr>,
}

#[derive(Clone)]
enum Way {
    Tcp(Tcp),
    Tls(Tls),
}

impl ServerConnector {
    /// Returns the connector of this configuration; without one, connections are in the clear.
    pub(crate) fn new(tls: Option<TlsBuilder>) -> Result<Self, Failure> {
        let way = match tls {
            None => Way::Tcp(Tcp),
            Some(tls) => Way::Tls(tls.build().map_err(|failure| match failure {
                TlsFailure::NoServerName(_) => Failure::usage(failure.to_string()),
                _ => Failure::other(failure.to_string()),
            })?),
        };
        Ok(Self { way, only: Vec::new() })
    }

    pub(crate) fn is_in_the_clear(&self, connect: &str) -> bool {
        let servers = connect.parse::<ConnectString>();
        servers.is_ok_and(|servers| servers.hosts().iter().any(|host| !self.uses_tls(host)))
    }

    /// Uses only these addresses of a name, if there are any.
    pub(crate) fn at(self, only: &[SocketAddr]) -> Self {
        Self { only: only.to_vec(), ..self }
    }
}

impl Connector for ServerConnector {
    type Stream = Connection;

    fn resolve(
        &self,
        host: &Host,
    ) -> impl Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'static {
        let (Self { way, only }, host) = (self.clone(), host.clone());
        async move {
            match way {
                _ if !only.is_empty() => Ok(only),
                Way::Tcp(tcp) => tcp.resolve(&host).await,
                Way::Tls(tls) => tls.resolve(&host).await,
            }
        }
    }

    fn connect(
        &self,
        host: &Host,
    ) -> impl Future<Output = io::Result<Self::Stream>> + Send + 'static {
        let (way, host) = (self.way.clone(), host.clone());
        async move {
            Ok(match way {
                Way::Tcp(tcp) => Connection::Tcp(tcp.connect(&host).await?),
                Way::Tls(tls) => {
                    let stream = Box::new(tls.connect(&host).await?);
                    Connection::Tls(tls, stream)
                }
            })
        }
    }

    fn abandon(&self, stream: &Self::Stream) {
        match stream {
            Connection::Tcp(stream) => Tcp.abandon(stream),
            Connection::Tls(tls, stream) => tls.abandon(stream),
        }
    }

    fn local_address(&self, stream: &Self::Stream) -> Option<IpAddr> {
        match stream {
            Connection::Tcp(stream) => Tcp.local_address(stream),
            Connection::Tls(tls, stream) => tls.local_address(stream),
        }
    }

    fn peer_address(&self, stream: &Self::Stream) -> Option<IpAddr> {
        match stream {
            Connection::Tcp(stream) => Tcp.peer_address(stream),
            Connection::Tls(tls, stream) => tls.peer_address(stream),
        }
    }

    fn is_plain(&self, host: &Host) -> bool {
        match &self.way {
            Way::Tcp(tcp) => tcp.is_plain(host),
            Way::Tls(tls) => tls.is_plain(host),
        }
    }

    fn uses_tls(&self, host: &Host) -> bool {
        match &self.way {
            Way::Tcp(tcp) => tcp.uses_tls(host),
            Way::Tls(tls) => tls.uses_tls(host),
        }
    }
}

/// An open connection. A stream with TLS is beside the connector that knows its parts.
pub(crate) enum Connection {
    Tcp(<Tcp as Connector>::Stream),
    Tls(Tls, Box<<Tls as Connector>::Stream>),
}

trait Stream: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> Stream for S {}

impl Connection {
    fn stream(self: Pin<&mut Self>) -> Pin<&mut dyn Stream> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream),
            Self::Tls(_, stream) => Pin::new(stream),
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream().poll_read(context, into)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.stream().poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream().poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_write_vectored(),
            Self::Tls(_, stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(context)
    }
}
