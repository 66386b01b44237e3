//! Decoding of strings never fails: Java writes CESU-8, and a broken id must not cost the whole reply.

use std::borrow::Cow;

use proptest::prelude::*;
use zk_proto::{decode_text, writer::java_text_len};

mod support;

/// Encodes like Java: every UTF-16 unit separately.
fn cesu8(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for unit in text.encode_utf16() {
        match char::from_u32(u32::from(unit)) {
            Some(c) => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            None => bytes.extend(
                [unit >> 12 | 0xe0, unit >> 6 & 0x3f | 0x80, unit & 0x3f | 0x80]
                    .map(|byte| u8::try_from(byte).unwrap_or(0)),
            ),
        }
    }
    bytes
}

#[test]
fn surrogate_pair_decodes_as_one_character() {
    assert_eq!(cesu8("\u{1f600}"), b"\xed\xa0\xbd\xed\xb8\x80");
    assert_eq!(decode_text(b"u\xed\xa0\xbd\xed\xb8\x80:x"), "u\u{1f600}:x");
    for c in ['\u{10000}', '\u{103ff}', '\u{10400}', '\u{10ffff}'] {
        assert_eq!(decode_text(&cesu8(&c.to_string())), c.to_string());
    }
}

#[test]
fn valid_utf8_is_borrowed() {
    assert!(matches!(decode_text("/é/\u{1f600}".as_bytes()), Cow::Borrowed("/é/\u{1f600}")));
    assert!(matches!(decode_text(b"a\0b"), Cow::Borrowed("a\0b")));
}

#[test]
fn invalid_bytes_are_replaced() {
    for (bytes, text) in [
        (&b"\xff"[..], "\u{fffd}"),
        (b"a\x80b", "a\u{fffd}b"),
        // The text ends inside a character.
        (b"a\xe2\x82", "a\u{fffd}"),
        // An unpaired high surrogate, at the end and before text: one character, as in Java.
        (b"\xed\xa0\xbd", "\u{fffd}"),
        (b"\xed\xa0\xbdabc", "\u{fffd}abc"),
        // A low surrogate before a high one.
        (b"\xed\xb8\x80\xed\xa0\xbd", "\u{fffd}\u{fffd}"),
        // A pair directly after a broken byte.
        (b"\xff\xed\xa0\xbd\xed\xb8\x80", "\u{fffd}\u{1f600}"),
    ] {
        assert_eq!(decode_text(bytes), text, "{bytes:x?}");
    }
}

#[test]
fn java_text_is_longer_only_beyond_u_ffff() {
    for (text, extra) in [("\u{ffff}", 0), ("\u{10000}", 2), ("a\u{1f600}\u{1f600}", 4)] {
        assert_eq!(java_text_len(text), 4 + text.len() + extra, "{text:?}");
    }
}

proptest! {
    #![proptest_config(support::config())]

    #[test]
    fn java_encoding_decodes_to_the_original_text(text: String) {
        let written = cesu8(&text);
        prop_assert_eq!(decode_text(&written), text);
    }

    #[test]
    fn decoded_text_has_bounded_length(bytes: Vec<u8>) {
        let text = decode_text(&bytes);
        prop_assert!(text.len() <= 3 * bytes.len());
        if let Ok(valid) = str::from_utf8(&bytes) {
            prop_assert_eq!(text, valid);
        }
    }
}
