//! Seeds that are not recorded.

use zk_proto::{
    ErrorCode, EventType, KeeperState, ReplyHeader, WatcherEvent, Zxid, encode_reply, xid,
};
use zk_testing::Rng;

use crate::Seeds;

pub(crate) fn add(seeds: &mut Seeds) {
    frames(seeds);
    connect(seeds);
    notifications(seeds);
    described(seeds);
    children(seeds);
    for path in PATHS {
        seeds.add("paths", "path", *path);
    }
    for text in CONNECT_STRINGS {
        seeds.add("connect_string", "text", *text);
    }
    acl_ids(seeds);
    sessions(seeds);
}

fn frames(seeds: &mut Seeds) {
    let of = |max: u8, pieces: &[u8], stream: &[u8]| {
        let count = u8::try_from(pieces.len()).unwrap_or(u8::MAX);
        [&[max, count], pieces, stream].concat()
    };
    seeds.add("frames", "empty", of(1, &[], &[0, 0, 0, 0]));
    seeds.add("frames", "split-length", of(1, &[1, 1, 1, 1, 1], &[0, 0, 0, 2, 7, 8, 0, 0]));
    seeds.add("frames", "negative", of(1, &[3], &[0xff, 0xff, 0xff, 0xfe, 0]));
    seeds.add("frames", "longest", of(1, &[6], &[0, 0, 0, 4, 1, 2, 3, 4]));
    seeds.add("frames", "too-long", of(1, &[], &[0, 0, 0, 5, 1, 2, 3, 4, 5]));
    seeds.add("frames", "after-good", of(2, &[9], &[0, 0, 0, 1, 9, 0x7f, 0xff, 0xff, 0xff, 1, 2]));
    seeds.add("frames", "ping", of(9, &[2, 4], &[0, 0, 0, 8, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 11]));
}

fn connect(seeds: &mut Seeds) {
    let response = |timeout: u8, password_len: i32, rest: &[u8]| {
        let session = [0, 0, 0, 0, 0, 0, timeout, 0, 1, 2, 3, 4, 5, 6, 7, 8];
        [&session[..], &password_len.to_be_bytes(), rest].concat()
    };
    seeds.add("connect", "null-password", response(1, -1, &[]));
    seeds.add("connect", "no-password", response(1, 0, &[0]));
    seeds.add("connect", "negative", response(1, -2, &[1]));
    seeds.add("connect", "long-password", response(1, i32::MAX, &[1; 16]));
    seeds.add("connect", "read-only", response(1, 16, &[1; 17]));
    seeds.add("connect", "rejected", response(0, 16, &[0; 17]));
    seeds.add("connect", "behind-it", response(1, 2, &[1; 9]));
    seeds.add("connect", "header", [0; 16]);
}

fn notifications(seeds: &mut Seeds) {
    for (name, code, path) in [
        ("created", EventType::NODE_CREATED, "/a"),
        ("deleted", EventType::NODE_DELETED, "/locks/_c_0b7f-lock-0000000001"),
        ("changed", EventType::NODE_DATA_CHANGED, "/"),
        ("children", EventType::NODE_CHILDREN_CHANGED, ""),
        ("unknown", EventType(99), "not a path"),
        ("java", EventType::NODE_CREATED, "/u\u{1f600}"),
    ] {
        let state = KeeperState::SYNC_CONNECTED;
        let event = WatcherEvent { event_type: code, state, path: path.into() };
        let header = ReplyHeader { xid: xid::NOTIFICATION, zxid: Zxid(-1), err: ErrorCode::OK };
        let mut frame = bytes::BytesMut::new();
        encode_reply(&header, Some(&event), &mut frame);
        seeds.add("notification", name, &frame[4..]);
        seeds.add("notification", "short", &frame[4..frame.len() - 1]);
    }
    let surrogates = [&[0xff; 16][..], &[0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 6], JAVA_TEXT].concat();
    seeds.add("notification", "surrogates", surrogates);
}

/// Adds records built field by field, and multi results built one by one, in as many variants as exist.
fn described(seeds: &mut Seeds) {
    let mut rng = Rng::new(1);
    for record in 0..51 {
        let fields: Vec<u8> = (0..96).map(|_| plain_byte(&mut rng)).collect();
        seeds.add("round_trip", "built", [&[1, record], &fields[..]].concat());
    }
    for kind in 0..8 {
        let fields: Vec<u8> = (0..90).map(|_| plain_byte(&mut rng)).collect();
        seeds.add("multi", "built", [&[1, kind, 0], &fields[..]].concat());
    }
}

fn children(seeds: &mut Seeds) {
    let mut rng = Rng::new(2);
    for rule in 0..6 {
        for count in [2, 8, 30] {
            let mut seed = vec![rule];
            for _ in 0..count {
                let contender = [rule.min(5), byte(&mut rng), 0, byte(&mut rng) % 32];
                let shape: Vec<u8> = (0..6).map(|_| plain_byte(&mut rng)).collect();
                seed.extend(if byte(&mut rng) < 160 { &contender[..] } else { &shape[..] });
            }
            seeds.add("children", "names", seed);
        }
    }
    // More keys than a short sort would keep in order by chance; only two of them differ.
    let name = |c: u8| [11, 7, c, b'l', b'o', b'c', b'k', b'-', b'x' + c % 3 % 2];
    let same: Vec<u8> = (b'A'..=b'Z').rev().flat_map(name).collect();
    seeds.add("children", "equal", [&[0], &same[..]].concat());
    seeds.add("children", "wire", [198, 0, 0, 0, 2, 0, 0, 0, 1, b'a', 0, 0, 0, 0]);
    seeds.add("children", "null", [198, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff]);
    seeds.add("children", "many", [198, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
}

fn acl_ids(seeds: &mut Seeds) {
    for (user, password) in [
        ("super", "test"),
        ("", ""),
        ("alice", "secret:with:colons"),
        ("a:b", "c"),
        ("ü", "密码"),
        ("u\u{1f600}", "\u{10ffff}\u{ffff}\u{7ff}"),
    ] {
        let len = u8::try_from(user.len()).unwrap_or(0);
        let pair = [&[len], user.as_bytes(), password.as_bytes()].concat();
        seeds.add("acl_ids", "pair", pair);
    }
    // The hash's blocks end at 55 and 119 bytes.
    for len in [53, 54, 62, 117, 118, 126] {
        seeds.add("acl_ids", "block", [&[1, b'u'][..], &vec![b'p'; len]].concat());
    }
    seeds.add("acl_ids", "surrogates", [JAVA_TEXT, JAVA_TEXT].concat());
    seeds.add("acl_ids", "half", &JAVA_TEXT[..3]);
    seeds.add("acl_ids", "wrong-order", [&JAVA_TEXT[3..], &JAVA_TEXT[..3]].concat());
    seeds.add("acl_ids", "cut", &JAVA_TEXT[..5]);
    seeds.add("acl_ids", "broken", *b"a\xffb\xc0\x80c\xe2\x82d\xf0\x9f\x98");
}

fn sessions(seeds: &mut Seeds) {
    const SET_UP: [u8; 3] = [1, 100, 7];
    const CONNECTED: [u8; 5] = [14, 16, 5, 100, 0];
    const READ: [u8; 6] = [0, 0, 0, 1, 1, 2];
    const WRITE: [u8; 6] = [0, 0, 0, 2, 0, 0];
    const ANSWERED: [u8; 5] = [17, 0, 0, 9, 0];
    const CREATED: [u8; 14] = [20, 0, 0, 0, 1, 0, 0, 0, 3, 4, b'/', b'n', b'/', b'1'];
    for (name, steps) in [
        ("connects", &[][..]),
        ("asks", &[&READ[..], &ANSWERED]),
        (
            "watches",
            &[&READ[..], &ANSWERED, &[20, 0, 0, 0, 3, 0, 0, 0, 3, 4, b'/', b'n', b'/', b'1']],
        ),
        ("writes", &[&WRITE[..], &ANSWERED]),
        ("loses", &[&WRITE[..], &READ, &[15], &CONNECTED]),
        ("goes-on", &[&READ[..], &ANSWERED, &[15], &CONNECTED, &ANSWERED, &ANSWERED]),
        ("leases", &[&[7], &WRITE[..], &ANSWERED, &[14], &ANSWERED, &[14], &[14]]),
        ("cleans-up", &[&[4, 0, 2], &[5, 1, 1][..], &ANSWERED, &ANSWERED, &ANSWERED]),
        ("proves", &[&[6, 0, 3, b'a', b':', b'b'][..], &ANSWERED]),
        ("closes", &[&[10, 0][..], &ANSWERED]),
        ("is-silent", &[&READ[..], &[14], &[14], &[14], &[14], &[14], &[14]]),
        ("waits-for-creation", &[&[0, 0, 0, 1, 1, 3][..], &[17, 0, 4, 9, 0], &CREATED]),
        ("is-forgotten", &[&[0, 0, 0, 1, 1, 3][..], &[17, 0, 4, 9, 0]]),
        ("is-held-up", &[&[21][..], &WRITE, &READ, &[15], &CONNECTED, &ANSWERED, &ANSWERED]),
        ("hears-garbage", &[&[22, 8, 0, 0, 0, 4, 1, 2, 3, 4][..]]),
    ] {
        seeds.add("session", name, [&SET_UP[..], &CONNECTED, &steps.concat()].concat());
        seeds.add("session", "unconnected", [&SET_UP[..], &steps.concat()].concat());
    }
}

fn byte(rng: &mut Rng) -> u8 {
    rng.draw().to_be_bytes()[0]
}

/// Returns mostly a small number, which leaves bytes after it if it is used as a length.
fn plain_byte(rng: &mut Rng) -> u8 {
    match byte(rng) {
        small @ ..200 => small % 12,
        _ => byte(rng),
    }
}

/// U+1F600 in Java's encoding.
const JAVA_TEXT: &[u8] = b"\xed\xa0\xbd\xed\xb8\x80";

const PATHS: &[&str] = &[
    "/",
    "",
    "a",
    "/a",
    "/a/b",
    "/a/",
    "//",
    "/a//b",
    "/.",
    "/..",
    "/./a",
    "/../a",
    "/a/.",
    "/a/..",
    "/...",
    "/a.",
    "/.a",
    "/a..b/c",
    "/a\0b",
    "/\u{1f}",
    "/\u{7f}",
    "/\u{9f}",
    "/\u{a0}",
    "/\u{d7ff}",
    "/\u{e000}",
    "/\u{f8ff}",
    "/\u{f900}",
    "/\u{ffef}",
    "/\u{fff0}",
    "/\u{ffff}",
    "/\u{1f600}",
    "/locks/_c_0b7f36dc-3cc2-4b57-9c3e-5c3ae2f1c0de-lock-0000000001",
    "/ü/密码",
];

const CONNECT_STRINGS: &[&str] = &[
    "a",
    "a:",
    "a:1",
    "a:2181",
    "a,b",
    " a:1 ,, b ",
    "a/",
    "a/x/y",
    "a:1,b:2/x",
    "[::1]",
    "[::1]:2183/app",
    "[fe80::1%eth0]:7,10.0.0.1:8",
    "",
    ",",
    "/x",
    "a:0",
    "a:99999",
    "a:65535",
    "a:00080",
    "a:b",
    "[::1",
    "[]:1",
    "::1",
    "a b",
    "a/x/",
    "a/x//y",
    "[a]:1",
    "zk1,zk2:2182,zk3",
];
