//! A session over a blocking socket, without a client library. The floor, the classic algorithm and
//! the benchmark's bookkeeping use it.

use std::io::{self, Read, Write};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
pub(crate) use zk_proto::CreateMode as Create;
use zk_proto::{
    Acl, ChildList, CloseSession, ConnectRequest, ConnectResponse, CreatePathReply, CreateRequest,
    Decode, Delete, Exists, GetChildren, GetData, Multi, MultiOp, OpCode, Ping, ReplyHeader,
    Request, SessionId, SetData, SetWatches, Stat, WatcherEvent, Zxid, encode_record,
    encode_request, xid,
};

use crate::stream::{Stream, Transport};

/// A session. The request methods add requests to a buffer, which [`Raw::flush`] sends.
pub(crate) struct Raw {
    stream: Stream,
    out: BytesMut,
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
    pub(crate) body: Bytes,
}

/// The xid of events.
pub(crate) const EVENT_XID: i32 = xid::NOTIFICATION;
pub(crate) const PING_XID: i32 = xid::PING;
/// Errors of the server.
pub(crate) const NO_NODE: i32 = -101;
pub(crate) const NODE_EXISTS: i32 = -110;

impl Raw {
    pub(crate) fn connect(address: &str, transport: Transport) -> io::Result<Self> {
        let stream = Stream::connect(address, transport)?;
        let (out, inbound, timeout) = (BytesMut::new(), vec![0; BUFFER_LEN], Duration::ZERO);
        let mut raw = Self { stream, out, inbound, unread: 0..0, xid: 0, timeout };
        let hello = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: Zxid(0),
            timeout_ms: SESSION_TIMEOUT_MS,
            session_id: SessionId(0),
            password: Bytes::from_static(&[0; 16]),
            read_only: Some(false),
        };
        encode_record(&hello, &mut raw.out);
        raw.flush()?;
        let answer = decode::<ConnectResponse>(&raw.read_bytes()?)?;
        let timeout_ms = u64::try_from(answer.timeout_ms).map_err(io::Error::other)?;
        raw.timeout = Duration::from_millis(timeout_ms);
        Ok(raw)
    }

    /// Limits the time that a read waits for the server. Without a limit, it waits forever.
    pub(crate) fn limit_reads(&self, limit: Duration) -> io::Result<()> {
        self.stream.limit_reads(limit)
    }

    pub(crate) fn create(&mut self, path: &str, mode: Create) -> i32 {
        let (data, acl) = (Some(b"".into()), vec![Acl::open()].into());
        self.request(&CreateRequest::<CREATE> { path: path.into(), data, acl, mode })
    }

    pub(crate) fn delete(&mut self, path: &str) -> i32 {
        self.request(&Delete { path: path.into(), version: ANY_VERSION })
    }

    /// Queues a transaction that sets the data of a node and deletes it.
    pub(crate) fn set_and_delete(&mut self, path: &str) -> i32 {
        let version = ANY_VERSION;
        let data = Some(b"released".into());
        let set = SetData { path: path.into(), data, version };
        let delete = Delete { path: path.into(), version };
        let ops = vec![MultiOp::SetData(set), MultiOp::Delete(delete)];
        self.request(&Multi { ops: ops.into() })
    }

    /// Queues an `exists` request with a watch.
    pub(crate) fn watch(&mut self, path: &str) -> i32 {
        self.request(&Exists { path: path.into(), watch: true })
    }

    /// Queues a `getData` request with a watch.
    pub(crate) fn watch_data(&mut self, path: &str) -> i32 {
        self.request(&GetData { path: path.into(), watch: true })
    }

    /// Queues an `exists` request without a watch. The body of its reply is the node's Stat.
    pub(crate) fn stat(&mut self, path: &str) -> i32 {
        self.request(&Exists { path: path.into(), watch: false })
    }

    /// Queues a `setWatches` for changes since a transaction. A node that does not exist is reported at once
    /// as deleted, with the zxid -1.
    pub(crate) fn set_watches(&mut self, since: i64, data: &[&str], children: &[&str]) -> i32 {
        let paths = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned().into()).collect();
        let (data, child) = (paths(data), paths(children));
        self.request(&SetWatches { relative_zxid: Zxid(since), data, exist: Vec::new(), child })
    }

    pub(crate) fn children(&mut self, path: &str) -> i32 {
        self.request(&GetChildren { path: path.into(), watch: false })
    }

    /// Returns the number of children, without listing them.
    pub(crate) fn count_children(&mut self, path: &str) -> io::Result<usize> {
        self.stat(path);
        let (count, _) = self.call()?.children()?;
        usize::try_from(count).map_err(io::Error::other)
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
        let (header, body) = ReplyHeader::split(&self.read_bytes()?).map_err(io::Error::other)?;
        let ReplyHeader { xid, zxid, err } = header;
        Ok(Frame { xid, zxid: zxid.0, error: err.0, body })
    }

    /// Returns the time from ping to ping.
    pub(crate) fn heartbeat(&self) -> Duration {
        self.timeout / 4
    }

    /// Queues a ping. Its reply has the xid [`PING_XID`].
    pub(crate) fn ping(&mut self) {
        encode_request(PING_XID, &Ping, &mut self.out);
    }

    fn request(&mut self, request: &impl Request) -> i32 {
        self.xid += 1;
        encode_request(self.xid, request, &mut self.out);
        self.xid
    }

    /// Reads the next frame with as few system calls as possible: one for all bytes that have
    /// arrived.
    fn read_bytes(&mut self) -> io::Result<Bytes> {
        loop {
            let unread = &self.inbound[self.unread.clone()];
            let prefix = unread.first_chunk().map_or(0, |prefix| u32::from_be_bytes(*prefix));
            let len = prefix as usize;
            if unread.len() >= 4 && unread.len() - 4 >= len {
                let frame = Bytes::copy_from_slice(&unread[4..4 + len]);
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
        self.request(&CloseSession);
        // Both fail only if the connection has ended.
        let _ = self.flush();
        while self.read().is_ok_and(|frame| frame.xid != self.xid) {}
    }
}

impl Frame {
    /// Returns the path of the created node.
    pub(crate) fn path(&self) -> io::Result<String> {
        Ok(decode::<CreatePathReply>(&self.body)?.path)
    }

    pub(crate) fn event(&self) -> io::Result<WatcherEvent> {
        decode(&self.body)
    }

    /// Returns the number of children in a Stat, and the last transaction that has created or deleted one.
    pub(crate) fn children(&self) -> io::Result<(i32, i64)> {
        let stat = decode::<Stat>(&self.body)?;
        Ok((stat.num_children, stat.pzxid.0))
    }

    /// Returns the names in a list of children.
    pub(crate) fn names(&self) -> io::Result<ChildList> {
        decode(&self.body)
    }
}

fn decode<'a, T: Decode<'a>>(body: &'a Bytes) -> io::Result<T> {
    T::from_frame(body).map_err(io::Error::other)
}

const CREATE: i32 = OpCode::Create.code();
const ANY_VERSION: i32 = -1;
const SESSION_TIMEOUT_MS: i32 = 40_000;
/// Larger than any reply except a list of many children.
const BUFFER_LEN: usize = 64 * 1024;
