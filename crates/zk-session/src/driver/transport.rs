//! How a connection is made: TCP, or whatever else carries bytes both ways.

use std::future::{Future, pending};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;

use futures::StreamExt;
use futures::future::{Either, select};
use futures::stream::FuturesUnordered;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::Host;
use crate::limits::{ADDRESS_HEAD_START, ADDRESSES_MAX};

/// Opens connections to servers.
///
/// The future is dropped when the attempt takes too long; it must then leave
/// nothing behind. Name lookup belongs in here: it happens at every attempt, so
/// that a server that moved is found again (ZOOKEEPER-2184).
///
/// # TLS and SASL
/// The session speaks first, and only when the future has given a stream. So what has to
/// be agreed before ZooKeeper's own handshake, as TLS has, is a connector that wraps
/// another one: it awaits the inner stream, does its handshake inside the same future,
/// under the same time limit, verifies the name that [`Host`] has, and gives out the
/// wrapped stream. A stream that buffers is flushed after every write. What comes after
/// ZooKeeper's handshake and before any request, as SASL does, is not a connector's
/// business but a state of the session between `Handshaking` and `Up`, in which only its
/// own packets are written; requests wait in the queue meanwhile, as they do without a
/// connection.
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

    /// Whether the bytes of a stream reach the server as they are, so that a server which closes the
    /// connection without a word can be asked whether it speaks TLS; false by default.
    fn is_plain(&self) -> bool {
        false
    }
}

/// Plain TCP, with `TCP_NODELAY`: a lock hand-off is all small frames.
///
/// The name is looked up at every attempt. Of several addresses each gets a head start
/// of [`ADDRESS_HEAD_START`] over the next, IPv6 and IPv4 in turn, and the first
/// connection wins: an address behind which packets vanish costs a moment, not the
/// attempt.
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
            let found = tokio::net::lookup_host((host.name(), host.port()))
                .await
                .map_err(|error| io::Error::new(io::ErrorKind::NotFound, error))?;
            let stream = race(in_turn(found.collect()), TcpStream::connect).await?;
            stream.set_nodelay(true)?;
            Ok(stream)
        }
    }

    fn is_plain(&self) -> bool {
        true
    }

    fn local_address(&self, stream: &TcpStream) -> Option<IpAddr> {
        stream.local_addr().ok().map(|address| address.ip())
    }
}

/// The order in which addresses are tried: drawn anew each time, so that a thousand
/// clients do not all go to the first, but the families take turns, and the one that
/// the system prefers begins.
fn in_turn(found: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let v6_first = found.first().is_some_and(SocketAddr::is_ipv6);
    let order = RandomState::new();
    let (mut first, mut second): (Vec<SocketAddr>, Vec<SocketAddr>) =
        found.into_iter().partition(|address| address.is_ipv6() == v6_first);
    for family in [&mut first, &mut second] {
        family.sort_by_key(|address| order.hash_one(address));
        family.dedup();
    }
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    let mut addresses = Vec::new();
    while addresses.len() < ADDRESSES_MAX && first.len() + second.len() > 0 {
        addresses.extend(first.next());
        addresses.extend(second.next());
    }
    addresses.truncate(ADDRESSES_MAX);
    addresses
}

/// The first connection that is there; of those that fail the last error.
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
            match others {
                true => tokio::time::sleep(ADDRESS_HEAD_START).await,
                false => pending().await,
            }
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

    fn v6(n: u16) -> SocketAddr {
        SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, n], 1))
    }

    #[tokio::test(start_paused = true)]
    async fn a_black_hole_costs_a_moment_and_a_refusal_nothing() {
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
            let limit = ADDRESS_HEAD_START * u32::from(holes) + Duration::from_millis(5);
            let won = tokio::time::timeout(limit, race(addresses, dial)).await;
            assert_eq!(won.expect("in time").unwrap(), v4(holes + 1));
            assert_eq!(*dialled.borrow(), holes + 2, "the rest was not needed");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_first_address_may_still_win() {
        let dial = |address: SocketAddr| async move {
            let takes = if address == v4(0) { 300 } else { 900 };
            tokio::time::sleep(Duration::from_millis(takes)).await;
            Ok(address)
        };
        assert_eq!(race(vec![v4(0), v4(1)], dial).await.unwrap(), v4(0));
    }

    #[tokio::test(start_paused = true)]
    async fn when_all_fail_the_last_error_is_told() {
        let refuse = |_| async { Err::<(), _>(io::ErrorKind::ConnectionRefused.into()) };
        let error = race(vec![v4(0), v4(1)], refuse).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        let error = race(Vec::new(), refuse).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrNotAvailable);
    }

    #[test]
    fn families_take_turns_in_an_order_that_is_drawn() {
        let found: Vec<SocketAddr> = (0..6).map(v6).chain((0..2).map(v4)).chain([v4(0)]).collect();
        let orders: Vec<Vec<SocketAddr>> = (0..20).map(|_| in_turn(found.clone())).collect();
        for order in &orders {
            let v6: Vec<bool> = order.iter().map(SocketAddr::is_ipv6).collect();
            assert_eq!(v6, [true, false, true, false, true, true, true, true]);
        }
        assert!(orders.iter().any(|order| *order != orders[0]));
        assert_eq!(in_turn((0..50).map(v4).collect()).len(), ADDRESSES_MAX);
    }
}
