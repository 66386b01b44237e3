//! Replies to requests that stand in for others; see [`vocabulary`](crate::vocabulary).

use std::time::Instant;

use bytes::{Bytes, BytesMut};
use proto::{CreatePathReply, CreateReply, Decode, Encode, ErrorCode, Exists, MultiReply, Stat};

use super::Session;
use crate::requests::{Queued, Recipient, Sent, StandIn};
use crate::vocabulary::stat_of_deleted;
use crate::{DisconnectReason, Handles, Reply};

/// The answer to the request of a caller, or `None` if another request has to be answered first.
type Answer<H> = Option<(Sent<H>, ErrorCode, Reply)>;

impl<H: Handles> Session<H> {
    /// Makes the answer to a request from the reply to what was sent.
    pub(super) fn complete(
        &mut self,
        now: Instant,
        mut sent: Sent<H>,
        code: ErrorCode,
        reply: Reply,
    ) -> Result<Answer<H>, DisconnectReason> {
        let is_unknown = self.vocabulary.answered(sent.op, code, sent.stand_in.as_deref());
        let Some(stand_in) = sent.stand_in.take() else { return Ok(Some((sent, code, reply))) };
        match *stand_in {
            StandIn::Unproven { id, frame } if is_unknown => {
                let (op, watch, due) = (sent.op, None, sent.due);
                let Recipient::Caller(to) = sent.recipient else { return Ok(None) };
                let again = Queued { id, op, frame, to, watch, due, opened_by: None };
                if code == ErrorCode::UNIMPLEMENTED {
                    // The server closes the connection: on the next one.
                    self.requests.enqueue(again, None);
                    return Err(DisconnectReason::Refused(code));
                }
                self.send_encoded(now, again);
                Ok(None)
            }
            StandIn::Create { is_ephemeral } if code.is_ok() => {
                let created = CreatePathReply::from_frame(&reply.body);
                let path = created.map_err(DisconnectReason::ProtocolError)?.path;
                let exists = Exists { path: path.into(), watch: false };
                let stand_in =
                    StandIn::Stat { created: reply.body, zxid: reply.zxid, is_ephemeral };
                self.requests.send_after(now, &exists, sent, stand_in);
                Ok(None)
            }
            StandIn::Stat { created, zxid, is_ephemeral } => {
                let owner = is_ephemeral.then(|| self.identity.session_id());
                let read = code.is_ok().then(|| Stat::from_frame(&reply.body)).transpose();
                let read = read.map_err(DisconnectReason::ProtocolError)?;
                // A newer node of that path is another client's.
                let own = read.filter(|stat| stat.czxid <= zxid);
                let stat = own.unwrap_or_else(|| stat_of_deleted(zxid, owner));
                let path = CreatePathReply::from_frame(&created);
                let path = path.map_err(DisconnectReason::ProtocolError)?.path;
                let body = encoded(&CreateReply { path, stat });
                Ok(Some((sent, ErrorCode::OK, Reply { zxid, body })))
            }
            StandIn::EmptyMulti if code == ErrorCode::NO_NODE => {
                let body = encoded(&MultiReply { results: Vec::new() });
                Ok(Some((sent, ErrorCode::OK, Reply { body, ..reply })))
            }
            _ => Ok(Some((sent, code, reply))),
        }
    }
}

fn encoded(record: &impl Encode) -> Bytes {
    let mut out = BytesMut::with_capacity(record.encoded_len());
    record.encode(&mut out);
    out.freeze()
}
