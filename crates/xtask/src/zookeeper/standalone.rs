//! Standalone server.

use std::net::SocketAddrV4;
use std::ops::Deref;

use super::server::{Server, fresh_folder};
use super::{Distribution, Error, Settings, address};

/// Standalone ZooKeeper server with fresh data, at an address that no other process uses.
///
/// It dereferences to [`Server`]. Dropping it kills the server and removes its data.
#[derive(Debug)]
pub struct Standalone {
    server: Server,
    tls: Option<SocketAddrV4>,
}

impl Standalone {
    /// Starts a server with the defaults of [`Settings`] and waits until it serves.
    ///
    /// # Errors
    /// If there is no ZooKeeper, or if the server does not serve in time.
    pub fn start() -> Result<Self, Error> {
        Self::with(&Settings::default())
    }

    /// Returns the default settings, to be changed before [`Settings::start`].
    pub fn builder() -> Settings {
        Settings::default()
    }

    /// Returns the server of a connect string `HOST:PORT/PATH` that somebody else has started. It cannot be
    /// started, paused or killed.
    ///
    /// # Errors
    /// If the host has no IPv4 address.
    pub fn existing(connect_string: &str) -> Result<Self, Error> {
        Ok(Self { server: Server::existing(connect_string)?, tls: None })
    }

    pub(super) fn with(settings: &Settings) -> Result<Self, Error> {
        let distribution = Distribution::shared()?;
        let client = address::next()?;
        let mut settings = settings.clone();
        let tls = settings.has_tls().then(address::next).transpose()?;
        if let Some(tls) = tls {
            settings = settings
                .config("secureClientPortAddress", &tls.ip().to_string())
                .config("secureClientPort", &tls.port().to_string());
        }
        let folder = fresh_folder()?;
        let command = distribution.command(&folder, &settings.jvm_flags(&folder));
        // Created before the folder's files, so that an early return removes the folder.
        let server = Server::new(client, folder.clone(), command);
        settings.write(&folder, client, None)?;
        server.launch()?;
        server.await_serving()?;
        Ok(Self { server, tls })
    }

    /// Returns the address of the port for TLS only, if the server has one.
    pub fn tls_address(&self) -> Option<SocketAddrV4> {
        self.tls
    }
}

impl Settings {
    /// Starts a standalone server.
    ///
    /// # Errors
    /// If there is no ZooKeeper, or if the server does not serve in time.
    pub fn start(&self) -> Result<Standalone, Error> {
        Standalone::with(self)
    }
}

impl Deref for Standalone {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}
