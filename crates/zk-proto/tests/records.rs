//! Tests of every record: round trips, truncated bytes, and arbitrary bytes.

mod support;

use bytes::{Bytes, BytesMut};
use proptest::{collection::vec, prelude::*, sample::Index, sample::select};
use support::{Field, encoded, for_all_records};
use zk_proto::*;

/// Lengths and counts that a careless decoder mishandles.
const EXTREMES: [i32; 6] = [i32::MAX, i32::MIN, -1, -2, 0x00ff_ffff, 0];

macro_rules! tests_of_records {
    ($($name:ident: $record:ident$(<$lifetime:lifetime>)? $({ $($field:ident),* })?;)*) => {
        $(
            mod $name {
                use super::*;

                proptest! {
                    #![proptest_config(support::config())]

                    #[test]
                    fn record_decodes_from_its_own_bytes(record in $record::any()) {
                        let bytes = encoded(&record);
                        let read = <$record$(<$lifetime>)?>::from_frame(&bytes).unwrap();
                        prop_assert_eq!(&read, &record);
                        prop_assert_eq!(encoded(&read), bytes);
                    }

                    #[test]
                    fn every_proper_prefix_is_an_error(record in $record::any()) {
                        let bytes = encoded(&record);
                        for len in 0..bytes.len() {
                            let prefix = bytes.slice(..len);
                            match <$record$(<$lifetime>)?>::from_frame(&prefix) {
                                // The connect records are complete without their last byte, too.
                                Ok(read) => prop_assert_eq!(encoded(&read), prefix),
                                Err(error) => names_the_cut(&error, len)?,
                            }
                        }
                    }

                    #[test]
                    fn arbitrary_bytes_are_rejected_or_round_trip(
                        record in $record::any(),
                        at: Index,
                        value in select(&EXTREMES[..]),
                        random in random_bytes(),
                    ) {
                        for bytes in [overwrite(&encoded(&record), at, value), random.into()] {
                            if let Ok(read) = <$record$(<$lifetime>)?>::from_frame(&bytes) {
                                let again = encoded(&read);
                                let again = <$record$(<$lifetime>)?>::from_frame(&again);
                                prop_assert_eq!(again, Ok(read));
                            }
                        }
                    }
                }
            }
        )*
    };
}

for_all_records!(tests_of_records);

fn names_the_cut(error: &DecodeError, len: usize) -> Result<(), TestCaseError> {
    prop_assert!(error.offset <= len);
    match error.kind {
        DecodeErrorKind::Truncated { needed, remaining } => {
            prop_assert!(needed > remaining);
            prop_assert_eq!(error.offset + remaining, len);
        }
        DecodeErrorKind::CountTooLarge { count, room } => prop_assert!(count > room),
        other => prop_assert!(false, "{:?}", other),
    }
    Ok(())
}

/// Random bytes, or small integers in sequence, which get past the first length.
fn random_bytes() -> impl Strategy<Value = Vec<u8>> {
    let words = vec(-2..6_i32, 0..40)
        .prop_map(|words| words.into_iter().flat_map(i32::to_be_bytes).collect());
    prop_oneof![vec(any::<u8>(), 0..160), words]
}

fn overwrite(bytes: &Bytes, at: Index, value: i32) -> Bytes {
    let mut bytes = BytesMut::from(&bytes[..]);
    if let Some(last) = bytes.len().checked_sub(4) {
        let at = at.index(last + 1);
        bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
    }
    bytes.freeze()
}

/// The only valid prefix of a connect record is the form without the read-only byte.
#[test]
fn connect_request_is_complete_without_its_last_byte() {
    let request = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid::ZERO,
        timeout_ms: 1,
        session_id: SessionId::NONE,
        password: vec![0; 16].into(),
        read_only: Some(true),
    };
    let bytes = encoded(&request);
    let is_whole = |len: &usize| ConnectRequest::from_frame(&bytes.slice(..*len)).is_ok();
    assert!((0..=bytes.len()).filter(is_whole).eq([44, 45]));
}

proptest! {
    #![proptest_config(support::config())]

    /// A newer peer may have appended fields.
    #[test]
    fn bytes_after_a_record_are_ignored(reply in ChildrenReply::any(), behind: [u8; 9]) {
        let mut bytes = BytesMut::from(&encoded(&reply)[..]);
        bytes.extend_from_slice(&behind);
        prop_assert_eq!(ChildrenReply::from_frame(&bytes.freeze()), Ok(reply));
    }

    #[test]
    fn request_frame_has_the_announced_length(xid: i32, request in Create2::any()) {
        let len = 4 + request_frame_len(&request);
        let mut out = BytesMut::with_capacity(len);
        let start = out.as_ptr();
        encode_request(xid, &request, &mut out);
        prop_assert_eq!((out.len(), out.as_ptr()), (len, start));
        let frame = split_frame(&mut out, FRAME_LEN_MAX_SERVER).unwrap().unwrap();
        let (header, body) = RequestHeader::split(&frame).unwrap();
        prop_assert_eq!(header, RequestHeader { xid, op: 15 });
        prop_assert_eq!(Create2::from_frame(&body), Ok(request));
        prop_assert!(out.is_empty());
    }

    #[test]
    fn reply_frame_splits_into_header_and_body(
        header in ReplyHeader::any(),
        reply in DataReply::any(),
    ) {
        let mut out = BytesMut::new();
        encode_reply(&header, Some(&reply), &mut out);
        encode_reply::<()>(&header, None, &mut out);
        let with_body = split_frame(&mut out, FRAME_LEN_MAX_CLIENT).unwrap().unwrap();
        let without = split_frame(&mut out, FRAME_LEN_MAX_CLIENT).unwrap().unwrap();
        let (read, body) = ReplyHeader::split(&with_body).unwrap();
        prop_assert_eq!(read, header);
        prop_assert_eq!(DataReply::from_frame(&body), Ok(reply));
        prop_assert_eq!(without.len(), ReplyHeader::LEN);
    }

    #[test]
    fn header_split_succeeds_if_the_frame_is_long_enough(bytes in random_bytes()) {
        let bytes = Bytes::from(bytes);
        prop_assert_eq!(RequestHeader::split(&bytes).is_ok(), bytes.len() >= RequestHeader::LEN);
        prop_assert_eq!(ReplyHeader::split(&bytes).is_ok(), bytes.len() >= ReplyHeader::LEN);
    }

    #[test]
    fn connect_reply_kind_follows_length_and_timeout(bytes in random_bytes()) {
        let bytes = Bytes::from(bytes);
        let word = |at: usize| bytes.get(at..at + 4).map(|it| i32::from_be_bytes(it.try_into().unwrap()));
        match ConnectReply::parse(&bytes) {
            Ok(ConnectReply::Refused(code)) => {
                prop_assert_eq!((bytes.len(), Some(code.0)), (ReplyHeader::LEN, word(12)));
            }
            Ok(ConnectReply::Accepted(response)) => {
                prop_assert!(response.timeout_ms > 0 && word(4) == Some(response.timeout_ms));
                let again = ConnectReply::parse(&encoded(&response));
                prop_assert_eq!(again, Ok(ConnectReply::Accepted(response)));
            }
            Ok(ConnectReply::NoLeader) => prop_assert_eq!(word(0), Some(VERSION_WITHOUT_LEADER)),
            Ok(ConnectReply::Rejected { .. }) => prop_assert!(word(4).is_some_and(|timeout| timeout <= 0)),
            Err(_) => {
                prop_assert_ne!(bytes.len(), ReplyHeader::LEN);
                prop_assert!(ConnectResponse::from_frame(&bytes).is_err());
            }
        }
    }
}
