//! Decodes and re-encodes every recorded frame, and compares the bytes.
//!
//! The recordings are of the Java client and a real server: see `golden/README.md`. Their contents, as this
//! crate decodes them, are in `golden/contents.snapshot`.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy does not take for tests")]

mod support;

use std::{
    collections::{HashMap, HashSet},
    fs,
    path::PathBuf,
};

use bytes::{Bytes, BytesMut};
use support::{
    codec::{self, Recoded},
    recording::{self, Exchange, Frame},
};
use zk_proto::*;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// Returns all recordings by file name; their number exceeds 30.
fn recordings() -> Vec<(String, Vec<Exchange>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "txt") {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            all.push((name, recording::read(&path)));
        }
    }
    all.sort_by(|(a, _), (b, _)| a.cmp(b));
    assert!(all.len() > 30 && all.iter().all(|(_, exchanges)| !exchanges.is_empty()));
    all
}

/// Returns the payload after checking the length prefix.
fn payload(frame: &Frame) -> Bytes {
    let mut wire = frame.wire.clone();
    let payload = split_frame(&mut wire, FRAME_LEN_MAX_SERVER).unwrap().unwrap();
    assert!(wire.is_empty());
    payload
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Request,
    Reply(ErrorCode),
    Notification,
}

/// A frame, split into its parts.
#[derive(Clone)]
struct Part {
    kind: Kind,
    xid: i32,
    /// The operation of the request or reply, if this crate has it.
    op: Option<OpCode>,
    header: Bytes,
    body: Bytes,
}

impl Part {
    /// Decodes the body as its expected type. Returns `None` if no type is expected.
    fn read(&self) -> Option<Result<Recoded, DecodeError>> {
        match self.kind {
            Kind::Request => codec::request(self.op?, &self.body),
            Kind::Reply(err) if err.is_ok() => codec::reply(self.op?, &self.body),
            Kind::Reply(_) => None,
            Kind::Notification => Some(codec::notification(&self.body)),
        }
    }
}

fn parts(exchange: &Exchange) -> Vec<Part> {
    let mut asked = HashMap::new();
    let part = |frame: &Frame| {
        let payload = payload(frame);
        if frame.to_server {
            let (RequestHeader { xid, op }, body) = RequestHeader::split(&payload).unwrap();
            let op = OpCode::from_code(op);
            asked.insert(xid, op);
            let header = payload.slice(..RequestHeader::LEN);
            return Part { kind: Kind::Request, xid, op, header, body };
        }
        let (ReplyHeader { xid, err, .. }, body) = ReplyHeader::split(&payload).unwrap();
        let header = payload.slice(..ReplyHeader::LEN);
        if xid == xid::NOTIFICATION {
            return Part { kind: Kind::Notification, xid, op: None, header, body };
        }
        Part { kind: Kind::Reply(err), xid, op: asked[&xid], header, body }
    };
    exchange.frames.iter().map(part).collect()
}

#[test]
fn recordings_have_every_operation_in_both_directions() {
    let (mut sent, mut answered) = (HashSet::new(), HashSet::new());
    for (name, exchanges) in recordings().iter().filter(|(name, _)| name != "connect") {
        for part in exchanges.iter().flat_map(parts) {
            let own = part.op.filter(|op| op.name() == name);
            match part.kind {
                Kind::Request => sent.extend(own),
                Kind::Reply(err) if err.is_ok() => answered.extend(own),
                _ => {}
            }
            // A check is never sent alone.
            if name == "check" && part.kind == Kind::Request {
                let multi = Multi::from_frame(&part.body).unwrap();
                sent.extend(multi.ops.iter().map(MultiOp::op));
            } else if name == "check" {
                let reply = MultiReply::from_frame(&part.body).unwrap();
                answered.extend(reply.failure().is_none().then_some(OpCode::Check));
            }
        }
    }
    for op in OpCode::ALL {
        assert!(sent.contains(&op) && answered.contains(&op), "{}", op.name());
    }
}

#[test]
fn ordinary_frames_re_encode_to_the_same_bytes() {
    let mut count = 0;
    for (name, exchanges) in recordings() {
        if ["connect", "liberal", "refused"].contains(&name.as_str()) {
            continue;
        }
        for exchange in exchanges {
            for part in parts(&exchange) {
                let at = format!("{name}: {}", exchange.title);
                let mut header = BytesMut::new();
                match part.kind {
                    Kind::Request => {
                        RequestHeader::from_frame(&part.header).unwrap().encode(&mut header)
                    }
                    _ => ReplyHeader::from_frame(&part.header).unwrap().encode(&mut header),
                }
                assert_eq!(header, part.header, "{at}");
                let body = part.read().map(|read| read.unwrap().bytes);
                assert_eq!(body.unwrap_or_default(), part.body, "{at}");
                assert!(part.op.is_some() || part.kind == Kind::Notification, "{at}: {}", part.xid);
                count += 1;
            }
        }
    }
    assert!(count > 100);
}

#[test]
fn connect_frames_re_encode_to_the_same_bytes() {
    let mut replies = Vec::new();
    for exchange in recording::read(&folder().join("connect.txt")) {
        let [request, reply] = &exchange.frames[..] else {
            panic!("{}: {} frames", exchange.title, exchange.frames.len());
        };
        let mut out = BytesMut::new();
        encode_record(&ConnectRequest::from_frame(&request.payload()).unwrap(), &mut out);
        assert_eq!(out, request.wire, "{}", exchange.title);

        let reply_payload = payload(reply);
        let read = ConnectReply::parse(&reply_payload).unwrap();
        let mut out = BytesMut::new();
        match &read {
            ConnectReply::Refused(err) => {
                let header = ReplyHeader::from_frame(&reply_payload).unwrap();
                assert_eq!((header.xid, header.err), (0, *err));
                encode_reply::<()>(&header, None, &mut out);
            }
            _ => {
                encode_record(&ConnectResponse::from_frame(&reply_payload).unwrap(), &mut out);
            }
        }
        assert_eq!(out, reply.wire, "{}", exchange.title);
        replies.push(read);
    }
    let rejected =
        replies.iter().filter(|reply| matches!(reply, ConnectReply::Rejected { .. })).count();
    let refused = ConnectReply::Refused(ErrorCode::NOT_READ_ONLY);
    assert_eq!((rejected, replies.contains(&refused)), (1, true));
}

/// Frames of other peers that this crate decodes but encodes differently.
#[test]
fn liberal_frames_decode_and_re_encode_differently() {
    for exchange in recording::read(&folder().join("liberal.txt")) {
        let mut different = 0;
        for mut part in parts(&exchange) {
            let once = part.read().unwrap().unwrap();
            different += usize::from(once.bytes != part.body);
            part.body = once.bytes;
            let twice = part.read().unwrap().unwrap();
            assert_eq!((once.shown, &part.body), (twice.shown, &twice.bytes));
        }
        // This crate encodes the reply in this exchange like Java.
        let is_java = exchange.title.contains("U+1F600 in UTF-8");
        assert_eq!(different > 0, !is_java, "{}", exchange.title);
    }
}

/// Requests that a server rejects as malformed do not decode here either, and the reply is an error. The
/// titles name the errors as the Java client printed them.
#[test]
fn refused_frames_do_not_decode_and_errors_have_java_names() {
    for file in ["errors.txt", "refused.txt"] {
        for exchange in recording::read(&folder().join(file)) {
            for part in parts(&exchange) {
                let read = part.read().and_then(Result::ok);
                assert!(file == "errors.txt" || read.is_none(), "{}: {read:?}", exchange.title);
                // The reply to a malformed multiRead has bytes after its header: only that is checked.
                if let Kind::Reply(err) = part.kind {
                    let (_, said) = exchange.title.split_once(": ").unwrap();
                    assert!(said.starts_with(err.name().unwrap()), "{said}: {err}");
                }
            }
        }
    }
}

/// Returns what a frame contains, in one line.
fn contents(file: &str, frame: &Frame, part: &Part) -> String {
    let payload = frame.payload();
    let body = match part.read() {
        Some(Ok(read)) => read.shown,
        Some(Err(error)) => format!("error: {error}"),
        None => String::new(),
    };
    match (file, part.kind) {
        ("connect", _) if frame.to_server => {
            format!("> {:?}", ConnectRequest::from_frame(&payload).unwrap())
        }
        ("connect", _) => format!("< {:?}", ConnectReply::parse(&payload).unwrap()),
        (_, Kind::Request) => format!("> {body}"),
        _ => format!("< {:?} {body}", ReplyHeader::from_frame(&part.header).unwrap()),
    }
}

/// Compares the contents of all frames with those that were checked once. Debug output hides secrets: see
/// the tests below. `ZK_GOLDEN=write` writes the file after a new recording.
#[test]
fn recorded_frames_have_the_contents_of_the_snapshot() {
    let mut text = String::new();
    for (name, exchanges) in recordings() {
        for exchange in exchanges {
            text += &format!("\n= {name}, {}\n", exchange.title);
            let parts = if name == "connect" { connect_parts(&exchange) } else { parts(&exchange) };
            for (frame, part) in exchange.frames.iter().zip(&parts) {
                text += &format!("{}\n", contents(&name, frame, part));
            }
        }
    }
    let path = folder().join("contents.snapshot");
    if std::env::var_os("ZK_GOLDEN").is_some_and(|it| it == "write") {
        fs::write(&path, &text).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap();
    for (line, expected) in text.lines().zip(expected.lines()) {
        assert_eq!(line, expected);
    }
    assert_eq!(text.lines().count(), expected.lines().count());
}

/// The frames of a handshake have no headers.
fn connect_parts(exchange: &Exchange) -> Vec<Part> {
    let (header, body) = (Bytes::new(), Bytes::new());
    let part = Part { kind: Kind::Request, xid: 0, op: None, header, body };
    vec![part; exchange.frames.len()]
}

/// Returns the exchange of a file with this text in its title.
fn exchange(file: &str, text: &str) -> Exchange {
    let all = recording::read(&folder().join(format!("{file}.txt")));
    all.into_iter().find(|exchange| exchange.title.contains(text)).unwrap()
}

#[test]
fn recorded_reconnect_presents_the_password_of_its_session() {
    let frames = exchange("connect", "(setWatches)").frames;
    let request = ConnectRequest::from_frame(&frames[0].payload()).unwrap();
    let response = ConnectResponse::from_frame(&frames[1].payload()).unwrap();
    assert_eq!((request.session_id, request.password), (response.session_id, response.password));
}

#[test]
fn recorded_secrets_decode() {
    let auth = &parts(&exchange("auth", "alice"))[0];
    let auth = AuthPacket::from_frame(&auth.body).unwrap();
    assert_eq!((&*auth.scheme, auth.auth.as_deref()), ("digest", Some(&b"alice:secret"[..])));
    // The server replaced `auth` by the authenticated user, and hashed the password as `Acl::digest` does.
    let acl = &parts(&exchange("getACL", "/g/acl"))[1];
    let alice = Acl::digest(Perms::ALL, "alice", "secret");
    assert_eq!(AclReply::from_frame(&acl.body).unwrap().acl[0], alice);

    let steps = parts(&exchange("sasl", "DIGEST-MD5"));
    let tokens = steps.iter().map(|step| match step.kind {
        Kind::Request => Sasl::from_frame(&step.body).unwrap().token.into_owned(),
        _ => SaslReply::from_frame(&step.body).unwrap().token.unwrap().to_vec(),
    });
    let texts: Vec<String> = tokens.map(|token| String::from_utf8(token).unwrap()).collect();
    let [first, challenge, response, proof] = &texts[..] else { panic!("{} steps", texts.len()) };
    assert!(first.is_empty() && challenge.contains("nonce=") && proof.starts_with("rspauth="));
    assert!(response.contains("username=\"alice\"") && !response.contains("secret"));
}

/// Java writes a character beyond U+FFFF as two, and so does the server.
#[test]
fn recorded_strings_with_invalid_utf8_decode() {
    let java = b"\xed\xa0\xbd\xed\xb8\x80";
    let smile = |acl: &[Acl]| acl[1].id == "u\u{1f600}:x";
    let set = &parts(&exchange("liberal", "/g/acl"))[0].body;
    assert!(set.windows(6).any(|bytes| bytes == java));
    assert!(smile(&SetAcl::from_frame(set).unwrap().acl));
    let reply = &parts(&exchange("liberal", "in UTF-8"))[3].body;
    assert!(reply.windows(6).any(|bytes| bytes == java));
    assert!(smile(&AclReply::from_frame(reply).unwrap().acl));
    let broken = &parts(&exchange("liberal", "no UTF-8"))[0].body;
    let id = SetAcl::from_frame(broken).unwrap().acl[1].id.to_string();
    assert!(id.starts_with("u\u{fffd}") && id.ends_with(":x"));
}
