//! Request that lists the session's ephemeral nodes.
//!
//! ```text
//! GetEphemeralsRequest   prefixPath: ustring
//! GetEphemeralsResponse  ephemerals: vector<ustring>
//! ```

use std::borrow::Cow;

use bytes::{BufMut, BytesMut};

use crate::{
    request::{OpCode, Request},
    wire::{
        Decode, DecodeError, Encode, Reader,
        writer::{self, INT_LEN},
    },
};

/// Request to list the paths of this session's ephemeral nodes. Needs a server of 3.6.0 or newer; an older
/// one closes the connection.
///
/// The server checks no ACL. The only possible errors are those of the connection.
///
/// ```
/// use zk_proto::{GetEphemerals, Request};
///
/// let locks = GetEphemerals { prefix: "/locks/".into() };
/// assert_eq!(locks.path(), None); // a prefix, not the path of a node
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GetEphemerals<'a> {
    /// Prefix of the paths, compared as text: `/a` is a prefix of `/ab`. An empty prefix and `/` match all
    /// paths. Null reads as empty.
    pub prefix: Cow<'a, str>,
}

impl Encode for GetEphemerals<'_> {
    fn encoded_len(&self) -> usize {
        writer::text_len(&self.prefix)
    }

    fn encode(&self, out: &mut BytesMut) {
        writer::put_text(out, &self.prefix);
    }
}

impl<'a> Decode<'a> for GetEphemerals<'a> {
    const RECORD: &'static str = "GetEphemeralsRequest";

    fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { prefix: r.opt_text("prefixPath")?.unwrap_or_default() })
    }
}

impl Request for GetEphemerals<'_> {
    const OP: OpCode = OpCode::GetEphemerals;
    type Reply = EphemeralsReply;

    fn path(&self) -> Option<&str> {
        None
    }
}

/// Paths of a session's ephemeral nodes, in the order of the server's hash table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EphemeralsReply {
    /// The paths, from the root of the server's tree.
    pub paths: Vec<String>,
}

impl Encode for EphemeralsReply {
    fn encoded_len(&self) -> usize {
        INT_LEN + self.paths.iter().map(|path| writer::text_len(path)).sum::<usize>()
    }

    fn encode(&self, out: &mut BytesMut) {
        out.put_i32(writer::wire_len(self.paths.len()));
        for path in &self.paths {
            writer::put_text(out, path);
        }
    }
}

impl<'a> Decode<'a> for EphemeralsReply {
    const RECORD: &'static str = "GetEphemeralsResponse";

    fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let paths =
            r.vector("ephemerals", INT_LEN, |r| r.text("ephemerals.path").map(Cow::into_owned))?;
        Ok(Self { paths })
    }
}
