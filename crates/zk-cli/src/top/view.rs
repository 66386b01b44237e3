//! The lines of text on the screen.

use super::survey::{LockRow, kind_name};
use crate::output::{aligned, fitted};
use crate::participants::span;
use crate::text::printable;

/// Cells of the table; the numbers are on the right.
const HEAD: [&str; 7] = ["LOCK", "KIND", "HOLDER", "QUEUED", "WAITERS", "WAIT", "HAND-OFFS/S"];

/// Characters of a holder, so that long data leaves room for the other columns.
const HOLDER_MAX: usize = 40;

/// Columns that a narrow table leaves out, in this order.
const LEFT_OUT: [usize; 3] = [1, 3, 2];

/// Returns the table with its head. If it is wider than `width`, it leaves out columns, and then the
/// beginnings of long paths.
pub(super) fn table<'a>(rows: impl IntoIterator<Item = &'a LockRow>, width: usize) -> Vec<String> {
    let mut cells = vec![HEAD.map(str::to_owned)];
    cells.extend(rows.into_iter().map(|row| {
        [
            printable(&row.path),
            kind_name(row.kind).to_owned(),
            row.holder.chars().take(HOLDER_MAX).collect(),
            row.since.map(span).unwrap_or_default(),
            row.waiters.to_string(),
            row.longest_wait.map(span).unwrap_or_default(),
            row.handoffs.map(|rate| format!("{rate:.1}")).unwrap_or_default(),
        ]
    }));
    let lines = fitted(&mut cells, &LEFT_OUT, width);
    let widest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let longest = cells.iter().map(|row| row[0].chars().count()).max().unwrap_or(0);
    if widest <= width {
        return lines;
    }
    let room = longest.saturating_sub(widest - width).max(PATH_MIN);
    for row in &mut cells {
        row[0] = end_of(&row[0], room);
    }
    aligned(&cells)
}

/// Returns the last `room` characters of a path, with an ellipsis if it is longer.
fn end_of(path: &str, room: usize) -> String {
    match path.chars().count().checked_sub(room) {
        Some(over @ 1..) => format!("…{}", path.chars().skip(over + 1).collect::<String>()),
        _ => path.to_owned(),
    }
}

/// Characters of a path that even the narrowest table shows.
const PATH_MIN: usize = 8;

/// Fits lines into a screen: a title, the head of the table, the rows after the first `skipped` ones,
/// and a line of help. The selected row is shown in reverse.
pub(super) fn fit(
    title: &str,
    lines: &[String],
    skipped: usize,
    selected: Option<usize>,
    help: &str,
    (width, height): (usize, usize),
) -> Vec<String> {
    let cut = |line: &str| line.chars().take(width).collect::<String>();
    let (head, rows) = match lines.split_first() {
        Some((head, rows)) => (cut(head), rows),
        None => (String::new(), lines),
    };
    let mut shown = vec![cut(title), head];
    for (at, row) in rows.iter().enumerate().skip(skipped).take(room((width, height))) {
        let row = cut(row);
        shown.push(if selected == Some(at) {
            format!("{REVERSE}{row:<width$}{PLAIN}")
        } else {
            row
        });
    }
    shown.resize(height.saturating_sub(1).max(shown.len().min(height)), String::new());
    shown.push(cut(help));
    shown
}

/// Returns the number of rows that a screen of this size shows.
pub(super) fn room((_, height): (usize, usize)) -> usize {
    height.saturating_sub(CHROME).max(1)
}

/// Lines around the rows: title, head and help.
const CHROME: usize = 3;
const REVERSE: &str = "\u{1b}[7m";
const PLAIN: &str = "\u{1b}[0m";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use zk_recipes::Recipe;

    use super::*;

    fn row(path: &str, waiters: usize) -> LockRow {
        LockRow {
            path: path.to_owned(),
            kind: Recipe::Mutex,
            holder: "checkout web3:4711".to_owned(),
            since: Some(Duration::from_secs(61)),
            waiters,
            longest_wait: None,
            handoffs: Some(2.25),
        }
    }

    #[test]
    fn table_has_a_line_for_each_lock() {
        let lines = table(&[row("/locks/a", 0), row("/locks/stock", 12)], usize::MAX);
        assert_eq!(lines.len(), 3);
        assert!(lines[0].starts_with("LOCK          KIND   HOLDER"), "{}", lines[0]);
        assert!(
            lines[2].contains("/locks/stock  mutex  checkout web3:4711  1m01s   12"),
            "{lines:?}"
        );
        assert!(lines[1].ends_with("2.2"), "{lines:?}");
    }

    #[test]
    fn table_escapes_characters_that_change_the_line() {
        let lines = table(&[row("/a\u{202e}b", 0)], usize::MAX);
        assert!(lines[1].starts_with(r"/a\u{202e}b"), "{}", lines[1]);
    }

    #[test]
    fn narrow_table_keeps_the_numbers_of_the_waiters() {
        let rows = [row("/locks/a", 0), row("/very/long/path/of/the/locks/of/stock", 12)];
        let at = |width| table(&rows, width);
        let is_within =
            |lines: &[String], width| lines.iter().all(|line| line.chars().count() <= width);
        for (width, without) in [(100, "…"), (90, "KIND"), (75, "HOLDER"), (60, "HOLDER")] {
            let lines = at(width);
            assert!(is_within(&lines, width), "{width}: {lines:#?}");
            assert!(lines[0].ends_with("WAITERS  WAIT  HAND-OFFS/S"), "{width}: {lines:#?}");
            assert!(!lines.concat().contains(without), "{width}: {lines:#?}");
        }
        let lines = at(45);
        assert!(is_within(&lines, 45) && lines[2].starts_with("…"), "{lines:#?}");
        assert!(lines[2].contains("/stock  12 "), "{lines:#?}");
        assert!(at(10)[2].starts_with("…f/stock  12"), "{:#?}", at(10));
    }

    #[test]
    fn screen_shows_the_selected_row_and_fits() {
        let rows: Vec<LockRow> = (0..50).map(|at| row(&format!("/l{at:02}"), at)).collect();
        let lines = table(&rows, usize::MAX);
        let size = (40, 10);
        let screen = fit("title", &lines, 50 - room(size), Some(49), "help", size);
        assert_eq!(screen.len(), 10);
        assert!(screen[8].contains("/l49") && screen[8].starts_with(REVERSE), "{screen:?}");
        assert_eq!((screen[0].as_str(), screen[9].as_str()), ("title", "help"));
        let plain: Vec<String> =
            screen.iter().map(|line| line.replace(REVERSE, "").replace(PLAIN, "")).collect();
        assert!(plain.iter().all(|line| line.chars().count() <= 40), "{plain:?}");
        // A screen of one line, and a table without rows.
        assert!(!fit("title", &lines, 0, None, "help", (5, 1)).is_empty());
        let empty = table(&[], usize::MAX);
        assert_eq!(fit("title", &empty, 0, None, "help", (80, 24)).len(), 24);
    }
}
