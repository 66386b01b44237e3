//! A handle that outlives its sessions: when a session has expired, it opens the next one.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, OnceLock, Weak};

use futures::future::{Either, select};
use tokio::sync::{broadcast, watch};
use tokio::task::AbortHandle;
use zk_session_core::{Error, ErrorKind, SessionEnd};

use super::left_behind::Leftovers;
use super::reservation::Reservations;
use super::session_changes::{SessionChange, SessionChanges};
use super::session_opener::Opener;
use super::{Client, Config, Reservation, SessionTotals};
use crate::driver::{Connector, DedicatedThread, DriverThread};
use crate::limits::EVENTS_KEPT;

/// Holds the current session, and opens the next session when the current one has expired.
///
/// It is for services that outlive their sessions. Clone it into the state of the application, and
/// take a [`Client`] from it for each piece of work. **The next session inherits nothing**:
/// ephemeral nodes, watches, locks and the credentials of [`Client::add_auth`] belong to the client
/// that created them. A `Client` never changes its session, so a lock never moves from one session
/// into the next.
///
/// The manager opens the next session in the background. It uses the servers of the last client
/// ([`Client::update_servers`]), and everything else as in the [`Config`]. It retries a failed
/// attempt according to [`Config::next_session_policy`], by default without end. The manager stops
/// when another session would not help: the current client was closed or detached, or the server
/// rejects its credentials.
///
/// The session is closed when the last handle to the manager and the last handle to its client are
/// dropped. The manager stops when the runtime that created it shuts down. A manager in a static
/// needs a [dedicated thread](Config::dedicated_thread).
///
/// ```no_run
/// # async fn example() -> Result<(), zk_session::Error> {
/// use zk_session::{Config, CreateMode, RetryOn, SessionManager};
///
/// let sessions = SessionManager::connect(Config::new("zk1,zk2,zk3")?).await?;
/// loop {
///     let client = sessions.open_client().await?; // that of the next session after an expiry
///     match client.create("/services/this-one", b"", CreateMode::Ephemeral).await {
///         Ok(_) => println!("{}: {}", client.session_id(), client.wait_for_end().await),
///         Err(error) if error.retry_on() == RetryOn::NewSession => {}
///         Err(error) => return Err(error),
///     }
/// }
/// # }
/// ```
#[derive(Clone)]
pub struct SessionManager {
    inner: Arc<Inner>,
}

struct Inner {
    current: watch::Sender<Current>,
    changes: broadcast::Sender<SessionChange>,
    /// The task that opens the next session. It is aborted when the last handle is dropped.
    task: OnceLock<AbortHandle>,
    reservations: Arc<Reservations>,
}

/// The current session.
#[derive(Clone)]
struct Current {
    client: Client,
    /// Why the manager opens no further session.
    stopped: Option<Error>,
    /// The totals of the sessions before, and of this one once it has ended.
    totals: SessionTotals,
    has_ended: bool,
}

impl Current {
    /// Counts the end of the session, once.
    fn count_end(&mut self, cause: SessionEnd) {
        if !std::mem::replace(&mut self.has_ended, true) {
            self.totals.count_end(cause, self.client.connections_lost());
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.abort();
    }
}

impl SessionManager {
    /// Opens the first session and waits until it is open. The connector is cloned for each session.
    ///
    /// # Errors
    /// Returns the errors of [`Config::connect`]. The first session is not retried for longer than
    /// [`Config::connect_timeout`].
    ///
    /// # Cancel safety
    /// As [`Config::connect`].
    pub async fn connect<C: Connector + Clone>(config: Config<C>) -> Result<Self, Error> {
        let thread = config.thread()?;
        Self::connect_on(config, thread).await
    }

    /// Opens the first session on a [dedicated thread](Config::dedicated_thread), and blocks the
    /// caller until it is open. For programs without a runtime. The thread drives all sessions of
    /// the manager.
    ///
    /// # Errors
    /// Returns the errors of [`connect`](Self::connect).
    ///
    /// # Panics
    /// In a task, or in the `block_on` of a runtime.
    pub fn connect_blocking<C: Connector + Clone>(
        config: Config<C>,
    ) -> Result<(Self, DedicatedThread), Error> {
        let thread = DriverThread::start().map_err(Error::no_thread)?;
        let manager = thread.block_on(Self::connect_on(config, Some(thread.clone())))?;
        Ok((manager, DedicatedThread::new(&thread)))
    }

    /// Starts to open the first session, and returns at once: for a service that may start while no
    /// server can be reached. The connector is cloned for each session.
    ///
    /// The manager opens the first session like every other one, with the retries of
    /// [`Config::next_session_policy`]. [`changes`](Self::changes) reports the failed attempts, and the
    /// session when it is open. [`open_client`](Self::open_client) waits for it, and so do the recipes that
    /// take a manager. Until then, each request of [`client`](Self::client) fails with
    /// [`SessionEnd::NotOpened`], and its `is_connected` is false.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), zk_session::Error> {
    /// use zk_session::{Config, SessionManager};
    ///
    /// let sessions = SessionManager::start(Config::new("zk1:2181,zk2:2181,zk3:2181")?)?;
    /// let client = sessions.open_client().await?; // waits for the first session
    /// # drop(client); Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// * [`ErrorKind::NoThread`] if the [dedicated thread](Config::dedicated_thread) cannot be started.
    /// * [`ErrorKind::LeaseImpossible`] if the requested session timeout does not fit the
    ///   [assumptions](Config::lease_assumptions) of the lease.
    ///
    /// Rejected credentials stop the manager later.
    ///
    /// # Panics
    /// Outside of a tokio runtime, unless the sessions have a dedicated thread.
    pub fn start<C: Connector + Clone>(config: Config<C>) -> Result<Self, Error> {
        let thread = config.thread()?;
        Self::start_on(config, thread)
    }

    /// Starts to open the first session on a [dedicated thread](Config::dedicated_thread), and returns at
    /// once; see [`start`](Self::start). For programs without a runtime.
    ///
    /// # Errors
    /// Returns the errors of [`start`](Self::start).
    pub fn start_blocking<C: Connector + Clone>(
        config: Config<C>,
    ) -> Result<(Self, DedicatedThread), Error> {
        let thread = DriverThread::start().map_err(Error::no_thread)?;
        let manager = Self::start_on(config, Some(thread.clone()))?;
        Ok((manager, DedicatedThread::new(&thread)))
    }

    fn start_on<C: Connector + Clone>(
        config: Config<C>,
        thread: Option<Arc<DriverThread>>,
    ) -> Result<Self, Error> {
        config.check_lease()?;
        let client = config.clone().unopened(thread.as_ref());
        Ok(Self::run(client, Opener::of_first(config, thread)))
    }

    async fn connect_on<C: Connector + Clone>(
        config: Config<C>,
        thread: Option<Arc<DriverThread>>,
    ) -> Result<Self, Error> {
        let client = config.clone().connect_on(thread.clone()).await?;
        Ok(Self::run(client, Opener::new(config, thread)))
    }

    /// Starts the task that opens the session after that of `client`.
    fn run<C: Connector + Clone>(client: Client, opener: Opener<C>) -> Self {
        let thread = opener.thread.clone();
        let opened = u64::from(opener.opened);
        let inner = Arc::new(Inner {
            current: watch::Sender::new(Current {
                client,
                stopped: None,
                totals: SessionTotals { opened, ..SessionTotals::default() },
                has_ended: opened == 0,
            }),
            changes: broadcast::Sender::new(EVENTS_KEPT),
            task: OnceLock::new(),
            reservations: Arc::default(),
        });
        let task = renew(StopOnDrop(Arc::downgrade(&inner)), opener);
        let task = match thread {
            Some(thread) => thread.spawn(task),
            None => tokio::spawn(task).abort_handle(),
        };
        drop(inner.task.set(task));
        Self { inner }
    }

    /// Returns the client of the current session, which may have ended, or not be open yet
    /// ([`SessionEnd::NotOpened`]).
    #[must_use]
    pub fn client(&self) -> Client {
        self.inner.current.borrow().client.clone()
    }

    /// Returns the client of the current session; if that has ended or is not open yet, waits for the next
    /// one.
    ///
    /// The session may be disconnected when this returns.
    ///
    /// # Errors
    /// [`ErrorKind::ManagerStopped`], with the reason; see [`SessionChange::Stopped`].
    ///
    /// # Cancel safety
    /// This method is cancel safe. Dropping the future has no effect.
    pub fn open_client(&self) -> impl Future<Output = Result<Client, Error>> + Send + use<> {
        let mut current = self.inner.current.subscribe();
        async move {
            // A closing session rejects every request.
            let is_open = |client: &Client| client.shared.lock().end_begun().is_none();
            let is_final =
                |current: &Current| is_open(&current.client) || current.stopped.is_some();
            match current.wait_for(is_final).await.as_deref() {
                Ok(Current { stopped: Some(error), .. }) => Err(stopped(error.clone())),
                Ok(Current { client, .. }) => Ok(client.clone()),
                // The last handle was dropped.
                Err(_) => Err(stopped(SessionEnd::Closed.into())),
            }
        }
    }

    /// Subscribes to the changes of the manager. Earlier changes are not delivered, except that the
    /// manager has stopped.
    #[must_use]
    pub fn changes(&self) -> SessionChanges {
        let receiver = self.inner.changes.subscribe();
        let stopped = self.inner.current.borrow().stopped.clone();
        SessionChanges::new(receiver, stopped)
    }

    /// Returns the totals over all sessions so far. [`Prometheus`](crate::Prometheus) writes them for a
    /// monitoring system.
    #[must_use]
    pub fn totals(&self) -> SessionTotals {
        let current = self.inner.current.borrow();
        let mut totals = current.totals;
        if !current.has_ended {
            totals.connections_lost += current.client.connections_lost();
        }
        totals
    }

    /// Waits until no other user of this manager has the name, in the order of the calls. Sends no
    /// request: other processes and other managers do not see it.
    ///
    /// It is for recipes that recognise a node by the session that owns it. Two of them must not use one
    /// path on the same session, because they would take the other's node for their own.
    ///
    /// The reservation outlives sessions. It does not keep the manager alive.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the line.
    pub fn reserve(&self, name: &str) -> impl Future<Output = Reservation> + Send + use<> {
        Arc::clone(&self.inner.reservations).reserve(name.to_owned())
    }

    /// Closes the current session, for all handles, and opens no further one; see
    /// [`Client::close`].
    ///
    /// # Cancel safety
    /// The call starts to close the session, and dropping the future does not stop that.
    pub fn close(&self) -> impl Future<Output = ()> + Send + use<> {
        self.inner.abort();
        self.inner.stop(SessionEnd::Closed.into());
        self.client().close()
    }
}

impl fmt::Debug for SessionManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionManager").field("client", &self.client()).finish_non_exhaustive()
    }
}

impl Inner {
    fn abort(&self) {
        if let Some(task) = self.task.get() {
            task.abort();
        }
    }

    fn announce(&self, change: SessionChange) {
        drop(self.changes.send(change)); // an error means that there is no subscriber
    }

    fn count_failure(&self) {
        self.count(|current| current.totals.failed_attempts += 1);
    }

    /// Changes the totals, which wakes nobody.
    fn count(&self, change: impl FnOnce(&mut Current)) {
        self.current.send_if_modified(|current| {
            change(current);
            false
        });
    }

    fn stop(&self, error: Error) {
        let is_first = self.current.send_if_modified(|current| {
            // The task that counts the ends may be aborted before it does.
            let cause = current.client.end_reason().unwrap_or(SessionEnd::Closed);
            current.count_end(cause);
            current.stopped.is_none() && current.stopped.replace(error.clone()).is_none()
        });
        if is_first {
            self.announce(SessionChange::Stopped(error));
        }
    }
}

fn stopped(error: Error) -> Error {
    Error::not_applied(ErrorKind::ManagerStopped(error))
}

/// Opens one session after the other. It upgrades the weak reference only briefly, so that dropping
/// the last handle ends the manager.
async fn renew<C: Connector + Clone>(stops: StopOnDrop, mut opener: Opener<C>) {
    let manager = &stops.0;
    let left = Arc::new(Leftovers::default());
    loop {
        let Some(last) = manager.upgrade().map(|inner| inner.current.borrow().client.weak()) else {
            return;
        };
        left.inherit_from(&last);
        let deleting = pin!(left.delete_with(&last));
        let cause = match select(pin!(last.wait_for_end()), deleting).await {
            Either::Left((cause, _)) => cause,
            Either::Right((never, _)) => match never {},
        };
        left.take_from(&last);
        let Some(inner) = manager.upgrade() else { return };
        inner.count(|current| current.count_end(cause));
        if cause != SessionEnd::NotOpened {
            inner.announce(SessionChange::Ended { session_id: last.session_id(), cause });
        }
        if !cause.is_loss() {
            return inner.stop(cause.into());
        }
        drop(inner);
        let report = |failed| {
            manager.upgrade().is_some_and(|inner| {
                inner.count_failure();
                inner.announce(failed);
                true
            })
        };
        let opened = opener.open(&last, report).await;
        let Some(inner) = manager.upgrade() else { return };
        match opened {
            Ok(client) => {
                let (previous_id, session_id) = (last.session_id(), client.session_id());
                let is_wanted = inner.current.send_if_modified(|current| {
                    let is_wanted = current.stopped.is_none();
                    if is_wanted {
                        current.client = client;
                        current.has_ended = false;
                        current.totals.opened += 1;
                    }
                    is_wanted
                });
                if !is_wanted {
                    return; // it was closed meanwhile
                }
                inner.announce(SessionChange::Opened { previous_id, session_id });
            }
            Err(error) => {
                inner.count_failure();
                return inner.stop(error);
            }
        }
    }
}

/// Stops the manager when its task is dropped. A runtime that shuts down drops it, perhaps before
/// its first poll.
struct StopOnDrop(Weak<Inner>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        if let Some(inner) = self.0.upgrade() {
            inner.stop(SessionEnd::Closed.into());
        }
    }
}
