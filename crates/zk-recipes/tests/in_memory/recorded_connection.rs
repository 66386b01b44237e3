//! A connection that records the operations that the client sends.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use zk_recipes::session::{Client, Config};
use zk_testing::{MemoryStream, TestServer};

use crate::config;
use crate::tapped::{Tap, Tapped};

/// Record of the client's writes since the last call of [`Record::take`].
#[derive(Clone, Default)]
pub(crate) struct Record(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    /// Opcodes of each write.
    writes: Vec<Vec<i32>>,
    bytes_read: usize,
    /// Index of the server for the next connection.
    server: usize,
}

impl Record {
    /// Returns the opcodes since the last call, grouped by write.
    pub(crate) fn take(&self) -> Vec<Vec<i32>> {
        std::mem::take(&mut self.seen().writes)
    }

    /// Returns the number of bytes read from the server since the last call.
    pub(crate) fn take_bytes_read(&self) -> usize {
        std::mem::take(&mut self.seen().bytes_read)
    }

    /// Directs the next connection to this server.
    pub(crate) fn move_to(&self, server: usize) {
        self.seen().server = server;
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of requests since the last call, without lease requests and the close
    /// request.
    pub(crate) fn count(&self) -> usize {
        without_lease(self.take().concat()).into_iter().filter(|op| *op != CLOSE).count()
    }
}

/// Connects a client, and records its requests.
pub(crate) async fn recorded_client(server: &TestServer, seed: u128) -> (Client, Record) {
    recorded(config(seed), server).await
}

/// Starts a server in memory, and connects a client whose requests are recorded.
pub(crate) async fn started_recorded() -> (TestServer, Client, Record) {
    let server = TestServer::in_memory();
    let (client, record) = recorded_client(&server, 1).await;
    (server, client, record)
}

/// Connects a client with this configuration, and records its requests. The session has already
/// asked whether events have zxids, as its first waiter does.
pub(crate) async fn recorded(config: Config, server: &TestServer) -> (Client, Record) {
    let record = Record::default();
    let connector = Tapped { server: server.clone(), tap: Recording(record.clone(), false) };
    let client = config.connector(connector).connect().await.unwrap();
    client.events_have_zxids().await;
    record.take();
    (client, record)
}

/// The tap, and whether the connection has sent its connect request.
#[derive(Clone)]
struct Recording(Record, bool);

impl Tap for Recording {
    fn stream(&self, server: &TestServer) -> io::Result<MemoryStream> {
        server.stream(self.0.seen().server)
    }

    fn poll_read(
        &mut self,
        stream: &mut MemoryStream,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(stream).poll_read(cx, buf);
        self.0.seen().bytes_read += buf.filled().len() - before;
        read
    }

    fn poll_write(
        &mut self,
        stream: &mut MemoryStream,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(stream).poll_write(cx, bytes);
        if let Poll::Ready(Ok(len)) = written {
            assert_eq!(len, bytes.len(), "a pipe in memory takes it all");
            let mut ops = opcodes(bytes);
            if !std::mem::replace(&mut self.1, true) {
                ops.remove(0); // the connect request has no opcode
            }
            self.0.seen().writes.push(ops);
        }
        written
    }
}

/// Removes heartbeats and the requests that renew the lease.
pub(crate) fn without_lease(mut sent: Vec<i32>) -> Vec<i32> {
    sent.retain(|op| ![PING, LEASE_SYNC, LEASE_MULTI].contains(op));
    sent
}

/// Removes the reads with which waiters check the node ahead after a long wait.
pub(crate) fn without_checks(mut sent: Vec<i32>) -> Vec<i32> {
    sent.retain(|op| *op != GET_DATA);
    sent
}

fn opcodes(mut bytes: &[u8]) -> Vec<i32> {
    let int = |bytes: &[u8]| i32::from_be_bytes(bytes[..4].try_into().unwrap());
    let mut ops = Vec::new();
    while !bytes.is_empty() {
        let (frame, rest) = bytes[4..].split_at(usize::try_from(int(bytes)).unwrap());
        ops.push(code_of(int(&frame[4..]), &frame[8..]));
        bytes = rest;
    }
    ops
}

/// Returns the opcode, or one of the codes below for a special use of it.
fn code_of(op: i32, body: &[u8]) -> i32 {
    match op {
        // The body is only the header that ends the operations.
        MULTI if body.len() == 9 => LEASE_MULTI,
        SYNC if body[4..] == *b"/" => LEASE_SYNC,
        GET_CHILDREN2 => {
            let (path, watches) = body[4..].split_at(body.len() - 5);
            let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            let is_of_contender = name.starts_with(b"_c_");
            assert!(!is_of_contender || watches == [1], "a contender's node has no children");
            if is_of_contender { WATCH_NODE } else { GET_CHILDREN2 }
        }
        op => op,
    }
}

/// Code of a getChildren2 that watches the node of a contender.
///
/// [`GET_CHILDREN2`] is the code of a list of a queue.
pub(crate) const WATCH_NODE: i32 = 1_012;
/// Code of the empty transaction that renews the lease.
pub(crate) const LEASE_MULTI: i32 = 1_014;
/// Code of the `sync` of the root that renews the lease.
pub(crate) const LEASE_SYNC: i32 = 1_009;

pub(crate) const CLOSE: i32 = -11;
pub(crate) const DELETE: i32 = 2;
pub(crate) const EXISTS: i32 = 3;
pub(crate) const GET_DATA: i32 = 4;
pub(crate) const SYNC: i32 = 9;
pub(crate) const PING: i32 = 11;
pub(crate) const GET_CHILDREN2: i32 = 12;
pub(crate) const MULTI: i32 = 14;
pub(crate) const CREATE2: i32 = 15;
pub(crate) const REMOVE_WATCHES: i32 = 18;
pub(crate) const SET_WATCHES: i32 = 101;
