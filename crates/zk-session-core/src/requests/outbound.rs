//! Bytes for the server.

use std::collections::VecDeque;
use std::fmt;

use bytes::{Buf, BytesMut};

use crate::limits::{INFLIGHT_BYTES_MAX, WRITE_CHUNK_BYTES};

/// Bytes of the current connection that the driver has not taken yet, and the position of its
/// socket. A request of which not one byte was written was certainly not applied.
///
/// Pings and heartbeats overtake everything that waits here. No lease, and no session, may be lost
/// behind megabytes of the client's own requests. So the driver receives [a
/// part](WRITE_CHUNK_BYTES) at a time, and overtaking frames go in front of the next part. The
/// [bytes on their way](INFLIGHT_BYTES_MAX) are limited, because a socket, the network and the server
/// buffer megabytes that nothing can overtake.
///
/// Positions do not count the bytes of overtaking frames.
#[derive(Default)]
pub(super) struct Outbound {
    buffer: BytesMut,
    /// Frames that go in front of those in `buffer`.
    urgent: BytesMut,
    /// Bytes put into `buffer` over the life of the connection.
    encoded: u64,
    /// End of the requests that begin a connection. All callers wait for these in any case, so any
    /// amount of them may be on its way.
    beginning: u64,
    /// Bytes of any kind that the socket has accepted.
    written: u64,
    /// Bytes of overtaking frames that were handed to the driver, and that the socket has accepted.
    overtaken: u64,
    passed: u64,
    /// Position among all bytes, and length, of overtaking frames that the socket has not accepted.
    overtaking: VecDeque<(u64, u64)>,
    /// Number of frames, over all connections.
    frames: u64,
}

/// Prints no bytes, because there are passwords among them.
impl fmt::Debug for Outbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { encoded, written, frames, .. } = self;
        f.write_fmt(format_args!("Outbound({frames} frames, {written} of {encoded} bytes written)"))
    }
}

impl Outbound {
    /// Appends a frame, and returns its position in the stream.
    pub(super) fn append(&mut self, encode: impl FnOnce(&mut BytesMut)) -> u64 {
        self.frames += 1;
        let (offset, before) = (self.encoded, self.buffer.len());
        encode(&mut self.buffer);
        self.encoded += wide(self.buffer.len() - before);
        offset
    }

    /// Puts a frame in front of all waiting frames, but behind the first part of the connection's beginning.
    pub(super) fn overtake(&mut self, encode: impl FnOnce(&mut BytesMut)) -> u64 {
        if self.buffer.is_empty() && self.urgent.is_empty() {
            return self.append(encode);
        }
        self.frames += 1;
        encode(&mut self.urgent);
        self.encoded
    }

    /// Marks all frames appended so far as those that begin the connection.
    pub(super) fn has_begun(&mut self) {
        self.beginning = self.encoded;
    }

    /// Changes the watch flag of the request that was appended last. It is the last byte of every
    /// request that sets a watch: the flag of exists, getData, getChildren and getChildren2, and
    /// the mode of addWatch.
    pub(super) fn set_last_byte(&mut self, byte: u8) {
        if let Some(last) = self.buffer.last_mut() {
            *last = byte;
        }
    }

    /// Moves the next part to `into`, by swapping buffers if `into` is empty and the part is all
    /// there is. Returns true if there is more once this part is written. `unanswered` is the
    /// position of the oldest unanswered request.
    pub(super) fn take(&mut self, unanswered: Option<u64>, into: &mut BytesMut) -> bool {
        let handed = self.encoded - wide(self.buffer.len());
        let under_way = unanswered.map_or(0, |offset| handed.saturating_sub(offset));
        let under_way = usize::try_from(under_way).unwrap_or(usize::MAX);
        let room = INFLIGHT_BYTES_MAX.saturating_sub(under_way);
        let at_once = WRITE_CHUNK_BYTES.min(room);
        if self.urgent.is_empty() && into.is_empty() && self.buffer.len() <= at_once {
            std::mem::swap(&mut self.buffer, into);
            return false;
        }
        let ahead =
            |position: u64| usize::try_from(position.saturating_sub(handed)).unwrap_or(usize::MAX);
        let beginning = ahead(self.beginning);
        let begun = self.hand_over(beginning, usize::MAX, into);
        if !self.urgent.is_empty() {
            let at = self.encoded - wide(self.buffer.len()) + self.overtaken;
            let len = wide(self.urgent.len());
            self.overtaking.push_back((at, len));
            self.overtaken += len;
            into.extend_from_slice(&std::mem::take(&mut self.urgent));
        }
        let passed = self.hand_over(usize::MAX, room, into);
        !self.buffer.is_empty() && (begun < beginning || passed < room)
    }

    /// Moves whole frames from the next `up_to` bytes to `into`, while there is `room` and little
    /// lies in front of them. Returns the number of bytes moved.
    fn hand_over(&mut self, up_to: usize, room: usize, into: &mut BytesMut) -> usize {
        let mut len = 0;
        let up_to = up_to.min(self.buffer.len()).min(room);
        while len < up_to && into.len() + len < WRITE_CHUNK_BYTES {
            let prefix = self.buffer[len..].first_chunk().map_or(0, |len| u32::from_be_bytes(*len));
            len = len.saturating_add(4).saturating_add(usize::try_from(prefix).unwrap_or(0));
        }
        let len = len.min(self.buffer.len());
        into.extend_from_slice(&self.buffer[..len]);
        self.buffer.advance(len);
        if self.buffer.is_empty() {
            self.buffer = BytesMut::new(); // it may have been large
        }
        len
    }

    pub(super) fn wrote(&mut self, len: usize) {
        self.written += wide(len);
        while let Some((at, len)) = self.overtaking.front().copied() {
            if at + len > self.written {
                return;
            }
            self.passed += len;
            self.overtaking.pop_front();
        }
    }

    pub(super) fn frames(&self) -> u64 {
        self.frames
    }

    /// Returns the number of bytes that the socket has not accepted yet.
    pub(super) fn unwritten(&self) -> usize {
        usize::try_from(self.encoded.saturating_sub(self.position())).unwrap_or(usize::MAX)
    }

    /// Returns true if the socket has accepted at least one byte of the frame at this position.
    pub(super) fn has_left(&self, offset: u64) -> bool {
        self.position() > offset
    }

    /// Returns the position of the socket, without overtaking frames.
    fn position(&self) -> u64 {
        let part = self.overtaking.front().map_or(0, |(at, _)| self.written.saturating_sub(*at));
        self.written - self.passed - part
    }

    /// Resets the state for the next connection.
    pub(super) fn reset(&mut self) {
        let (frames, mut buffer) = (self.frames, std::mem::take(&mut self.buffer));
        buffer.clear();
        *self = Self { frames, buffer, ..Self::default() };
    }
}

fn wide(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(name: u8, len: usize) -> Vec<u8> {
        let mut frame = u32::try_from(len).unwrap().to_be_bytes().to_vec();
        frame.resize(4 + len, name);
        frame
    }

    fn append(out: &mut Outbound, name: u8, len: usize) -> u64 {
        out.append(|buffer| buffer.extend_from_slice(&frame(name, len)))
    }

    fn overtake(out: &mut Outbound, name: u8) -> u64 {
        out.overtake(|buffer| buffer.extend_from_slice(&frame(name, 8)))
    }

    /// Returns the names of the frames in the order of the stream.
    fn names(mut bytes: BytesMut) -> String {
        let mut names = String::new();
        while !bytes.is_empty() {
            let len = usize::try_from(bytes.get_u32()).unwrap();
            names.push(char::from(bytes[0]));
            bytes.advance(len);
        }
        names
    }

    #[test]
    fn small_frames_are_handed_over_at_once_in_order() {
        let (mut out, mut into) = (Outbound::default(), BytesMut::new());
        overtake(&mut out, b'!');
        append(&mut out, b'a', 10);
        append(&mut out, b'b', 10);
        assert!(!out.take(None, &mut into));
        assert_eq!(names(into), "!ab");
    }

    #[test]
    fn urgent_frame_overtakes_waiting_frames() {
        let (mut out, mut into) = (Outbound::default(), BytesMut::new());
        let long = WRITE_CHUNK_BYTES / 2 + 1;
        for name in *b"abcd" {
            append(&mut out, name, long);
        }
        assert!(out.take(None, &mut into), "there is more");
        overtake(&mut out, b'!');
        assert!(
            out.take(None, &mut into) && out.take(None, &mut into),
            "enough lies in front of the socket"
        );
        assert_eq!(names(into.split()), "ab!", "the socket has taken all of it");
        append(&mut out, b'h', 10);
        append(&mut out, b'e', 10);
        overtake(&mut out, b'?');
        overtake(&mut out, b'.');
        assert!(out.take(None, &mut into));
        assert_eq!(names(into.split()), "?.cd");
        assert!(!out.take(None, &mut into));
        assert_eq!(names(into), "he");
    }

    /// Written requests are detected byte by byte: a small frame in front of overtaking ones, and two
    /// groups of these. Wrong positions would report written requests as not applied.
    #[test]
    fn written_requests_are_detected_around_overtaking_frames() {
        let (mut out, mut into) = (Outbound::default(), BytesMut::new());
        let (first, second) = (WRITE_CHUNK_BYTES - 10, WRITE_CHUNK_BYTES - 30);
        let frames = [(b'a', first), (b'b', 10), (b'c', second), (b'd', 10), (b'e', 10)];
        let offsets = frames.map(|(name, len)| append(&mut out, name, len));
        let mut stream = BytesMut::new();
        for _ in 0..2 {
            out.take(None, &mut into);
            stream.extend_from_slice(&into.split());
            overtake(&mut out, b'!');
        }
        out.take(None, &mut into);
        stream.extend_from_slice(&into);
        assert_eq!(names(stream.clone()), "ab!cd!e");
        let (small, ping) = (4 + 10, 4 + 8);
        let third = 4 + first + small + ping;
        let fourth = third + 4 + second;
        let starts = [0, 4 + first, third, fourth, fourth + small + ping];
        for len in 1..=stream.len() {
            out.wrote(1);
            for (offset, start) in offsets.iter().zip(starts) {
                assert_eq!(out.has_left(*offset), len > start, "{offset} after {len} bytes");
            }
            let left = stream.len() - len;
            assert!(out.unwritten() <= left && left <= out.unwritten() + 2 * ping);
        }
        assert_eq!(out.unwritten(), 0);
        append(&mut out, b'f', 10);
        overtake(&mut out, b'!');
        out.reset();
        assert_eq!(out.unwritten(), 0);
        assert!(!out.take(None, &mut into) && out.urgent.is_empty());
    }

    /// The driver calls again at once if there is more to take. If that is not true, it would loop
    /// without a pause.
    #[test]
    fn write_stops_while_too_much_is_unanswered() {
        let (mut out, mut into) = (Outbound::default(), BytesMut::new());
        let first = append(&mut out, b'a', INFLIGHT_BYTES_MAX - 4);
        append(&mut out, b'b', 10);
        assert!(!out.take(Some(first), &mut into), "the first frame takes all the room");
        assert_eq!(names(into.split()), "a");
        for _ in 0..2 {
            assert!(!out.take(Some(first), &mut into));
            assert!(into.is_empty());
        }
        assert!(!out.take(None, &mut into), "it is answered");
        assert_eq!(names(into), "b");
    }

    #[test]
    fn part_ends_with_the_frame_that_fills_it() {
        let (mut out, mut into) = (Outbound::default(), BytesMut::new());
        append(&mut out, b'a', WRITE_CHUNK_BYTES - 4);
        append(&mut out, b'b', 10);
        assert!(out.take(None, &mut into), "there is more");
        assert_eq!(names(into), "a");
    }

    #[test]
    fn frames_are_counted_over_all_connections() {
        let mut out = Outbound::default();
        append(&mut out, b'a', 10);
        overtake(&mut out, b'!');
        overtake(&mut out, b'!');
        assert_eq!(out.frames(), 3);
        out.reset();
        assert_eq!(out.frames(), 3);
    }
}
