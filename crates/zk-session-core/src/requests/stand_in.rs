//! Requests that are sent in place of others, because the servers lack these.

use bytes::{Bytes, BytesMut};
use proto::Zxid;

use super::RequestId;

/// What was sent in place of a request, or may have to be.
#[derive(Debug)]
pub(crate) enum StandIn {
    /// The request itself. It is replaced if the server does not know it.
    Unproven { id: RequestId, frame: BytesMut },
    /// create, in place of a create with a Stat in its reply. `exists` follows.
    Create { is_ephemeral: bool },
    /// `exists`, for the Stat of the node that was created in this transaction. The body is the reply to
    /// that create.
    Stat { created: Bytes, zxid: Zxid, is_ephemeral: bool },
    /// A deletion of a node that never exists, in place of a transaction without operations.
    EmptyMulti,
}
