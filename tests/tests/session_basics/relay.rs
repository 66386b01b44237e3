//! A relay between a client and a server. On request it behaves like a server that has just
//! started: it accepts connections and sends nothing.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// A listener that passes bytes on in both directions.
pub(crate) struct Relay {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Number of the next connections to accept and ignore.
    swallow: usize,
    streams: Vec<TcpStream>,
    over: bool,
}

impl Relay {
    pub(crate) fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::<Mutex<State>>::default();
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut state = shared.lock().unwrap();
                if state.over {
                    return;
                }
                state.streams.push(stream.try_clone().unwrap());
                match state.swallow.checked_sub(1) {
                    Some(left) => state.swallow = left,
                    None => pass_on(stream, server),
                }
            }
        });
        Self { address, state }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts every connection, and accepts and ignores the next ones.
    pub(crate) fn cut_and_swallow(&self, next: usize) {
        let mut state = self.state.lock().unwrap();
        state.swallow = next;
        state.streams.drain(..).for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
    }

    /// Returns how many of the next connections will be ignored.
    pub(crate) fn left_to_swallow(&self) -> usize {
        self.state.lock().unwrap().swallow
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.cut_and_swallow(0);
        self.state.lock().unwrap().over = true;
        // This wakes the listener.
        drop(TcpStream::connect(self.address));
    }
}

fn pass_on(client: TcpStream, server: SocketAddr) {
    // If there is no server, the client's connection ends as well.
    let Ok(server) = TcpStream::connect(server) else {
        drop(client.shutdown(Shutdown::Both));
        return;
    };
    let ways = [(client.try_clone().unwrap(), server.try_clone().unwrap()), (server, client)];
    for (mut from, mut to) in ways {
        thread::spawn(move || {
            // An error means that one side has closed its connection.
            drop(io::copy(&mut from, &mut to));
            drop(from.shutdown(Shutdown::Both));
            drop(to.shutdown(Shutdown::Both));
        });
    }
}
