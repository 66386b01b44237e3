//! The SASL exchange, between the handshake and everything else on a connection.
//!
//! Nothing else is sent meanwhile: no ping, because a server that requires authentication rejects
//! it, and no credential, watch or request, because the server evaluates them by the identities of
//! the connection. Requests wait in the queue, as they do without a connection.

use std::time::Instant;

use bytes::Bytes;
use proto::{Decode, ErrorCode, Reader, ReplyHeader, Sasl, SaslReply};

use super::Session;
use crate::{DisconnectReason, Handles, SaslFailure};

impl<H: Handles> Session<H> {
    /// Begins the exchange after a successful handshake, if the connection has one.
    pub(super) fn authenticate(&mut self, now: Instant) -> Result<(), DisconnectReason> {
        if !self.sasl.is_prepared() {
            self.established(now);
            return Ok(());
        }
        self.connection.authenticating();
        let token = self.sasl.first().map_err(DisconnectReason::Sasl)?;
        self.proceed(now, token);
        Ok(())
    }

    /// Sends the next token. Without one the exchange is complete, and the connection can be used.
    fn proceed(&mut self, now: Instant, token: Option<Vec<u8>>) {
        match token {
            Some(token) => {
                let xid = self.requests.send_alone(&Sasl { token: token.into() });
                self.sasl.sent(xid);
            }
            None => {
                self.sasl.end();
                self.established(now);
            }
        }
    }

    /// Handles a frame during the exchange. The server answers it before its request processors, so
    /// it proves nothing about the leader.
    pub(super) fn sasl_answered(
        &mut self,
        now: Instant,
        frame: &Bytes,
    ) -> Result<(), DisconnectReason> {
        let (header, body) = ReplyHeader::split(frame).map_err(DisconnectReason::ProtocolError)?;
        if !self.sasl.is_awaited(header.xid) {
            return Err(DisconnectReason::UnknownXid(header.xid));
        }
        match header.err {
            code if code.is_ok() => {}
            // Where SASL is required, the code of a failed exchange is the second one. The first
            // token of DIGEST-MD5 is empty: the server cannot have rejected the credentials.
            ErrorCode::AUTH_FAILED | ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH => {
                return Err(DisconnectReason::Sasl(if self.sasl.has_proven() {
                    SaslFailure::Rejected
                } else {
                    SaslFailure::MechanismRefused
                }));
            }
            code => return Err(DisconnectReason::Sasl(SaslFailure::Refused(code))),
        }
        let reply = SaslReply::decode(&mut Reader::new(&body, SaslReply::RECORD));
        let reply = reply.map_err(DisconnectReason::ProtocolError)?;
        let token = self.sasl.next(reply.token.as_deref()).map_err(DisconnectReason::Sasl)?;
        self.proceed(now, token);
        Ok(())
    }
}
