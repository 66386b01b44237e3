//! Bytes from the server: frames, replies, notifications.

use std::time::Instant;

use bytes::{Bytes, BytesMut};
use proto::{ErrorCode, FrameError, OpCode, ReplyHeader, xid};

use super::handles::{Recipient, Sent};
use super::link::Link;
use super::{Handles, Identity, Output, Reply, Session};
use crate::DisconnectReason;
use crate::error::{ErrorKind, Outcome};
use crate::limits::HANDSHAKE_LEN_MAX;
use crate::planted::Planted;
use crate::{PeerProtocol, SessionEnd};

impl<H: Handles> Session<H> {
    /// Handles received bytes. Whole frames are removed from the front of `buffer`, and the rest
    /// stays for the next call. The worst effect that any bytes can have is the loss of the
    /// connection.
    pub fn handle_received(&mut self, now: Instant, buffer: &mut BytesMut) {
        self.check_lease(now);
        // Any byte shows that the server is alive: a large reply on a slow link takes long.
        self.liveness.heard(now);
        loop {
            if !matches!(self.link, Link::Handshaking { .. } | Link::Up) {
                buffer.clear();
                return;
            }
            let max = match self.link {
                Link::Up => self.settings.frame_len_max,
                _ => self.settings.frame_len_max.min(HANDSHAKE_LEN_MAX),
            };
            let result = match proto::split_frame(buffer, max) {
                Ok(Some(frame)) => self.frame(now, &frame),
                Ok(None) => {
                    if self.is_connected() {
                        let is_reply = self.is_awaited(buffer);
                        self.liveness.heard_rest(now, is_reply);
                    }
                    return;
                }
                Err(error) => {
                    self.refuse_answer(now, &error, buffer);
                    Err(self.unfit_frame(buffer))
                }
            };
            if let Err(cause) = result {
                if matches!(cause, DisconnectReason::OutOfOrder(_)) {
                    self.see_rest(buffer);
                }
                self.drop_link(now, cause);
            }
        }
    }

    /// Notes the zxids of replies that arrived behind an out-of-order reply and are dropped with
    /// it, so that the next server is not behind them.
    fn see_rest(&mut self, buffer: &mut BytesMut) {
        while let Ok(Some(frame)) = proto::split_frame(buffer, self.settings.frame_len_max) {
            if let Ok((header, _)) = ReplyHeader::split(&frame)
                && header.xid > 0
            {
                self.has_seen(header.zxid);
            }
        }
    }

    /// Returns the cause for an invalid frame length: the peer may not be a ZooKeeper server.
    fn unfit_frame(&self, buffer: &[u8]) -> DisconnectReason {
        let is_first = matches!(self.link, Link::Handshaking { .. });
        let protocol = PeerProtocol::of(buffer).filter(|_| is_first);
        protocol.map_or(DisconnectReason::FrameTooLarge, DisconnectReason::NotZooKeeper)
    }

    fn frame(&mut self, now: Instant, frame: &Bytes) -> Result<(), DisconnectReason> {
        self.counters.frames_received += 1;
        self.counters.bytes_received += u64::try_from(4 + frame.len()).unwrap_or(u64::MAX);
        if matches!(self.link, Link::Handshaking { .. }) {
            return self.handshake(now, frame);
        }
        let (header, body) = ReplyHeader::split(frame).map_err(DisconnectReason::ProtocolError)?;
        match header.xid {
            xid::NOTIFICATION => {
                if Planted::ZxidFromNotifications.is_on() {
                    self.identity.last_zxid = header.zxid;
                    self.identity.session_zxid = header.zxid;
                }
                self.notification(now, header.zxid, &body)
            }
            xid::PING => {
                if let Some(sent) = self.liveness.unanswered_ping() {
                    self.lease.touch_answered(sent, now);
                    if Planted::LeaseFedByPings.is_on() {
                        self.lease.quorum_agreed(sent, now);
                    }
                }
                let round_trip = self.liveness.ponged(now);
                self.pauses.heard();
                self.counters.ping_round_trip = round_trip.or(self.counters.ping_round_trip);
                Ok(())
            }
            xid => {
                let was_oldest = self.inflight.is_oldest(xid);
                let is_in_turn = header.err.is_ok() || is_quorum_reply(header.err);
                if !was_oldest && is_in_turn && self.has_overtaken(xid) {
                    self.has_seen(header.zxid);
                    return Err(DisconnectReason::OutOfOrder(xid));
                }
                let is_arming = |sent: &Sent<H>| matches!(sent.owner, Recipient::Rearm);
                if was_oldest || !self.inflight.before(xid).any(is_arming) {
                    self.identity.last_zxid = header.zxid.max(self.identity.last_zxid);
                }
                let sent = self.answered_by(xid).ok_or(DisconnectReason::UnknownXid(xid))?;
                self.liveness.answered(now, sent.at, was_oldest);
                self.pauses.heard();
                self.reply(now, sent, &header, body)
            }
        }
    }

    /// Returns true if this reply arrived out of order.
    ///
    /// The pipeline of a server answers requests in their order. A reply that is missing before
    /// this one was lost on the way, and will not arrive any more. Two kinds of replies are exempt.
    /// Replies to credentials bypass the pipeline. Heartbeats overtake other requests, unless these
    /// are [held](super::outbound::Outbound::hold).
    ///
    /// An out-of-order reply counts as seen by the session and is not delivered, as in the Java
    /// client. The missing reply may be that of a re-registration of watches. The watches must be
    /// re-registered from their old zxid, and not from one behind events that were still to arrive.
    /// For the same reason a reply that may overtake, for example a heartbeat's, does not advance
    /// that zxid before the re-registration is answered.
    fn has_overtaken(&mut self, xid: i32) -> bool {
        let is_in_order = |owner: &Recipient<H>| {
            !matches!(owner, Recipient::Heartbeat | Recipient::Credential(_))
        };
        let is_one = self.inflight.find(xid).is_some_and(|sent| is_in_order(&sent.owner));
        is_one
            && !Planted::LostAnswerAwaited.is_on()
            && self.inflight.before(xid).any(|sent| is_in_order(&sent.owner))
    }

    /// Removes the request that a reply answers. Replies to credentials and rejections overtake
    /// others, so it may not be the oldest.
    fn answered_by(&mut self, xid: i32) -> Option<Sent<H>> {
        match Planted::RepliesByPosition.is_on() {
            true => self.inflight.take_oldest(),
            false => self.inflight.take(xid),
        }
    }

    /// Returns true if these bytes are the beginning of an expected reply.
    fn is_awaited(&mut self, rest: &[u8]) -> bool {
        let xid = rest.get(4..).and_then(<[u8]>::first_chunk);
        xid.is_some_and(|xid| self.inflight.find(i32::from_be_bytes(*xid)).is_some())
    }

    /// Notes a zxid as seen by the session. No session has seen the replies of a read-only server.
    fn has_seen(&mut self, zxid: i64) {
        let Identity { session_id, session_zxid, .. } = &mut self.identity;
        if *session_id != 0 {
            *session_zxid = zxid.max(*session_zxid);
        }
    }

    /// Fails the request whose reply is too large. A repetition would have a reply as large, and
    /// would close the connection for all callers each time. The xid at the front of the reply
    /// identifies the request. It has almost always arrived with the length.
    fn refuse_answer(&mut self, now: Instant, error: &FrameError, buffer: &[u8]) {
        let (Link::Up, FrameError::TooLong { len, max }) = (&self.link, *error) else { return };
        let Some(xid) = buffer.get(4..).and_then(<[u8]>::first_chunk) else { return };
        let Some(sent) = self.inflight.take(i32::from_be_bytes(*xid)) else { return };
        self.deadlines.met(sent.due);
        match sent.owner {
            Recipient::Caller(to) => {
                let outcome = match sent.op.is_write() {
                    true => Outcome::Unknown,
                    false => Outcome::NotApplied,
                };
                let result = Err((ErrorKind::AnswerTooLarge { len, max }, outcome));
                self.outputs.push_back(Output::Reply { to, result });
            }
            Recipient::CleanupTask(number) => self.give_up_cleanup(now, number),
            _ => {}
        }
    }

    fn reply(
        &mut self,
        now: Instant,
        sent: Sent<H>,
        header: &ReplyHeader,
        body: Bytes,
    ) -> Result<(), DisconnectReason> {
        // Only ordinary replies advance the zxid. A notification may carry that of a transaction of
        // which more events follow, and a rejection carries -1.
        self.has_seen(header.zxid);
        self.take_evidence(now, &sent, header);
        self.deadlines.met(sent.due);
        // UnknownSession: the session ended between two checks by the server.
        if [ErrorCode::SESSION_EXPIRED, ErrorCode::UNKNOWN_SESSION].contains(&header.err) {
            self.fail_owner(sent);
            self.end(SessionEnd::Expired);
            return Ok(());
        }
        if let Some(watch) = sent.watch {
            self.watch_answered(now, watch, header);
        }
        let reply = Reply { zxid: header.zxid, body };
        match sent.owner {
            Recipient::Caller(to) => {
                let result = answer(header.err, reply);
                self.outputs.push_back(Output::Reply { to, result });
            }
            Recipient::Credential(index) => {
                self.credential_answered(index, header.err, &reply);
            }
            Recipient::CleanupTask(number) => self.cleanup_answered(now, number, header.err, reply),
            // Watches that could not be re-registered would never fire.
            Recipient::Rearm if !header.err.is_ok() => {
                return Err(DisconnectReason::Refused(header.err));
            }
            Recipient::Removal(path, kind) => self.removal_answered(now, &path, kind, header.err),
            Recipient::Heartbeat => {
                self.counters.heartbeat_round_trip = Some(now.saturating_duration_since(sent.at));
            }
            Recipient::CatchUp(number) if !header.err.is_ok() => {
                self.cleanup_tasks.sync_declined(number)
            }
            Recipient::Rearm | Recipient::CatchUp(_) | Recipient::Nobody => {}
            Recipient::Close => self.end(self.closing_as().unwrap_or(SessionEnd::Closed)),
        }
        Ok(())
    }

    /// Takes from a reply what it proves about the leader's clock; see [`super::lease`].
    fn take_evidence(&mut self, now: Instant, sent: &Sent<H>, header: &ReplyHeader) {
        // Credentials are answered ahead of the request processors, and touch nothing.
        if matches!(sent.owner, Recipient::Credential(_)) {
            return;
        }
        if header.err.is_ok() || is_quorum_reply(header.err) {
            self.lease.touch_answered(sent.at, now);
        }
        if sent.op.is_write() && header.zxid > 0 && is_quorum_reply(header.err) {
            self.lease.quorum_agreed(sent.at, now);
        } else if sent.op == OpCode::Sync && header.err.is_ok() {
            self.lease.leader_answered(sent.at, now);
        }
    }

    fn fail_owner(&mut self, sent: Sent<H>) {
        if let Recipient::Caller(to) = sent.owner {
            let kind = ErrorKind::SessionEnded(SessionEnd::Expired);
            let result = Err((kind, Outcome::NotApplied));
            self.outputs.push_back(Output::Reply { to, result });
        }
    }
}

pub(super) fn answer(code: ErrorCode, reply: Reply) -> Result<Reply, super::Failure> {
    match code.is_ok() {
        true => Ok(reply),
        false => Err((ErrorKind::Server(code), Outcome::NotApplied)),
    }
}

/// Returns true for replies to a write that only a leader can send. A leader lets its followers
/// agree to a rejection as to a success. A follower may reject a write by itself, for its load, its
/// mode or its view of an ACL.
fn is_quorum_reply(code: ErrorCode) -> bool {
    [
        ErrorCode::OK,
        ErrorCode::NO_NODE,
        ErrorCode::NODE_EXISTS,
        ErrorCode::BAD_VERSION,
        ErrorCode::NOT_EMPTY,
        ErrorCode::NO_CHILDREN_FOR_EPHEMERALS,
    ]
    .contains(&code)
}
