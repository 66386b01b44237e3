//! Text of others, as it is printed.
//!
//! Any client that may create a node chooses text that other people's terminals and scripts read. This is
//! the rule for all commands:
//!
//! * A path is printed as it is, so that a script can use it. ZooKeeper permits no control characters in
//!   paths. A line with one comes from a server that lies, and is not printed.
//! * Every other text in a line passes [`data_text`], which escapes control characters and backslashes.
//! * On a terminal, all characters that cannot be printed are escaped, and so are marks for the direction
//!   of the text. Messages on standard error and JSON escape them everywhere.
//! * Exact bytes are printed by `zk get` and `zk find -0` alone, and not to a terminal.

/// Returns data as one line of text: characters that cannot be printed, and backslashes, are escaped.
pub(crate) fn data_text(data: &[u8]) -> String {
    printable(&String::from_utf8_lossy(data).replace('\\', r"\\"))
}

/// Returns a text as one line in which the characters that cannot be printed are escaped.
pub(crate) fn printable(text: &str) -> String {
    text.chars().fold(String::new(), |mut line, char| {
        if is_printable(char) {
            line.push(char);
        } else {
            line.extend(char.escape_debug());
        }
        line
    })
}

fn is_printable(char: char) -> bool {
    if char.is_ascii() {
        return char.is_ascii_graphic() || char == ' ';
    }
    // A mark that combines with the character before it is escaped only at the beginning.
    let mut bytes = [b'x'; 5];
    let len = 1 + char.encode_utf8(&mut bytes[1..]).len();
    std::str::from_utf8(&bytes[..len]).is_ok_and(|text| text.escape_debug().nth(1) == Some(char))
}

/// Escapes what `serde_json` leaves and terminals obey: DEL, the controls from U+0080 to U+009F, and
/// characters that change the direction of the text. They occur in strings only.
pub(crate) fn escape_json(json: &str) -> String {
    let mut line = String::new();
    for char in json.chars() {
        if is_printable(char) {
            line.push(char);
        } else {
            for unit in char.encode_utf16(&mut [0; 2]) {
                line.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    line
}

/// Escapes a message and cuts it to one line: [`LINE_MAX`] characters and an ellipsis.
pub(crate) fn one_line(message: &str) -> String {
    let beginning: String = message.chars().take(LINE_MAX + 1).collect();
    let mut line = printable(&beginning);
    if let Some((end, _)) = line.char_indices().nth(LINE_MAX) {
        line.truncate(end);
        line.push('…');
    }
    line
}

/// Maximum number of characters in an error line. A path may be as long as a frame.
const LINE_MAX: usize = 2000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_is_escaped_and_cut_to_one_line() {
        assert_eq!(one_line("/ä: NoNode"), "/ä: NoNode");
        assert_eq!(one_line("/a\nb\u{1b}[2J"), "/a\\nb\\u{1b}[2J");
        let long = one_line(&"ä".repeat(1_000_000));
        assert_eq!(long.chars().count(), LINE_MAX + 1);
        assert!(long.ends_with("ä…"));
    }

    #[test]
    fn control_characters_are_escaped() {
        let text = "it's \"a\" \\ b\n\u{9b}2J ä\u{202e}\u{e0001}";
        let escaped = "it's \"a\" \\ b\\n\\u{9b}2J ä\\u{202e}\\u{e0001}";
        assert_eq!(printable(text), escaped);
        assert_eq!(data_text(text.as_bytes()), escaped.replacen('\\', "\\\\", 1));
        assert_eq!(data_text("/सेवा/e\u{301}\u{202e}".as_bytes()), "/सेवा/e\u{301}\\u{202e}");
        let json = escape_json(&serde_json::Value::from(text).to_string());
        assert_eq!(json, r#""it's \"a\" \\ b\n\u009b2J ä\u202e\udb40\udc01""#);
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
    }
}
