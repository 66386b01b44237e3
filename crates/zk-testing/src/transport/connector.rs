//! Connector of `zk-session`'s clients to servers in memory.

use std::future::{Future, ready};
use std::io;

use zk_session::{Connector, Host};

use super::memory::MemoryStream;
use super::test_server::TestServer;

/// Connects without a socket: to the first server at the host `server-0`, to the second at
/// `server-1`, and so on. Any other host is the first server. Ports have no meaning.
impl Connector for TestServer {
    type Stream = MemoryStream;

    fn connect(
        &self,
        host: &Host,
    ) -> impl Future<Output = io::Result<MemoryStream>> + Send + 'static {
        let number = host.name().strip_prefix("server-").and_then(|digits| digits.parse().ok());
        ready(self.stream(number.unwrap_or(0)))
    }
}
