//! Exchanges that the Java client cannot produce, encoded byte by byte.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};

use crate::Outcome;
use crate::jute::Payload;
use crate::proxy::read_frame;
use crate::transcript::{Direction, Place, Transcript};

/// Records the answers of a standalone server without SASL.
pub(crate) fn alone(server: SocketAddr, transcript: &Transcript) -> Outcome<()> {
    connects(server, transcript)?;
    let record = |file: &str, title: &str, requests: &[Payload]| {
        exchange(server, transcript, file, title, requests)
    };
    let path = b"/h".as_slice();
    let create = |op: i32| Payload::request(1, op).bytes(path).bytes(b"x").open_acl().int(0);
    record("create", "create(/h), then closeSession", &[create(1), Payload::request(2, -11)])?;

    // An older server answers a create2 in a multi like a create.
    let multi = |op: i32| Payload::request(1, 14).multi_op(op);
    let create2 = multi(15).bytes(b"/h2").null().open_acl().int(1).multi_end();
    record("multi", "multi(create2(/h2, null, EPHEMERAL))", &[create2])?;
    record("multi", "multi of nothing", &[Payload::request(1, 14).multi_end()])?;
    record("sasl", "a step at a server without SASL", &[Payload::request(1, 102).bytes(b"")])?;

    record(
        "errors",
        "AuthFailed: auth of an unknown scheme",
        &[Payload::request(-4, 100).int(0).bytes(b"nonsense").bytes(b"u:p")],
    )?;
    record(
        "errors",
        "NoWatcher: removeWatches(/h, Any)",
        &[Payload::request(1, 18).bytes(path).int(3)],
    )?;

    record("liberal", "sync(null)", &[Payload::request(1, 9).null()])?;
    record("liberal", "getEphemerals(null)", &[Payload::request(1, 103).null()])?;
    record(
        "liberal",
        "setData with two bytes behind the record",
        &[Payload::request(1, 5).bytes(path).bytes(b"y").int(-1).byte(7).byte(7)],
    )?;
    // Java encodes characters beyond the first plane as CESU-8, and decodes its input as UTF-8.
    for (title, id) in [
        ("an id with U+1F600 in UTF-8", b"u\xf0\x9f\x98\x80:x".as_slice()),
        ("an id that is no UTF-8", b"u\xff\xed\xa0\xbd:x"),
    ] {
        let set = Payload::request(1, 7).bytes(path).int(2);
        let set = set.int(31).bytes(b"world").bytes(b"anyone");
        let set = set.int(1).bytes(b"digest").bytes(id).int(-1);
        let get = Payload::request(2, 6).bytes(path);
        record("liberal", &format!("setACL with {title}, then getACL"), &[set, get])?;
    }

    record("refused", "Unimplemented: an unknown operation", &[Payload::request(1, 99)])?;
    record("refused", "MarshallingError: getData(null)", &[Payload::request(1, 4).null().byte(0)])?;
    record(
        "refused",
        "MarshallingError: delete without its last byte",
        &[Payload::request(1, 2).bytes(path).byte(0xff).byte(0xff).byte(0xff)],
    )?;
    record(
        "refused",
        "MarshallingError: addWatch of mode 9",
        &[Payload::request(1, 106).bytes(path).int(9)],
    )?;
    record(
        "refused",
        "MarshallingError: removeWatches of type 9",
        &[Payload::request(1, 18).bytes(path).int(9)],
    )?;
    record(
        "refused",
        "BadArguments: create with flags 9",
        &[Payload::request(1, 1).bytes(b"/h3").null().open_acl().int(9)],
    )?;
    record(
        "refused",
        "MarshallingError: multi(setACL)",
        &[multi(7).bytes(path).open_acl().int(-1).multi_end()],
    )?;
    record("refused", "MarshallingError: multi without an end", &[multi(13).bytes(path).int(-1)])?;
    record(
        "refused",
        "MarshallingError: multiRead(delete)",
        &[Payload::request(1, 22).multi_op(2).bytes(path).int(-1).multi_end()],
    )
}

/// Records the answer of a read-only server without local sessions.
pub(crate) fn read_only(server: SocketAddr, transcript: &Transcript) -> Outcome<()> {
    transcript.begin("connect", "by hand: refused by a read-only server, with a bare reply header");
    let stream = TcpStream::connect(server)?;
    send(&stream, transcript, Place::First, &connect(0, Some(1)))?;
    transcript.pause();
    Ok(())
}

fn connects(server: SocketAddr, transcript: &Transcript) -> Outcome<()> {
    for (title, request) in [
        ("without the last byte, as before 3.4", connect(0, None)),
        ("rejected: there is no such session", connect(0x1234, Some(0))),
    ] {
        transcript.begin("connect", &format!("by hand: {title}"));
        let stream = TcpStream::connect(server)?;
        send(&stream, transcript, Place::First, &request)?;
        transcript.pause();
    }
    Ok(())
}

/// Sends `requests` one by one in a separate session, and records each with its reply.
fn exchange(
    server: SocketAddr,
    transcript: &Transcript,
    file: &str,
    title: &str,
    requests: &[Payload],
) -> Outcome<()> {
    let stream = TcpStream::connect(server)?;
    send(&stream, transcript, Place::First, &connect(0, Some(0)))?;
    transcript.begin(file, &format!("by hand: {title}"));
    for request in requests {
        send(&stream, transcript, Place::Later, request)?;
    }
    transcript.pause();
    Ok(())
}

fn send(
    mut stream: &TcpStream,
    transcript: &Transcript,
    place: Place,
    request: &Payload,
) -> Outcome<()> {
    let request = request.frame();
    transcript.hear(Direction::ToServer, place, &request);
    stream.write_all(&request)?;
    let reply = read_frame(stream)?;
    transcript.hear(Direction::FromServer, place, &reply);
    Ok(())
}

fn connect(session_id: i64, read_only: Option<u8>) -> Payload {
    let request = Payload::default().int(0).long(0).int(30_000).long(session_id).bytes(&[0; 16]);
    match read_only {
        Some(byte) => request.byte(byte),
        None => request,
    }
}
