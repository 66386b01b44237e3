//! A server that violates the protocol.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use zk_testing::Rng;
use zk_tests::raw::{accept_reply, frame, read_frame};

/// Answer to the handshake.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Hello {
    /// A valid answer.
    Good,
    /// A valid answer with a session timeout that no server grants.
    Timeout(i32),
    /// Another answer instead of a handshake.
    Bad(Answer),
    /// A password with a length of 2 GiB.
    PasswordLength,
    /// Session id 0, by which a server rejects the session.
    Refusal,
}

impl Hello {
    pub(crate) fn bad() -> Vec<Self> {
        let of_any_request = Answer::BAD[..Answer::OF_ANY_REQUEST].iter().copied();
        of_any_request.map(Self::Bad).chain([Self::PasswordLength, Self::Refusal]).collect()
    }
}

/// Answer to a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    Silence,
    Close,
    /// Random bytes, for ever.
    Random,
    /// A frame of random bytes, and then silence.
    RandomFrame,
    /// The beginning of a frame, and then silence.
    Truncated,
    TruncatedAndClosed,
    /// A frame of 2 GiB. The peer sends as much of it as the client accepts.
    LengthHuge,
    LengthNegative,
    LengthZero,
    /// Frames of maximum length, one after the other, without meaningful content.
    LargestFrames,
    Zeros,
    /// An answer to a request that was never sent.
    WrongXid,
    /// An answer that ends within its header.
    ShortHeader,
    /// Only a header, where a list should follow.
    NoBody,
    /// A list of 2^31 - 1 names.
    CountHuge,
    /// A list with a name of 2 GiB.
    NameHuge,
    /// An error code that no version of ZooKeeper has.
    UnknownCode,
    /// Events of a watch that was never set, one after the other, and no answer.
    Events,
    /// Answers to pings, requested or not, one after the other, and no answer to the request. It is
    /// not in `BAD`, because the client cannot distinguish it from a slow server.
    Pongs,
}

impl Answer {
    /// The first of [`BAD`](Self::BAD), which a handshake may have as well.
    const OF_ANY_REQUEST: usize = 11;
    pub(crate) const BAD: [Self; 18] = [
        Self::Silence,
        Self::Close,
        Self::Random,
        Self::RandomFrame,
        Self::Truncated,
        Self::TruncatedAndClosed,
        Self::LengthHuge,
        Self::LengthNegative,
        Self::LengthZero,
        Self::LargestFrames,
        Self::Zeros,
        Self::WrongXid,
        Self::ShortHeader,
        Self::NoBody,
        Self::CountHuge,
        Self::NameHuge,
        Self::UnknownCode,
        Self::Events,
    ];
}

/// A listener that serves every connection in this way, until it is dropped.
pub(crate) struct Peer {
    address: SocketAddr,
    hello: Hello,
    answer: Answer,
    over: Arc<AtomicBool>,
}

impl Peer {
    pub(crate) fn start(hello: Hello, answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&over);
        thread::spawn(move || {
            for stream in listener.incoming() {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                // An error means that the client closed the connection, as it should.
                thread::spawn(move || drop(serve(stream, hello, answer)));
            }
        });
        Self { address, hello, answer, over }
    }

    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} and {:?}", self.hello, self.answer)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // This wakes the listener if no other connection does.
        drop(TcpStream::connect(self.address));
    }
}

fn serve(mut stream: TcpStream, hello: Hello, answer: Answer) -> io::Result<()> {
    read_frame(&mut stream)?;
    match hello {
        Hello::Good => stream.write_all(&frame(&accept_reply(1000)))?,
        Hello::Timeout(timeout_ms) => stream.write_all(&frame(&accept_reply(timeout_ms)))?,
        Hello::Bad(answer) => return give(stream, answer, 0),
        Hello::PasswordLength => {
            let mut reply = accept_reply(1000);
            reply[16..20].copy_from_slice(&i32::MAX.to_be_bytes());
            stream.write_all(&frame(&reply))?;
            return give(stream, Answer::Silence, 0);
        }
        Hello::Refusal => return stream.write_all(&frame(&[0; 37])),
    }
    let request = read_frame(&mut stream)?;
    let xid = request.first_chunk().map_or(0, |bytes| i32::from_be_bytes(*bytes));
    give(stream, answer, xid)
}

fn give(mut stream: TcpStream, answer: Answer, xid: i32) -> io::Result<()> {
    let reply = |xid: i32, code: i32, body: &[u8]| {
        frame(&[&xid.to_be_bytes()[..], &[0; 8], &code.to_be_bytes(), body].concat())
    };
    let huge = i32::MAX.to_be_bytes();
    match answer {
        Answer::Silence => {}
        Answer::Close => return Ok(()),
        Answer::Random => {
            let mut rng = Rng::new(1);
            loop {
                stream.write_all(&random(&mut rng))?;
            }
        }
        Answer::RandomFrame => stream.write_all(&frame(&random(&mut Rng::new(42))))?,
        Answer::Truncated => stream.write_all(&frame(&[0; 37])[..20])?,
        Answer::TruncatedAndClosed => return stream.write_all(&frame(&[0; 37])[..20]),
        Answer::LengthHuge => {
            stream.write_all(&huge)?;
            return for_ever(stream, &[1; CHUNK]);
        }
        Answer::LengthNegative => stream.write_all(&(-1_i32).to_be_bytes())?,
        Answer::LengthZero => stream.write_all(&[0; 4])?,
        Answer::LargestFrames => return for_ever(stream, &frame(&vec![1; FRAME_LEN])),
        Answer::Zeros => return for_ever(stream, &[0; CHUNK]),
        Answer::WrongXid => stream.write_all(&reply(xid.wrapping_add(7), 0, &[0; 72]))?,
        Answer::ShortHeader => stream.write_all(&frame(&xid.to_be_bytes()))?,
        Answer::NoBody => stream.write_all(&reply(xid, 0, &[]))?,
        Answer::CountHuge => stream.write_all(&reply(xid, 0, &[&huge[..], &[0; 68]].concat()))?,
        Answer::NameHuge => {
            let one = 1_i32.to_be_bytes();
            stream.write_all(&reply(xid, 0, &[&one[..], &huge, &[0; 68]].concat()))?;
        }
        Answer::UnknownCode => stream.write_all(&reply(xid, -999, &[]))?,
        Answer::Events => {
            let (deleted, connected) = (2_i32.to_be_bytes(), 3_i32.to_be_bytes());
            let body = [&deleted[..], &connected, &frame(b"/a")].concat();
            return for_ever(stream, &reply(-1, 0, &body).repeat(1000));
        }
        Answer::Pongs => return for_ever(stream, &reply(-2, 0, &[]).repeat(1000)),
    }
    // Further requests of the client are read and not answered.
    io::copy(&mut stream, &mut io::sink()).map(drop)
}

/// Sends the same bytes repeatedly until the client closes the connection.
fn for_ever(mut stream: TcpStream, bytes: &[u8]) -> io::Result<()> {
    // The requests of the client must not fill its send buffer and block it.
    let mut heard = stream.try_clone()?;
    thread::spawn(move || {
        let mut buffer = [0; 1024];
        while heard.read(&mut buffer).is_ok_and(|len| len > 0) {}
    });
    loop {
        stream.write_all(bytes)?;
    }
}

fn random(rng: &mut Rng) -> Vec<u8> {
    (0..128).flat_map(|_| rng.draw().to_be_bytes()).collect()
}

const CHUNK: usize = 64 * 1024;
/// The default limit of a client: 16 MiB.
const FRAME_LEN: usize = 16 * 1024 * 1024;
