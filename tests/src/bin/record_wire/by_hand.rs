//! Exchanges that the Java client cannot produce, encoded byte by byte.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};

use crate::Outcome;
use crate::message::{frame, framed};
use crate::proxy::read_frame;
use crate::transcript::{Direction, Place, Transcript};

/// Records the answers of a standalone server without SASL.
pub(crate) fn alone(server: SocketAddr, transcript: &Transcript) -> Outcome<()> {
    connects(server, transcript)?;
    let record = |file: &str, title: &str, requests: &[&str]| {
        exchange(server, transcript, file, title, requests)
    };
    let refused = |title: &str, request: &str| record("refused", title, &[request]);
    let create = r#"create "/h" "x" open 0"#;
    record("create", "create(/h), then closeSession", &[create, "closeSession"])?;

    // An older server answers a create2 in a multi like a create.
    let create2 = r#"multi [ create2 "/h2" null open 1 ] end"#;
    record("multi", "multi(create2(/h2, null, EPHEMERAL))", &[create2])?;
    record("multi", "multi of nothing", &["multi end"])?;
    record("sasl", "a step at a server without SASL", &[r#"sasl """#])?;

    let unknown_scheme = r#"auth 0 "nonsense" "u:p""#;
    record("errors", "AuthFailed: auth of an unknown scheme", &[unknown_scheme])?;
    record("errors", "NoWatcher: removeWatches(/h, Any)", &[r#"removeWatches "/h" 3"#])?;

    record("liberal", "sync(null)", &["sync null"])?;
    record("liberal", "getEphemerals(null)", &["getEphemerals null"])?;
    let long = r#"setData "/h" "y" -1 7b 7b"#;
    record("liberal", "setData with two bytes behind the record", &[long])?;
    // Java encodes characters beyond the first plane as CESU-8, and decodes its input as UTF-8.
    for (title, id) in [
        ("an id with U+1F600 in UTF-8", r"u\xf0\x9f\x98\x80:x"),
        ("an id that is no UTF-8", r"u\xff\xed\xa0\xbd:x"),
    ] {
        let acl = format!(r#"2 31 "world" "anyone" 1 "digest" "{id}""#);
        let set = format!(r#"setACL "/h" {acl} -1"#);
        let title = format!("setACL with {title}, then getACL");
        record("liberal", &title, &[&set, r#"getACL "/h""#])?;
    }

    refused("Unimplemented: an unknown operation", "op 99")?;
    refused("MarshallingError: getData(null)", "getData null 0b")?;
    refused("MarshallingError: delete without its last byte", r#"delete "/h" -1 cut 1"#)?;
    refused("MarshallingError: addWatch of mode 9", r#"addWatch "/h" 9"#)?;
    refused("MarshallingError: removeWatches of type 9", r#"removeWatches "/h" 9"#)?;
    refused("BadArguments: create with flags 9", r#"create "/h3" null open 9"#)?;
    refused("MarshallingError: multi(setACL)", r#"multi [ setACL "/h" open -1 ] end"#)?;
    refused("MarshallingError: multi without an end", r#"multi [ check "/h" -1 ]"#)?;
    refused("MarshallingError: multiRead(delete)", r#"multiRead [ delete "/h" -1 ] end"#)
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
    requests: &[&str],
) -> Outcome<()> {
    let stream = TcpStream::connect(server)?;
    send(&stream, transcript, Place::First, &connect(0, Some(0)))?;
    transcript.begin(file, &format!("by hand: {title}"));
    for (xid, request) in (1..).zip(requests) {
        // The xid of credentials.
        let xid = if request.starts_with("auth") { -4 } else { xid };
        send(&stream, transcript, Place::Later, &frame(request, xid, 0))?;
    }
    transcript.pause();
    Ok(())
}

fn send(
    mut stream: &TcpStream,
    transcript: &Transcript,
    place: Place,
    request: &[u8],
) -> Outcome<()> {
    transcript.hear(Direction::ToServer, place, request);
    stream.write_all(request)?;
    let reply = read_frame(stream)?;
    transcript.hear(Direction::FromServer, place, &reply);
    Ok(())
}

fn connect(session_id: i64, read_only: Option<u8>) -> Vec<u8> {
    let timeout_ms = 30_000_i32.to_be_bytes();
    let mut request = [&[0; 12][..], &timeout_ms, &session_id.to_be_bytes()].concat();
    request.extend(framed(&[0; 16]));
    request.extend(read_only);
    framed(&request)
}
