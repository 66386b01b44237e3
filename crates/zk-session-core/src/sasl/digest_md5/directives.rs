//! Directives: `key=value` pairs, separated by commas. A value is a token or a quoted string.

use super::DigestError;

/// Parses all directives. Keys are in lower case, and quoted values without their escapes.
pub(super) fn parse(token: &[u8]) -> Result<Vec<(String, Vec<u8>)>, DigestError> {
    let mut directives = Vec::new();
    let mut rest = token;
    loop {
        rest = skip(rest, |byte| is_space(byte) || byte == b',');
        if rest.is_empty() {
            return Ok(directives);
        }
        if directives.len() == DIRECTIVES_MAX {
            return Err(DigestError("too many directives"));
        }
        let key = take(&mut rest, |byte| byte != b'=' && byte != b',' && !is_space(byte));
        rest = skip(rest, is_space);
        let (Some(value), false) = (rest.strip_prefix(b"="), key.is_empty()) else {
            return Err(DigestError("a directive has no value"));
        };
        rest = skip(value, is_space);
        let value = match rest.strip_prefix(b"\"") {
            Some(quoted) => unquote(quoted, &mut rest)?,
            None => take(&mut rest, |byte| byte != b',' && !is_space(byte)).to_vec(),
        };
        rest = skip(rest, is_space);
        if rest.first().is_some_and(|byte| *byte != b',') {
            return Err(DigestError("a directive is not followed by a comma"));
        }
        let key = String::from_utf8_lossy(key).to_ascii_lowercase();
        directives.push((key, value));
    }
}

/// Appends a directive with a quoted value.
pub(super) fn push_quoted(out: &mut Vec<u8>, key: &str, value: &[u8]) {
    push(out, key, b"\"");
    for byte in value {
        if needs_escape(*byte) {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    out.push(b'"');
}

/// Appends a directive with a value that is a token.
pub(super) fn push(out: &mut Vec<u8>, key: &str, value: &[u8]) {
    if !out.is_empty() {
        out.push(b',');
    }
    out.extend_from_slice(key.as_bytes());
    out.push(b'=');
    out.extend_from_slice(value);
}

fn unquote<'a>(quoted: &'a [u8], rest: &mut &'a [u8]) -> Result<Vec<u8>, DigestError> {
    let mut value = Vec::new();
    let mut bytes = quoted.iter().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => {
                *rest = quoted.get(at + 1..).unwrap_or_default();
                return Ok(value);
            }
            b'\\' => value.extend(bytes.next().map(|(_, escaped)| *escaped)),
            byte => value.push(*byte),
        }
    }
    Err(DigestError("a quoted value has no end"))
}

/// Java's `DigestMD5Base.needEscape` escapes these bytes.
fn needs_escape(byte: u8) -> bool {
    matches!(byte, b'"' | b'\\' | 127) || (byte < 32 && !matches!(byte, b'\t' | b'\r' | b'\n'))
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

fn skip(bytes: &[u8], skips: impl Fn(u8) -> bool) -> &[u8] {
    let len = bytes.iter().take_while(|byte| skips(**byte)).count();
    bytes.get(len..).unwrap_or_default()
}

fn take<'a>(bytes: &mut &'a [u8], takes: impl Fn(u8) -> bool) -> &'a [u8] {
    let len = bytes.iter().take_while(|byte| takes(**byte)).count();
    let (taken, rest) = bytes.split_at(len);
    *bytes = rest;
    taken
}

/// Maximum number of directives in a token. A server sends five, and a client ten.
const DIRECTIVES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_are_parsed_with_spaces_escapes_and_any_case() {
        let parsed = parse(br#" realm="a\"b\\c" ,, Nonce = x ,empty="" "#).unwrap();
        let expected = [("realm", &br#"a"b\c"#[..]), ("nonce", b"x"), ("empty", b"")];
        assert_eq!(parsed, expected.map(|(key, value)| (key.to_owned(), value.to_vec())));
        assert_eq!(parse(b""), Ok(Vec::new()));
    }

    #[test]
    fn malformed_directives_are_rejected() {
        for token in [&b"a"[..], b"=b", b"a=\"b", b"a=\"b\\", b"a=\"b\"c=d", b"a=b c=d", b"a,b=c"] {
            assert!(parse(token).is_err(), "{}", token.escape_ascii());
        }
        assert!(parse(&b"a=b,".repeat(DIRECTIVES_MAX)).is_ok());
        assert!(parse(&b"a=b,".repeat(DIRECTIVES_MAX + 1)).is_err());
    }

    #[test]
    fn only_quotes_backslashes_and_control_characters_are_escaped() {
        let escaped: Vec<u8> = (0..=255).filter(|byte| needs_escape(*byte)).collect();
        let expected: Vec<u8> =
            (0..9).chain(11..13).chain(14..32).chain([b'"', b'\\', 127]).collect();
        assert_eq!(escaped, expected);
    }

    #[test]
    fn escaped_value_is_parsed_as_it_was() {
        let value: Vec<u8> = (0..=255).collect();
        let mut out = Vec::new();
        push_quoted(&mut out, "a", &value);
        push(&mut out, "b", b"c");
        let expected = [("a".to_owned(), value), ("b".to_owned(), b"c".to_vec())];
        assert_eq!(parse(&out).unwrap(), expected);
    }
}
