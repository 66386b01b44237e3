//! The real server of the comparison.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use bytes::BytesMut;

use crate::player::Outcome;
use crate::player::side::{Heard, Side, split};

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
