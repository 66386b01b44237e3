//! Whether the server of this connection has the watches on a path.

use proto::Zxid;

/// Whether the server of this connection has the watches on a path, which it fires when the node
/// changes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum AtServer {
    #[default]
    Set,
    /// The request with this xid sets them. It fires those whose node has changed since a transaction.
    Asked { since: Zxid, xid: i32 },
    /// The next connection begins with such a request.
    Missing { since: Zxid },
}

impl AtServer {
    /// Returns the state once a request is to set the watches from this transaction on: the one with
    /// this xid, or the first one of the next connection.
    pub(super) fn asked(
        self,
        since: Zxid,
        xid: Option<i32>,
        is_in_flight: impl Fn(i32) -> bool,
    ) -> Self {
        let since = match self {
            Self::Missing { since: earlier } => earlier.min(since),
            // This request fails if the connection is lost now.
            Self::Asked { since: earlier, xid } if is_in_flight(xid) => earlier.min(since),
            Self::Set | Self::Asked { .. } => since,
        };
        xid.map_or(Self::Missing { since }, |xid| Self::Asked { since, xid })
    }

    /// Returns the state once the connection is lost, on which the session has received all events up
    /// to `events_zxid`.
    pub(super) fn lost(self, events_zxid: Zxid, is_in_flight: impl Fn(i32) -> bool) -> Self {
        match self {
            Self::Missing { .. } => self,
            Self::Asked { since, xid } if is_in_flight(xid) => Self::Missing { since },
            Self::Set | Self::Asked { .. } => Self::Missing { since: events_zxid },
        }
    }
}
