//! How a connection is made: TCP, or whatever else carries bytes both ways.

use std::future::Future;
use std::io;
use std::net::IpAddr;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::Host;

/// Opens connections to servers.
///
/// The future is dropped when the attempt takes too long; it must then leave
/// nothing behind. Name lookup belongs in here: it happens at every attempt, so
/// that a server that moved is found again (ZOOKEEPER-2184).
pub trait Connector: Send + 'static {
    /// The connection.
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// Opens a connection to `host`.
    ///
    /// # Errors
    /// The host could not be reached; another one is tried next. The kind `NotFound`
    /// stands for a name that could not be looked up.
    fn connect(
        &self,
        host: &Host,
    ) -> impl Future<Output = io::Result<Self::Stream>> + Send + 'static;

    /// This end's address, by which other contenders for a lock know this
    /// process; `None` if the connection has none.
    fn local_address(&self, _stream: &Self::Stream) -> Option<IpAddr> {
        None
    }
}

/// Plain TCP, with `TCP_NODELAY`: a lock hand-off is all small frames.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tcp;

impl Connector for Tcp {
    type Stream = TcpStream;

    fn connect(
        &self,
        host: &Host,
    ) -> impl Future<Output = io::Result<Self::Stream>> + Send + 'static {
        let host = host.clone();
        async move {
            let addresses = tokio::net::lookup_host((host.name(), host.port()))
                .await
                .map_err(|error| io::Error::new(io::ErrorKind::NotFound, error))?;
            let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
            // A name may stand for several addresses, of which some may be dead.
            for address in addresses {
                match TcpStream::connect(address).await {
                    Ok(stream) => {
                        stream.set_nodelay(true)?;
                        return Ok(stream);
                    }
                    Err(error) => last = error,
                }
            }
            Err(last)
        }
    }

    fn local_address(&self, stream: &TcpStream) -> Option<IpAddr> {
        stream.local_addr().ok().map(|address| address.ip())
    }
}
