//! Transports of the [`Ensemble`](crate::server::Ensemble): in memory and over TCP.

mod connector;
mod inbox;
mod memory;
mod shared;
mod tcp;
mod test_server;
#[cfg(feature = "tls")]
mod tls_port;

#[cfg(feature = "tls")]
pub use self::tls_port::{TlsPort, TlsSettings};
pub use memory::MemoryStream;
pub use test_server::TestServer;
