//! All limits of this crate, each with its reason.

use std::time::Duration;

/// Errors after which a [`Provider`](crate::Provider) does not return an instance for a time, as in
/// Curator. A single failed request is often an accident.
pub const DOWN_ERRORS: u32 = 2;

/// Largest number of errors that [`Provider::with_down_after`](crate::Provider::with_down_after)
/// counts. The time of each one is kept, in 16 bytes.
pub const DOWN_ERRORS_MAX: u32 = 1_000;

/// Time in which the errors of an instance are counted, as in Curator. It is about as long as a
/// service needs to restart.
pub const DOWN_TIME: Duration = Duration::from_secs(30);

/// Characters of a rejected JSON value in an error message: enough to recognise it in a log.
pub const VALUE_SHOWN_MAX: usize = 64;

/// First pause before a request is repeated. It doubles each time. It is long against a round trip.
pub const RETRY_FIRST: Duration = Duration::from_millis(50);

/// Longest pause before a request is repeated: short against a session timeout.
pub const RETRY_MAX: Duration = Duration::from_secs(1);

/// Characters of a parser's message about JSON that are kept. A service keeps one for each node that
/// it cannot read.
pub const MESSAGE_LEN_MAX: usize = 160;

/// Parts of a URI pattern that are read from the data of a node. A pattern has about ten. Each part
/// may repeat a field of the instance, which may have a megabyte.
pub const URI_PARTS_MAX: usize = 128;
