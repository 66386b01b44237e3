//! Bytes from the server: frames, replies, notifications.

use std::time::Instant;

use bytes::{Bytes, BytesMut};
use proto::{ErrorCode, FrameError, ReplyHeader, xid};

use super::Session;
use crate::limits::{HANDSHAKE_LEN_MAX, SASL_TOKEN_LEN_MAX};
use crate::requests::{Recipient, Sent};
use crate::{DisconnectReason, ErrorKind, Handles, Outcome, PeerProtocol, Reply, SessionEnd};

impl<H: Handles> Session<H> {
    /// Handles received bytes. Whole frames are removed from the front of `buffer`, and the rest
    /// stays for the next call. The worst effect that any bytes can have is the loss of the
    /// connection.
    pub fn handle_received(&mut self, now: Instant, buffer: &mut BytesMut) {
        self.check_lease(now);
        self.requests.received(now);
        loop {
            let max = match (self.is_connected(), self.connection.is_handshaking()) {
                (true, _) => self.settings.max_frame_len,
                (_, true) => self.settings.max_frame_len.min(HANDSHAKE_LEN_MAX),
                _ if self.connection.is_authenticating() => SASL_FRAME_LEN_MAX,
                _ if self.connection.asked().is_some() => HANDSHAKE_LEN_MAX,
                _ => {
                    buffer.clear();
                    return;
                }
            };
            let result = match proto::split_frame(buffer, max) {
                Ok(Some(frame)) => self.frame(now, &frame),
                Ok(None) => {
                    if self.is_connected() {
                        self.requests.received_rest(now, buffer);
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
                self.disconnect(now, cause);
            }
        }
    }

    /// Notes the zxids of replies that arrived behind an out-of-order reply and are dropped with
    /// it, so that the next server is not behind them.
    fn see_rest(&mut self, buffer: &mut BytesMut) {
        while let Ok(Some(frame)) = proto::split_frame(buffer, self.settings.max_frame_len) {
            if let Ok((header, _)) = ReplyHeader::split(&frame) {
                if header.xid > 0 {
                    self.identity.has_seen(header.zxid);
                }
            }
        }
    }

    /// Returns the cause for an invalid frame length: the peer may not be a ZooKeeper server.
    fn unfit_frame(&self, buffer: &[u8]) -> DisconnectReason {
        let is_first = self.connection.is_handshaking();
        let protocol = if is_first { PeerProtocol::of(buffer) } else { None };
        protocol.map_or(DisconnectReason::FrameTooLarge, DisconnectReason::NotZooKeeper)
    }

    /// Fails the request whose reply is too large. A repetition would have a reply as large, and
    /// would close the connection for all callers each time.
    fn refuse_answer(&mut self, now: Instant, error: &FrameError, buffer: &[u8]) {
        let (true, FrameError::TooLong { len, max }) = (self.is_connected(), *error) else {
            return;
        };
        let Some(sent) = self.requests.take_unacceptable(buffer) else { return };
        let is_write = sent.is_write();
        match sent.recipient {
            Recipient::Caller(to) => {
                let outcome = if is_write { Outcome::Unknown } else { Outcome::NotApplied };
                self.outputs.fail(to, ErrorKind::ReplyTooLarge { len, max }, outcome);
            }
            Recipient::CleanUpTask(id) => {
                self.clean_up.give_up(id, &mut self.requests, &mut self.outputs);
                self.send_clean_up(now);
            }
            _ => {}
        }
    }

    fn frame(&mut self, now: Instant, frame: &Bytes) -> Result<(), DisconnectReason> {
        self.counters.received(frame.len());
        if self.connection.is_handshaking() {
            return self.handshake(now, frame);
        }
        if self.connection.is_authenticating() {
            return self.sasl_answered(now, frame);
        }
        if let Some(xid) = self.connection.asked() {
            return self.features_answered(now, xid, frame);
        }
        let (header, body) = ReplyHeader::split(frame).map_err(DisconnectReason::ProtocolError)?;
        match header.xid {
            xid::NOTIFICATION => self.notification(now, header.zxid, &body),
            // An idle session meets a server that requires authentication with its first ping.
            xid::PING if header.err == ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH => {
                self.end(SessionEnd::AuthRequired);
                Ok(())
            }
            xid::PING => {
                self.ponged(now);
                Ok(())
            }
            xid => {
                if self.requests.has_overtaken(&header) {
                    self.identity.has_seen(header.zxid);
                    return Err(DisconnectReason::OutOfOrder(xid));
                }
                // Only ordinary replies advance the zxid. A notification may carry that of a
                // transaction of which more events follow, and a rejection carries -1.
                self.identity.advance(header.zxid);
                let sent = self.requests.answered(now, xid);
                let sent = sent.ok_or(DisconnectReason::UnknownXid(xid))?;
                self.pauses.acknowledged();
                self.reply(now, sent, &header, body)
            }
        }
    }

    fn ponged(&mut self, now: Instant) {
        if let Some(sent) = self.requests.liveness().unanswered_ping() {
            self.lease.ponged(sent, now);
        }
        let round_trip = self.requests.ponged(now);
        self.pauses.acknowledged();
        self.counters.ping_round_trip = round_trip.or(self.counters.ping_round_trip);
    }

    fn reply(
        &mut self,
        now: Instant,
        mut sent: Sent<H>,
        header: &ReplyHeader,
        body: Bytes,
    ) -> Result<(), DisconnectReason> {
        self.lease.answered(sent.op, sent.at, header, now);
        if let Some(end) = end_of_session(header.err) {
            if let Recipient::Caller(to) = sent.recipient {
                self.outputs.fail(to, ErrorKind::SessionEnded(end), Outcome::NotApplied);
            }
            self.end(end);
            return Ok(());
        }
        if let Some(watch) = sent.watch.take() {
            self.watch_answered(now, watch, header);
        }
        let reply = Reply { zxid: header.zxid, body };
        let Some((sent, code, reply)) = self.complete(now, sent, header.err, reply)? else {
            return Ok(());
        };
        match sent.recipient {
            Recipient::Caller(to) => self.outputs.answer(to, code, reply),
            Recipient::Credential(index) => self.credential_answered(index, code, &reply),
            Recipient::CleanUpTask(id) => self.clean_up_answered(now, id, code, &reply),
            // Watches that could not be re-registered would never fire.
            Recipient::Rearm if !code.is_ok() => return Err(DisconnectReason::Refused(code)),
            Recipient::Removal(path, kind) => {
                self.watches.removal_answered(&path, kind, code);
                self.watches.schedule_removal(now);
            }
            Recipient::Heartbeat => {
                self.counters.heartbeat_round_trip = Some(now.saturating_duration_since(sent.at));
            }
            Recipient::CatchUp(id) if !code.is_ok() => self.clean_up.sync_declined(id),
            Recipient::Rearm | Recipient::CatchUp(_) | Recipient::Nobody => {}
            Recipient::Close => self.end(self.closing_as().unwrap_or(SessionEnd::Closed)),
        }
        Ok(())
    }

    /// Handles the server's reply to a credential. A rejection ends the session.
    fn credential_answered(&mut self, index: usize, code: ErrorCode, reply: &Reply) {
        if code == ErrorCode::AUTH_FAILED {
            return self.end(SessionEnd::AuthFailed);
        }
        for to in self.credentials.answered(index, &mut self.requests) {
            self.outputs.answer(to, code, reply.clone());
        }
    }
}

/// Returns the end of the session that a code reports.
fn end_of_session(code: ErrorCode) -> Option<SessionEnd> {
    match code {
        // UnknownSession: the session ended between two checks by the server.
        ErrorCode::SESSION_EXPIRED | ErrorCode::UNKNOWN_SESSION => Some(SessionEnd::Expired),
        // Despite its name, the code is also for other schemes that the server requires.
        ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH => Some(SessionEnd::AuthRequired),
        _ => None,
    }
}

/// A reply with a SASL token, and its header.
const SASL_FRAME_LEN_MAX: usize = SASL_TOKEN_LEN_MAX + 64;
