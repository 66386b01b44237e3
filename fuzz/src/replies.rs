//! Fuzz target for the decoders of all replies and of the reply header.
//!
//! Input: a byte for the operation, then the body.

use bytes::Bytes;
use zk_proto::ReplyHeader;

use crate::Input;
use crate::records::{Side, body_decodes, operation};

/// Decodes the body of a reply.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let op = operation(input.byte());
    let body = Bytes::copy_from_slice(input.rest());
    body_decodes(op, Side::Reply, &body);
    match ReplyHeader::split(&body) {
        Ok((_, rest)) => assert_eq!(rest, body[ReplyHeader::LEN..]),
        Err(_) => assert!(body.len() < ReplyHeader::LEN),
    }
}
