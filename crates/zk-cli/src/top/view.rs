//! What the screen shows, as lines of text.

use super::survey::LockRow;
use crate::participants::span;

/// Cells of the table; the numbers are on the right.
const HEAD: [&str; 7] = ["LOCK", "KIND", "HOLDER", "QUEUED", "WAITERS", "WAIT", "HAND-OFFS/S"];

/// Characters of a holder, so that long data leaves room for the other columns.
const HOLDER_MAX: usize = 40;

/// Returns the table with its head.
pub(super) fn table(rows: &[LockRow]) -> Vec<String> {
    let mut cells = vec![HEAD.map(str::to_owned)];
    cells.extend(rows.iter().map(|row| {
        [
            row.path.clone(),
            row.kind.name().to_owned(),
            row.holder.chars().take(HOLDER_MAX).collect(),
            row.since.map(span).unwrap_or_default(),
            row.waiters.to_string(),
            row.longest_wait.map(span).unwrap_or_default(),
            row.handoffs.map(|rate| format!("{rate:.1}")).unwrap_or_default(),
        ]
    }));
    crate::output::aligned(&cells)
}

/// Fits lines into a screen: a title, the lines around `selected`, which is shown in reverse, and a
/// line of help.
pub(super) fn fit(
    title: &str,
    lines: &[String],
    selected: Option<usize>,
    help: &str,
    (width, height): (usize, usize),
) -> Vec<String> {
    let cut = |line: &str| line.chars().take(width).collect::<String>();
    let (head, rows) = match lines.split_first() {
        Some((head, rows)) => (cut(head), rows),
        None => (String::new(), lines),
    };
    let room = height.saturating_sub(CHROME).max(1);
    let skipped = selected.map_or(0, |at| (at + 1).saturating_sub(room));
    let mut shown = vec![cut(title), head];
    for (at, row) in rows.iter().enumerate().skip(skipped).take(room) {
        let row = cut(row);
        shown.push(match selected == Some(at) {
            true => format!("{REVERSE}{row:<width$}{PLAIN}"),
            false => row,
        });
    }
    shown.resize(height.saturating_sub(1).max(shown.len().min(height)), String::new());
    shown.push(cut(help));
    shown
}

/// Lines around the rows: title, head and help.
const CHROME: usize = 3;
const REVERSE: &str = "\u{1b}[7m";
const PLAIN: &str = "\u{1b}[0m";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::survey::LockKind;
    use super::*;

    fn row(path: &str, waiters: usize) -> LockRow {
        LockRow {
            path: path.to_owned(),
            kind: LockKind::Mutex,
            holder: "checkout web3:4711".to_owned(),
            since: Some(Duration::from_secs(61)),
            waiters,
            longest_wait: None,
            handoffs: Some(2.25),
        }
    }

    #[test]
    fn table_has_a_line_for_each_lock() {
        let lines = table(&[row("/locks/a", 0), row("/locks/stock", 12)]);
        assert_eq!(lines.len(), 3);
        assert!(lines[0].starts_with("LOCK          KIND   HOLDER"), "{}", lines[0]);
        assert!(
            lines[2].contains("/locks/stock  mutex  checkout web3:4711  1m01s   12"),
            "{lines:?}"
        );
        assert!(lines[1].ends_with("2.2"), "{lines:?}");
    }

    #[test]
    fn screen_shows_the_selected_row_and_fits() {
        let rows: Vec<LockRow> = (0..50).map(|at| row(&format!("/l{at:02}"), at)).collect();
        let lines = table(&rows);
        let screen = fit("title", &lines, Some(49), "help", (40, 10));
        assert_eq!(screen.len(), 10);
        assert!(screen[8].contains("/l49") && screen[8].starts_with(REVERSE), "{screen:?}");
        assert_eq!((screen[0].as_str(), screen[9].as_str()), ("title", "help"));
        let plain: Vec<String> =
            screen.iter().map(|line| line.replace(REVERSE, "").replace(PLAIN, "")).collect();
        assert!(plain.iter().all(|line| line.chars().count() <= 40), "{plain:?}");
        // A screen of one line, and a table without rows.
        assert!(!fit("title", &lines, None, "help", (5, 1)).is_empty());
        assert_eq!(fit("title", &table(&[]), None, "help", (80, 24)).len(), 24);
    }
}
