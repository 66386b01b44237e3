//! Base64 (RFC 4648, section 4, with padding), for the ids of digest ACLs.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Appends `bytes` in base64 to `out`.
pub(crate) fn push_base64(bytes: &[u8], out: &mut String) {
    for group in bytes.chunks(3) {
        let byte = |at: usize| group.get(at).copied().unwrap_or(0);
        let (a, b, c) = (byte(0), byte(1), byte(2));
        let sextets = [a >> 2, (a << 4 | b >> 4) & 63, (b << 2 | c >> 6) & 63, c & 63];
        // One byte fills two digits, two bytes fill three. The rest is padding.
        for (at, sextet) in sextets.into_iter().enumerate() {
            let digit = if at <= group.len() { ALPHABET[usize::from(sextet)] } else { b'=' };
            out.push(char::from(digit));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test vectors of RFC 4648, section 10.
    #[test]
    fn encoding_matches_the_rfc_vectors() {
        for (bytes, expected) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            let mut out = String::new();
            push_base64(bytes.as_bytes(), &mut out);
            assert_eq!(out, expected);
        }
    }

    #[test]
    fn encoding_uses_the_standard_alphabet() {
        let mut out = String::new();
        push_base64(&[0xfb, 0xff, 0xbf, 0x00, 0x10, 0x83], &mut out);
        assert_eq!(out, "+/+/ABCD");
    }
}
