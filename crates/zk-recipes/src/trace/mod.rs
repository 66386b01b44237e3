//! Spans and events for `tracing`, with the feature of that name. Without it, everything here is
//! empty, and costs neither time nor memory.

#[cfg_attr(feature = "tracing", path = "on.rs")]
#[cfg_attr(not(feature = "tracing"), path = "off.rs")]
mod spans;

pub(crate) use self::spans::*;
