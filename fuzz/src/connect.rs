//! Fuzz target for the connect exchange: both records, and the parser of the server's first frame.
//!
//! Input: a frame, without its length.

use bytes::Bytes;
use zk_proto::{
    ConnectReply, ConnectRequest, ConnectResponse, ErrorCode, ReplyHeader, SessionId,
    VERSION_WITHOUT_LEADER,
};

use crate::memory::bounded;
use crate::records::{Scratch, decodes, decodes_and_encodes};

/// Decodes a frame as every record of the exchange.
pub fn run(data: &[u8]) {
    let frame = Bytes::copy_from_slice(data);
    decodes::<ConnectRequest>(&frame, &Scratch::default());
    decodes_and_encodes::<ConnectRequest>(&frame, &Scratch::default());
    decodes::<ConnectResponse>(&frame, &Scratch::default());
    decodes_and_encodes::<ConnectResponse>(&frame, &Scratch::default());

    let reply = bounded(data.len(), || ConnectReply::parse(&frame));
    assert_eq!(reply.clone().ok(), model(data));
    if let Ok(ConnectReply::Accepted(response)) = reply {
        conceals(&response);
    }
}

fn model(data: &[u8]) -> Option<ConnectReply> {
    let int = |at: usize| {
        let bytes = data.get(at..at + 4)?;
        Some(bytes.iter().fold(0_i32, |value, byte| value << 8 | i32::from(*byte)))
    };
    if data.len() == ReplyHeader::LEN {
        return Some(ConnectReply::Refused(ErrorCode(int(12)?)));
    }
    let len = match int(16)? {
        -1 => 0, // null, which reads as empty
        len => usize::try_from(len).ok()?,
    };
    let password = Bytes::copy_from_slice(data.get(20..20 + len)?);
    let timeout_ms = int(4)?;
    let read_only = data.get(20 + len).map(|byte| *byte != 0);
    if timeout_ms <= 0 {
        return Some(ConnectReply::Rejected { read_only });
    }
    if int(0)? == VERSION_WITHOUT_LEADER {
        return Some(ConnectReply::NoLeader);
    }
    let session_id = data[8..16].iter().fold(0_i64, |value, byte| value << 8 | i64::from(*byte));
    Some(ConnectReply::Accepted(ConnectResponse {
        protocol_version: int(0)?,
        timeout_ms,
        session_id: SessionId(session_id),
        password,
        read_only,
    }))
}

/// Checks that two sessions with different passwords have the same `Debug` output.
fn conceals(response: &ConnectResponse) {
    let other = ConnectResponse { password: Bytes::from_static(b"another"), ..response.clone() };
    assert_eq!(format!("{response:?}"), format!("{other:?}"));
}
