//! Transport of a connection: TCP, or any other byte stream in both directions.

use std::future::{Future, pending, ready};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use futures::future::{Either, select};
use futures::stream::FuturesUnordered;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use zk_session_core::{Host, TlsFailure, Transport};

use super::lookup::lookup;
use crate::limits::HAPPY_EYEBALLS_DELAY;

/// Opens connections to servers. [`Config::connector`](crate::Config::connector) takes it.
///
/// The future is dropped when the attempt takes too long; it must then leave nothing behind.
///
/// A connector of networks with names has [`resolve`](Self::resolve), and one that wraps another
/// connector passes it on. A name may have several addresses, each of another server. The session then
/// remembers which of them are read-only, hang or refuse its credentials, and tries the others.
///
/// # TLS and SASL
/// The session speaks first, and only after the future has returned a stream. A protocol before
/// ZooKeeper's handshake, for example TLS, is a connector that wraps another connector. Inside the
/// same future, and so under the same time limit, it awaits the inner stream, does its handshake,
/// and verifies the name of the [`Host`]. It returns the wrapped stream. The crate `zk-tls` has one.
/// An error with a [`TlsFailure`] inside ends a first connect after one attempt at each server,
/// unless another attempt may succeed (`ClosedByServer`, `Other`). The driver flushes a stream with
/// a buffer after every write.
///
/// SASL comes between ZooKeeper's handshake and the first request, and is not part of a connector:
/// see [`Config::sasl`](crate::Config::sasl).
pub trait Connector: Send + 'static {
    /// The stream of a connection.
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// Returns the addresses of a host, in the order in which the system prefers them. The session calls
    /// it before every attempt, so that a server with a new address is found again (ZOOKEEPER-2184).
    ///
    /// By default there are none: [`connect`](Self::connect) gets the name alone.
    ///
    /// # Errors
    /// The kind `NotFound` means that the name could not be resolved.
    fn resolve(
        &self,
        _host: &Host,
    ) -> impl Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'static {
        ready(Ok(Vec::new()))
    }

    /// Opens a connection to the first of the [addresses](Host::addresses) of `host` that accepts one. A
    /// host without addresses was not resolved.
    ///
    /// # Errors
    /// The host cannot be reached; the session then tries another one. The kind `NotFound` means
    /// that the name could not be resolved.
    fn connect(
        &self,
        host: &Host,
    ) -> impl Future<Output = io::Result<Self::Stream>> + Send + 'static;

    /// Prepares to drop a stream on which the server has not answered. Does nothing by default.
    ///
    /// No byte that has not reached the server may reach it after the drop. An operating system repeats
    /// the last bytes of a closed connection for up to minutes, and a request to take the session over
    /// that arrives so late takes it back from another server. A connector that wraps another one
    /// passes the call on.
    fn abandon(&self, _stream: &Self::Stream) {}

    /// Returns the local address of the stream, by which other contenders for a lock identify this
    /// process. Returns `None` if the connection has no address.
    fn local_address(&self, _stream: &Self::Stream) -> Option<IpAddr> {
        None
    }

    /// Returns the address of the server. The session knows by it which server of a name it is, and
    /// Kerberos needs its canonical name. Returns `None` if the connection has no address.
    fn peer_address(&self, _stream: &Self::Stream) -> Option<IpAddr> {
        None
    }

    /// Returns true if the bytes of a stream to this host reach it unchanged; false by default.
    ///
    /// If so, and a server closes the connection without a reply, the client probes whether the
    /// server speaks TLS.
    fn is_plain(&self, _host: &Host) -> bool {
        false
    }

    /// Returns true if the connector encrypts a stream to this host; false by default.
    ///
    /// If it does so for all servers of a session, the session stays with TLS: see
    /// [`Client::update_servers`](crate::Client::update_servers). A connector around one with TLS must
    /// pass the question on, or the session accepts plain servers.
    fn uses_tls(&self, _host: &Host) -> bool {
        false
    }
}

/// Whether a session was opened over TLS, and whether its connector uses TLS by default.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TlsUse {
    is_opened_with: bool,
    is_default: bool,
}

impl TlsUse {
    pub(crate) fn of<C: Connector>(connector: &C, opened_with: &[Host]) -> Self {
        Self {
            is_opened_with: opened_with.iter().all(|host| connector.uses_tls(host)),
            is_default: connector.uses_tls(&Host::new("", 0)),
        }
    }

    /// Returns true if all servers of the session's connect string are reached with TLS.
    pub(crate) fn is_opened_with(self) -> bool {
        self.is_opened_with
    }

    /// Returns true if a server without a transport in the connect string is reached with TLS.
    pub(crate) fn is_default(self) -> bool {
        self.is_default
    }

    /// Fails with a text for people if the session would leave TLS at one of the servers.
    pub(crate) fn check(self, servers: &[Host]) -> Result<(), String> {
        let is_encrypted = |host: &Host| match host.transport() {
            Transport::Any => self.is_default,
            transport => transport == Transport::Tls,
        };
        match servers.iter().find(|host| self.is_opened_with && !is_encrypted(host)) {
            Some(host) => Err(format!("the session uses TLS, and {host} does not")),
            None => Ok(()),
        }
    }
}

/// Plain TCP, with `TCP_NODELAY` because a lock hand-off sends small frames.
///
/// Names are resolved on threads that attempts at the same name share. If a name has several addresses, each
/// has a head start of [`HAPPY_EYEBALLS_DELAY`] over the next one. The first connection wins. An address that
/// drops packets therefore delays the attempt and does not fail it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tcp;

impl Connector for Tcp {
    type Stream = TcpStream;

    fn resolve(
        &self,
        host: &Host,
    ) -> impl Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'static {
        let host = host.clone();
        async move {
            if host.transport() == Transport::Tls {
                let failure = TlsFailure::NotConfigured;
                return Err(io::Error::new(io::ErrorKind::Unsupported, failure));
            }
            lookup(host.name(), host.port()).await
        }
    }

    fn connect(
        &self,
        host: &Host,
    ) -> impl Future<Output = io::Result<Self::Stream>> + Send + 'static {
        let (addresses, resolved) = (host.addresses().to_vec(), self.resolve(host));
        async move {
            let addresses = if addresses.is_empty() { resolved.await? } else { addresses };
            let stream = race(addresses, TcpStream::connect).await?;
            stream.set_nodelay(true)?;
            Ok(stream)
        }
    }

    fn abandon(&self, stream: &TcpStream) {
        // The drop does not wait: it discards what was not sent. An error means that the connection is
        // over.
        #[allow(deprecated, reason = "its successor is newer than the oldest tokio supported")]
        let _ = stream.set_linger(Some(Duration::ZERO));
    }

    fn is_plain(&self, _host: &Host) -> bool {
        true
    }

    fn local_address(&self, stream: &TcpStream) -> Option<IpAddr> {
        stream.local_addr().ok().map(|address| address.ip())
    }

    fn peer_address(&self, stream: &TcpStream) -> Option<IpAddr> {
        stream.peer_addr().ok().map(|address| address.ip())
    }
}

/// Returns the first connection that is open; if all fail, the last error.
async fn race<S, F>(addresses: Vec<SocketAddr>, dial: impl Fn(SocketAddr) -> F) -> io::Result<S>
where
    F: Future<Output = io::Result<S>>,
{
    let mut left = addresses.into_iter();
    let mut dialled = FuturesUnordered::new();
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    loop {
        dialled.extend(left.next().map(&dial));
        if dialled.is_empty() {
            return Err(last);
        }
        let others = left.len() > 0;
        let head_start = async {
            if !others {
                return pending().await;
            }
            tokio::time::sleep(HAPPY_EYEBALLS_DELAY).await;
        };
        match select(dialled.next(), pin!(head_start)).await {
            Either::Left((Some(Ok(stream)), _)) => return Ok(stream),
            Either::Left((Some(Err(error)), _)) => last = error,
            Either::Left((None, _)) | Either::Right(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::time::Duration;

    use super::*;

    fn v4(n: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, n], 1))
    }

    #[tokio::test(start_paused = true)]
    async fn race_skips_silent_and_refusing_addresses_in_time() {
        for holes in 0..4 {
            let dialled = RefCell::new(0);
            let dial = |address: SocketAddr| {
                *dialled.borrow_mut() += 1;
                async move {
                    match address {
                        _ if address < v4(holes) => pending().await,
                        _ if address == v4(holes) => Err(io::ErrorKind::ConnectionRefused.into()),
                        _ => Ok(address),
                    }
                }
            };
            let addresses = (0..8).map(v4).collect();
            let limit = HAPPY_EYEBALLS_DELAY * u32::from(holes) + Duration::from_millis(5);
            let won = tokio::time::timeout(limit, race(addresses, dial)).await;
            assert_eq!(won.expect("in time").unwrap(), v4(holes + 1));
            assert_eq!(*dialled.borrow(), holes + 2, "the rest was not needed");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn slow_first_address_wins_if_it_connects_first() {
        let dial = |address: SocketAddr| async move {
            let takes = if address == v4(0) { 300 } else { 900 };
            tokio::time::sleep(Duration::from_millis(takes)).await;
            Ok(address)
        };
        assert_eq!(race(vec![v4(0), v4(1)], dial).await.unwrap(), v4(0));
    }

    #[tokio::test(start_paused = true)]
    async fn race_returns_last_error_if_all_addresses_fail() {
        let refuse = |_| async { Err::<(), _>(io::ErrorKind::ConnectionRefused.into()) };
        let error = race(vec![v4(0), v4(1)], refuse).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        let error = race(Vec::new(), refuse).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrNotAvailable);
    }

    /// The recipes write the local address into lock nodes; Kerberos resolves that of the server.
    #[tokio::test]
    async fn tcp_connection_has_both_addresses() -> io::Result<()> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let text = listener.local_addr()?.to_string();
        let parsed: Result<zk_session_core::ConnectString, _> = text.parse();
        let host = parsed.map_err(io::Error::other)?.hosts()[0].clone();
        let stream = Tcp.connect(&host).await?;
        let loopback = Some(IpAddr::from([127, 0, 0, 1]));
        assert_eq!((Tcp.local_address(&stream), Tcp.peer_address(&stream)), (loopback, loopback));
        Ok(())
    }
}
