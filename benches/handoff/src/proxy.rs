//! A proxy of the server that counts all traffic, and can cut all connections.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use bytes::BytesMut;
use zk_benches::contest::Job;
use zk_proto::{FRAME_LEN_MAX_CLIENT, split_frame};

use crate::stream::dial;

/// A running proxy. Its threads end with their connections; the listener stays until the process
/// ends.
#[derive(Clone)]
pub(crate) struct Proxy {
    shared: Arc<Shared>,
    address: String,
}

#[derive(Default)]
struct Shared {
    connections: Mutex<Vec<TcpStream>>,
    counts: Mutex<Counts>,
    /// The length of the lock's path. The paths of its contenders are longer.
    lock_len: usize,
    /// The releases of the contest. The traffic after them, of waiters that are cancelled, does not count.
    releases: u64,
}

/// Counts of the traffic so far. The frames that open and close a session are no requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    pub(crate) requests: u64,
    /// Deletes and transactions. Each hold ends with one.
    releases: u64,
    /// Requests for the children of the lock. A child watch on a contender's node is none.
    pub(crate) lists: u64,
    pub(crate) bytes_sent: u64,
    pub(crate) frames_received: u64,
    pub(crate) events: u64,
    pub(crate) bytes_received: u64,
}

impl Counts {
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            requests: self.requests - before.requests,
            releases: self.releases - before.releases,
            lists: self.lists - before.lists,
            bytes_sent: self.bytes_sent - before.bytes_sent,
            frames_received: self.frames_received - before.frames_received,
            events: self.events - before.events,
            bytes_received: self.bytes_received - before.bytes_received,
        }
    }
}

impl Proxy {
    /// Starts a proxy of the servers for the contenders of one lock.
    pub(crate) fn start(servers: String, job: &Job) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?.to_string();
        // A queue that drains has no more traffic after its last release.
        let releases = if job.again { job.holds as u64 } else { u64::MAX };
        let shared = Shared { lock_len: job.path.len(), releases, ..Shared::default() };
        let shared = Arc::new(shared);
        let this = Self { shared, address };
        let proxy = this.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // If the server cannot be reached, the client's connection closes, as with a server
                // that is down.
                let _ = proxy.forward(client, &servers);
            }
        });
        Ok(this)
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Closes all present connections. New ones are accepted.
    pub(crate) fn cut(&self) {
        for connection in self.connections().drain(..) {
            // It fails if the connection has ended.
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        *self.shared.counts()
    }

    fn connections(&self) -> std::sync::MutexGuard<'_, Vec<TcpStream>> {
        self.shared.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forward(&self, client: TcpStream, servers: &str) -> io::Result<()> {
        let server = dial(servers)?;
        client.set_nodelay(true)?;
        for stream in [&client, &server] {
            self.connections().push(stream.try_clone()?);
        }
        let (from_client, to_server) = (client.try_clone()?, server.try_clone()?);
        let shared = Arc::clone(&self.shared);
        let mut frames = BytesMut::new();
        let requests = move |bytes: &[u8]| shared.count_requests(&mut frames, bytes);
        thread::spawn(move || pump(from_client, to_server, requests));
        let shared = Arc::clone(&self.shared);
        let mut frames = BytesMut::new();
        let answers = move |bytes: &[u8]| shared.count_answers(&mut frames, bytes);
        thread::spawn(move || pump(server, client, answers));
        Ok(())
    }
}

impl Shared {
    fn counts(&self) -> std::sync::MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count_requests(&self, buffer: &mut BytesMut, bytes: &[u8]) {
        let mut counts = self.counts();
        if counts.releases >= self.releases {
            return;
        }
        counts.bytes_sent += bytes.len() as u64;
        frames(buffer, bytes, |frame| {
            // The frame that opens a session begins with two zeros where others have xid and opcode.
            let Some(opcode) = number(frame, 4).filter(|opcode| ![0, CLOSE].contains(opcode))
            else {
                return;
            };
            counts.requests += 1;
            counts.releases += u64::from(RELEASES.contains(&opcode));
            let path_len = number(frame, 8).and_then(|len| usize::try_from(len).ok());
            if LISTS.contains(&opcode) && path_len == Some(self.lock_len) {
                counts.lists += 1;
            }
        });
    }

    fn count_answers(&self, buffer: &mut BytesMut, bytes: &[u8]) {
        let mut counts = self.counts();
        if counts.releases >= self.releases {
            return;
        }
        counts.bytes_received += bytes.len() as u64;
        frames(buffer, bytes, |frame| {
            counts.frames_received += 1;
            counts.events += u64::from(number(frame, 0) == Some(EVENT));
        });
    }
}

/// Forwards bytes until one of the streams has ended, and then closes both.
fn pump(mut from: TcpStream, mut to: TcpStream, mut count: impl FnMut(&[u8])) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        count(&buffer[..len]);
        if to.write_all(&buffer[..len]).is_err() {
            break;
        }
    }
    for stream in [from, to] {
        // It fails if the connection has ended.
        let _ = stream.shutdown(Shutdown::Both);
    }
}

/// Calls `each` with each complete frame of a stream that arrives in chunks of any size.
fn frames(buffer: &mut BytesMut, bytes: &[u8], mut each: impl FnMut(&[u8])) {
    buffer.extend_from_slice(bytes);
    // After a length that makes no sense, nothing counts.
    while let Ok(Some(frame)) = split_frame(buffer, FRAME_LEN_MAX_CLIENT) {
        each(&frame);
    }
}

/// Returns four bytes of a frame as a number.
fn number(frame: &[u8], at: usize) -> Option<i32> {
    let four = frame.get(at..at + 4)?;
    four.try_into().ok().map(i32::from_be_bytes)
}

const EVENT: i32 = -1;
/// delete and multi.
const RELEASES: [i32; 2] = [2, 14];
/// getChildren and getChildren2.
const LISTS: [i32; 2] = [8, 12];
const CLOSE: i32 = -11;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_independent_of_chunk_boundaries() {
        let mut stream = vec![0, 0, 0, 2, 9, 8, 0, 0, 0, 0, 0, 0, 0, 14];
        stream.extend(1..=14);
        stream.extend([0, 0, 0, 1, 7]);
        for cut in 0..stream.len() {
            let (mut buffer, mut all) = (BytesMut::new(), Vec::new());
            frames(&mut buffer, &stream[..cut], |frame| all.push(frame.to_vec()));
            frames(&mut buffer, &stream[cut..], |frame| all.push(frame.to_vec()));
            let expected = [vec![9, 8], vec![], (1..=14).collect(), vec![7]];
            assert_eq!(all, expected, "cut at {cut}");
        }
    }
}
