//! Fuzz target for ids of ACL entries: digests against another SHA-1 and base64, and Java's encoding of text
//! against a slow decoder.
//!
//! Input: a user's name (one length byte, then its bytes), then a password. The whole input is also decoded
//! as a string from the wire.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sha1::{Digest, Sha1};
use zk_proto::decode_text;
use zk_proto::{Acl, Perms, digest_id};

use crate::Input;
use crate::memory::bounded;
use crate::model::naive_text;
use crate::records::{Scratch, encodes};

/// Computes and decodes ids.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let user = input.text();
    let password = String::from_utf8_lossy(input.rest()).into_owned();

    let id = digest_id(&user, &password);
    let hash = Sha1::digest(format!("{user}:{password}"));
    let name = user.split(':').next().unwrap_or_default();
    assert_eq!(id, format!("{name}:{}", BASE64_STANDARD.encode(hash)));

    encodes(&Acl::digest(Perms::ALL, &user, &password), &Scratch::default());
    encodes(&Acl::ip(Perms::READ, user.clone()), &Scratch::default());
    encodes(&Acl::sasl(Perms(input.int()), password.clone()), &Scratch::default());

    any_bytes(data);
    java_text(&password);
}

fn any_bytes(data: &[u8]) {
    let text = bounded(data.len(), || decode_text(data));
    assert_eq!(text, naive_text(data));
    assert!(text.len() <= 3 * data.len());
    match std::str::from_utf8(data) {
        Ok(valid) => assert!(matches!(text, Cow::Borrowed(same) if same == valid)),
        Err(_) => assert!(matches!(text, Cow::Owned(_))),
    }
}

/// Checks that text in Java's encoding decodes to the original.
fn java_text(text: &str) {
    let mut wire = Vec::new();
    for unit in text.encode_utf16() {
        let low = |shift: u16| u8::try_from(unit >> shift & 0x3f).expect("six bits") | 0x80;
        match u8::try_from(unit) {
            Ok(byte @ ..0x80) => wire.push(byte),
            _ if unit < 0x800 => {
                wire.extend([u8::try_from(unit >> 6).expect("five bits") | 0xc0, low(0)]);
            }
            _ => {
                let high = u8::try_from(unit >> 12).expect("four bits") | 0xe0;
                wire.extend([high, low(6), low(0)]);
            }
        }
    }
    assert_eq!(decode_text(&wire), text);
}
