//! Arguments of requests: paths, data, versions, ACLs, credentials.

use proto::digest_id;
use zk_testing::Rng;

use super::message::Message;
use super::{ROOT, SUPER_PASSWORD};

/// Nodes of a script.
const NODES: [&str; 12] =
    ["", "/a", "/a", "/a", "/b", "/b", "/a/b", "/a/b", "/a/c", "/b/a", "/a/b/c", "/\u{a0}\u{d7ff}"];

const PREFIXES: [&str; 6] = ["/s-", "/s-", "/a/s-", "/a/s-", "/a/", "/b/"];

/// Suffixes that turn the root into an invalid path.
const ILLEGAL: [&str; 11] = [
    "/",
    "/a/",
    "//a",
    "/./a",
    "/..",
    "/a/...",
    "/\u{1}",
    "/a\u{0}b",
    "/a/\u{f000}",
    "/\u{fff0}",
    "/\u{1f600}",
];

pub(crate) fn quota_root() -> String {
    format!("/zookeeper/quota{ROOT}")
}

/// Returns the nodes that are worth creating first, every parent before its children.
pub(crate) fn groundwork() -> Vec<String> {
    ["/a", "/b", "/a/b"].map(|node| format!("{ROOT}{node}")).into()
}

/// Returns a path for any request; `None` is null.
pub(crate) fn path(random: &mut Rng) -> Option<Vec<u8>> {
    let path = match random.below(200) {
        0 => return None,
        1 => String::new(),
        2 => "relative".to_owned(),
        3 => return Some([ROOT.as_bytes(), b"/\xff\xed\xa0\xbd"].concat()),
        4..=9 => format!("{ROOT}{}", random.pick(&ILLEGAL)),
        10..=25 => {
            let prefix = random.pick(&PREFIXES);
            format!("{ROOT}{prefix}{:010}", random.below(6))
        }
        _ => format!("{ROOT}{}", random.pick(&NODES)),
    };
    Some(path.into_bytes())
}

/// Returns a path for a read request, which may also be a node that always exists.
pub(crate) fn readable(random: &mut Rng) -> Option<Vec<u8>> {
    let path = match random.below(50) {
        0 => "/".to_owned(),
        1 => "/zookeeper".to_owned(),
        2 => "/zookeeper/config".to_owned(),
        3 => format!("{}/zookeeper_stats", quota_root()),
        _ => return path(random),
    };
    Some(path.into_bytes())
}

/// Returns the path prefix of a sequential node.
pub(crate) fn prefix(random: &mut Rng) -> Vec<u8> {
    format!("{ROOT}{}", random.pick(&PREFIXES)).into_bytes()
}

pub(crate) fn data(random: &mut Rng) -> Option<Vec<u8>> {
    match random.index(10) {
        0 => None,
        1 => Some(Vec::new()),
        2 => Some(vec![b'x'; 300]),
        len => Some(vec![b'x'; len]),
    }
}

pub(crate) fn version(random: &mut Rng) -> i32 {
    random.pick(&[-1, -1, -1, -1, -1, -1, 0, 0, 0, 1, 1, 2, 3, 7, -2, i32::MIN, i32::MAX])
}

/// Appends an ACL to a request. Most of these ACLs permit everything.
pub(crate) fn acl(random: &mut Rng, message: Message) -> Message {
    let count = match random.below(100) {
        0..=74 => {
            return message.open_acl();
        }
        75 => return message.int(-1),
        76 => return message.int(0),
        77 => return message.int(-5),
        78..=92 => 1,
        _ => random.pick(&[2, 3]),
    };
    let mut message = message.int(count);
    let mut last = None;
    for _ in 0..count {
        // Sometimes the list has the same entry twice.
        let entry = match last.take() {
            Some(entry) if random.chance(0.2) => entry,
            _ => acl_entry(random),
        };
        let (perms, scheme, id) = &entry;
        message = message.int(*perms).buffer(scheme.as_deref());
        message = message.buffer(id.as_deref());
        last = Some(entry);
    }
    message
}

fn acl_entry(random: &mut Rng) -> (i32, Option<Vec<u8>>, Option<Vec<u8>>) {
    let perms = random.pick(&[31, 31, 31, 31, 1, 1, 2, 3, 7, 15, 27, 30, 16, 0, 64, -1]);
    let (scheme, id) = match random.below(100) {
        0..=24 => ("world", b"anyone".to_vec()),
        25..=49 => ("auth", b"".to_vec()),
        50..=69 => {
            let user = random.pick(&USERS);
            ("digest", digest_id(user.0, user.1).into_bytes())
        }
        70..=74 => ("ip", b"127.0.0.1".to_vec()),
        75..=78 => ("ip", random.pick(&ADDRESSES).as_bytes().to_vec()),
        79..=82 => ("digest", random.pick(&DIGESTS).to_vec()),
        83 => ("world", b"nobody".to_vec()),
        84 => return (perms, Some(b"world".to_vec()), None),
        85 => return (perms, None, Some(b"anyone".to_vec())),
        86 => return (perms, Some(b"auth".to_vec()), None),
        87 => return (perms, Some(b"digest".to_vec()), None),
        88 => return (perms, Some(b"ip".to_vec()), None),
        89 => ("super", b"".to_vec()),
        90 => ("sasl", b"alice".to_vec()),
        91 => ("nonsense", b"x".to_vec()),
        92 => ("", b"x".to_vec()),
        _ => ("world", b"anyone".to_vec()),
    };
    (perms, Some(scheme.as_bytes().to_vec()), Some(id))
}

/// Appends credentials to an auth request.
pub(crate) fn auth(random: &mut Rng, message: Message) -> Message {
    let (scheme, auth): (Option<&str>, Option<String>) = match random.below(50) {
        0 => (Some("digest"), None),
        1 => (Some("world"), Some("anyone".to_owned())),
        2 => (Some("nonsense"), Some("x".to_owned())),
        3 => (None, Some("x".to_owned())),
        4 => (Some("ip"), Some("10.0.0.1".to_owned())),
        5 => (Some("digest"), Some(String::new())),
        6 => (Some("digest"), Some("alone".to_owned())),
        7 => (Some("digest"), Some("a:b:c".to_owned())),
        8 => (Some("digest"), Some(format!("super:{}", SUPER_PASSWORD))),
        _ => {
            let (user, password) = random.pick(&USERS);
            (Some("digest"), Some(format!("{user}:{password}")))
        }
    };
    let message = message.buffer(scheme.map(str::as_bytes));
    message.buffer(auth.as_deref().map(str::as_bytes))
}

const USERS: [(&str, &str); 2] = [("u1", "p1"), ("u2", "p2")];

const ADDRESSES: [&str; 9] = [
    "127.0.0.0/8",
    "10.0.0.0/8",
    "10.0.0.0/33",
    "10.0.0",
    "::1",
    "127.0.0.1/x",
    "",
    "256.0.0.1",
    "127.0.0.1/0",
];

const DIGESTS: [&[u8]; 6] = [b"u:x", b"u:", b"u:p:q", b":", b"", b"u\xf0\x9f\x98\x80:x"];
