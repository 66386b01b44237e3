//! One server by itself.

use std::ops::Deref;

use super::server::{Server, fresh_folder};
use super::{Distribution, Error, Settings, address};

/// A ZooKeeper server by itself, with fresh data, at an address that nobody else uses.
///
/// It is used as the [`Server`] that it is. Dropping it kills the server and removes its data.
#[derive(Debug)]
pub struct Standalone {
    server: Server,
}

impl Standalone {
    /// Starts a server with the defaults of [`Settings`] and waits until it serves.
    ///
    /// # Errors
    /// If there is no ZooKeeper, or it does not come to serve.
    pub fn start() -> Result<Self, Error> {
        Self::with(&Settings::default())
    }

    /// Returns settings to change before [`Settings::start`].
    pub fn builder() -> Settings {
        Settings::default()
    }

    pub(super) fn with(settings: &Settings) -> Result<Self, Error> {
        let distribution = Distribution::shared()?;
        let client = address::next()?;
        let folder = fresh_folder()?;
        let command = distribution.command(&folder, settings.jvm_flags());
        // Before the folder is filled, because from here on it has an owner that removes it.
        let server = Server::new(client, folder.clone(), command);
        settings.write(&folder, client, None)?;
        server.launch()?;
        server.await_serving()?;
        Ok(Self { server })
    }
}

impl Deref for Standalone {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}
