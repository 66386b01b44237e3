//! Reader of the bytes that a client receives. It reports replies with an older zxid than before,
//! accepted sessions, answered requests, and deletion events.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use zk_coordination::session::{SessionId, Zxid};
use zk_testing::ErrorCode;

use crate::frames::Frames;

/// The newest zxid that one session has read, over all its connections.
#[derive(Debug, Default)]
pub(crate) struct Newest(AtomicI64);

impl Newest {
    /// Records the zxid of a reply. Returns the newest zxid read before, if that was newer.
    fn note(&self, zxid: Zxid) -> Option<Zxid> {
        let before = self.0.fetch_max(zxid.0, Ordering::Relaxed);
        (before > zxid.0).then_some(Zxid(before))
    }
}

/// Reader of the replies on one connection, in chunks of any size.
#[derive(Debug)]
pub(crate) struct Replies {
    frames: Frames,
    /// The session that the server has accepted.
    session: SessionId,
    /// Whether the first frame was read. It is the reply to the connect request and has no header.
    is_open: bool,
    /// Whether the server has no quorum, so that its replies are no part of a session.
    is_read_only: bool,
}

/// A fact that a client has read from the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// The zxid of a reply, and the newer zxid of an earlier reply.
    BackInTime(Zxid, Zxid),
    /// The server has accepted this session, with this timeout.
    Accepted(SessionId, Duration),
    /// A reply with this xid.
    Reply(i32, Zxid, ErrorCode),
    /// A session has received the deletion event of a node.
    Deleted(SessionId, String),
}

/// The xid of a notification.
const NOTIFICATION: i32 = -1;

/// The event type of a deletion.
const NODE_DELETED: [u8; 4] = [0, 0, 0, 2];

/// Bytes of a frame that are examined. The path of an event is at the end of its frame.
const LOOK_LEN: usize = 1_024;

impl Replies {
    pub(crate) fn new() -> Self {
        let frames = Frames::new(LOOK_LEN);
        Self { frames, session: SessionId::NONE, is_open: false, is_read_only: false }
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Parses bytes that the client has read.
    pub(crate) fn read(&mut self, mut bytes: &[u8], newest: &Newest) -> Vec<Seen> {
        let mut seen = Vec::new();
        while let Some(head) = self.frames.next(&mut bytes) {
            seen.extend(self.frame(&head, newest).into_iter().flatten());
            self.is_open = true;
        }
        seen
    }

    /// Examines one complete frame. Only replies count as progress: notifications and pongs have
    /// negative xids. Errors of a server that has not processed the request have a zxid of 0 or -1.
    fn frame(&mut self, head: &[u8], newest: &Newest) -> [Option<Seen>; 2] {
        let Some(body) = head.get(4..) else { return [None, None] };
        let number = |at: usize| body.get(at..at + 8)?.try_into().ok().map(i64::from_be_bytes);
        if !self.is_open {
            // The protocol version and the timeout precede the session id.
            self.session = SessionId(number(8).unwrap_or(0));
            self.is_read_only = body.get(36) == Some(&1);
            let millis = number(0).and_then(|both| u32::try_from(both & 0xffff_ffff).ok());
            let timeout = Duration::from_millis(millis.unwrap_or(0).into());
            let accepted = Seen::Accepted(self.session, timeout);
            return [(self.session != SessionId::NONE).then_some(accepted), None];
        }
        let xid = body.get(..4).and_then(|xid| xid.try_into().ok()).map(i32::from_be_bytes);
        let (Some(xid), Some(zxid)) = (xid, number(4).map(Zxid)) else { return [None, None] };
        if xid == NOTIFICATION {
            // The event type, the session state, and the path with its length.
            let event = body.get(16..).filter(|event| event.starts_with(&NODE_DELETED));
            let path = event.and_then(|event| String::from_utf8(event.get(12..)?.to_vec()).ok());
            return [path.map(|path| Seen::Deleted(self.session, path)), None];
        }
        let counts = xid >= 0 && zxid > Zxid::ZERO && !self.is_read_only;
        let newer = if counts { newest.note(zxid) } else { None };
        let code = body.get(12..16).and_then(|code| code.try_into().ok()).map(i32::from_be_bytes);
        let reply = code.map(|code| Seen::Reply(xid, zxid, ErrorCode(code)));
        [reply, newer.map(|newer| Seen::BackInTime(zxid, newer))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(xid: i32, zxid: Zxid, body: usize) -> Vec<u8> {
        let len = u32::try_from(16 + body).unwrap();
        let head = [&len.to_be_bytes()[..], &xid.to_be_bytes(), &zxid.0.to_be_bytes(), &[0; 4]];
        [head.concat(), vec![7; body]].concat()
    }

    /// Returns the reply to a connect request, for session 5.
    fn open() -> Vec<u8> {
        [&[0, 0, 0, 37][..], &[0; 8], &[0, 0, 0, 0, 0, 0, 0, 5], &[9; 21]].concat()
    }

    fn only_others(seen: Vec<Seen>) -> Vec<Seen> {
        let is_other =
            |seen: &Seen| !matches!(seen, Seen::Accepted(SessionId(5), _) | Seen::Reply(..));
        seen.into_iter().filter(is_other).collect()
    }

    #[test]
    fn older_reply_is_detected_for_any_chunk_size() {
        let first =
            [open(), reply(1, Zxid(5), 80), reply(-1, Zxid(-1), 30), reply(2, Zxid(7), 0)].concat();
        for piece in [1, 3, 16, 1_000] {
            let (newest, mut replies) = (Newest::default(), Replies::new());
            for bytes in first.chunks(piece) {
                assert!(only_others(replies.read(bytes, &newest)).is_empty());
            }
            let mut replies = Replies::new();
            let second =
                [open(), reply(-2, Zxid(1), 0), reply(1, Zxid::ZERO, 0), reply(2, Zxid(6), 3)]
                    .concat();
            let seen: Vec<_> =
                second.chunks(piece).flat_map(|bytes| replies.read(bytes, &newest)).collect();
            assert_eq!(only_others(seen), [Seen::BackInTime(Zxid(6), Zxid(7))]);
        }
    }

    #[test]
    fn deletion_event_is_reported_with_its_session() {
        let event = |kind: u8, path: &str| {
            let len = u8::try_from(path.len()).unwrap();
            let body = [&[0, 0, 0, kind, 0, 0, 0, 3, 0, 0, 0, len], path.as_bytes()].concat();
            let mut frame = reply(-1, Zxid(-1), body.len());
            frame.truncate(20);
            [frame, body].concat()
        };
        let bytes =
            [open(), event(3, "/a"), event(2, "/b"), reply(3, Zxid(9), 2_000), event(2, "/c")];
        let deleted = ["/b", "/c"].map(|path| Seen::Deleted(SessionId(5), path.to_owned()));
        for piece in [1, 7, 10_000] {
            let (newest, mut replies) = (Newest::default(), Replies::new());
            let bytes = bytes.concat();
            let seen = bytes.chunks(piece).flat_map(|bytes| replies.read(bytes, &newest));
            assert_eq!(only_others(seen.collect()), deleted);
        }
    }
}
