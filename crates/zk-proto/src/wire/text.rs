//! Decoding of strings as Java encodes them.
//!
//! Java encodes each UTF-16 unit separately, so a character beyond U+FFFF becomes CESU-8: two surrogates of
//! three bytes each (U+1F600 as `ed a0 bd ed b8 80`). Paths cannot contain such characters, but ACL ids and
//! auth ids can. One stored id must not make a whole reply unreadable. Therefore no string is an error here.
//!
//! ```
//! use zk_proto::decode_text;
//!
//! assert_eq!(decode_text(b"/plain"), "/plain");
//! assert_eq!(decode_text(b"u\xed\xa0\xbd\xed\xb8\x80"), "u\u{1f600}");
//! assert_eq!(decode_text(b"a\xffb"), "a\u{fffd}b");
//! ```

use std::{borrow::Cow, str};

/// Decodes a string received from a peer; never fails.
///
/// Valid UTF-8 is borrowed. A CESU-8 surrogate pair becomes the character it encodes. Any other invalid byte
/// sequence becomes U+FFFD. The result is at most three times as long as the input.
#[must_use]
pub fn decode_text(bytes: &[u8]) -> Cow<'_, str> {
    match str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(decode_broken(bytes)),
    }
}

fn decode_broken(mut rest: &[u8]) -> String {
    let mut text = String::with_capacity(rest.len());
    loop {
        let broken = match str::from_utf8(rest) {
            Ok(valid) => {
                text.push_str(valid);
                return text;
            }
            Err(error) => error,
        };
        let (valid, tail) = rest.split_at(broken.valid_up_to());
        text.push_str(str::from_utf8(valid).unwrap_or_default());
        if let Some((c, after)) = split_surrogate_pair(tail) {
            text.push(c);
            rest = after;
        } else {
            text.push(char::REPLACEMENT_CHARACTER);
            // Without an error length, the string ends inside a character.
            let skip = match tail {
                // An unpaired surrogate is one character.
                [0xed, 0xa0..=0xbf, 0x80..=0xbf, ..] => 3,
                _ => broken.error_len().unwrap_or(tail.len()),
            };
            rest = tail.get(skip..).unwrap_or_default();
        }
    }
}

/// Splits a CESU-8 surrogate pair off the front: `ed a0..af 80..bf ed b0..bf 80..bf`.
fn split_surrogate_pair(bytes: &[u8]) -> Option<(char, &[u8])> {
    let (pair, after) = bytes.split_first_chunk::<6>()?;
    let [0xed, h1 @ 0xa0..=0xaf, h2 @ 0x80..=0xbf, 0xed, l1 @ 0xb0..=0xbf, l2 @ 0x80..=0xbf] =
        *pair
    else {
        return None;
    };
    let bits = |hi: u8, lo: u8| u32::from(hi & 0x0f) << 6 | u32::from(lo & 0x3f);
    let c = char::from_u32(0x1_0000 + (bits(h1, h2) << 10 | bits(l1, l2)))?;
    Some((c, after))
}
