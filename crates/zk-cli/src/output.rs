//! Results on standard output, as text or as JSON.

use std::io::{IsTerminal, Write, stderr, stdout};

use serde_json::{Value, json};

use crate::failure::{Failure, one_line};

/// The format of results.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    json: bool,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        Self { json }
    }

    pub(crate) fn is_json(self) -> bool {
        self.json
    }

    /// Prints a result: the lines, or the JSON value on one line.
    pub(crate) fn print(
        self,
        lines: impl IntoIterator<Item = String>,
        json: impl FnOnce() -> Value,
    ) -> Result<(), Failure> {
        self.print_text(lines, || json().to_string())
    }

    /// Prints a result: the lines, or the text, which is JSON without line breaks.
    pub(crate) fn print_text(
        self,
        lines: impl IntoIterator<Item = String>,
        json: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        if self.json {
            return write_json(&json());
        }
        let mut text = String::new();
        lines.into_iter().for_each(|line| push_line(&mut text, &line));
        write(text.as_bytes())
    }

    /// Prints data unchanged, so that it can be piped. A terminal gets a newline after it.
    pub(crate) fn print_data(
        self,
        data: &[u8],
        json: impl FnOnce() -> Value,
    ) -> Result<(), Failure> {
        if self.json {
            return write_json(&json().to_string());
        }
        write(data)?;
        match stdout().is_terminal() && !data.is_empty() {
            true => write(b"\n"),
            false => Ok(()),
        }
    }

    /// Prints a note on standard error: a line, or the JSON value `{"note": …}`.
    pub(crate) fn note(self, text: &str) {
        self.print_error(text, || json!({ "note": text }));
    }

    /// Prints a failure on standard error, and returns its exit status.
    pub(crate) fn report(self, failure: &Failure) -> u8 {
        if !failure.is_pipe_closed() {
            self.print_error(&failure.to_string(), || failure.to_json());
        }
        failure.code()
    }

    /// Prints a line for people on standard error, or the JSON value on one line.
    pub(crate) fn print_error(self, text: &str, json: impl FnOnce() -> Value) {
        let line = match self.json {
            true => json_line(&json()),
            false => format!("zk: {}", one_line(text)),
        };
        // `eprintln!` panics if the reader has gone.
        drop(writeln!(stderr(), "{line}"));
    }
}

// Not inlined: each command has its own copy of its callers.
#[inline(never)]
fn push_line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

#[inline(never)]
fn write_json(text: &str) -> Result<(), Failure> {
    let mut line = escape_controls(text);
    line.push('\n');
    write(line.as_bytes())
}

#[inline(never)]
fn write(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(|error| Failure::of_output(&error))
}

/// Returns the rows of a table as lines, with the columns aligned. Long cells are cut: others may
/// write any data into their nodes, and one long cell widens every row.
pub(crate) fn aligned<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> Vec<String> {
    align(rows.as_flattened(), COLUMNS)
}

/// Returns the rows of a table as lines. `cells` has the cells of each row, one row after the other.
fn align(cells: &[String], columns: usize) -> Vec<String> {
    let cells: Vec<String> = cells.iter().map(|cell| cut(cell)).collect();
    let mut widths = vec![0; columns];
    for row in cells.chunks(columns) {
        for (cell, width) in row.iter().zip(&mut widths) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut lines = Vec::new();
    for row in cells.chunks(columns) {
        let mut line = String::new();
        // A column without any text takes no room.
        for (cell, width) in row.iter().zip(&widths).filter(|(_, width)| **width > 0) {
            let gap = if line.is_empty() { "" } else { "  " };
            line.push_str(&format!("{gap}{cell:<width$}"));
        }
        line.truncate(line.trim_end().len());
        lines.push(line);
    }
    lines
}

/// Returns the rows as [`aligned`] does. If they are wider than `width`, it leaves out the columns in
/// this order, as many as it takes.
pub(crate) fn fitted<const COLUMNS: usize>(
    rows: &mut [[String; COLUMNS]],
    left_out: &[usize],
    width: usize,
) -> Vec<String> {
    for column in left_out {
        let lines = aligned(rows);
        if lines.iter().all(|line| line.chars().count() <= width) {
            return lines;
        }
        rows.iter_mut().for_each(|row| row[*column].clear());
    }
    aligned(rows)
}

fn cut(cell: &str) -> String {
    match cell.char_indices().nth(CELL_MAX) {
        Some((end, _)) => format!("{}…", &cell[..end]),
        None => cell.to_owned(),
    }
}

/// Characters of a cell. Most paths of nodes are shorter.
const CELL_MAX: usize = 200;

/// Returns data as JSON: as text if it is UTF-8, otherwise its bytes in hexadecimal.
pub(crate) fn data_json(data: &[u8]) -> Value {
    match std::str::from_utf8(data) {
        Ok(text) => Value::from(text),
        Err(_) => {
            let hex: String = data.iter().map(|byte| format!("{byte:02x}")).collect();
            json!({ "hex": hex })
        }
    }
}

/// Returns the data that [`data_json`] has printed, of which none is empty.
pub(crate) fn data_of_json(json: &Value) -> Option<Vec<u8>> {
    let digits = match json {
        Value::Null => return Some(Vec::new()),
        Value::String(text) => return Some(text.clone().into_bytes()),
        json => json["hex"].as_str()?,
    };
    let digits: Option<Vec<u8>> =
        digits.chars().map(|c| u8::try_from(c.to_digit(16)?).ok()).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks(2).map(|two| two[0] << 4 | two[1]).collect())
}

/// Returns JSON on one line, with all control characters escaped.
pub(crate) fn json_line(value: &Value) -> String {
    escape_controls(&value.to_string())
}

/// Escapes the control characters in JSON. `serde_json` leaves DEL and those from U+0080 to U+009F,
/// which terminals obey. They occur in strings only.
fn escape_controls(json: &str) -> String {
    let mut line = String::new();
    for char in json.chars() {
        match char.is_control() {
            true => line.push_str(&format!("\\u{:04x}", u32::from(char))),
            false => line.push(char),
        }
    }
    line
}

/// Returns data as one line of text: characters that cannot be printed, and backslashes, are escaped.
pub(crate) fn data_text(data: &[u8]) -> String {
    let text = String::from_utf8_lossy(data);
    text.chars().fold(String::new(), |mut line, char| {
        match char {
            '\'' | '"' => line.push(char),
            _ if char.is_ascii() => line.extend(char.escape_debug()),
            // A mark that combines with the character before it is escaped only at the beginning.
            _ => line.extend(format!("x{char}").escape_debug().skip(1)),
        }
        line
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        let text = "it's \"a\" \\ b\n\u{9b}2J ä";
        assert_eq!(data_text(text.as_bytes()), "it's \"a\" \\\\ b\\n\\u{9b}2J ä");
        assert_eq!(data_text("/सेवा/e\u{301}\u{202e}".as_bytes()), "/सेवा/e\u{301}\\u{202e}");
        let json = json_line(&Value::from(text));
        assert_eq!(json, r#""it's \"a\" \\ b\n\u009b2J ä""#);
        assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), text);
    }
}
