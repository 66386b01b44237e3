//! Access to single exchanges of the recordings under `tests/golden`.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy does not take for tests")]

use std::{borrow::Cow, path::PathBuf};

use bytes::Bytes;
use zk_proto::*;

use super::recording::{self, Exchange};

/// Returns the exchange of a file with `part` in its title.
pub(crate) fn exchange(file: &str, part: &str) -> Exchange {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let exchanges = recording::read(&folder.join(format!("{file}.txt")));
    let mut matching = exchanges.into_iter().filter(|exchange| exchange.title.contains(part));
    let found = matching.next().unwrap_or_else(|| panic!("{file}: no exchange with {part:?}"));
    assert!(matching.next().is_none(), "{file}: more than one exchange with {part:?}");
    found
}

/// Returns the body of the first request, which has the opcode `op`.
pub(crate) fn request(exchange: &Exchange, op: OpCode) -> Bytes {
    let frame = exchange.frames.iter().find(|frame| frame.to_server).unwrap();
    let (header, body) = RequestHeader::split(&frame.payload()).unwrap();
    assert_eq!(header.op, op.code());
    body
}

/// Returns header and body of the last frame, which is a reply.
pub(crate) fn reply(exchange: &Exchange) -> (ReplyHeader, Bytes) {
    let frame = exchange.frames.last().unwrap();
    assert!(!frame.to_server);
    ReplyHeader::split(&frame.payload()).unwrap()
}

/// Checks the first request, and returns the last reply with its zxid.
macro_rules! reply_to {
    ($file:literal, $part:literal, $request:ident $fields:tt) => {{
        let exchange = support::golden::exchange($file, $part);
        let body = support::golden::request(&exchange, $request::OP);
        let expected = $request $fields;
        assert_eq!($request::from_frame(&body), Ok(expected.clone()));
        assert_eq!(support::encoded(&expected), body);
        let (header, body) = support::golden::reply(&exchange);
        assert!(header.err.is_ok());
        (header.zxid, <$request<'_> as Request>::Reply::from_frame(&body).unwrap())
    }};
}

pub(crate) fn data(text: &str) -> Option<Cow<'_, [u8]>> {
    Some(text.as_bytes().into())
}

/// Returns the Stat of a node that the transaction `zxid` created, with this `owner` and data length `len`.
pub(crate) fn fresh(zxid: Zxid, stat: &Stat, owner: SessionId, len: i32) -> Stat {
    assert!(stat.ctime_ms > 1_500_000_000_000);
    Stat {
        czxid: zxid,
        mzxid: zxid,
        pzxid: zxid,
        ctime_ms: stat.ctime_ms,
        mtime_ms: stat.ctime_ms,
        ephemeral_owner: owner,
        data_length: len,
        ..Stat::default()
    }
}
pub(crate) use reply_to;
