//! Faults on the bytes between any client and any server.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use crate::limits::{ACCEPT_PAUSE, READ_LEN};
use crate::server::Cut;

/// TCP proxy in front of a server that can delay, split and break the byte stream.
///
/// Clones are cheap. The proxy and its connections end with its last handle.
///
/// ```no_run
/// # async fn example() -> std::io::Result<()> {
/// use zk_testing::{Cut, Direction, FaultProxy};
///
/// let proxy = FaultProxy::in_front_of(([127, 0, 0, 1], 2181).into()).await?;
/// println!("connect to {}", proxy.address());
/// proxy.cut_after(Direction::ToClient, 45, Cut::Rst);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct FaultProxy {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    address: SocketAddr,
    plan: Arc<Plan>,
    listening: AbortHandle,
}

/// Direction of bytes through the proxy.
// Closed: a connection has two directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Client to server: requests.
    ToServer,
    /// Server to client: replies and notifications.
    ToClient,
}

/// Faults that apply to the bytes of all connections.
#[derive(Debug)]
struct Plan {
    to_server: Mutex<DirectionFaults>,
    to_client: Mutex<DirectionFaults>,
    connections: watch::Sender<ConnectionFaults>,
    /// Order to break all open connections. Each send is a new order.
    breaking: watch::Sender<Option<Cut>>,
}

/// Faults that apply to bytes in one direction.
#[derive(Clone, Copy, Debug, Default)]
struct DirectionFaults {
    cut: Option<(usize, Cut)>,
    delay: Duration,
    gather: Duration,
    piece_len: Option<usize>,
}

#[derive(Clone, Copy, Debug, Default)]
struct ConnectionFaults {
    is_stalled: bool,
    refuses: bool,
}

impl FaultProxy {
    /// Starts a proxy on a free port of 127.0.0.1 that forwards every connection to `server`.
    ///
    /// # Errors
    ///
    /// The proxy cannot bind a port.
    pub async fn in_front_of(server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let plan = Arc::new(Plan {
            to_server: Mutex::default(),
            to_client: Mutex::default(),
            connections: watch::Sender::new(ConnectionFaults::default()),
            breaking: watch::Sender::new(None),
        });
        let listening = tokio::spawn(listen(listener, server, Arc::clone(&plan))).abort_handle();
        Ok(Self { inner: Arc::new(Inner { address, plan, listening }) })
    }

    /// Returns the address that the proxy listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.inner.address
    }

    /// Breaks a connection right after the `bytes`-th byte from now in this direction. The bytes of
    /// all connections count; the connection that passes the last one breaks towards both ends.
    pub fn cut_after(&self, direction: Direction, bytes: usize, how: Cut) {
        self.faults(direction).cut = Some((bytes, how));
    }

    /// Delays bytes in this direction by `by`.
    pub fn delay(&self, direction: Direction, by: Duration) {
        self.faults(direction).delay = by;
    }

    /// Forwards bytes in pieces of at most `piece_len`.
    pub fn split(&self, direction: Direction, piece_len: usize) {
        self.faults(direction).piece_len = Some(piece_len.max(1));
    }

    /// Collects bytes for `within` and forwards them together.
    pub fn coalesce(&self, direction: Direction, within: Duration) {
        self.faults(direction).gather = within;
    }

    /// Stops forwarding in both directions and keeps the received bytes.
    pub fn stall(&self) {
        self.inner.plan.connections.send_modify(|connections| connections.is_stalled = true);
    }

    /// Forwards the bytes kept since [`stall`](Self::stall) and continues.
    pub fn resume(&self) {
        self.inner.plan.connections.send_modify(|connections| connections.is_stalled = false);
    }

    /// Resets every new connection as soon as it is accepted.
    pub fn refuse_connects(&self) {
        self.inner.plan.connections.send_modify(|connections| connections.refuses = true);
    }

    /// Accepts connections again.
    pub fn accept_connects(&self) {
        self.inner.plan.connections.send_modify(|connections| connections.refuses = false);
    }

    /// Breaks all open connections.
    pub fn cut_all(&self, how: Cut) {
        self.inner.plan.breaking.send_replace(Some(how));
    }

    /// Removes all faults: delays, splitting, collecting, stalls, refusals and pending cuts.
    pub fn heal(&self) {
        *self.faults(Direction::ToServer) = DirectionFaults::default();
        *self.faults(Direction::ToClient) = DirectionFaults::default();
        self.inner.plan.connections.send_replace(ConnectionFaults::default());
    }

    fn faults(&self, direction: Direction) -> MutexGuard<'_, DirectionFaults> {
        self.inner.plan.faults(direction)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The connections are tasks owned by the listener's task and end with it.
        self.listening.abort();
    }
}

impl Plan {
    fn faults(&self, direction: Direction) -> MutexGuard<'_, DirectionFaults> {
        let faults = match direction {
            Direction::ToServer => &self.to_server,
            Direction::ToClient => &self.to_client,
        };
        faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how many of `len` bytes may pass and how the connection breaks after them.
    fn take(&self, direction: Direction, len: usize) -> (usize, Option<Cut>) {
        let mut faults = self.faults(direction);
        match faults.cut {
            Some((left, how)) if left <= len => {
                faults.cut = None;
                (left, Some(how))
            }
            Some((left, how)) => {
                faults.cut = Some((left - len, how));
                (len, None)
            }
            None => (len, None),
        }
    }

    async fn wait_while_stalled(&self) {
        // `self` owns the sender, so the wait cannot fail.
        let _ = self.connections.subscribe().wait_for(|connections| !connections.is_stalled).await;
    }
}

async fn listen(listener: TcpListener, server: SocketAddr, plan: Arc<Plan>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((client, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        while connections.try_join_next().is_some() {}
        if plan.connections.borrow().refuses {
            let _ = client.set_zero_linger();
            continue;
        }
        connections.spawn(connect(client, server, Arc::clone(&plan)));
    }
}

async fn connect(client: TcpStream, server: SocketAddr, plan: Arc<Plan>) {
    // Subscribe first: an order to break during the connect must not be missed.
    let breaking = plan.breaking.subscribe();
    let Ok(server) = TcpStream::connect(server).await else {
        let _ = client.set_zero_linger();
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (client, server) = (Arc::new(client), Arc::new(server));
    let mut tasks = JoinSet::new();
    let (from, to) = (Arc::clone(&client), Arc::clone(&server));
    tasks.spawn(pump(from, to, Direction::ToServer, Arc::clone(&plan)));
    let (from, to) = (Arc::clone(&server), Arc::clone(&client));
    tasks.spawn(pump(from, to, Direction::ToClient, Arc::clone(&plan)));
    tasks.spawn(ordered_to_break(breaking));
    let how = tasks.join_next().await;
    tasks.shutdown().await;
    match how {
        Some(Ok(Cut::Silence)) => {
            // Both sockets stay open and unread until the proxy ends.
            std::future::pending::<()>().await;
        }
        Some(Ok(Cut::Rst)) => {
            let _ = (client.set_zero_linger(), server.set_zero_linger());
        }
        _ => {}
    }
}

async fn ordered_to_break(mut breaking: watch::Receiver<Option<Cut>>) -> Cut {
    match breaking.changed().await {
        Ok(()) => breaking.borrow_and_update().unwrap_or(Cut::Fin),
        Err(_) => Cut::Fin,
    }
}

/// Forwards bytes until the connection ends. Returns how it ends.
async fn pump(
    from: Arc<TcpStream>,
    to: Arc<TcpStream>,
    direction: Direction,
    plan: Arc<Plan>,
) -> Cut {
    let mut bytes = vec![0; READ_LEN];
    loop {
        let Ok(mut len) = read(&from, &mut bytes).await else { return Cut::Rst };
        let faults = *plan.faults(direction);
        if len > 0 && !faults.gather.is_zero() {
            tokio::time::sleep(faults.gather).await;
            // Take only the bytes that have already arrived. The next read finds the end of the
            // stream.
            len += from.try_read(&mut bytes[len..]).unwrap_or(0);
        }
        tokio::time::sleep(faults.delay).await;
        plan.wait_while_stalled().await;
        if len == 0 {
            return Cut::Fin;
        }
        let (passed, cut) = plan.take(direction, len);
        for piece in bytes[..passed].chunks(faults.piece_len.unwrap_or(READ_LEN)) {
            if write(&to, piece).await.is_err() {
                return Cut::Rst;
            }
            if faults.piece_len.is_some() {
                // Yield, so that the other end can read the pieces one by one.
                tokio::task::yield_now().await;
            }
        }
        if let Some(how) = cut {
            return how;
        }
    }
}

async fn read(from: &TcpStream, bytes: &mut [u8]) -> io::Result<usize> {
    loop {
        from.readable().await?;
        match from.try_read(bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            result => return result,
        }
    }
}

async fn write(to: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        to.writable().await?;
        match to.try_write(bytes) {
            Ok(len) => bytes = &bytes[len..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
