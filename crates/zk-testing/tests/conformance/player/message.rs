//! A request as words, and its bytes.
//!
//! A name of an operation is an int, and so is `op 99`. A number is an int too, with a suffix a byte (`1b`)
//! or a long (`-1L`), with a sign in front a zxid from the start of the script (`+3`). A quoted text is a
//! buffer, and `null` one without bytes. `open` is the ACL that permits everything. `[` and `]` enclose an
//! operation of a multi, and `end` ends it. `cut 3` takes away the last three bytes behind
//! the operation.

use proto::OpCode;

/// Splits a line at the spaces outside of quotes.
pub(crate) fn words(line: &str) -> impl Iterator<Item = &str> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let words = line.split(move |next: char| {
        is_quoted ^= next == '"' && !is_escaped;
        is_escaped = next == '\\' && !is_escaped;
        next == ' ' && !is_quoted
    });
    words.filter(|word| !word.is_empty())
}

/// Returns the frame of a request.
pub(crate) fn frame(text: &str, xid: i32, base_zxid: i64) -> Vec<u8> {
    let body = encoded(text, base_zxid).expect("a request");
    framed(&[&xid.to_be_bytes(), &body[..]].concat())
}

/// Returns the operation and the bytes of a request, without its xid.
pub(crate) fn encoded(text: &str, base_zxid: i64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut words = words(text);
    while let Some(word) = words.next() {
        match word {
            "null" => bytes.extend((-1_i32).to_be_bytes()),
            "open" => {
                bytes.extend([1_i32, 31].map(i32::to_be_bytes).as_flattened());
                bytes.extend([framed(b"world"), framed(b"anyone")].concat());
            }
            "op" => bytes.extend(words.next()?.parse::<i32>().ok()?.to_be_bytes()),
            "[" => {
                bytes.extend(op_code(words.next()?)?.to_be_bytes());
                bytes.extend([0, 0xff, 0xff, 0xff, 0xff]);
            }
            "]" => {}
            "end" => bytes.extend([0xff, 0xff, 0xff, 0xff, 1, 0xff, 0xff, 0xff, 0xff]),
            "cut" => {
                let rest = bytes.len().saturating_sub(words.next()?.parse().ok()?);
                bytes.truncate(rest.max(4));
            }
            _ => bytes.extend(value(word, base_zxid)?),
        }
    }
    Some(bytes)
}

fn value(word: &str, base_zxid: i64) -> Option<Vec<u8>> {
    if let Some(text) = quoted(word) {
        return Some(framed(&text));
    }
    if let Some(code) = op_code(word) {
        return Some(code.to_be_bytes().into());
    }
    if let Some(offset) = word.strip_prefix('+') {
        let zxid = base_zxid.wrapping_add(offset.parse().ok()?);
        return Some(zxid.to_be_bytes().into());
    }
    if let Some(byte) = word.strip_suffix('b') {
        return Some(vec![byte.parse().ok()?]);
    }
    if let Some(long) = word.strip_suffix('L') {
        return Some(long.parse::<i64>().ok()?.to_be_bytes().into());
    }
    Some(word.parse::<i32>().ok()?.to_be_bytes().into())
}

/// Returns the code of an operation, given by its name.
pub(crate) fn op_code(name: &str) -> Option<i32> {
    OpCode::ALL.iter().find(|op| op.name() == name).map(|op| op.code())
}

/// Returns the bytes of a quoted word.
pub(crate) fn quoted(word: &str) -> Option<Vec<u8>> {
    let mut rest = word.strip_prefix('"')?.strip_suffix('"')?.as_bytes();
    let mut bytes = Vec::new();
    loop {
        let (byte, after) = match rest {
            [] => return Some(bytes),
            [b'\\', b'x', hex @ ..] => {
                let (digits, after) = hex.split_at_checked(2)?;
                (u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?, after)
            }
            [b'\\', b'n', after @ ..] => (b'\n', after),
            [b'\\', b'r', after @ ..] => (b'\r', after),
            [b'\\', b't', after @ ..] => (b'\t', after),
            [b'\\', byte, after @ ..] | [byte, after @ ..] => (*byte, after),
        };
        bytes.push(byte);
        rest = after;
    }
}

/// Prefixes a body with its length.
pub(crate) fn framed(body: &[u8]) -> Vec<u8> {
    let len = i32::try_from(body.len()).unwrap_or(i32::MAX);
    [&len.to_be_bytes(), body].concat()
}
