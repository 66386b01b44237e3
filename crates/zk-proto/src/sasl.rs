//! Proving an identity step by step.
//!
//! ```text
//! GetSASLRequest   token: buffer
//! SetSASLResponse  token: buffer
//! ```
//!
//! Nothing else may be on the wire meanwhile: the exchange goes between the connect exchange and
//! everything else, and its replies may overtake others. What is in the tokens is the mechanism's
//! business. With DIGEST-MD5 the client begins with an empty token, the server answers with a
//! challenge, the client with a response, and the server with its own proof.

use std::{borrow::Cow, fmt};

use bytes::{Bytes, BytesMut};

use crate::{
    op::OpCode,
    request::Request,
    wire::{Decode, DecodeError, DecodeErrorKind, Encode, Reader, writer},
};

/// One step of a SASL exchange. Needs a server of 3.4 or newer.
///
/// The token cannot be null: to that a server answers by closing the connection. A refusal is the
/// error [`AUTH_FAILED`](crate::ErrorCode::AUTH_FAILED), or
/// [`SESSION_CLOSED_REQUIRE_SASL_AUTH`](crate::ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH) from a
/// server that demands the exchange, after which the server closes the connection.
///
/// ```
/// use zk_proto::Sasl;
///
/// let step = Sasl { token: b"nonce=1"[..].into() };
/// assert!(!format!("{step:?}").contains("nonce"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Sasl<'a> {
    /// What the mechanism has to say; may be empty.
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

/// Shows the length of the token alone: it proves an identity.
impl fmt::Debug for Sasl<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sasl").field("token_len", &self.token.len()).finish_non_exhaustive()
    }
}

/// The server's half of a step.
#[derive(Clone, PartialEq, Eq)]
pub struct SaslReply {
    /// What the mechanism has to say. `None`, with no error in the header, comes from a server
    /// that is not set up for SASL or goes on without it: the exchange has failed, waiting would not end.
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

/// Shows the length of the token alone.
impl fmt::Debug for SaslReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SaslReply")
            .field("token_len", &self.token.as_ref().map(Bytes::len))
            .finish_non_exhaustive()
    }
}
