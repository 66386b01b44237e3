//! Fault injection with calls that read like sentences.

mod fault_builder;
mod proxy;
mod servers;

pub use fault_builder::{Fault, FaultBuilder};
pub use proxy::{Direction, FaultProxy};
pub use servers::Connections;
