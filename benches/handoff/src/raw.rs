//! A session over a blocking socket, without a client library. The floor, the classic algorithm and
//! the benchmark's bookkeeping use it.

use std::io::{self, Read, Write};
use std::time::Duration;

use crate::stream::{Stream, Transport};

/// A session. The request methods add requests to a buffer, which [`Raw::flush`] sends.
pub(crate) struct Raw {
    stream: Stream,
    out: Vec<u8>,
    inbound: Vec<u8>,
    /// The part of `inbound` that was read and not parsed.
    unread: std::ops::Range<usize>,
    xid: i32,
    /// The session timeout that the server has granted.
    timeout: Duration,
}

/// A reply or an event. An event has the xid [`EVENT_XID`].
pub(crate) struct Frame {
    pub(crate) xid: i32,
    /// The transaction of an event, from ZooKeeper 3.9 on; -1 before (ZOOKEEPER-4655). That of a create or
    /// a delete, in its reply.
    pub(crate) zxid: i64,
    pub(crate) error: i32,
    pub(crate) body: Vec<u8>,
}

/// The xid of events.
pub(crate) const EVENT_XID: i32 = -1;
pub(crate) const PING_XID: i32 = -2;
/// Errors of the server.
pub(crate) const NO_NODE: i32 = -101;
pub(crate) const NODE_EXISTS: i32 = -110;

/// The kind of node that a create makes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Create {
    Persistent = 0,
    Ephemeral = 1,
    EphemeralSequential = 3,
}

impl Raw {
    pub(crate) fn connect(address: &str, transport: Transport) -> io::Result<Self> {
        let stream = Stream::connect(address, transport)?;
        let (out, inbound, timeout) = (Vec::new(), vec![0; BUFFER_LEN], Duration::ZERO);
        let mut raw = Self { stream, out, inbound, unread: 0..0, xid: 0, timeout };
        let mut hello = vec![0; 4 + 8 + 4 + 8 + 4 + 16 + 1];
        hello[12..16].copy_from_slice(&SESSION_TIMEOUT_MS.to_be_bytes());
        hello[24..28].copy_from_slice(&16_i32.to_be_bytes());
        raw.queue_frame(&hello);
        raw.flush()?;
        let answer = raw.read_bytes()?;
        let timeout_ms = int_at(&answer, 4).and_then(|ms| u64::try_from(ms).ok());
        raw.timeout = timeout_ms.map(Duration::from_millis).ok_or_else(malformed)?;
        Ok(raw)
    }

    /// Limits the time that a read waits for the server. Without a limit, it waits forever.
    pub(crate) fn limit_reads(&self, limit: Duration) -> io::Result<()> {
        self.stream.limit_reads(limit)
    }

    pub(crate) fn create(&mut self, path: &str, mode: Create) -> i32 {
        let mut body = Vec::new();
        put_str(&mut body, path);
        put_int(&mut body, 0); // no data
        put_int(&mut body, 1); // one entry of the ACL: all permissions, for anyone
        put_int(&mut body, 31);
        put_str(&mut body, "world");
        put_str(&mut body, "anyone");
        put_int(&mut body, mode as i32);
        self.request(1, &body)
    }

    pub(crate) fn delete(&mut self, path: &str) -> i32 {
        self.request(DELETE, &any_version(path))
    }

    /// Queues a transaction that sets the data of a node and deletes it.
    pub(crate) fn set_and_delete(&mut self, path: &str) -> i32 {
        let mut body = Vec::new();
        put_operation(&mut body, SET_DATA);
        put_str(&mut body, path);
        put_str(&mut body, "released");
        put_int(&mut body, -1); // any version
        put_operation(&mut body, DELETE);
        body.extend(any_version(path));
        put_operation(&mut body, END_OF_MULTI);
        self.request(14, &body)
    }

    /// Queues an `exists` request with a watch.
    pub(crate) fn watch(&mut self, path: &str) -> i32 {
        let mut body = Vec::new();
        put_str(&mut body, path);
        body.push(1);
        self.request(3, &body)
    }

    /// Queues a `getData` request with a watch.
    pub(crate) fn watch_data(&mut self, path: &str) -> i32 {
        let mut body = Vec::new();
        put_str(&mut body, path);
        body.push(1);
        self.request(4, &body)
    }

    /// Queues an `exists` request without a watch. The body of its reply is the node's Stat.
    pub(crate) fn stat(&mut self, path: &str) -> i32 {
        let mut body = Vec::new();
        put_str(&mut body, path);
        body.push(0);
        self.request(3, &body)
    }

    /// Queues a `setWatches` for changes since a transaction. A node that does not exist is reported at once
    /// as deleted, with the zxid -1.
    pub(crate) fn set_watches(&mut self, since: i64, data: &[&str], children: &[&str]) -> i32 {
        let mut body = since.to_be_bytes().to_vec();
        for paths in [data, &[], children] {
            put_len(&mut body, paths.len());
            paths.iter().for_each(|path| put_str(&mut body, path));
        }
        self.request(101, &body)
    }

    pub(crate) fn children(&mut self, path: &str) -> i32 {
        let mut body = Vec::new();
        put_str(&mut body, path);
        body.push(0);
        self.request(8, &body)
    }

    /// Returns the number of children, without listing them.
    pub(crate) fn count_children(&mut self, path: &str) -> io::Result<usize> {
        self.stat(path);
        let (count, _) = self.call()?.children()?;
        usize::try_from(count).map_err(|_| malformed())
    }

    /// Sends all queued requests in one write.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.out)?;
        self.stream.flush()?;
        self.out.clear();
        Ok(())
    }

    /// Sends all queued requests, and returns the next frame.
    pub(crate) fn answer(&mut self) -> io::Result<Frame> {
        self.flush()?;
        self.read()
    }

    /// Sends all queued requests, and returns the next frame, which must be a reply without an
    /// error.
    pub(crate) fn call(&mut self) -> io::Result<Frame> {
        let frame = self.answer()?;
        if frame.xid == EVENT_XID || frame.error != 0 {
            return Err(io::Error::other(format!("error {} of the server", frame.error)));
        }
        Ok(frame)
    }

    /// Waits for the next frame.
    pub(crate) fn read(&mut self) -> io::Result<Frame> {
        let frame = self.read_bytes()?;
        let (Some(xid), Some(error), Some(body)) =
            (int_at(&frame, 0), int_at(&frame, 12), frame.get(16..))
        else {
            return Err(malformed());
        };
        let zxid = frame[4..12].try_into().map_or(-1, i64::from_be_bytes);
        Ok(Frame { xid, zxid, error, body: body.to_vec() })
    }

    /// Returns the time from ping to ping.
    pub(crate) fn heartbeat(&self) -> Duration {
        self.timeout / 4
    }

    /// Queues a ping. Its reply has the xid [`PING_XID`].
    pub(crate) fn ping(&mut self) {
        let mut frame = Vec::new();
        put_int(&mut frame, PING_XID);
        put_int(&mut frame, 11);
        self.queue_frame(&frame);
    }

    fn request(&mut self, opcode: i32, body: &[u8]) -> i32 {
        self.xid += 1;
        let mut frame = Vec::with_capacity(8 + body.len());
        put_int(&mut frame, self.xid);
        put_int(&mut frame, opcode);
        frame.extend_from_slice(body);
        self.queue_frame(&frame);
        self.xid
    }

    fn queue_frame(&mut self, frame: &[u8]) {
        put_len(&mut self.out, frame.len());
        self.out.extend_from_slice(frame);
    }

    /// Reads the next frame with as few system calls as possible: one for all bytes that have
    /// arrived.
    fn read_bytes(&mut self) -> io::Result<Vec<u8>> {
        loop {
            let unread = &self.inbound[self.unread.clone()];
            let len = int_at(unread, 0).map_or(Ok(0), usize::try_from).map_err(|_| malformed())?;
            if unread.len() >= 4 && unread.len() - 4 >= len {
                let frame = unread[4..4 + len].to_vec();
                self.unread.start += 4 + len;
                return Ok(frame);
            }
            self.inbound.copy_within(self.unread.clone(), 0);
            self.unread = 0..self.unread.len();
            if self.inbound.len() < 4 + len {
                self.inbound.resize(4 + len, 0);
            }
            let read = self.stream.read(&mut self.inbound[self.unread.end..])?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.unread.end += read;
        }
    }
}

/// Closes the session, so that its nodes and their cost are gone before the next contest.
impl Drop for Raw {
    fn drop(&mut self) {
        self.request(-11, &[]);
        // Both fail only if the connection has ended.
        let _ = self.flush();
        while self.read().is_ok_and(|frame| frame.xid != self.xid) {}
    }
}

impl Frame {
    /// Returns the string at the start of the body: the path of the created node.
    pub(crate) fn path(&self) -> io::Result<String> {
        let path = strings(&self.body, 0, 1).and_then(|mut all| all.pop());
        path.map(str::to_owned).ok_or_else(malformed)
    }

    /// Returns the type of an event.
    pub(crate) fn event_type(&self) -> io::Result<i32> {
        int_at(&self.body, 0).ok_or_else(malformed)
    }

    /// Returns the path of an event, which follows its type and the state of the session.
    pub(crate) fn event_path(&self) -> io::Result<String> {
        let path = strings(&self.body, 8, 1).and_then(|mut all| all.pop());
        path.map(str::to_owned).ok_or_else(malformed)
    }

    /// Returns the number of children in a Stat, and the last transaction that has created or deleted one.
    pub(crate) fn children(&self) -> io::Result<(i32, i64)> {
        let at = self.body.len().checked_sub(12).ok_or_else(malformed)?;
        let pzxid = self.body[at + 4..].try_into().map_or(-1, i64::from_be_bytes);
        Ok((int_at(&self.body, at).ok_or_else(malformed)?, pzxid))
    }

    /// Returns the names in a list of children.
    pub(crate) fn names(&self) -> io::Result<Vec<&str>> {
        let count = int_at(&self.body, 0).and_then(|count| usize::try_from(count).ok());
        count.and_then(|count| strings(&self.body, 4, count)).ok_or_else(malformed)
    }
}

/// Returns the body of a delete.
fn any_version(path: &str) -> Vec<u8> {
    let mut body = Vec::new();
    put_str(&mut body, path);
    put_int(&mut body, -1);
    body
}

fn strings(bytes: &[u8], mut at: usize, count: usize) -> Option<Vec<&str>> {
    let mut all = Vec::new();
    for _ in 0..count {
        let len = usize::try_from(int_at(bytes, at)?).ok()?;
        let text = bytes.get(at + 4..at + 4 + len)?;
        all.push(std::str::from_utf8(text).ok()?);
        at += 4 + len;
    }
    Some(all)
}

fn int_at(bytes: &[u8], at: usize) -> Option<i32> {
    bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).map(i32::from_be_bytes)
}

fn put_int(out: &mut Vec<u8>, int: i32) {
    out.extend_from_slice(&int.to_be_bytes());
}

/// Appends the header of an operation in a transaction.
fn put_operation(out: &mut Vec<u8>, opcode: i32) {
    put_int(out, opcode);
    out.push(u8::from(opcode == END_OF_MULTI));
    put_int(out, -1); // no error
}

fn put_len(out: &mut Vec<u8>, len: usize) {
    put_int(out, i32::try_from(len).unwrap_or(i32::MAX));
}

fn put_str(out: &mut Vec<u8>, text: &str) {
    put_len(out, text.len());
    out.extend_from_slice(text.as_bytes());
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "an answer that makes no sense")
}

const DELETE: i32 = 2;
const SET_DATA: i32 = 5;
const END_OF_MULTI: i32 = -1;
const SESSION_TIMEOUT_MS: i32 = 40_000;
/// Larger than any reply except a list of many children.
const BUFFER_LEN: usize = 64 * 1024;
