//! Spans and events for `tracing`, with the feature of that name. Without it, everything here is
//! empty, and costs neither time nor memory.
//!
//! Nothing here prints a credential: events contain paths, ids, reasons and times only.

#[cfg(not(feature = "tracing"))]
mod off;
#[cfg(feature = "tracing")]
mod on;

#[cfg(not(feature = "tracing"))]
pub(crate) use self::off::{RequestSpan, announce, connect, lease_ended};
#[cfg(feature = "tracing")]
pub(crate) use self::on::{RequestSpan, announce, connect, lease_ended};
