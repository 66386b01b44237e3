//! SASL authentication, step by step.
//!
//! ```text
//! GetSASLRequest   token: buffer
//! SetSASLResponse  token: buffer
//! ```
//!
//! No other request may be in flight during the exchange. It takes place after the connect exchange and
//! before all other requests. Its replies may overtake others.
//!
//! The mechanism defines the tokens. With DIGEST-MD5 the client begins with an empty token. The server
//! replies with a challenge, the client with a response, and the server with its own proof.

use std::{borrow::Cow, fmt};

use bytes::{Bytes, BytesMut};

use crate::{
    request::{OpCode, Request},
    wire::{Decode, DecodeError, DecodeErrorKind, Encode, Reader, writer},
};

/// Request with one step of a SASL exchange. Needs a server of 3.4 or newer.
///
/// The token cannot be null, because a server closes the connection for a null token. A server rejects a step
/// with [`AUTH_FAILED`](crate::ErrorCode::AUTH_FAILED). A server that requires SASL uses
/// [`SESSION_CLOSED_REQUIRE_SASL_AUTH`](crate::ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH) instead. After
/// either error the server closes the connection.
///
/// ```
/// use zk_proto::Sasl;
///
/// let step = Sasl { token: b"nonce=1"[..].into() };
/// assert!(!format!("{step:?}").contains("nonce"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Sasl<'a> {
    /// The mechanism's token; may be empty.
    pub token: Cow<'a, [u8]>,
}

impl Encode for Sasl<'_> {
    fn encoded_len(&self) -> usize {
        writer::buffer_len(Some(&self.token))
    }

    fn encode(&self, out: &mut BytesMut) {
        writer::put_buffer(out, Some(&self.token));
    }
}

impl<'a> Decode<'a> for Sasl<'a> {
    const RECORD: &'static str = "GetSASLRequest";

    fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let start = r.offset();
        match r.slice("token")? {
            Some(token) => Ok(Self { token: token.into() }),
            None => Err(r.error("token", start, DecodeErrorKind::NullBuffer)),
        }
    }
}

impl Request for Sasl<'_> {
    const OP: OpCode = OpCode::Sasl;
    type Reply = SaslReply;

    fn path(&self) -> Option<&str> {
        None
    }
}

/// Prints the length of the token only, because the token proves an identity.
impl fmt::Debug for Sasl<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sasl").field("token_len", &self.token.len()).finish_non_exhaustive()
    }
}

/// Reply of the server to one step.
#[derive(Clone, PartialEq, Eq)]
pub struct SaslReply {
    /// The mechanism's token. `None`, without an error in the header, comes from a server that has no SASL
    /// set up or continues without it. The exchange has failed then, and no further reply follows.
    pub token: Option<Bytes>,
}

impl Encode for SaslReply {
    fn encoded_len(&self) -> usize {
        writer::buffer_len(self.token.as_deref())
    }

    fn encode(&self, out: &mut BytesMut) {
        writer::put_buffer(out, self.token.as_deref());
    }
}

impl<'a> Decode<'a> for SaslReply {
    const RECORD: &'static str = "SetSASLResponse";

    fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { token: r.buffer("token")? })
    }
}

/// Prints the length of the token only.
impl fmt::Debug for SaslReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SaslReply")
            .field("token_len", &self.token.as_ref().map(Bytes::len))
            .finish_non_exhaustive()
    }
}
