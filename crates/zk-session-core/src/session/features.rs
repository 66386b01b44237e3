//! The features of a Keeper, which tells them in a node: asked for after the handshake, before everything
//! else on a connection. Requests wait in the queue meanwhile, because it is not known how to send them.

use std::time::Instant;

use bytes::Bytes;
use proto::{ConnectResponse, DataReply, Decode, GetData, ReplyHeader};

use super::Session;
use crate::vocabulary::FEATURES_NODE;
use crate::{DisconnectReason, Handles, SaslFailure, ServerKind};

impl<H: Handles> Session<H> {
    /// Returns the kind of the servers. Until the first handshake it is [`ServerKind::ZooKeeper`].
    #[must_use]
    pub fn server_kind(&self) -> ServerKind {
        self.vocabulary.kind()
    }

    /// Returns true unless it is known that the servers lack this operation, so that the client replaces
    /// or refuses it.
    #[must_use]
    pub fn supports(&self, op: proto::OpCode) -> bool {
        !self.vocabulary.lacks(op)
    }

    /// Continues after a successful handshake.
    pub(super) fn greeted(
        &mut self,
        now: Instant,
        response: &ConnectResponse,
    ) -> Result<(), DisconnectReason> {
        if !self.vocabulary.greeted(response) {
            return self.authenticate(now);
        }
        if self.sasl.is_prepared() {
            return Err(DisconnectReason::Sasl(SaslFailure::NotOffered)); // no Keeper has SASL
        }
        let xid = self.requests.send_alone(&GetData { path: FEATURES_NODE.into(), watch: false });
        self.connection.asking(xid);
        Ok(())
    }

    /// Handles the answer of a Keeper. One that does not tell them has none.
    pub(super) fn features_answered(
        &mut self,
        now: Instant,
        xid: i32,
        frame: &Bytes,
    ) -> Result<(), DisconnectReason> {
        let (header, body) = ReplyHeader::split(frame).map_err(DisconnectReason::ProtocolError)?;
        if header.xid != xid {
            return Err(DisconnectReason::UnknownXid(header.xid));
        }
        if header.err.is_ok() {
            let reply = DataReply::from_frame(&body).map_err(DisconnectReason::ProtocolError)?;
            self.vocabulary.has_features(reply.data.as_deref().unwrap_or_default());
        }
        if self.vocabulary.lacks(proto::OpCode::RemoveWatches) {
            self.watches.cannot_remove();
        }
        self.established(now);
        Ok(())
    }
}
