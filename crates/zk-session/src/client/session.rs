//! The session behind a client: its state, its end and its servers; and further handles to it.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use proto::{OpCode, SessionId};
use zk_session_core::{
    ConnectString, DisconnectReason, Error, ErrorKind, Host, ServerKind, SessionCredentials,
    SessionEnd, Stats,
};

use super::{Client, EnsembleConfig};
use crate::clock::now;
use crate::driver::{DedicatedThread, Runtime, Shared};
use crate::limits::TIMEOUT_MAX;

/// # State of the session
impl Client {
    /// Returns the session id; [`SessionId::NONE`] before the first handshake.
    #[must_use]
    pub fn session_id(&self) -> SessionId {
        self.shared.lock().session_id()
    }

    /// Returns the negotiated session timeout; before the first handshake, the requested one.
    #[must_use]
    pub fn session_timeout(&self) -> Duration {
        self.shared.lock().session_timeout()
    }

    /// Returns true while the session is connected and can send requests.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.shared.lock().is_connected()
    }

    /// Returns true while the session is connected to a server without a quorum; see
    /// [`Config::allow_read_only`](crate::Config::allow_read_only).
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.shared.lock().is_read_only()
    }

    /// Returns the kind of the servers; before the first handshake, [`ServerKind::ZooKeeper`].
    #[must_use]
    pub fn server_kind(&self) -> ServerKind {
        self.shared.lock().server_kind()
    }

    /// Returns true unless it is known that the servers lack this operation. The client then sends other
    /// requests in its place ([`ServerKind`]), or fails with
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported).
    ///
    /// A [Keeper](ServerKind::Keeper) tells what it knows when the session opens. An old ZooKeeper tells it
    /// in its answer to the first such request.
    #[must_use]
    pub fn supports(&self, op: OpCode) -> bool {
        self.shared.lock().supports(op)
    }

    /// Returns why the last connection, or the last attempt at one, failed. Returns `None` while
    /// connected, and before the first failure.
    ///
    /// Events do not report failed reconnect attempts. This method returns the cause of the last one,
    /// for example an expired certificate.
    #[must_use]
    pub fn last_disconnect(&self) -> Option<DisconnectReason> {
        self.shared.lock().last_disconnect()
    }

    /// Returns a snapshot of the state of the session. [`Prometheus`](crate::Prometheus) writes it for a
    /// monitoring system.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shared.lock().stats(now())
    }

    /// Returns how many established connections were lost. The number is also in
    /// [`Stats`](crate::Stats); this method is cheaper.
    #[must_use]
    pub fn connections_lost(&self) -> u64 {
        self.shared.lock().connections_lost()
    }

    /// Returns the local address of the last connection, if it had one.
    #[must_use]
    pub fn local_address(&self) -> Option<IpAddr> {
        self.shared.local_address()
    }

    /// Returns the name that [`Config::name`](crate::Config::name) has set.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.shared.name.as_deref()
    }

    /// Returns how the session ended, or `None` if it has not ended.
    #[must_use]
    pub fn end_reason(&self) -> Option<SessionEnd> {
        self.shared.lock().end_reason()
    }
}

/// # End of the session
impl Client {
    /// Closes the session.
    ///
    /// The session's ephemeral nodes are deleted when the future completes. If no server can be
    /// reached within [`Config::close_timeout`](crate::Config::close_timeout), they stay until the
    /// server expires the session. Earlier requests are sent first. Later requests fail, on every clone.
    ///
    /// # Cancel safety
    /// The call starts to close the session, and dropping the future does not stop that.
    pub fn close(&self) -> impl Future<Output = ()> + Send + use<> {
        let ended = self.wait_for_end();
        self.shared.lock().close(now());
        self.shared.wake();
        async move {
            ended.await;
        }
    }

    /// Waits until the session has ended, and returns how it ended.
    ///
    /// The future does not keep the session open.
    ///
    /// # Cancel safety
    /// This method is cancel safe. Dropping the future has no effect.
    pub fn wait_for_end(&self) -> impl Future<Output = SessionEnd> + Send + use<> {
        let (mut events, mut lease_state) = (self.events(), self.shared.lease_state());
        async move {
            // Events wake their subscribers in order. The other channel wakes them in a random one.
            while events.next().await.is_some() {}
            let told = lease_state.wait_for(|lease_state| lease_state.ended.is_some()).await;
            // An error means that the driver was dropped, which ends the session.
            told.ok().and_then(|lease_state| lease_state.ended).unwrap_or(SessionEnd::Closed)
        }
    }

    /// Returns the credentials to resume the session with another client.
    ///
    /// Returns `None` if there is no session yet, or if it is over. The credentials are a secret.
    #[must_use]
    pub fn session_credentials(&self) -> Option<SessionCredentials> {
        self.shared.lock().credentials()
    }

    /// Ends this client but not its session, and returns the credentials to resume the session.
    ///
    /// Another client can resume the session within the session timeout; its nodes stay. Returns
    /// `None` if there is no session to resume. The example `take_over` resumes a session in
    /// another process.
    ///
    /// All handles of this client end. Requests without a reply fail as after a lost connection,
    /// and pending clean-up stops. Guards count as lost from here on, while the nodes of their
    /// locks stay. Release the locks first; otherwise the client that resumes the session must delete
    /// them.
    pub fn detach(&self) -> Option<SessionCredentials> {
        let credentials = {
            let mut session = self.shared.lock();
            session.detach(now());
            session.credentials()
        };
        self.shared.wake();
        credentials
    }
}

/// # Handles
///
/// A client, its clones, and the handles that these methods return share one session.
impl Client {
    /// Returns a handle to the same session whose requests wait at most `timeout` for their
    /// replies.
    ///
    /// The timeout replaces [`Config::request_timeout`](crate::Config::request_timeout). A request
    /// that takes longer fails with [`ErrorKind::TimedOut`](crate::ErrorKind::TimedOut). If the
    /// request was still waiting for a connection, it is withdrawn (`NotApplied`). If it was
    /// already sent, the server may still apply it (`Unknown`, for a write). The timeout does not
    /// end guaranteed work: [`delete_guaranteed`](Self::delete_guaranteed) still deletes the node,
    /// and [`add_auth`](Self::add_auth) still presents the credentials. Other requests and their
    /// order are not affected.
    ///
    /// ```no_run
    /// # async fn example(client: zk_session::Client) -> Result<(), zk_session::Error> {
    /// use std::time::Duration;
    ///
    /// let node = client.with_timeout(Duration::from_millis(500)).get_data("/config").await?;
    /// # drop(node); Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_timeout(&self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout.min(TIMEOUT_MAX)), ..self.clone() }
    }

    /// Returns a handle that does not keep the session open.
    ///
    /// The session is closed when the last other handle is dropped, and requests of this handle
    /// fail from then on. Use it in tasks that work on behalf of a handle and end after it.
    #[must_use]
    pub fn weak(&self) -> Self {
        Self { open: None, ..self.clone() }
    }

    /// Collects requests until the returned [`Batch`] is dropped, and sends them in one write.
    ///
    /// A batch saves a system call at either end. Without a batch, the requests are sent as soon as
    /// the driver runs. If the driver runs during the batch for another reason, for example a
    /// reply, it sends the requests that are there.
    ///
    /// The requests of *all* handles to the session wait for the end of the batch, therefore do not
    /// hold it across an await point. A batch cannot be sent to another thread, and a future that
    /// holds one cannot be spawned.
    ///
    /// ```compile_fail
    /// # fn example(client: zk_session::Client) {
    /// tokio::spawn(async move {
    ///     let _batch = client.batch();
    ///     client.exists("/").await
    /// });
    /// # }
    /// ```
    pub fn batch(&self) -> Batch<'_> {
        self.shared.begin_batch();
        Batch { shared: &self.shared, not_send: PhantomData }
    }

    /// Returns true if both handles belong to the same session. Their chroots may differ.
    #[must_use]
    pub fn is_same_session(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Returns the runtime of the session's driver, for tasks and timers beside the session.
    #[must_use]
    pub fn runtime(&self) -> &Runtime {
        &self.shared.runtime
    }

    /// Returns the [thread](crate::Config::dedicated_thread) that drives the session.
    ///
    /// Returns `None` if the caller's runtime drives the session, and for a [weak](Self::weak)
    /// handle.
    #[must_use]
    pub fn dedicated_thread(&self) -> Option<DedicatedThread> {
        let thread = self.open.as_ref()?.thread.as_ref()?;
        Some(DedicatedThread::new(thread.thread()))
    }
}

/// Delays requests until it is dropped; see [`Client::batch`]. Do not hold it across an await.
#[must_use = "a batch ends when it is dropped"]
pub struct Batch<'a> {
    shared: &'a Shared,
    not_send: PhantomData<*const ()>,
}

impl fmt::Debug for Batch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Batch")
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        self.shared.end_batch();
    }
}

/// # Servers
impl Client {
    /// Replaces the list of servers with the servers of a connect string.
    ///
    /// The session stays on its server, with two exceptions. It moves if its server is not in the
    /// new list. It may also move if the list has grown, to balance the load (ZOOKEEPER-1355): if
    /// all clients get the same list, the right share of them moves. A move costs the connection.
    /// Requests in flight fail with [`DisconnectReason::Rebalanced`](crate::DisconnectReason::Rebalanced);
    /// the session keeps its nodes and its watches.
    ///
    /// # Errors
    /// The connect string is invalid, or its chroot differs from the one that the session was
    /// opened with. Or the session was opened over TLS, and the connect string demands plaintext for
    /// a server with `tcp://`. The list of servers is unchanged then. A connect string without a
    /// chroot is accepted.
    pub fn update_servers(&self, connect_string: &str) -> Result<(), Error> {
        let parsed: ConnectString = connect_string.parse()?;
        self.stay_with_tls(parsed.hosts())?;
        self.replace_servers(&parsed)
    }

    /// Replaces the list of servers like [`update_servers`](Self::update_servers), also if that moves a
    /// session from TLS to plaintext. Then everybody on the way reads the session's id and password, its
    /// credentials and its data.
    ///
    /// # Errors
    /// Returns the other errors of [`update_servers`](Self::update_servers).
    pub fn update_servers_allowing_plaintext(&self, connect_string: &str) -> Result<(), Error> {
        self.replace_servers(&connect_string.parse()?)
    }

    /// Replaces the list of servers with those of the ensemble's configuration, like
    /// [`update_servers`](Self::update_servers).
    ///
    /// A session that was opened over TLS takes the servers' addresses for clients with TLS. Servers
    /// before 3.10 have none of these in their configuration. If their plain ports accept TLS too
    /// (`client.portUnification`), call `update_servers` with
    /// [`EnsembleConfig::connect_string`].
    ///
    /// # Errors
    /// No server of the configuration has an address for such a client, or the session was opened with
    /// some servers over TLS and others not. The list of servers is unchanged then.
    pub fn update_servers_from(&self, config: &EnsembleConfig) -> Result<(), Error> {
        let servers = self.servers_of(config)?;
        self.stay_with_tls(servers.hosts())?;
        self.replace_servers(&servers)
    }

    /// Returns the servers of a configuration for clients of the session's kind.
    pub(super) fn servers_of(&self, config: &EnsembleConfig) -> Result<ConnectString, Error> {
        let tls = self.shared.tls;
        let (servers, kind) = match (tls.is_opened_with(), tls.is_default()) {
            (true, _) => (config.secure_connect_string(), "with"),
            (false, false) => (config.connect_string(), "without"),
            (false, true) => {
                let why = "the session has servers with TLS and without: name them all";
                return Err(invalid(why.to_owned()));
            }
        };
        let none = || {
            invalid(format!("the ensemble's configuration has no address for clients {kind} TLS"))
        };
        servers.ok_or_else(none)?.parse()
    }

    /// Fails if the session would leave TLS at one of the servers.
    pub(super) fn stay_with_tls(&self, servers: &[Host]) -> Result<(), Error> {
        self.shared.tls.check(servers).map_err(|why| {
            invalid(format!("{why}; update_servers_allowing_plaintext accepts that"))
        })
    }

    fn replace_servers(&self, servers: &ConnectString) -> Result<(), Error> {
        if !servers.chroot().is_empty() && servers.chroot() != &*self.shared.chroot {
            return Err(invalid(format!("the chroot cannot be changed to {}", servers.chroot())));
        }
        self.replace_hosts(servers.hosts().to_vec());
        Ok(())
    }

    pub(super) fn replace_hosts(&self, hosts: Vec<Host>) {
        self.shared.lock().update_servers(now(), hosts);
        self.shared.wake();
    }
}

pub(super) fn invalid(why: String) -> Error {
    Error::not_applied(ErrorKind::InvalidConnectString(why))
}
