//! A TCP proxy that records every frame.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::transcript::{Direction, Place, Transcript};

/// A proxy in front of one server. Its threads end with their connections or with the process.
pub(crate) struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    server: SocketAddr,
    transcript: Arc<Transcript>,
    /// Whether new connections are dropped at once.
    closed: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    /// Starts a proxy for the server at `server`.
    pub(crate) fn start(server: SocketAddr, transcript: Arc<Transcript>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let (closed, open) = (AtomicBool::new(false), Mutex::default());
        let shared = Arc::new(Shared { server, transcript, closed, open });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // If the server is not reachable, the client's connection is closed.
                let _ = accepting.serve(client);
            }
        });
        Ok(Self { address, shared })
    }

    /// Returns the address for clients.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes all connections, and drops new ones until [`release`](Self::release).
    pub(crate) fn cut(&self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        for stream in self.shared.open.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // The stream may be closed already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Accepts connections again.
    pub(crate) fn release(&self) {
        self.shared.closed.store(false, Ordering::SeqCst);
    }
}

impl Shared {
    fn serve(self: &Arc<Self>, client: TcpStream) -> io::Result<()> {
        if self.closed.load(Ordering::SeqCst) {
            return Ok(());
        }
        let server = TcpStream::connect(self.server)?;
        {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            open.extend([client.try_clone()?, server.try_clone()?]);
        }
        let directions = [
            (client.try_clone()?, server.try_clone()?, Direction::ToServer),
            (server, client, Direction::FromServer),
        ];
        for (from, to, direction) in directions {
            let shared = Arc::clone(self);
            thread::spawn(move || {
                // The other side must see the end of the connection, however it ended.
                let _ = shared.pump(&from, &to, direction);
                let _ = to.shutdown(Shutdown::Both);
            });
        }
        Ok(())
    }

    fn pump(&self, from: &TcpStream, mut to: &TcpStream, direction: Direction) -> io::Result<()> {
        let mut place = Place::First;
        loop {
            let frame = read_frame(from)?;
            // The frame is recorded before it is passed on, so that its effects are recorded after
            // it.
            self.transcript.hear(direction, place, &frame);
            to.write_all(&frame)?;
            place = Place::Later;
        }
    }
}

/// Reads a frame with its length prefix.
pub(crate) fn read_frame(mut from: &TcpStream) -> io::Result<Vec<u8>> {
    let mut frame = vec![0; 4];
    from.read_exact(&mut frame)?;
    let len = frame.iter().fold(0_usize, |len, byte| len << 8 | usize::from(*byte));
    frame.resize(4 + len.min(FRAME_LEN_MAX), 0);
    from.read_exact(&mut frame[4..])?;
    Ok(frame)
}

/// Larger than any frame of a recording, which should be small.
const FRAME_LEN_MAX: usize = 1 << 20;
