//! Encoding and decoding of every operation, in both directions.
//!
//! * `encode_request`, `decode_reply`: the work of a client.
//! * `decode_request`, `encode_reply`: the work of a server, for example the one in `zk-testing`.
//!
//! The frames are recordings of the Java client and a real server (`tests/golden` of `zk-proto`):
//! the first request in the file of each operation, and its reply. Encoding writes a whole frame,
//! with length prefix and header, into a buffer that has grown. Decoding begins with the payload
//! that [`split_frame`](zk_proto::split_frame) returns, and ends when the record has been dropped.
//! `check` is never sent alone, so it is measured in a multi of nothing else.
//!
//! Nanoseconds: medians of the quieter of two runs, on two virtual cores of a Xeon at 2.3 GHz:
//!
//! | operation | `encode_request` | `decode_reply` | `decode_request` | `encode_reply` |
//! |---|---|---|---|---|
//! | create | 90 | 79 | 173 | 47 |
//! | create2 | 92 | 130 | 173 | 101 |
//! | createContainer | 105 | 127 | 175 | 118 |
//! | createTTL | 175 | 132 | 167 | 103 |
//! | delete | 48 | 14 | 66 | 31 |
//! | exists | 43 | 89 | 72 | 92 |
//! | getData | 43 | 121 | 72 | 103 |
//! | setData | 63 | 90 | 73 | 92 |
//! | getACL | 34 | 201 | 66 | 213 |
//! | setACL | 166 | 91 | 312 | 90 |
//! | getChildren | 50 | 72 | 73 | 42 |
//! | getChildren2 | 40 | 122 | 73 | 112 |
//! | sync | 33 | 77 | 62 | 58 |
//! | ping | 24 | 13 | 11 | 30 |
//! | check | 90 | 93 | 126 | 79 |
//! | multi | 776 | 571 | 830 | 486 |
//! | multiRead | 163 | 258 | 214 | 231 |
//! | reconfig | 50 | 128 | 92 | 133 |
//! | checkWatches | 39 | 13 | 90 | 28 |
//! | removeWatches | 39 | 13 | 75 | 28 |
//! | auth | 54 | 13 | 97 | 29 |
//! | sasl | 64 | 53 | 67 | 36 |
//! | setWatches | 98 | 13 | 195 | 26 |
//! | setWatches2 | 112 | 13 | 264 | 26 |
//! | getEphemerals | 34 | 188 | 80 | 70 |
//! | getAllChildrenNumber | 33 | 59 | 63 | 50 |
//! | addWatch | 39 | 51 | 103 | 38 |
//! | whoAmI | 20 | 217 | 11 | 299 |
//! | closeSession | 20 | 13 | 11 | 31 |
//! | connect | 53 | 43 | 44 | 53 |
//! | notification |  | 94 |  | 136 |

use std::fmt::Debug;
use std::hint::black_box;
use std::path::PathBuf;

use bytes::{Bytes, BytesMut};
use criterion::measurement::WallTime;
use criterion::{Bencher, BenchmarkGroup, Criterion, criterion_group, criterion_main};
use zk_proto::*;

#[allow(dead_code, reason = "the tests of zk-proto use more of this")]
#[path = "../../crates/zk-proto/tests/support/recording.rs"]
mod recording;

/// The measurements of one operation. The frames have no length prefix.
struct Operation {
    name: &'static str,
    encode_request: fn(&Bytes, &mut Bencher<'_>),
    decode_request: fn(&Bytes) -> bool,
    encode_reply: fn(&Bytes, &mut Bencher<'_>),
    decode_reply: fn(&Bytes) -> bool,
}

/// Declares the request type of each operation, which determines its reply type.
macro_rules! operations {
    ($($name:literal: $request:ty,)*) => {
        const OPERATIONS: &[Operation] = &[$(Operation {
            name: $name,
            encode_request: |frame, b| {
                let (header, body) = valid(RequestHeader::split(frame));
                let record = valid(<$request>::from_frame(&body));
                encoding(b, |out| encode_request(header.xid, black_box(&record), out));
            },
            decode_request: |frame| match RequestHeader::split(frame) {
                Ok((_, body)) => black_box(<$request>::from_frame(&body)).is_ok(),
                Err(_) => false,
            },
            encode_reply: |frame, b| {
                let (header, body) = valid(ReplyHeader::split(frame));
                let record = valid(<$request as Request>::Reply::from_frame(&body));
                encoding(b, |out| encode_reply(&header, Some(black_box(&record)), out));
            },
            decode_reply: |frame| match ReplyHeader::split(frame) {
                Ok((_, body)) => black_box(<$request as Request>::Reply::from_frame(&body)).is_ok(),
                Err(_) => false,
            },
        },)*];
    };
}

operations! {
    "create": Create<'_>,
    "create2": Create2<'_>,
    "createContainer": CreateContainer<'_>,
    "createTTL": CreateTtl<'_>,
    "delete": Delete<'_>,
    "exists": Exists<'_>,
    "getData": GetData<'_>,
    "setData": SetData<'_>,
    "getACL": GetAcl<'_>,
    "setACL": SetAcl<'_>,
    "getChildren": GetChildren<'_>,
    "getChildren2": GetChildren2<'_>,
    "sync": Sync<'_>,
    "ping": Ping,
    "check": Multi<'_>,
    "multi": Multi<'_>,
    "multiRead": MultiRead<'_>,
    "reconfig": Reconfig<'_>,
    "checkWatches": CheckWatches<'_>,
    "removeWatches": RemoveWatches<'_>,
    "auth": AuthPacket<'_>,
    "sasl": Sasl<'_>,
    "setWatches": SetWatches<'_>,
    "setWatches2": SetWatches2<'_>,
    "getEphemerals": GetEphemerals<'_>,
    "getAllChildrenNumber": GetAllChildrenNumber<'_>,
    "addWatch": AddWatch<'_>,
    "whoAmI": WhoAmI,
    "closeSession": CloseSession,
}

fn client(c: &mut Criterion) {
    all_are_there();
    let mut group = c.benchmark_group("encode_request");
    for op in OPERATIONS {
        let (request, _) = recorded(op.name);
        group.bench_function(op.name, |b| (op.encode_request)(&request, b));
    }
    let (request, reply) = connect();
    let record = valid(ConnectRequest::from_frame(&request));
    group.bench_function("connect", |b| {
        encoding(b, |out| encode_record(black_box(&record), out));
    });
    group.finish();

    let mut group = c.benchmark_group("decode_reply");
    for op in OPERATIONS {
        decoding(&mut group, op.name, &recorded(op.name).1, op.decode_reply);
    }
    decoding(&mut group, "connect", &reply, |frame| black_box(ConnectReply::parse(frame)).is_ok());
    decoding(&mut group, "notification", &notification(), |frame| {
        let Ok((_, body)) = ReplyHeader::split(frame) else { return false };
        black_box(WatcherEvent::from_frame(&body)).is_ok()
    });
    group.finish();
}

fn server(c: &mut Criterion) {
    let mut group = c.benchmark_group("decode_request");
    for op in OPERATIONS {
        decoding(&mut group, op.name, &recorded(op.name).0, op.decode_request);
    }
    let (request, reply) = connect();
    decoding(&mut group, "connect", &request, |frame| {
        black_box(ConnectRequest::from_frame(frame)).is_ok()
    });
    group.finish();

    let mut group = c.benchmark_group("encode_reply");
    for op in OPERATIONS {
        let (_, reply) = recorded(op.name);
        group.bench_function(op.name, |b| (op.encode_reply)(&reply, b));
    }
    let record = valid(ConnectResponse::from_frame(&reply));
    group.bench_function("connect", |b| {
        encoding(b, |out| encode_record(black_box(&record), out));
    });
    let event = notification();
    let (header, body) = valid(ReplyHeader::split(&event));
    let event = valid(WatcherEvent::from_frame(&body));
    group.bench_function("notification", |b| {
        encoding(b, |out| encode_reply(&header, Some(black_box(&event)), out));
    });
    group.finish();
}

fn encoding(b: &mut Bencher<'_>, encode: impl Fn(&mut BytesMut)) {
    let mut out = BytesMut::with_capacity(4096);
    b.iter(|| {
        out.clear();
        encode(&mut out);
        black_box(&out[..]).len()
    });
}

fn decoding(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    frame: &Bytes,
    decode: fn(&Bytes) -> bool,
) {
    assert!(decode(frame), "{name} cannot be read");
    group.bench_function(name, |b| b.iter(|| decode(black_box(frame))));
}

/// Returns the first request in the file of an operation, and its reply.
fn recorded(name: &str) -> (Bytes, Bytes) {
    let op = if name == "check" { "multi" } else { name };
    let is_asked = |payload: &Bytes| {
        let (header, _) = valid(RequestHeader::split(payload));
        OpCode::from_code(header.op).is_some_and(|code| code.name() == op)
    };
    for exchange in read(name) {
        let mut frames = exchange.frames.iter();
        let request = frames
            .find(|frame| frame.to_server && is_asked(&frame.payload()))
            .map(recording::Frame::payload);
        let Some(request) = request else { continue };
        let is_answer = |payload: &Bytes| {
            let (header, _) = valid(ReplyHeader::split(payload));
            header.xid.to_be_bytes() == request[..4] && header.err.is_ok()
        };
        let mut replies = frames.filter(|frame| !frame.to_server).map(recording::Frame::payload);
        if let Some(reply) = replies.find(is_answer) {
            return (request, reply);
        }
    }
    panic!("no {name} is recorded");
}

/// Returns the connect exchange of a new session.
fn connect() -> (Bytes, Bytes) {
    let frames = &read("connect")[0].frames;
    (frames[0].payload(), frames[1].payload())
}

/// Returns the first notification in its file.
fn notification() -> Bytes {
    let exchanges = read("notification");
    let mut frames = exchanges.iter().flat_map(|exchange| &exchange.frames);
    let event = frames.find(|frame| {
        !frame.to_server && valid(ReplyHeader::split(&frame.payload())).0.xid == xid::NOTIFICATION
    });
    event.map_or_else(|| panic!("no notification is recorded"), recording::Frame::payload)
}

fn read(name: &str) -> Vec<recording::Exchange> {
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/zk-proto/tests/golden");
    recording::read(&PathBuf::from(golden).join(name).with_extension("txt"))
}

fn valid<T, E: Debug>(read: Result<T, E>) -> T {
    match read {
        Ok(read) => read,
        Err(error) => panic!("a recording cannot be read: {error:?}"),
    }
}

fn all_are_there() {
    for op in OpCode::ALL {
        let is_there = OPERATIONS.iter().any(|row| row.name == op.name());
        assert!(is_there, "{} is not measured", op.name());
    }
}

criterion_group!(benches, client, server);
criterion_main!(benches);
