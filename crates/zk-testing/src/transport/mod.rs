//! Transports of the [`Ensemble`](crate::server::Ensemble): in memory and over TCP.

mod connector;
mod inbox;
mod memory;
mod shared;
mod tcp;
mod test_server;

pub use memory::MemoryStream;
pub use test_server::TestServer;
