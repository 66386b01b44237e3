//! Requests about the session itself: ping and closeSession.
//!
//! Requests and replies have no body, only a header.
//!
//! ```
//! use zk_proto::{CloseSession, OpCode, Ping, Request, request_frame_len};
//!
//! assert_eq!(Ping::OP, OpCode::Ping);
//! assert_eq!(request_frame_len(&CloseSession), 8); // nothing but the header
//! ```

use bytes::BytesMut;

use crate::{
    request::{OpCode, Request},
    wire::{Decode, DecodeError, Encode, Reader},
};

/// Request that keeps the session alive. Send it with [`xid::PING`](crate::xid::PING).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ping;

impl Encode for Ping {
    fn encoded_len(&self) -> usize {
        0
    }

    fn encode(&self, _out: &mut BytesMut) {}
}

impl<'a> Decode<'a> for Ping {
    const RECORD: &'static str = "ping";

    fn decode(_r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self)
    }
}

impl Request for Ping {
    const OP: OpCode = OpCode::Ping;
    type Reply = ();

    fn path(&self) -> Option<&str> {
        None
    }
}

/// Request to close the session, which deletes its ephemeral nodes. The server closes the connection after
/// its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CloseSession;

impl Encode for CloseSession {
    fn encoded_len(&self) -> usize {
        0
    }

    fn encode(&self, _out: &mut BytesMut) {}
}

impl<'a> Decode<'a> for CloseSession {
    const RECORD: &'static str = "closeSession";

    fn decode(_r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self)
    }
}

impl Request for CloseSession {
    const OP: OpCode = OpCode::CloseSession;
    type Reply = ();

    fn path(&self) -> Option<&str> {
        None
    }
}
