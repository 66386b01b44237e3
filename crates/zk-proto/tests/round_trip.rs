//! Round trip of every record: it decodes from its own bytes, and has the announced length.

mod support;

use bytes::BytesMut;
use proptest::prelude::*;
use support::{encoded, for_all_records};
use zk_proto::*;

macro_rules! record_to_bytes_to_record {
    ($($name:ident: $record:ty = $strategy:expr;)*) => {
        proptest! {
            #![proptest_config(support::config())]
            $(
                #[test]
                fn $name(record in $strategy) {
                    let bytes = encoded(&record);
                    let read = <$record>::from_frame(&bytes).unwrap();
                    prop_assert_eq!(&read, &record);
                    prop_assert_eq!(encoded(&read), bytes);
                }
            )*
        }
    };
}

for_all_records!(record_to_bytes_to_record);

proptest! {
    #![proptest_config(support::config())]

    /// A newer peer may have appended fields.
    #[test]
    fn bytes_after_a_record_are_ignored(
        reply in support::children_reply(),
        behind in proptest::collection::vec(any::<u8>(), 0..9),
    ) {
        let mut bytes = BytesMut::from(&encoded(&reply)[..]);
        bytes.extend_from_slice(&behind);
        prop_assert_eq!(ChildrenReply::from_frame(&bytes.freeze()), Ok(reply));
    }

    #[test]
    fn request_frame_has_the_announced_length(
        xid: i32,
        request in support::create2(),
    ) {
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
        header in support::reply_header(),
        reply in support::data_reply(),
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
}
