//! Request numbers: a client numbers its requests, and the server repeats the number in the reply.
//!
//! Ordinary requests count up from [`FIRST`]. A few fixed numbers mark frames that belong to no ordinary
//! request.
//!
//! ```
//! use zk_proto::xid;
//!
//! assert_eq!(xid::next(1), 2);
//! assert_eq!(xid::next(i32::MAX - 1), xid::FIRST);
//! ```

/// Watch notification. Only servers send it; its body is a [`WatcherEvent`](crate::WatcherEvent).
pub const NOTIFICATION: i32 = -1;
/// Ping. The server replies with this number whatever number the ping has.
pub const PING: i32 = -2;
/// Auth packet. The server returns the request's number; the Java and C clients use this one.
pub const AUTH: i32 = -4;
/// setWatches request of the C client. The server returns the request's number.
pub const SET_WATCHES: i32 = -8;
/// First ordinary number of a connection.
pub const FIRST: i32 = 1;
/// Last ordinary number before the count restarts, as in the Java client.
///
/// The Java client never uses `i32::MAX`, and its count never reaches the fixed numbers below zero
/// (ZOOKEEPER-3253).
pub const LAST: i32 = i32::MAX - 1;

/// Returns the ordinary number after `xid`. Returns [`FIRST`] after [`LAST`], and after any number that is
/// not ordinary.
#[must_use]
pub const fn next(xid: i32) -> i32 {
    if xid >= FIRST && xid < LAST { xid + 1 } else { FIRST }
}
