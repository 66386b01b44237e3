//! Barriers: Curator's `DistributedBarrier` and `DistributedDoubleBarrier`, on the same nodes.

mod double;
mod entered;
mod entering;
mod error;
mod generation;
mod member_node;
mod single;

pub use double::DoubleBarrier;
pub use entered::Entered;
pub use error::BarrierError;
pub use single::Barrier;
