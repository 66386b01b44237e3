//! Request numbers: what a client puts on a request and finds on its reply.
//!
//! Ordinary requests count up from [`FIRST`]; a few fixed numbers below zero mark replies that
//! belong to no ordinary request.
//!
//! ```
//! use zk_proto::xid;
//!
//! assert_eq!(xid::next(1), 2);
//! assert_eq!(xid::next(i32::MAX - 1), xid::FIRST);
//! ```

/// A watch notification; sent by servers only, its body is a [`WatcherEvent`](crate::WatcherEvent).
pub const NOTIFICATION: i32 = -1;
/// A ping. The server answers with this number whatever the ping carried.
pub const PING: i32 = -2;
/// An auth packet. The server echoes what it gets; the Java and C clients use this number.
pub const AUTH: i32 = -4;
/// A setWatches, as the C client numbers it. The server echoes what it gets.
pub const SET_WATCHES: i32 = -8;
/// The first ordinary number of a connection.
pub const FIRST: i32 = 1;
/// The last ordinary number before the count starts over, the same as in the Java client: it never
/// uses `i32::MAX` nor lets the count run into the fixed numbers below zero (ZOOKEEPER-3253).
pub const LAST: i32 = i32::MAX - 1;

/// The ordinary number after `xid`; [`FIRST`] after [`LAST`], and after anything that is not an
/// ordinary number.
#[must_use]
pub const fn next(xid: i32) -> i32 {
    if xid >= FIRST && xid < LAST { xid + 1 } else { FIRST }
}
