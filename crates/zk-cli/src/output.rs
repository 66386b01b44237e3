//! Results on standard output, as text or as JSON.

use std::io::{IsTerminal, Write, stderr, stdout};

use serde_json::{Value, json};

use crate::failure::{Failure, PIPE_CLOSED, Result};
use crate::text::{escape_json, one_line, printable};

/// The format of results.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    pub(crate) is_json: bool,
}

impl Output {
    pub(crate) fn new(is_json: bool) -> Self {
        Self { is_json }
    }

    /// Prints a result: the lines, or the JSON value on one line.
    pub(crate) fn print(
        self,
        lines: impl IntoIterator<Item = String>,
        json: impl FnOnce() -> Value,
    ) -> Result<()> {
        self.print_text(lines, || json().to_string())
    }

    /// Prints a line for each item, or a list of JSON values.
    pub(crate) fn print_each<T>(
        self,
        items: &[T],
        line: impl FnMut(&T) -> String,
        json: impl FnMut(&T) -> Value,
    ) -> Result<()> {
        self.print(items.iter().map(line), || items.iter().map(json).collect())
    }

    /// Prints a result: the lines, or the text, which is JSON without line breaks.
    pub(crate) fn print_text(
        self,
        lines: impl IntoIterator<Item = String>,
        json: impl FnOnce() -> String,
    ) -> Result<()> {
        if self.is_json {
            return write_json(&json());
        }
        let is_terminal = stdout().is_terminal();
        let mut text = String::new();
        lines.into_iter().try_for_each(|line| push_line(&mut text, &line, is_terminal))?;
        write(text.as_bytes())
    }

    /// Prints paths, each with a byte 0 behind it, which no path has. A terminal gets them escaped.
    pub(crate) fn print_nul(self, paths: &[String]) -> Result<()> {
        let is_terminal = stdout().is_terminal();
        let shown = |path: &String| if is_terminal { printable(path) } else { path.clone() };
        let text: String = paths.iter().map(|path| shown(path) + "\0").collect();
        write(text.as_bytes())
    }

    /// Prints data unchanged, so that it can be piped. A terminal gets the text in it, and a newline
    /// after it.
    pub(crate) fn print_data(self, data: &[u8], json: impl FnOnce() -> Value) -> Result<()> {
        if self.is_json {
            return write_json(&json().to_string());
        }
        if !stdout().is_terminal() || data.is_empty() {
            return write(data);
        }
        let text = String::from_utf8_lossy(data);
        let lines: Vec<String> = text.split('\n').map(for_terminal).collect();
        write((lines.join("\n") + "\n").as_bytes())
    }

    /// Prints a note on standard error: a line, or the JSON value `{"note": …}`.
    pub(crate) fn note(self, text: &str) {
        self.print_error(text, || json!({ "note": text }));
    }

    /// Prints a failure on standard error, and returns its exit status.
    pub(crate) fn report(self, failure: &Failure) -> u8 {
        if failure.code != PIPE_CLOSED {
            self.print_error(&failure.to_string(), || failure.to_json());
        }
        failure.code
    }

    /// Prints a line for people on standard error, or the JSON value on one line.
    pub(crate) fn print_error(self, text: &str, json: impl FnOnce() -> Value) {
        let line =
            if self.is_json { json_line(&json()) } else { format!("zk: {}", one_line(text)) };
        // `eprintln!` panics if the reader has gone.
        drop(writeln!(stderr(), "{line}"));
    }
}

// Not inlined: each command has its own copy of its callers.
#[inline(never)]
fn push_line(text: &mut String, line: &str, is_terminal: bool) -> Result<()> {
    // Tabs are between the fields of a line.
    if line.contains(|char: char| char.is_control() && char != '\t') {
        return Err(Failure::other(format!(
            "the server sent a name with a control character, which ZooKeeper does not permit: {line}"
        )));
    }
    if is_terminal {
        text.push_str(&for_terminal(line));
    } else {
        text.push_str(line);
    }
    text.push('\n');
    Ok(())
}

/// Escapes what cannot be printed, but for tabs.
fn for_terminal(line: &str) -> String {
    let fields: Vec<String> = line.split('\t').map(printable).collect();
    fields.join("\t")
}

#[inline(never)]
fn write_json(text: &str) -> Result<()> {
    let mut line = escape_json(text);
    line.push('\n');
    write(line.as_bytes())
}

#[inline(never)]
fn write(bytes: &[u8]) -> Result<()> {
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
pub(crate) fn data_of_json(json: &Value) -> Option<Option<Vec<u8>>> {
    let digits = match json {
        Value::Null => return Some(None),
        Value::String(text) => return Some(Some(text.clone().into_bytes())),
        json => json["hex"].as_str()?,
    };
    let digits: Option<Vec<u8>> =
        digits.chars().map(|c| u8::try_from(c.to_digit(16)?).ok()).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(Some(digits.chunks(2).map(|two| two[0] << 4 | two[1]).collect()))
}

/// Returns JSON on one line, with all characters escaped that cannot be printed.
pub(crate) fn json_line(value: &Value) -> String {
    escape_json(&value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_with_a_control_character_is_refused() {
        let pushed = |line: &str, is_terminal| {
            let mut text = String::new();
            push_line(&mut text, line, is_terminal)
                .map(|()| text)
                .map_err(|error| error.to_string())
        };
        let path = "/a\\b\u{202e}";
        assert_eq!(pushed(path, false).unwrap(), format!("{path}\n"));
        assert_eq!(pushed(path, true).unwrap(), "/a\\b\\u{202e}\n");
        assert_eq!(pushed("a\tb", true).unwrap(), "a\tb\n");
        for line in ["/a\nb", "/a\u{1b}[2J", "/a\u{9b}"] {
            for is_terminal in [true, false] {
                let refused = pushed(line, is_terminal).unwrap_err();
                assert!(refused.contains("a name with a control character"), "{refused}");
            }
        }
    }
}
