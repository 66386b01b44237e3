//! A session that several clients use at once.

use std::sync::{Arc, Mutex, PoisonError};

use zk_session::{Client, Config, Connector};

/// The session of a client, which others take over while that client still uses it. Clones share it.
#[derive(Clone, Default)]
pub struct SharedSession(Arc<Mutex<Option<Client>>>);

/// How a client uses a [`SharedSession`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It opens the session.
    Owner,
    /// It takes the session over.
    Twin,
    /// It has a session of its own.
    Other,
}

impl SharedSession {
    /// Opens a client. Returns `None` if it cannot, or is a twin and the owner has no session.
    pub fn open<C: Connector>(&self, config: Config<C>, role: Role) -> Option<Client> {
        let mut owner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let config = match role {
            Role::Twin => config.resume(owner.as_ref().and_then(Client::session_credentials)?),
            Role::Owner | Role::Other => config,
        };
        let client = config.open().ok()?;
        if role == Role::Owner {
            *owner = Some(client.weak());
        }
        Some(client)
    }
}
