//! Every proper prefix of a record is an error with the right position.

mod support;

use proptest::prelude::*;
use support::{encoded, for_all_records};
use zk_proto::*;

macro_rules! every_prefix_is_an_error {
    ($($name:ident: $record:ty = $strategy:expr;)*) => {
        proptest! {
            #![proptest_config(support::config())]
            $(
                #[test]
                fn $name(record in $strategy) {
                    let bytes = encoded(&record);
                    for len in 0..bytes.len() {
                        let prefix = bytes.slice(..len);
                        match <$record>::from_frame(&prefix) {
                            // The connect records are complete without their last byte, too.
                            Ok(read) => prop_assert_eq!(encoded(&read), prefix),
                            Err(error) => names_the_cut(&error, len)?,
                        }
                    }
                }
            )*
        }
    };
}

for_all_records!(every_prefix_is_an_error);

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

/// The only valid prefix is the form without the read-only byte.
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
    let whole: Vec<usize> = (0..=bytes.len())
        .filter(|&len| ConnectRequest::from_frame(&bytes.slice(..len)).is_ok())
        .collect();
    assert_eq!(whole, [44, 45]);

    let bytes = encoded(&Stat::default());
    assert!((0..Stat::LEN).all(|len| Stat::from_frame(&bytes.slice(..len)).is_err()));
}
