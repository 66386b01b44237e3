//! A proxy of the server that counts all traffic, and can cut all connections.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

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
    requests: Traffic,
    answers: Traffic,
}

/// Traffic in one direction.
#[derive(Default)]
struct Traffic {
    frames: AtomicU64,
    bytes: AtomicU64,
}

/// Counts of the traffic so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    pub(crate) requests: u64,
    pub(crate) bytes_sent: u64,
    pub(crate) frames_received: u64,
    pub(crate) bytes_received: u64,
}

impl Proxy {
    pub(crate) fn start(server: String) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?.to_string();
        let shared = Arc::new(Shared::default());
        let this = Self { shared, address };
        let proxy = this.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // If the server cannot be reached, the client's connection closes, as with a server
                // that is down.
                let _ = proxy.forward(client, &server);
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
        let Shared { requests, answers, .. } = &*self.shared;
        Counts {
            requests: requests.frames.load(Ordering::Relaxed),
            bytes_sent: requests.bytes.load(Ordering::Relaxed),
            frames_received: answers.frames.load(Ordering::Relaxed),
            bytes_received: answers.bytes.load(Ordering::Relaxed),
        }
    }

    fn connections(&self) -> std::sync::MutexGuard<'_, Vec<TcpStream>> {
        self.shared.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forward(&self, client: TcpStream, server: &str) -> io::Result<()> {
        let server = TcpStream::connect(server)?;
        for stream in [&client, &server] {
            stream.set_nodelay(true)?;
            self.connections().push(stream.try_clone()?);
        }
        let (from_client, to_server) = (client.try_clone()?, server.try_clone()?);
        let shared = Arc::clone(&self.shared);
        thread::spawn(move || pump(from_client, to_server, &shared.requests));
        let shared = Arc::clone(&self.shared);
        thread::spawn(move || pump(server, client, &shared.answers));
        Ok(())
    }
}

/// Forwards bytes until one of the streams has ended, and then closes both.
fn pump(mut from: TcpStream, mut to: TcpStream, traffic: &Traffic) {
    let mut buffer = vec![0; 64 * 1024];
    let mut frames = Frames::default();
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        traffic.bytes.fetch_add(len as u64, Ordering::Relaxed);
        traffic.frames.fetch_add(frames.begun_in(&buffer[..len]), Ordering::Relaxed);
        if to.write_all(&buffer[..len]).is_err() {
            break;
        }
    }
    for stream in [from, to] {
        // It fails if the connection has ended.
        let _ = stream.shutdown(Shutdown::Both);
    }
}

/// Counter of frames by their lengths, for a stream in chunks of any size.
#[derive(Default)]
struct Frames {
    /// Remaining bytes of the current frame.
    body: usize,
    /// The bytes of a length that have arrived; `filled` is their number.
    length: [u8; 4],
    filled: usize,
}

impl Frames {
    /// Returns how many frame lengths are completed by these bytes.
    fn begun_in(&mut self, mut bytes: &[u8]) -> u64 {
        let mut begun = 0;
        while !bytes.is_empty() {
            let skipped = self.body.min(bytes.len());
            self.body -= skipped;
            bytes = &bytes[skipped..];
            while self.body == 0 && !bytes.is_empty() {
                self.length[self.filled] = bytes[0];
                self.filled += 1;
                bytes = &bytes[1..];
                if self.filled == 4 {
                    self.filled = 0;
                    self.body = u32::from_be_bytes(self.length) as usize;
                    begun += 1;
                }
            }
        }
        begun
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_count_is_independent_of_chunk_boundaries() {
        let stream = [0, 0, 0, 2, 9, 9, 0, 0, 0, 0, 0, 0, 0, 1, 9];
        for cut in 0..stream.len() {
            let mut frames = Frames::default();
            let counted = frames.begun_in(&stream[..cut]) + frames.begun_in(&stream[cut..]);
            assert_eq!(counted, 3, "cut at {cut}");
        }
    }
}
