//! Connections to servers, in the clear or over TLS.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};

use tokio::net::TcpStream;
use zk_recipes::session::{ConnectString, Connector, Host, Tcp, TlsFailure};
use zk_tls::{Tls, TlsBuilder, TlsStream};

use crate::failure::{Failure, Result};

/// How servers are reached. With one type for both kinds of connections, the program has the code of a
/// session once.
#[derive(Clone)]
pub(crate) struct ServerConnector {
    /// `None` for connections in the clear.
    tls: Option<Tls>,
    /// The addresses that every name gets. If there are none here, a name has its own.
    only: Vec<SocketAddr>,
}

impl ServerConnector {
    /// Returns the connector of this configuration; without one, connections are in the clear.
    pub(crate) fn new(tls: Option<TlsBuilder>) -> Result<Self> {
        let tls = tls.map(TlsBuilder::build).transpose().map_err(|failure| match failure {
            TlsFailure::NoServerName(_) => Failure::usage(failure.to_string()),
            _ => Failure::other(failure.to_string()),
        })?;
        Ok(Self { tls, only: Vec::new() })
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
    type Stream = TlsStream<TcpStream>;

    fn resolve(
        &self,
        host: &Host,
    ) -> impl Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'static {
        let (Self { tls, only }, host) = (self.clone(), host.clone());
        async move {
            match tls {
                _ if !only.is_empty() => Ok(only),
                None => Tcp.resolve(&host).await,
                Some(tls) => tls.resolve(&host).await,
            }
        }
    }

    fn connect(
        &self,
        host: &Host,
    ) -> impl Future<Output = io::Result<Self::Stream>> + Send + 'static {
        let (tls, host) = (self.tls.clone(), host.clone());
        async move {
            match tls {
                None => Tcp.connect(&host).await.map(TlsStream::plain),
                Some(tls) => tls.connect(&host).await,
            }
        }
    }

    fn abandon(&self, stream: &Self::Stream) {
        Tcp.abandon(stream.get_ref());
    }

    fn local_address(&self, stream: &Self::Stream) -> Option<IpAddr> {
        Tcp.local_address(stream.get_ref())
    }

    fn peer_address(&self, stream: &Self::Stream) -> Option<IpAddr> {
        Tcp.peer_address(stream.get_ref())
    }

    fn is_plain(&self, host: &Host) -> bool {
        self.tls.as_ref().map_or_else(|| Tcp.is_plain(host), |tls| tls.is_plain(host))
    }

    fn uses_tls(&self, host: &Host) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.uses_tls(host))
    }
}
