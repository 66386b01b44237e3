//! Decoding of arbitrary bytes: it never panics, and an accepted record round-trips like any other.

mod support;

use bytes::{Bytes, BytesMut};
use proptest::{collection::vec, prelude::*, sample::select};
use support::{encoded, for_all_records};
use zk_proto::*;

/// Lengths and counts that a careless decoder mishandles.
const EXTREMES: [i32; 6] = [i32::MAX, i32::MIN, -1, -2, 0x00ff_ffff, 0];

macro_rules! any_bytes {
    ($($name:ident: $record:ty = $strategy:expr;)*) => {
        mod random {
            use super::*;

            proptest! {
                #![proptest_config(support::config())]
                $(
                    #[test]
                    fn $name(bytes in random_bytes()) {
                        let bytes = Bytes::from(bytes);
                        if let Ok(read) = <$record>::from_frame(&bytes) {
                            let again = encoded(&read);
                            prop_assert_eq!(<$record>::from_frame(&again), Ok(read));
                        }
                    }
                )*
            }
        }

        mod corrupted {
            use super::*;

            proptest! {
                #![proptest_config(support::config())]
                $(
                    #[test]
                    fn $name(
                        record in $strategy,
                        at: prop::sample::Index,
                        value in select(&EXTREMES[..]),
                    ) {
                        let bytes = overwrite(&encoded(&record), at, value);
                        if let Ok(read) = <$record>::from_frame(&bytes) {
                            let again = encoded(&read);
                            prop_assert_eq!(<$record>::from_frame(&again), Ok(read));
                        }
                    }
                )*
            }
        }
    };
}

for_all_records!(any_bytes);

/// Random bytes, or small integers in sequence, which get past the first length.
fn random_bytes() -> impl Strategy<Value = Vec<u8>> {
    let words = vec(-2..6_i32, 0..40)
        .prop_map(|words| words.into_iter().flat_map(i32::to_be_bytes).collect());
    prop_oneof![vec(any::<u8>(), 0..160), words]
}

fn overwrite(bytes: &Bytes, at: prop::sample::Index, value: i32) -> Bytes {
    let mut bytes = BytesMut::from(&bytes[..]);
    if let Some(last) = bytes.len().checked_sub(4) {
        let at = at.index(last + 1);
        bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
    }
    bytes.freeze()
}

proptest! {
    #![proptest_config(support::config())]

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
            Ok(ConnectReply::Rejected { .. }) => prop_assert!(word(4).is_some_and(|timeout| timeout <= 0)),
            Err(_) => {
                prop_assert_ne!(bytes.len(), ReplyHeader::LEN);
                prop_assert!(ConnectResponse::from_frame(&bytes).is_err());
            }
        }
    }

    #[test]
    fn header_split_succeeds_if_the_frame_is_long_enough(bytes in random_bytes()) {
        let bytes = Bytes::from(bytes);
        prop_assert_eq!(RequestHeader::split(&bytes).is_ok(), bytes.len() >= RequestHeader::LEN);
        prop_assert_eq!(ReplyHeader::split(&bytes).is_ok(), bytes.len() >= ReplyHeader::LEN);
    }

    #[test]
    fn path_checks_agree_with_each_other(path in random_path()) {
        match validate_path(&path) {
            Ok(()) => {
                prop_assert!(validate_sequential_path(&path).is_ok());
                let (parent, name) = (path::parent(&path), path::file_name(&path));
                let joined = parent.map(|parent| format!("{}/{name}", parent.trim_end_matches('/')));
                prop_assert_eq!(joined, Some(path.clone()).filter(|path| path != "/"));
            }
            Err(error) => prop_assert!(path.is_char_boundary(error.offset), "{}", error),
        }
        // The server checks the path with its number.
        let numbered = validate_path(&format!("{path}0000000000"));
        prop_assert_eq!(validate_sequential_path(&path).is_ok(), numbered.is_ok());
    }
}

/// Random text, or text of the characters that the rules of paths mention.
fn random_path() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), "/[/.aé\u{0}\u{7f}\u{fff0}]{0,9}", "(/[.ab]{1,3}){0,4}"]
}
