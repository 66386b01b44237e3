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

use crate::{
    record::{record, request},
    request::OpCode,
};

record! {
    /// Request that keeps the session alive. Send it with [`xid::PING`](crate::xid::PING).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Ping as "ping";
}

request!(Ping: OpCode::Ping -> ());

record! {
    /// Request to close the session, which deletes its ephemeral nodes. The server closes the connection
    /// after its reply.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct CloseSession as "closeSession";
}

request!(CloseSession: OpCode::CloseSession -> ());
