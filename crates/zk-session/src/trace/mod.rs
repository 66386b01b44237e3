//! Spans and events for `tracing`, with the feature of that name. Without it, everything here is
//! empty, and costs neither time nor memory.
//!
//! Nothing here prints a credential: events contain paths, ids, reasons and times only.

#[cfg_attr(feature = "tracing", path = "on.rs")]
#[cfg_attr(not(feature = "tracing"), path = "off.rs")]
mod tracing_or_not;

pub(crate) use self::tracing_or_not::*;
