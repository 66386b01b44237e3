//! The blocking client of a session.

use std::fmt;
use std::future::Future;

use zk_session::{
    Children, Config, Connector, CreateMode, Created, DedicatedThread, Error, NodeData, SessionEnd,
    Stat,
};

/// A blocking client of a session on a dedicated thread. Cheap to clone. The session closes when
/// the last clone, lock and guard of the session is dropped.
///
/// It has the basic operations. [`block_on`](Self::block_on) calls any other operation of the
/// [async client](Self::as_async).
///
/// ```no_run
/// use zk_recipes::blocking::Client;
/// use zk_recipes::session::CreateMode;
///
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("127.0.0.1:2181")?;
/// client.create("/greeting", b"hello", CreateMode::Ephemeral)?;
/// let acl = client.block_on(client.as_async().get_acl("/greeting"))?;
/// println!("{:?}: {acl:?}", client.get_data("/greeting")?.data);
/// client.close();
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    client: zk_session::Client,
    thread: DedicatedThread,
}

impl Client {
    /// Opens a session with the default configuration and waits until it is connected.
    ///
    /// # Errors
    /// As [`Config::new`] and [`Config::connect`].
    ///
    /// # Panics
    /// Panics in a task of a runtime, as all blocking calls do.
    pub fn connect(connect_string: &str) -> Result<Self, Error> {
        Self::connect_with(Config::new(connect_string)?)
    }

    /// Opens a session with this configuration and waits until it is connected. The configuration
    /// chooses the transport; see [`Config::connector`].
    ///
    /// # Panics
    /// Panics in a task of a runtime.
    pub fn connect_with<C: Connector>(config: Config<C>) -> Result<Self, Error> {
        let (client, thread) = config.connect_blocking()?;
        Ok(Self::of(client, thread))
    }

    pub(super) fn of(client: zk_session::Client, thread: DedicatedThread) -> Self {
        Self { client, thread }
    }

    /// Returns the async client of the same session.
    #[must_use]
    pub fn as_async(&self) -> &zk_session::Client {
        &self.client
    }

    /// Runs a future to completion on the calling thread. Its timers run on the session's thread.
    ///
    /// # Panics
    /// Panics in a task of a runtime.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.thread.block_on(future)
    }

    /// Creates a node; see [`zk_session::Client::create`].
    ///
    /// # Errors
    /// The same as the async method.
    pub fn create(
        &self,
        path: &str,
        data: impl AsRef<[u8]>,
        mode: CreateMode,
    ) -> Result<Created, Error> {
        self.block_on(self.client.create(path, data, mode))
    }

    /// Reads a node; see [`zk_session::Client::get_data`].
    ///
    /// # Errors
    /// The same as the async method.
    pub fn get_data(&self, path: &str) -> Result<NodeData, Error> {
        self.block_on(self.client.get_data(path))
    }

    /// Writes a node's data; see [`zk_session::Client::set_data`].
    ///
    /// # Errors
    /// The same as the async method.
    pub fn set_data(
        &self,
        path: &str,
        data: impl AsRef<[u8]>,
        version: Option<i32>,
    ) -> Result<Stat, Error> {
        self.block_on(self.client.set_data(path, data, version))
    }

    /// Deletes a node; see [`zk_session::Client::delete`].
    ///
    /// # Errors
    /// The same as the async method.
    pub fn delete(&self, path: &str, version: Option<i32>) -> Result<(), Error> {
        self.block_on(self.client.delete(path, version))
    }

    /// Deletes a node and everything below it; see [`zk_session::Client::delete_recursive`].
    ///
    /// # Errors
    /// The same as the async method.
    pub fn delete_recursive(&self, path: &str) -> Result<(), Error> {
        self.block_on(self.client.delete_recursive(path))
    }

    /// Returns the stat of a node if it exists; see [`zk_session::Client::exists`].
    ///
    /// # Errors
    /// The same as the async method.
    pub fn exists(&self, path: &str) -> Result<Option<Stat>, Error> {
        self.block_on(self.client.exists(path))
    }

    /// Lists the children of a node; see [`zk_session::Client::get_children`].
    ///
    /// # Errors
    /// The same as the async method.
    pub fn get_children(&self, path: &str) -> Result<Children, Error> {
        self.block_on(self.client.get_children(path))
    }

    /// Blocks until the session has ended, and returns the reason.
    #[must_use]
    pub fn wait_for_end(&self) -> SessionEnd {
        self.block_on(self.client.wait_for_end())
    }

    /// Closes the session for all handles; see [`zk_session::Client::close`].
    pub fn close(&self) {
        self.block_on(self.client.close());
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Client").field(&self.client).finish()
    }
}
