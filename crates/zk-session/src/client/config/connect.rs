//! Ways to open a session.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use futures::future::select;
use tokio::runtime::Handle;
use zk_session_core::{DisconnectReason, Error, ErrorKind, IoFailure, LeaseImpossible, Operation};

use super::super::Pending;
use super::super::server_list::ask;
use super::{Client, Config, Credential};
use crate::clock::now;
use crate::driver::{
    Connector, DedicatedThread, Driver, DriverThread, SessionThread, Shared, TlsUse,
};
use crate::entropy::entropy;
use crate::trace;

impl<C: Connector> Config<C> {
    /// Opens a session and waits until it is open.
    ///
    /// # Errors
    /// * [`ErrorKind::NoSession`], if no server opens a session in time. The error names the most
    ///   specific cause: a rejected certificate is reported before an unreachable server. If no
    ///   server [is a ZooKeeper server](crate::DisconnectReason::NotZooKeeper), or [SASL
    ///   fails](crate::DisconnectReason::Sasl) at each, it is returned at once.
    /// * [`ErrorKind::SessionEnded`] if a server rejects the credentials or requires other ones, or
    ///   the session to [resume](Self::resume) is over.
    /// * [`ErrorKind::TooLarge`] or [`ErrorKind::LimitReached`] if the credentials cannot be
    ///   presented.
    /// * [`ErrorKind::LeaseImpossible`] if the requested or negotiated session timeout does not fit
    ///   the [assumptions](Self::lease_assumptions) of the lease.
    /// * [`ErrorKind::NoThread`] if the [dedicated thread](Self::dedicated_thread) cannot be
    ///   started.
    /// * With [`create_chroot`](Self::create_chroot), those of
    ///   [`ensure_path`](Client::ensure_path).
    ///
    /// # Cancel safety
    /// Dropping the future closes a session that was opened meanwhile. A session to be
    /// [resumed](Self::resume) is not closed, and the caller may try again.
    pub async fn connect(self) -> Result<Client, Error> {
        let thread = self.thread()?;
        self.connect_on(thread).await
    }

    /// Opens a session on a [dedicated thread](Self::dedicated_thread), and blocks the caller until
    /// it is open. For programs without a runtime.
    ///
    /// # Errors
    /// Returns the errors of [`connect`](Self::connect).
    ///
    /// # Panics
    /// In a task, or in the `block_on` of a runtime: use [`connect`](Self::connect) there.
    pub fn connect_blocking(self) -> Result<(Client, DedicatedThread), Error> {
        let thread = DriverThread::start().map_err(Error::no_thread)?;
        let client = thread.block_on(self.connect_on(Some(thread.clone())))?;
        Ok((client, DedicatedThread::new(&thread)))
    }

    pub(crate) async fn connect_on(
        mut self,
        thread: Option<Arc<DriverThread>>,
    ) -> Result<Client, Error> {
        let list_failure = self.ask_for_servers().await;
        let servers = self.servers();
        trace::connect(&servers, self.attempt(thread, &servers, list_failure)).await
    }

    /// Takes the servers of the list, if there is one. Returns why that failed.
    async fn ask_for_servers(&mut self) -> Option<IoFailure> {
        let list = self.upkeep.list.clone()?;
        let began = now();
        let asked = ask(&*list, self.tls(), self.connect_timeout / 2).await;
        self.connect_timeout = self.connect_timeout.saturating_sub(now() - began);
        match asked {
            Ok(servers) => {
                self.settings.hosts = servers;
                None
            }
            Err(failure) => Some(failure),
        }
    }

    fn tls(&self) -> TlsUse {
        TlsUse::of(&self.connector, self.connect_string.hosts())
    }

    async fn attempt(
        self,
        thread: Option<Arc<DriverThread>>,
        servers: &str,
        list_failure: Option<IoFailure>,
    ) -> Result<Client, Error> {
        let (timeout, resumes) = (self.connect_timeout, self.settings.resume.is_some());
        self.check_lease()?;
        let creates_chroot = self.creates_chroot && !self.connect_string.chroot().is_empty();
        let (client, presented) = self.start(thread.as_ref());
        if let Some(failure) = list_failure {
            client.shared.lock().handle_server_list_failed(failure);
        }
        let failed = |kind| Error::not_applied(kind).on(Operation::Connect, servers);
        let attempt = resumes.then(|| TakingOver(&client));
        let mut events = client.events();
        let connected = async {
            // An event before the subscription is not received, but the state of the core shows it.
            while !client.shared.lock().is_established() {
                if let Some(end) = client.end_reason() {
                    return Err(failed(ErrorKind::SessionEnded(end)));
                }
                events.next().await;
            }
            match client.shared.lock().lease_impossible() {
                // The caller wants the session, although it can hold no lock.
                None | Some(LeaseImpossible::UnknownTimeouts) => {}
                Some(why) => return Err(failed(ErrorKind::LeaseImpossible(why))),
            }
            for answer in presented {
                match answer.await.map_err(|error| error.kind().clone()) {
                    Err(kind) if leaves_it_unauthenticated(&kind) => return Err(failed(kind)),
                    _ => {}
                }
            }
            if creates_chroot {
                client.create_chroot().await?;
            }
            Ok(())
        };
        let refused = async { Err(failed(ErrorKind::NoSession(client.shared.refused().await))) };
        let outcome = async { select(pin!(connected), pin!(refused)).await.factor_first().0 };
        let error = match tokio::time::timeout(timeout, outcome).await {
            Ok(Ok(())) => {
                std::mem::forget(attempt);
                return Ok(client);
            }
            Ok(Err(error)) => error,
            Err(_) => {
                let cause = client.shared.lock().connect_failure();
                failed(ErrorKind::NoSession(cause.unwrap_or(DisconnectReason::IdleTimeout)))
            }
        };
        drop(attempt);
        Err(error)
    }

    /// Checks that a lease is possible with the session timeout.
    pub(crate) fn check_lease(&self) -> Result<(), Error> {
        let checked = self.settings.lease_assumptions.times(self.settings.session_timeout);
        checked.map(drop).map_err(|why| {
            let kind = ErrorKind::LeaseImpossible(why);
            Error::not_applied(kind).on(Operation::Connect, self.servers())
        })
    }

    fn servers(&self) -> String {
        let servers: Vec<String> = self.settings.hosts.iter().map(ToString::to_string).collect();
        servers.join(",")
    }

    /// Starts to open a session and returns at once. Requests wait in the client until it is open, for
    /// the [`connect_timeout`](Self::connect_timeout) at most if they have no other time limit.
    ///
    /// # Errors
    /// [`ErrorKind::NoThread`] if the [dedicated thread](Self::dedicated_thread) cannot be started.
    ///
    /// # Panics
    /// Outside of a tokio runtime, unless the session has a dedicated thread.
    pub fn open(mut self) -> Result<Client, Error> {
        let thread = self.thread()?;
        self.upkeep.asks_at_once = true;
        // Rejected credentials end the session. Only `connect` reports credentials that cannot be
        // presented.
        Ok(self.start(thread.as_ref()).0)
    }

    /// Starts to open a session, and returns its driver as a future for the caller to run;
    /// otherwise like [`open`](Self::open).
    ///
    /// The driver moves the bytes. The caller can run it on another runtime, at another priority,
    /// or, in a simulation, not at all for a while. It completes when the session has ended.
    /// Dropping it ends the client. It needs tokio's clock.
    pub fn into_parts(mut self) -> (Client, impl Future<Output = ()> + Send + 'static) {
        self.upkeep.asks_at_once = true;
        let (driver, shared, credentials) = self.prepare();
        (client(shared, None, credentials).0, driver)
    }

    /// Returns a client that has ended, because no session has been opened yet. Tasks beside it run where
    /// those beside the first session will.
    pub(crate) fn unopened(self, thread: Option<&Arc<DriverThread>>) -> Client {
        let (driver, shared, _) = self.prepare();
        shared.runtime.init(|| runtime_of(thread));
        shared.lock().never_open();
        drop(driver);
        Client::new(shared, None)
    }

    /// Starts to open a session that the thread drives, or else the caller's runtime. Also returns
    /// the replies to the credentials.
    fn start(self, thread: Option<&Arc<DriverThread>>) -> (Client, Vec<Pending<()>>) {
        let (driver, shared, credentials) = self.prepare();
        let driver = driver.closing_on_drop();
        shared.runtime.init(|| runtime_of(thread));
        let thread = match thread {
            Some(thread) => Some(thread.drive(driver)),
            None => {
                tokio::spawn(driver);
                None
            }
        };
        client(shared, thread, credentials)
    }

    fn prepare(mut self) -> (Driver<C>, Arc<Shared>, Vec<Credential>) {
        self.settings.seed = self.seed.unwrap_or_else(entropy);
        self.settings.unopened_timeout = Some(self.connect_timeout);
        let tls = self.tls();
        let shared = Shared::new(self.settings, self.connect_string.chroot(), self.name, tls);
        let beside = self.upkeep.of(|| Client::new_weak(shared.clone()));
        let driver = Driver::new(shared.clone(), self.connector, self.sasl, beside);
        (driver, shared, self.credentials)
    }
}

/// # Connecting
impl Client {
    /// Opens a session with the default settings; see [`Config`] for all settings.
    ///
    /// # Errors
    /// Returns the errors of [`Config::new`] and [`Config::connect`].
    pub async fn connect(connect_string: &str) -> Result<Self, Error> {
        Config::new(connect_string)?.connect().await
    }
}

/// Returns a handle to the session, and the replies to its credentials.
fn client(
    shared: Arc<Shared>,
    thread: Option<SessionThread>,
    credentials: Vec<Credential>,
) -> (Client, Vec<Pending<()>>) {
    let client = Client::new(shared, thread);
    let present = |Credential(scheme, auth)| client.add_auth(&scheme, auth);
    let answers = credentials.into_iter().map(present).collect();
    (client, answers)
}

/// Returns the runtime of a session: that of its thread, or else the caller's.
fn runtime_of(thread: Option<&Arc<DriverThread>>) -> Handle {
    thread.map_or_else(Handle::current, |thread| thread.runtime().clone())
}

/// Attempt to resume an existing session. Dropping it detaches the client, so that a failed or
/// cancelled attempt does not close the session with its nodes and locks.
struct TakingOver<'a>(&'a Client);

impl Drop for TakingOver<'_> {
    fn drop(&mut self) {
        self.0.detach();
    }
}

/// Returns true for errors that leave the session without the credentials. After any other error
/// the session is as usable as before.
pub(crate) fn leaves_it_unauthenticated(kind: &ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::SessionEnded(_) | ErrorKind::TooLarge { .. } | ErrorKind::LimitReached(_)
    )
}
