//! A sequence of sessions, for programs without async.

use zk_session::{Config, Connector, DedicatedThread, Error};

use super::client::Client;

/// The blocking form of [`zk_session::SessionManager`]. It holds the current session, and opens the
/// next one on its own thread after an expiry.
///
/// ```no_run
/// use zk_recipes::blocking::{Mutex, SessionManager};
/// use zk_recipes::session::{Config, RetryOn};
///
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let sessions = SessionManager::connect(Config::new("zk1:2181,zk2:2181,zk3:2181")?)?;
/// loop {
///     let client = sessions.open_client()?; // waits for the next session after an expiry
///     match Mutex::new(&client, "/locks/stock")?.acquire() {
///         Ok(guard) => println!("writing with token {}", guard.token()?),
///         Err(error) if error.retry_on() != RetryOn::Never => {}
///         Err(error) => return Err(error.into()),
///     }
/// }
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SessionManager {
    manager: zk_session::SessionManager,
    thread: DedicatedThread,
}

impl SessionManager {
    /// Opens the first session and waits until it is connected.
    ///
    /// # Panics
    /// Panics in a task of a runtime, as all blocking calls do.
    pub fn connect<C: Connector + Clone>(config: Config<C>) -> Result<Self, Error> {
        let (manager, thread) = zk_session::SessionManager::connect_blocking(config)?;
        Ok(Self { manager, thread })
    }

    /// Starts to open the first session, and returns at once; see
    /// [`zk_session::SessionManager::start`].
    pub fn start<C: Connector + Clone>(config: Config<C>) -> Result<Self, Error> {
        let (manager, thread) = zk_session::SessionManager::start_blocking(config)?;
        Ok(Self { manager, thread })
    }

    /// Returns the async manager of the same sessions.
    #[must_use]
    pub fn as_async(&self) -> &zk_session::SessionManager {
        &self.manager
    }

    /// Returns the client of the current session, which may have ended.
    #[must_use]
    pub fn client(&self) -> Client {
        Client::of(self.manager.client(), self.thread.clone())
    }

    /// Returns the client of the current session. If that session has ended, waits for the next
    /// one.
    ///
    /// # Panics
    /// Panics in a task of a runtime.
    pub fn open_client(&self) -> Result<Client, Error> {
        let client = self.thread.block_on(self.manager.open_client())?;
        Ok(Client::of(client, self.thread.clone()))
    }

    /// Runs a future to completion on the calling thread, for example
    /// [`run_whenever_held`](crate::run_whenever_held). Its timers run on the session's thread.
    ///
    /// # Panics
    /// Panics in a task of a runtime.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.thread.block_on(future)
    }

    /// Closes the current session for all handles, and opens no further session.
    pub fn close(&self) {
        self.thread.block_on(self.manager.close());
    }
}
