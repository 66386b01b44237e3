//! What a client has read of the servers' progress: the zxid in the header of every reply.

use std::sync::atomic::{AtomicI64, Ordering};

/// The newest zxid that one session has read, over all its connections.
#[derive(Debug, Default)]
pub(crate) struct Newest(AtomicI64);

impl Newest {
    /// Takes note of a reply; what was read before, if that was newer.
    fn note(&self, zxid: i64) -> Option<i64> {
        let before = self.0.fetch_max(zxid, Ordering::Relaxed);
        (before > zxid).then_some(before)
    }
}

/// Follows the frames of one connection, in whatever pieces they come.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    /// The length, and as much of the header as is looked at.
    head: [u8; HEAD_LEN],
    /// Bytes of the current frame that were read, its length included.
    read: usize,
    /// The first frame is the answer to the connect request, and has no header.
    is_open: bool,
}

/// Length, xid and zxid.
const HEAD_LEN: usize = 4 + 4 + 8;

impl Frames {
    /// The client has read these bytes. The zxids of a reply and of a newer one that it has read
    /// before, if there is such a pair.
    pub(crate) fn read(&mut self, mut bytes: &[u8], newest: &Newest) -> Option<(i64, i64)> {
        let mut back_in_time = None;
        while !bytes.is_empty() {
            let wanted = if self.read < HEAD_LEN { HEAD_LEN.min(self.end()) } else { self.end() };
            let len = bytes.len().min(wanted - self.read);
            if self.read < HEAD_LEN {
                self.head[self.read..self.read + len].copy_from_slice(&bytes[..len]);
            }
            self.read += len;
            bytes = &bytes[len..];
            if self.read >= 4 && self.read == self.end() {
                back_in_time = self.frame(newest).or(back_in_time);
                (self.read, self.is_open) = (0, true);
            }
        }
        back_in_time
    }

    /// Only replies count: notifications and pongs have negative xids, and errors of a server
    /// that has not looked have a zxid of 0 or -1.
    fn frame(&self, newest: &Newest) -> Option<(i64, i64)> {
        let (_, xid) = self.head.split_at(4);
        let (xid, zxid) = xid.split_at(4);
        let xid = i32::from_be_bytes(xid.try_into().unwrap_or_default());
        let zxid = i64::from_be_bytes(zxid.try_into().unwrap_or_default());
        if !self.is_open || self.read < HEAD_LEN || xid < 0 || zxid <= 0 {
            return None;
        }
        Some((zxid, newest.note(zxid)?))
    }

    /// Where the current frame ends, as far as its length is known.
    fn end(&self) -> usize {
        if self.read < 4 {
            return 4;
        }
        let (len, _) = self.head.split_at(4);
        let len = u32::from_be_bytes(len.try_into().unwrap_or_default());
        4 + usize::try_from(len).unwrap_or(usize::MAX / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(xid: i32, zxid: i64, body: usize) -> Vec<u8> {
        let len = u32::try_from(16 + body).unwrap();
        let head = [&len.to_be_bytes()[..], &xid.to_be_bytes(), &zxid.to_be_bytes(), &[0; 4]];
        [head.concat(), vec![7; body]].concat()
    }

    #[test]
    fn an_older_reply_is_seen_however_the_bytes_come() {
        let open = [0, 0, 0, 37].into_iter().chain([9; 37]).collect::<Vec<u8>>();
        let first = [open.clone(), reply(1, 5, 80), reply(-1, -1, 30), reply(2, 7, 0)].concat();
        for piece in [1, 3, 16, 1_000] {
            let (newest, mut frames) = (Newest::default(), Frames::default());
            for bytes in first.chunks(piece) {
                assert_eq!(frames.read(bytes, &newest), None);
            }
            let mut frames = Frames::default();
            let second = [open.clone(), reply(-2, 1, 0), reply(1, 0, 0), reply(2, 6, 3)].concat();
            let seen: Vec<_> =
                second.chunks(piece).filter_map(|bytes| frames.read(bytes, &newest)).collect();
            assert_eq!(seen, [(6, 7)]);
        }
    }
}
