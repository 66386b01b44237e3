//! Fuzz target for the decoders of all requests and of the request header, which a server uses.
//!
//! Input: a byte for the operation, then the body.

use bytes::Bytes;
use zk_proto::RequestHeader;

use crate::Input;
use crate::records::{Side, body_decodes, operation};

/// Decodes the body of a request.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let op = operation(input.byte());
    let body = Bytes::copy_from_slice(input.rest());
    body_decodes(op, Side::Request, &body);
    match RequestHeader::split(&body) {
        Ok((_, rest)) => assert_eq!(rest, body[RequestHeader::LEN..]),
        Err(_) => assert!(body.len() < RequestHeader::LEN),
    }
}
