//! Handle to the servers of a test.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use proto::SessionId;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

use super::memory::MemoryStream;
use super::shared::{Shared, run_timer};
use super::tcp;
use crate::server::request_log::RequestLog;
use crate::server::{Ensemble, Settings};

/// ZooKeeper server or ensemble in this process. Clones are cheap; the servers end with the last
/// handle.
///
/// Every constructor needs a tokio runtime with time enabled. Constructors that listen also need
/// I/O enabled. The servers use tokio's clock: under `tokio::time::pause`, waiting for a session to
/// expire takes no real time.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use zk_testing::TestServer;
///
/// let server = TestServer::start().await?;
/// println!("connect any client to {}", server.connect_string());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct TestServer {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    servers: usize,
    listening: Mutex<Listening>,
}

#[derive(Debug, Default)]
struct Listening {
    addresses: Vec<SocketAddr>,
    tasks: Vec<AbortHandle>,
}

impl TestServer {
    /// Starts one server, reachable in memory and over TCP on a free port of 127.0.0.1.
    ///
    /// # Errors
    ///
    /// The server cannot bind a port.
    pub async fn start() -> io::Result<Self> {
        Self::start_with(Settings::new()).await
    }

    /// Starts servers with these settings, each reachable in memory and over TCP on its own port.
    ///
    /// # Errors
    ///
    /// A server cannot bind a port.
    pub async fn start_with(settings: Settings) -> io::Result<Self> {
        let server = Self::in_memory_with(settings);
        server.listen().await?;
        Ok(server)
    }

    /// Starts one server without sockets.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::in_memory_with(Settings::new())
    }

    /// Starts an ensemble without sockets; its first server leads.
    #[must_use]
    pub fn ensemble(servers: usize) -> Self {
        Self::in_memory_with(Settings::new().servers(servers))
    }

    /// Starts servers with these settings, without sockets.
    #[must_use]
    pub fn in_memory_with(settings: Settings) -> Self {
        let shared = Shared::new(settings);
        let servers = shared.with(|ensemble, _| ensemble.servers());
        tokio::spawn(run_timer(Arc::downgrade(&shared)));
        let listening = Mutex::default();
        Self { inner: Arc::new(Inner { shared, servers, listening }) }
    }

    /// Makes every server also reachable over TCP, on free ports of 127.0.0.1.
    ///
    /// # Errors
    ///
    /// A server cannot bind a port.
    pub async fn listen(&self) -> io::Result<()> {
        for server in 0..self.inner.servers {
            self.listen_at(server, (Ipv4Addr::LOCALHOST, 0).into()).await?;
        }
        Ok(())
    }

    /// Makes one server, counted from 0, also reachable over TCP at `address`. Returns the address
    /// that the server listens on; port 0 selects a free port.
    ///
    /// # Errors
    ///
    /// The address is in use or not of this machine, or the server does not exist.
    pub async fn listen_at(&self, server: usize, address: SocketAddr) -> io::Result<SocketAddr> {
        if server >= self.inner.servers {
            let why = format!("there is no server {server}, but {}", self.inner.servers);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let shared = Arc::downgrade(&self.inner.shared);
        let task = tokio::spawn(tcp::listen(listener, server, shared));
        let mut listening = self.inner.listening();
        listening.addresses.push(address);
        listening.tasks.push(task.abort_handle());
        Ok(address)
    }

    /// Returns the connect string for clients: all TCP addresses, separated by commas. It is empty
    /// without TCP.
    #[must_use]
    pub fn connect_string(&self) -> String {
        let texts: Vec<String> = self.addresses().iter().map(SocketAddr::to_string).collect();
        texts.join(",")
    }

    /// Returns the TCP addresses in the order in which they were opened; empty without TCP.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.inner.listening().addresses.clone()
    }

    /// Connects to a server in memory, counted from 0. Returns the client's end.
    ///
    /// # Errors
    ///
    /// `ConnectionRefused` if the server refuses connections or does not exist.
    pub fn stream(&self, server: usize) -> io::Result<MemoryStream> {
        match self.inner.shared.connect(server, None) {
            Ok((id, inbox)) => Ok(MemoryStream::new(Arc::clone(&self.inner.shared), id, inbox)),
            Err(refused) => Err(io::Error::new(io::ErrorKind::ConnectionRefused, refused)),
        }
    }

    /// Returns the number of servers.
    #[must_use]
    pub fn servers(&self) -> usize {
        self.inner.servers
    }

    /// Calls `inspect` with the state of the servers: to read it, or to call methods that have no
    /// wrapper here. The servers are locked meanwhile. `inspect` must not use a handle or a stream; it
    /// would deadlock.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let server = zk_testing::TestServer::in_memory();
    /// assert!(server.with(|ensemble| ensemble.tree().contains("/zookeeper")));
    /// # }
    /// ```
    pub fn with<T>(&self, inspect: impl FnOnce(&mut Ensemble) -> T) -> T {
        self.inner.shared.with(|ensemble, _| inspect(ensemble))
    }

    /// Returns a node and everything below it as text, for the assertions of a test.
    ///
    /// Each node has a line: its path, its kind unless it is persistent, and its data unless it is empty. The
    /// lines are sorted by path. With `/`, ZooKeeper's own nodes are left out. The text is empty if the node
    /// does not exist.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use zk_session::{Config, CreateMode};
    ///
    /// let server = zk_testing::TestServer::in_memory();
    /// let client = Config::new("server-0:1")?.connector(server.clone()).connect().await?;
    /// client.create("/app", b"", CreateMode::Persistent).await?;
    /// client.create("/app/leader", b"web1", CreateMode::Ephemeral).await?;
    /// assert_eq!(server.tree("/app"), "/app\n/app/leader (ephemeral) \"web1\"\n");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn tree(&self, path: &str) -> String {
        self.with(|ensemble| ensemble.tree().text(path))
    }

    /// Logs the operations that the servers receive from a session, from now on.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use zk_session::{Config, CreateMode};
    /// use zk_testing::{Op, TestServer};
    ///
    /// let server = TestServer::in_memory();
    /// let client = Config::new("server-0:1")?.connector(server.clone()).connect().await?;
    /// let log = server.log_requests(client.session_id());
    /// client.create("/a", b"", CreateMode::Persistent).await?;
    /// assert_eq!(log.take(), [Op::Create2]);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn log_requests(&self, session_id: SessionId) -> RequestLog {
        self.with(|ensemble| ensemble.log_requests(session_id))
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.inner.shared
    }
}

impl Inner {
    fn listening(&self) -> MutexGuard<'_, Listening> {
        self.listening.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        for task in &self.listening().tasks {
            task.abort();
        }
        self.shared.shut_down();
    }
}
