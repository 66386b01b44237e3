//! Request that lists the identities of the connection.
//!
//! ```text
//! whoAmI          no body
//! WhoAmIResponse  clientInfo: vector<ClientInfo>
//! ClientInfo      authScheme: ustring, user: ustring
//! ```
//!
//! ```
//! use bytes::BytesMut;
//! use zk_proto::{ClientInfo, Decode, Encode, WhoAmIReply};
//!
//! let me = ClientInfo { scheme: "ip".into(), user: "127.0.0.1".into() };
//! let mut out = BytesMut::new();
//! WhoAmIReply { identities: vec![me] }.encode(&mut out);
//! assert_eq!(WhoAmIReply::from_frame(&out.freeze())?.identities[0].user, "127.0.0.1");
//! # Ok::<(), zk_proto::DecodeError>(())
//! ```

use bytes::BytesMut;

use crate::{
    request::{OpCode, Request},
    wire::{
        Decode, DecodeError, Encode, Reader,
        writer::{self, INT_LEN},
    },
};

/// Request to list the identities of the connection. Needs a server of 3.7.0 or newer; an older one closes
/// the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WhoAmI;

impl Encode for WhoAmI {
    fn encoded_len(&self) -> usize {
        0
    }

    fn encode(&self, _out: &mut BytesMut) {}
}

impl<'a> Decode<'a> for WhoAmI {
    const RECORD: &'static str = "whoAmI";

    fn decode(_r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self)
    }
}

impl Request for WhoAmI {
    const OP: OpCode = OpCode::WhoAmI;
    type Reply = WhoAmIReply;

    fn path(&self) -> Option<&str> {
        None
    }
}

/// Identities of a connection, unordered: always its address, and all authenticated identities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WhoAmIReply {
    /// The identities.
    pub identities: Vec<ClientInfo>,
}

impl Encode for WhoAmIReply {
    fn encoded_len(&self) -> usize {
        writer::vector_len(&self.identities)
    }

    fn encode(&self, out: &mut BytesMut) {
        writer::put_vector(out, &self.identities);
    }
}

impl<'a> Decode<'a> for WhoAmIReply {
    const RECORD: &'static str = "WhoAmIResponse";

    fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { identities: r.vector("clientInfo", ClientInfo::LEN_MIN, ClientInfo::decode)? })
    }
}

/// Identity of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ClientInfo {
    /// The authentication scheme: `ip`, `digest`, `sasl`, `x509` or `super`.
    pub scheme: String,
    /// The user; for a digest only the name, without the hash. Null reads as empty.
    pub user: String,
}

impl ClientInfo {
    /// Length of the shortest identity on the wire, in bytes: both strings empty.
    pub const LEN_MIN: usize = 2 * INT_LEN;
}

impl Encode for ClientInfo {
    fn encoded_len(&self) -> usize {
        writer::java_text_len(&self.scheme) + writer::java_text_len(&self.user)
    }

    fn encode(&self, out: &mut BytesMut) {
        writer::put_java_text(out, &self.scheme);
        writer::put_java_text(out, &self.user);
    }
}

impl<'a> Decode<'a> for ClientInfo {
    const RECORD: &'static str = "ClientInfo";

    fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            scheme: r.text("clientInfo.authScheme")?.into_owned(),
            user: r.opt_text("clientInfo.user")?.unwrap_or_default().into_owned(),
        })
    }
}
