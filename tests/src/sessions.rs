//! Sessions of tests, and their state at the server.

use std::time::Duration;

use xtask::zookeeper::Server;
use zk_recipes::session::{Client, ClientInfo, Config, SessionId};

/// Opens a session with a timeout that is longer than any test takes by accident.
pub async fn open(connect_string: &str) -> Client {
    connect(connect_string, Duration::from_secs(20)).await
}

/// Opens a session with this timeout, which the server must grant.
pub async fn connect(connect_string: &str, timeout: Duration) -> Client {
    let config = Config::new(connect_string).unwrap().session_timeout(timeout);
    let client = config.connect_timeout(CONNECT_LIMIT).connect().await.unwrap();
    assert_eq!(client.session_timeout(), timeout, "the server's tick does not allow it");
    client
}

/// Returns the client's identities at its server, or `None` if the server is too old to say them.
pub async fn identities(client: &Client, server: &Server) -> Option<Vec<ClientInfo>> {
    if crate::release(server) >= WHO_AM_I { Some(client.who_am_i().await.unwrap()) } else { None }
}

/// Returns whether the server lists the session as alive.
pub fn is_listed(server: &Server, session_id: SessionId) -> bool {
    let dump = server.four_letter("dump").unwrap();
    let id = session_id.to_string();
    dump.split(|c: char| c.is_whitespace() || c == ':').any(|word| word == id)
}

/// First release with `whoAmI`.
pub const WHO_AM_I: (u32, u32) = (3, 7);

/// Long enough for a connect on a loaded machine.
const CONNECT_LIMIT: Duration = Duration::from_secs(30);
