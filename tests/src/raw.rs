//! Hand-written bytes on the wire, for requests that the client never sends and for servers that
//! are not ZooKeeper.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use xtask::zookeeper::Server;

/// Prefixes a body with its length.
pub fn frame(body: &[u8]) -> Vec<u8> {
    let len = i32::try_from(body.len()).unwrap();
    [&len.to_be_bytes(), body].concat()
}

/// Reads one frame and returns its body, without the length.
///
/// # Errors
/// The stream ends or fails.
pub fn read_frame(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut len = [0; 4];
    stream.read_exact(&mut len)?;
    let mut body = vec![0; usize::try_from(i32::from_be_bytes(len)).unwrap()];
    stream.read_exact(&mut body)?;
    Ok(body)
}

/// Returns the answer to a connect request: session 0x1234 with this timeout.
pub fn accept_reply(timeout_ms: i32) -> Vec<u8> {
    let mut body = [0_i32.to_be_bytes(), timeout_ms.to_be_bytes()].concat();
    body.extend(0x1234_i64.to_be_bytes());
    body.extend(buffer(&[7; 16]));
    body.push(0);
    body
}

/// Encodes a string or buffer with its length prefix.
pub fn buffer(bytes: &[u8]) -> Vec<u8> {
    frame(bytes)
}

/// Creates a persistent node with null data and an ACL that permits everything to everyone. The path is
/// below the server's chroot.
pub fn create_with_null_data(server: &Server, path: &str) {
    let path = format!("{}{path}", server.chroot());
    let mut stream = TcpStream::connect(server.address()).unwrap();
    let handshake =
        [&0_i32.to_be_bytes()[..], &[0; 8], &10_000_i32.to_be_bytes(), &[0; 8], &buffer(&[0; 16])];
    stream.write_all(&frame(&handshake.concat())).unwrap();
    read_frame(&mut stream).unwrap();

    let (xid, create) = (1_i32.to_be_bytes(), 1_i32.to_be_bytes());
    let (null, one, all) = ((-1_i32).to_be_bytes(), 1_i32.to_be_bytes(), 31_i32.to_be_bytes());
    let mut request = [xid, create].concat();
    request.extend(buffer(path.as_bytes()));
    request.extend(null);
    request.extend([one, all].concat());
    request.extend([buffer(b"world"), buffer(b"anyone"), vec![0; 4]].concat());
    stream.write_all(&frame(&request)).unwrap();
    let reply = read_frame(&mut stream).unwrap();
    assert_eq!(reply[12..16], [0; 4], "the error code in {reply:?}");
}
