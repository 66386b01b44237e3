//! Connections to servers, in the clear or over TLS.

use std::future::Future;
use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use zk_recipes::session::{Connector, Host, Tcp, TlsFailure};
use zk_tls::{Tls, TlsBuilder};

use crate::failure::Failure;

/// How servers are reached. With one type for both kinds of connections, the program has the code of a
/// session once.
#[derive(Clone)]
pub(crate) enum ServerConnector {
    Tcp(Tcp),
    Tls(Tls),
}

impl ServerConnector {
    /// Returns the connector of this configuration; without one, connections are in the clear.
    pub(crate) fn new(tls: Option<TlsBuilder>) -> Result<Self, Failure> {
        let Some(tls) = tls else { return Ok(Self::Tcp(Tcp)) };
        tls.build().map(Self::Tls).map_err(|failure| match failure {
            TlsFailure::NoServerName(_) => Failure::usage(failure.to_string()),
            _ => Failure::other(failure.to_string()),
        })
    }
}

impl Connector for ServerConnector {
    type Stream = Connection;

    fn connect(
        &self,
        host: &Host,
    ) -> impl Future<Output = io::Result<Self::Stream>> + Send + 'static {
        let opening: Opening = match self.clone() {
            Self::Tcp(tcp) => Box::pin(open(tcp, host.clone())),
            Self::Tls(tls) => Box::pin(open(tls, host.clone())),
        };
        opening
    }

    fn local_address(&self, stream: &Self::Stream) -> Option<IpAddr> {
        stream.local
    }

    fn peer_address(&self, stream: &Self::Stream) -> Option<IpAddr> {
        stream.peer
    }

    fn is_plain(&self, host: &Host) -> bool {
        match self {
            Self::Tcp(tcp) => tcp.is_plain(host),
            Self::Tls(tls) => tls.is_plain(host),
        }
    }

    fn uses_tls(&self, host: &Host) -> bool {
        match self {
            Self::Tcp(tcp) => tcp.uses_tls(host),
            Self::Tls(tls) => tls.uses_tls(host),
        }
    }
}

type Opening = Pin<Box<dyn Future<Output = io::Result<Connection>> + Send>>;

async fn open<C: Connector>(connector: C, host: Host) -> io::Result<Connection> {
    let stream = connector.connect(&host).await?;
    let local = connector.local_address(&stream);
    let peer = connector.peer_address(&stream);
    Ok(Connection { stream: Box::new(stream), local, peer })
}

/// An open connection.
pub(crate) struct Connection {
    stream: Box<dyn Stream>,
    local: Option<IpAddr>,
    peer: Option<IpAddr>,
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
