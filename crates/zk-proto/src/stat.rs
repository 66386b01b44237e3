//! Metadata of a node.
//!
//! ```text
//! Stat  czxid, mzxid, ctime, mtime: long, version, cversion, aversion: int,
//!       ephemeralOwner: long, dataLength, numChildren: int, pzxid: long
//! ```

use bytes::{BufMut, BytesMut};

use crate::{
    ids::{SessionId, Zxid},
    wire::{
        Decode, DecodeError, Encode, Reader,
        writer::{INT_LEN, LONG_LEN},
    },
};

/// Metadata of a node.
///
/// ```
/// use zk_proto::{SessionId, Stat};
///
/// let stat = Stat { ephemeral_owner: SessionId(0x100_0000_0001), ..Stat::default() };
/// assert!(stat.is_ephemeral());
/// assert!(format!("{stat:?}").contains("ephemeral_owner: 0x10000000001"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stat {
    /// The zxid of the transaction that created the node.
    pub czxid: Zxid,
    /// The zxid of the transaction that last set the node's data.
    pub mzxid: Zxid,
    /// Time of creation, in milliseconds since 1970 by the server's clock.
    pub ctime_ms: i64,
    /// Time at which the node's data was last set, in milliseconds since 1970 by the server's clock.
    pub mtime_ms: i64,
    /// Number of times the node's data was set; wraps around.
    pub version: i32,
    /// Number of changes to the list of the node's children; wraps around.
    pub cversion: i32,
    /// Number of times the node's ACL was set; wraps around.
    pub aversion: i32,
    /// The session that owns an ephemeral node. It is [`SessionId::NONE`] for all other nodes, including
    /// containers and nodes with a time to live.
    pub ephemeral_owner: SessionId,
    /// Length of the node's data in bytes.
    pub data_length: i32,
    /// Number of the node's children.
    pub num_children: i32,
    /// The zxid of the transaction that last changed the list of the node's children.
    pub pzxid: Zxid,
}

impl Stat {
    /// Length on the wire, in bytes.
    pub const LEN: usize = 6 * LONG_LEN + 5 * INT_LEN;

    /// Returns whether the node is ephemeral.
    #[must_use]
    pub const fn is_ephemeral(&self) -> bool {
        self.ephemeral_owner.0 != 0
    }
}

impl Encode for Stat {
    fn encoded_len(&self) -> usize {
        Self::LEN
    }

    fn encode(&self, out: &mut BytesMut) {
        // One write into `out` checks its room once.
        let mut record = [0; Self::LEN];
        self.put(&mut record[..]);
        out.put_slice(&record);
    }
}

impl Stat {
    fn put(&self, mut out: impl BufMut) {
        out.put_i64(self.czxid.0);
        out.put_i64(self.mzxid.0);
        out.put_i64(self.ctime_ms);
        out.put_i64(self.mtime_ms);
        out.put_i32(self.version);
        out.put_i32(self.cversion);
        out.put_i32(self.aversion);
        out.put_i64(self.ephemeral_owner.0);
        out.put_i32(self.data_length);
        out.put_i32(self.num_children);
        out.put_i64(self.pzxid.0);
    }
}

impl<'a> Decode<'a> for Stat {
    const RECORD: &'static str = "Stat";

    fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            czxid: Zxid(r.i64("stat.czxid")?),
            mzxid: Zxid(r.i64("stat.mzxid")?),
            ctime_ms: r.i64("stat.ctime")?,
            mtime_ms: r.i64("stat.mtime")?,
            version: r.i32("stat.version")?,
            cversion: r.i32("stat.cversion")?,
            aversion: r.i32("stat.aversion")?,
            ephemeral_owner: SessionId(r.i64("stat.ephemeralOwner")?),
            data_length: r.i32("stat.dataLength")?,
            num_children: r.i32("stat.numChildren")?,
            pzxid: Zxid(r.i64("stat.pzxid")?),
        })
    }
}
