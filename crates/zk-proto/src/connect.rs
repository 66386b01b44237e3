//! Connect exchange: the first frame in each direction, without headers.
//!
//! ```text
//! ConnectRequest   protocolVersion: int, lastZxidSeen: long, timeOut: int, sessionId: long,
//!                  passwd: buffer [, readOnly: boolean]
//! ConnectResponse  protocolVersion: int, timeOut: int, sessionId: long, passwd: buffer
//!                  [, readOnly: boolean]
//! ```
//!
//! The last byte exists since 3.4; a server omits it if the client does. A server that does not serve the
//! client sends no response and closes the connection. One kind of read-only server sends a bare reply header
//! before it closes ([`ConnectReply::Refused`]).
//!
//! ```
//! use bytes::{Bytes, BytesMut};
//! use zk_proto::{ConnectReply, ConnectResponse, Encode, SessionId};
//!
//! let response = ConnectResponse {
//!     protocol_version: 0,
//!     timeout_ms: 0,
//!     session_id: SessionId::NONE,
//!     password: Bytes::from_static(&[0; 16]),
//!     read_only: Some(false),
//! };
//! let mut out = BytesMut::new();
//! response.encode(&mut out);
//! assert_eq!(ConnectReply::parse(&out.freeze())?, ConnectReply::Rejected { read_only: Some(false) });
//! # Ok::<(), zk_proto::DecodeError>(())
//! ```

use std::fmt;

use bytes::Bytes;

use crate::{
    code::ErrorCode,
    frame::ReplyHeader,
    ids::{SessionId, Zxid},
    record::{NullAsEmpty, forms, record},
    wire::{
        Decode, DecodeError,
        writer::{self, BOOL_LEN},
    },
};

/// Length of a session's password. The request for a new session has this many zero bytes.
pub const PASSWORD_LEN: usize = 16;

record! {
    /// Request to open a new session, or to resume an existing one.
    ///
    /// The client must not send anything else before the response. The server closes the connection right
    /// after a rejection. Unread bytes would turn that close into a reset, which could drop the rejection
    /// (ZOOKEEPER-1702).
    #[derive(Clone, PartialEq, Eq)]
    pub struct ConnectRequest as "ConnectRequest" {
        /// Always 0.
        pub protocol_version: i32 as "protocolVersion",
        /// The highest zxid seen in replies of this session, [`Zxid::ZERO`] at first. A server that is behind
        /// it closes the connection without a response. A client therefore never sees an older state.
        pub last_zxid_seen: Zxid as "lastZxidSeen",
        /// The requested session timeout, in milliseconds. A reconnect also sends the requested timeout, not
        /// the negotiated one.
        pub timeout_ms: i32 as "timeOut",
        /// The session to resume; [`SessionId::NONE`] for a new one.
        pub session_id: SessionId as "sessionId",
        /// The session's password; [`PASSWORD_LEN`] zero bytes for a new session. Null reads as empty.
        pub password: Bytes as "passwd" by NullAsEmpty,
        /// Whether a read-only server is acceptable. `None` omits the byte, as clients before 3.4 do; the
        /// server then omits it from its response.
        pub read_only: Option<bool> as "readOnly" by LastByte,
    }
}

/// Prints all fields except the password, which is enough to take the session over.
impl fmt::Debug for ConnectRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectRequest")
            .field("protocol_version", &self.protocol_version)
            .field("last_zxid_seen", &self.last_zxid_seen)
            .field("timeout_ms", &self.timeout_ms)
            .field("session_id", &self.session_id)
            .field("read_only", &self.read_only)
            .finish_non_exhaustive()
    }
}

record! {
    /// Response of a server to a [`ConnectRequest`]; decode it with [`ConnectReply::parse`].
    #[derive(Clone, PartialEq, Eq)]
    pub struct ConnectResponse as "ConnectResponse" {
        /// 0, or [`VERSION_WITHOUT_LEADER`].
        pub protocol_version: i32 as "protocolVersion",
        /// The negotiated session timeout in milliseconds; 0 (or less) rejects the session.
        pub timeout_ms: i32 as "timeOut",
        /// The session's id; [`SessionId::NONE`] in a rejection.
        pub session_id: SessionId as "sessionId",
        /// The session's password, opaque to a client. Null reads as empty.
        pub password: Bytes as "passwd" by NullAsEmpty,
        /// Whether the server is read-only; `None` if it omits the byte, as servers before 3.4 do.
        pub read_only: Option<bool> as "readOnly" by LastByte,
    }
}

/// Prints all fields except the password, which is enough to take the session over.
impl fmt::Debug for ConnectResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectResponse")
            .field("protocol_version", &self.protocol_version)
            .field("timeout_ms", &self.timeout_ms)
            .field("session_id", &self.session_id)
            .field("read_only", &self.read_only)
            .finish_non_exhaustive()
    }
}

/// First frame of a server on a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectReply {
    /// The session is open.
    Accepted(ConnectResponse),
    /// The server rejects the session: it is unknown, expired or closing, or its password is wrong.
    Rejected {
        /// Whether the server is read-only. Such a server does not know the sessions that were opened
        /// since it lost the quorum (`ReadOnlyZooKeeperServer.validateSession`).
        read_only: Option<bool>,
    },
    /// This server does not serve this client; try another one. A read-only server without local sessions
    /// rejects a new session this way, with [`ErrorCode::NOT_READ_ONLY`].
    Refused(ErrorCode),
    /// This server has no leader and serves nobody; try another one. Servers of the Keeper family answer so,
    /// with the protocol version [`VERSION_WITHOUT_LEADER`].
    NoLeader,
}

/// Protocol version in the response of a Keeper that has no leader. Such a response opens no session.
pub const VERSION_WITHOUT_LEADER: i32 = 42;

impl ConnectReply {
    /// Parses the first frame of a server.
    ///
    /// A frame of exactly 16 bytes is a [`ReplyHeader`], as the shortest connect response has 20 bytes. A
    /// timeout of 0 or less means a rejection; the Java client uses the same test.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if the frame is neither a reply header nor a connect response.
    pub fn parse(frame: &Bytes) -> Result<Self, DecodeError> {
        if frame.len() == ReplyHeader::LEN {
            return Ok(Self::Refused(ReplyHeader::from_frame(frame)?.err));
        }
        let response = ConnectResponse::from_frame(frame)?;
        Ok(match response.timeout_ms {
            1.. if response.protocol_version == VERSION_WITHOUT_LEADER => Self::NoLeader,
            1.. => Self::Accepted(response),
            _ => Self::Rejected { read_only: response.read_only },
        })
    }
}

/// Form of the read-only byte. Peers before 3.4 do not send it.
struct LastByte;

forms! { LastByte:
    Option<bool> =>
        |read_only| read_only.map_or(0, |_| BOOL_LEN),
        |read_only, out| {
            if let Some(read_only) = *read_only {
                writer::put_bool(out, read_only);
            }
        },
        |r, field| if r.remaining() == 0 { Ok(None) } else { r.bool(field).map(Some) };
}
