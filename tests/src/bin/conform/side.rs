//! The two servers of the comparison. A connection to either takes bytes and returns frames.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use zk_testing::server::{Ensemble, Output};
use zk_testing::{ConnectionId, Settings};

use crate::{Outcome, super_digest};

/// Result of a read from a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Frame(Bytes),
    Closed,
    /// No frame arrived within the time limit.
    Silence,
}

/// A server from the point of view of its clients.
pub(crate) trait Side {
    /// Opens a connection and returns its number.
    fn connect(&mut self) -> Outcome<usize>;
    fn send(&mut self, connection: usize, bytes: &[u8]);
    fn hear(&mut self, connection: usize) -> Outcome<Heard>;
    /// Closes a connection at the client's end.
    fn hang_up(&mut self, connection: usize);
}

/// Time limit for a reply of a real server.
const PATIENCE: Duration = Duration::from_secs(5);

/// The real server.
pub(crate) struct Real {
    address: SocketAddr,
    streams: HashMap<usize, (TcpStream, BytesMut)>,
    next: usize,
    chunk: Box<[u8]>,
}

impl Real {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address, streams: HashMap::new(), next: 0, chunk: vec![0; 65_536].into() }
    }
}

impl Side for Real {
    fn connect(&mut self) -> Outcome<usize> {
        let stream = TcpStream::connect(self.address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        self.next += 1;
        self.streams.insert(self.next, (stream, BytesMut::new()));
        Ok(self.next)
    }

    fn send(&mut self, connection: usize, bytes: &[u8]) {
        if let Some((stream, _)) = self.streams.get_mut(&connection) {
            // The next read reports the failure.
            let _ = stream.write_all(bytes);
        }
    }

    fn hear(&mut self, connection: usize) -> Outcome<Heard> {
        let Some((stream, inbox)) = self.streams.get_mut(&connection) else {
            return Ok(Heard::Closed);
        };
        loop {
            if let Some(frame) = split(inbox) {
                return Ok(Heard::Frame(frame));
            }
            match stream.read(&mut self.chunk) {
                Ok(0) => return Ok(Heard::Closed),
                Ok(len) => inbox.extend_from_slice(&self.chunk[..len]),
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::TimedOut => return Ok(Heard::Silence),
                    ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => return Ok(Heard::Closed),
                    ErrorKind::Interrupted => {}
                    _ => return Err(error.into()),
                },
            }
        }
    }

    fn hang_up(&mut self, connection: usize) {
        let Some((mut stream, _)) = self.streams.remove(&connection) else { return };
        // The server removes the watches in a separate thread once it notices the close. Its end of
        // the socket is the last resource that it closes.
        let _ = stream.shutdown(Shutdown::Write);
        while stream.read(&mut self.chunk).is_ok_and(|len| len > 0) {}
    }
}

/// The server in process.
pub(crate) struct Ours {
    ensemble: Ensemble,
    inboxes: HashMap<usize, Inbox>,
    numbers: HashMap<ConnectionId, usize>,
    next: usize,
}

struct Inbox {
    id: ConnectionId,
    bytes: BytesMut,
    is_closed: bool,
}

impl Ours {
    pub(crate) fn new(settings: Settings) -> Self {
        let settings = settings
            .enforce_quota()
            .super_digest(super_digest())
            .container_check_interval(Duration::from_secs(1_000_000));
        let ensemble = Ensemble::new(settings, zk_tests::now());
        Self { ensemble, inboxes: HashMap::new(), numbers: HashMap::new(), next: 0 }
    }

    /// Returns the nodes below `root` and the nodes of its quota, every parent before its children.
    pub(crate) fn nodes(&self, root: &str) -> Vec<String> {
        let quota = format!("/zookeeper/quota{root}");
        let is_below = |path: &str, root: &str| {
            path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let paths = self.ensemble.tree().iter().map(|(path, _)| path);
        let mut nodes: Vec<String> = paths
            .filter(|path| is_below(path, root) || is_below(path, &quota))
            .map(str::to_owned)
            .collect();
        nodes.sort_unstable();
        nodes
    }

    fn drain(&mut self) {
        while let Some(output) = self.ensemble.poll_output() {
            let (Output::Send(id, _) | Output::Close(id, _)) = &output;
            let Some(number) = self.numbers.get(id) else { continue };
            let Some(inbox) = self.inboxes.get_mut(number) else { continue };
            match output {
                Output::Send(_, bytes) => inbox.bytes.extend_from_slice(&bytes),
                Output::Close(..) => inbox.is_closed = true,
            }
        }
    }
}

impl Side for Ours {
    fn connect(&mut self) -> Outcome<usize> {
        let peer = ([127, 0, 0, 1], 4000).into();
        let id = self.ensemble.accept(zk_tests::now(), 0, peer)?;
        self.next += 1;
        self.numbers.insert(id, self.next);
        let inbox = Inbox { id, bytes: BytesMut::new(), is_closed: false };
        self.inboxes.insert(self.next, inbox);
        self.drain();
        Ok(self.next)
    }

    fn send(&mut self, connection: usize, bytes: &[u8]) {
        let Some(inbox) = self.inboxes.get(&connection) else { return };
        let (id, mut bytes) = (inbox.id, BytesMut::from(bytes));
        self.ensemble.receive(zk_tests::now(), id, &mut bytes);
        self.drain();
    }

    fn hear(&mut self, connection: usize) -> Outcome<Heard> {
        let Some(inbox) = self.inboxes.get_mut(&connection) else { return Ok(Heard::Closed) };
        Ok(match split(&mut inbox.bytes) {
            Some(frame) => Heard::Frame(frame),
            None if inbox.is_closed => Heard::Closed,
            None => Heard::Silence,
        })
    }

    fn hang_up(&mut self, connection: usize) {
        if let Some(inbox) = self.inboxes.remove(&connection) {
            self.numbers.remove(&inbox.id);
            self.ensemble.disconnected(zk_tests::now(), inbox.id);
            self.drain();
        }
    }
}

/// Splits off one frame, without its length.
fn split(inbox: &mut BytesMut) -> Option<Bytes> {
    let len = usize::try_from(i32::from_be_bytes(*inbox.first_chunk::<4>()?)).ok()?;
    if inbox.len() < 4 + len {
        return None;
    }
    let frame = inbox.split_to(4 + len);
    Some(frame.freeze().slice(4..))
}
