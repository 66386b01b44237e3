//! Spans and events for `tracing`, with the feature of that name. Without it, everything here is
//! empty, and costs neither time nor memory.

#[cfg(not(feature = "tracing"))]
mod off;
#[cfg(feature = "tracing")]
mod on;

#[cfg(not(feature = "tracing"))]
pub(crate) use self::off::{AcquireSpan, HoldSpan, IS_ON, node_deleted};
#[cfg(feature = "tracing")]
pub(crate) use self::on::{AcquireSpan, HoldSpan, IS_ON, node_deleted};
