//! Fuzz target for notifications, against a parser by hand.
//!
//! Input: a frame, without its length.

use bytes::Bytes;
use zk_proto::{Decode, EventType, KeeperState, ReplyHeader, WatcherEvent};

use crate::model::naive_text;
use crate::records::{Scratch, decodes, decodes_and_encodes};

/// Decodes a frame as a client does for the xid of a notification.
pub fn run(data: &[u8]) {
    let frame = Bytes::copy_from_slice(data);
    let Ok((header, body)) = ReplyHeader::split(&frame) else {
        assert!(data.len() < ReplyHeader::LEN);
        return;
    };
    assert_eq!(header.xid.to_be_bytes(), data[..4]);
    assert_eq!(header.zxid.0.to_be_bytes(), data[4..12]);
    assert_eq!(header.err.0.to_be_bytes(), data[12..16]);

    assert_eq!(WatcherEvent::from_frame(&body).ok(), model(&data[16..]));
    decodes::<WatcherEvent>(&body, &Scratch::default());
    decodes_and_encodes::<WatcherEvent>(&body, &Scratch::default());
}

fn model(body: &[u8]) -> Option<WatcherEvent> {
    let int = |at: usize| {
        let bytes = body.get(at..at + 4)?;
        Some(bytes.iter().fold(0_i32, |value, byte| value << 8 | i32::from(*byte)))
    };
    let len = usize::try_from(int(8)?).ok()?;
    let path = naive_text(body.get(12..12 + len)?);
    Some(WatcherEvent { event_type: EventType(int(0)?), state: KeeperState(int(4)?), path })
}
