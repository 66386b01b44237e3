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
    fn connect_reply_parse_does_not_panic_on_random_bytes(bytes in random_bytes()) {
        let _ = ConnectReply::parse(&Bytes::from(bytes));
    }

    #[test]
    fn header_split_succeeds_if_the_frame_is_long_enough(bytes in random_bytes()) {
        let bytes = Bytes::from(bytes);
        prop_assert_eq!(RequestHeader::split(&bytes).is_ok(), bytes.len() >= RequestHeader::LEN);
        prop_assert_eq!(ReplyHeader::split(&bytes).is_ok(), bytes.len() >= ReplyHeader::LEN);
    }

    #[test]
    fn path_functions_do_not_panic_on_random_text(path: String) {
        let _ = (validate_path(&path), validate_sequential_path(&path));
        let _ = (path::parent(&path), path::file_name(&path));
    }
}
