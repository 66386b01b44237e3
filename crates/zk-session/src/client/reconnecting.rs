//! A new session after the old one is over, for those who ask for it.

use std::fmt;

use super::{Client, Config};
use crate::SessionEnd;
use crate::driver::{Connector, Tcp};
use crate::error::{Error, ErrorKind};

/// Gives out a [`Client`], and a new one when its session has expired.
///
/// A [`Client`] never does so by itself: a session that is silently replaced takes the
/// locks along that it held. Here it is asked for, and told: [`renewed`](Self::renewed)
/// waits for the end of the session, opens the next one, and gives both ids. **Nothing is
/// inherited**: not ephemeral nodes, not watches, not locks and the guards on them, which
/// belong to the client they were made with and stay lost, nor what
/// [`add_auth`](Client::add_auth) has presented. Make anew what is needed. What the
/// [`Config`] says holds for every session, but for the servers: the next session is looked
/// for at those that the one before had last, by
/// [`update_servers`](Client::update_servers).
///
/// Nothing runs in the background: without a call of `renewed` there is no new session.
///
/// ```no_run
/// # async fn example() -> Result<(), zk_session::Error> {
/// use zk_session::{Config, CreateMode, Reconnecting};
///
/// let mut sessions = Reconnecting::connect(Config::new("zk1,zk2,zk3")?).await?;
/// loop {
///     let client = sessions.client();
///     client.create("/services/this-one", b"", CreateMode::Ephemeral).await?;
///     let renewal = sessions.renewed().await?;
///     println!("{:#x} is over, now it is {:#x}", renewal.old_id, renewal.new_id);
/// }
/// # }
/// ```
pub struct Reconnecting<C: Connector + Clone = Tcp> {
    config: Config,
    connector: C,
    client: Client,
    sessions: u32,
}

/// One session has taken the place of another. `Debug` prints ids in hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Renewal {
    /// The id of the session that is over.
    pub old_id: i64,
    /// The id of the new one; 0 if it has none yet, with a server that is read-only, as far
    /// as [`Config::allow_read_only`] allows for one.
    pub new_id: i64,
    /// How the old one ended.
    pub cause: SessionEnd,
}

impl Reconnecting<Tcp> {
    /// Opens the first session, over TCP.
    ///
    /// # Errors
    /// As [`Config::connect`].
    pub async fn connect(config: Config) -> Result<Self, Error> {
        Self::connect_through(config, Tcp).await
    }
}

impl<C: Connector + Clone> Reconnecting<C> {
    /// As [`connect`](Reconnecting::connect), over connections of the caller's making.
    ///
    /// # Errors
    /// As [`Config::connect`].
    pub async fn connect_through(config: Config, connector: C) -> Result<Self, Error> {
        let client = config.clone().connect_through(connector.clone()).await?;
        // The next session is a new one.
        let config = config.without_session();
        Ok(Self { config, connector, client, sessions: 1 })
    }

    /// The client of the current session, which may be over.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Waits until the session has expired, then opens the next one.
    ///
    /// # Errors
    /// [`ErrorKind::SessionEnded`] if the session did not expire: the client was closed or
    /// detached, or its credentials are not accepted, and no new session would help. As
    /// [`Config::connect`] if there is no new session: [`client`](Self::client) is still the
    /// old one then, and a new call tries again.
    ///
    /// # Cancel safety
    /// Dropping the future closes a session that is being made; nothing else is lost.
    pub async fn renewed(&mut self) -> Result<Renewal, Error> {
        let cause = self.ended().await;
        if !cause.is_expiry() {
            return Err(Error::not_applied(ErrorKind::SessionEnded(cause)));
        }
        let servers = self.client.shared().lock().servers();
        let config = self.config.clone().reseeded(self.sessions).at(servers);
        let client = config.connect_through(self.connector.clone()).await?;
        self.sessions = self.sessions.wrapping_add(1);
        let old = std::mem::replace(&mut self.client, client);
        let (old_id, new_id) = (old.session_id(), self.client.session_id());
        Ok(Renewal { old_id, new_id, cause })
    }

    async fn ended(&self) -> SessionEnd {
        let mut events = self.client.events();
        loop {
            if let Some(end) = self.client.ended() {
                return end;
            }
            if events.next().await.is_none() {
                // The last event came before the subscription, or the driver is gone.
                return self.client.ended().unwrap_or(SessionEnd::Closed);
            }
        }
    }
}

impl fmt::Debug for Renewal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Renewal")
            .field("old_id", &format_args!("{:#x}", self.old_id))
            .field("new_id", &format_args!("{:#x}", self.new_id))
            .field("cause", &self.cause)
            .finish()
    }
}

impl<C: Connector + Clone> fmt::Debug for Reconnecting<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reconnecting").field("client", &self.client).finish_non_exhaustive()
    }
}
