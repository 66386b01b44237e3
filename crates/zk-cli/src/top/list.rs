//! The list of locks on the screen: its order, filter and selection.

use std::cmp::Ordering;

use super::survey::LockRow;
use super::terminal::Key;
use super::view;

/// The locks of the last look, and which of them are shown.
#[derive(Default)]
pub(super) struct LockList {
    /// All locks, by path.
    rows: Vec<LockRow>,
    order: Order,
    /// Text that the paths of shown locks contain.
    filter: String,
    /// Whether keys change the filter.
    is_typing: bool,
    /// Index of the selected lock among the shown ones.
    selected: usize,
}

/// Request of a key that the list itself cannot fulfil.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Stay,
    /// Show the queue of the selected lock.
    Open,
    Quit,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Order {
    #[default]
    Path,
    LongestWait,
    Waiters,
    HandOffs,
}

impl Order {
    /// Returns the name, and the order after it.
    fn name_and_next(self) -> (&'static str, Self) {
        match self {
            Self::Path => ("path", Self::LongestWait),
            Self::LongestWait => ("longest wait", Self::Waiters),
            Self::Waiters => ("waiters", Self::HandOffs),
            Self::HandOffs => ("hand-offs", Self::Path),
        }
    }
}

impl LockList {
    /// Replaces the locks. The selected one stays selected.
    pub(super) fn refresh(&mut self, rows: Vec<LockRow>) {
        self.change(|list| list.rows = rows);
    }

    pub(super) fn selected(&self) -> Option<&LockRow> {
        self.shown().get(self.selected).copied()
    }

    pub(super) fn quits(&self, key: Key) -> bool {
        !self.is_typing && matches!(key, Key::Char('q' | 'Q'))
    }

    /// Obeys a key, on a screen with room for so many locks.
    pub(super) fn handle_key(&mut self, key: Key, room: usize) -> Step {
        if self.quits(key) {
            return Step::Quit;
        }
        match key {
            Key::Escape => self.change(|list| {
                list.filter.clear();
                list.is_typing = false;
            }),
            Key::Enter if self.is_typing => self.is_typing = false,
            Key::Char(char) if self.is_typing => self.change(|list| list.filter.push(char)),
            Key::Backspace if self.is_typing => self.change(|list| {
                list.filter.pop();
            }),
            Key::Enter | Key::Right | Key::Char('l') => return Step::Open,
            Key::Char('/') => self.is_typing = true,
            Key::Char('s') => self.change(|list| list.order = list.order.name_and_next().1),
            key => self.selected = moved(self.selected, key, room, self.shown().len()),
        }
        Step::Stay
    }

    /// Returns the lines of the screen. Its title begins with `title`.
    pub(super) fn lines(&self, title: &str, size: (usize, usize)) -> Vec<String> {
        let shown = self.shown();
        let (all, order) = (self.rows.len(), self.order.name_and_next().0);
        let filter = match (self.is_typing, self.filter.is_empty()) {
            (false, true) => String::new(),
            _ => format!(", {} with {}", shown.len(), self.filter),
        };
        let title = format!("{title}: {all} locks{filter}, by {order}");
        let help = if self.is_typing {
            "type a part of the path    enter: done    esc: all locks"
        } else {
            "enter: its queue    s: sort    /: filter    q: quit"
        };
        let selected = (!shown.is_empty()).then_some(self.selected);
        let skipped = (self.selected + 1).saturating_sub(view::room(size));
        view::fit(&title, &view::table(shown, size.0), skipped, selected, help, size)
    }

    /// Returns the locks that pass the filter, in order.
    fn shown(&self) -> Vec<&LockRow> {
        let passes = |row: &&LockRow| row.path.contains(&self.filter);
        let mut shown: Vec<&LockRow> = self.rows.iter().filter(passes).collect();
        let rate = |row: &LockRow| row.handoffs.unwrap_or(-1.0);
        // The largest come first, and equal ones stay in the order of their paths.
        shown.sort_by(|one, other| match self.order {
            Order::Path => Ordering::Equal,
            Order::LongestWait => other.longest_wait.cmp(&one.longest_wait),
            Order::Waiters => other.waiters.cmp(&one.waiters),
            Order::HandOffs => rate(other).total_cmp(&rate(one)),
        });
        shown
    }

    /// Changes the list, and selects the same lock again if it is still shown.
    fn change(&mut self, change: impl FnOnce(&mut Self)) {
        let path = self.selected().map(|row| row.path.clone());
        change(self);
        let shown = self.shown();
        let again = shown.iter().position(|row| Some(&row.path) == path.as_ref());
        let last = shown.len().saturating_sub(1);
        self.selected = again.unwrap_or_else(|| self.selected.min(last));
    }
}

/// Returns the place after a key that moves by lines or pages, of `count` places.
pub(super) fn moved(at: usize, key: Key, page: usize, count: usize) -> usize {
    let to = match key {
        Key::Up | Key::Char('k') => at.saturating_sub(1),
        Key::Down | Key::Char('j') => at + 1,
        Key::PageUp => at.saturating_sub(page),
        Key::PageDown => at + page,
        Key::Home | Key::Char('g') => 0,
        Key::End | Key::Char('G') => count,
        _ => at,
    };
    to.min(count.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use zk_recipes::Recipe;

    use super::*;

    fn row(path: &str, waiters: usize, wait: Option<u64>, handoffs: f64) -> LockRow {
        LockRow {
            path: path.to_owned(),
            kind: Recipe::Mutex,
            holder: String::new(),
            since: None,
            waiters,
            longest_wait: wait.map(Duration::from_secs),
            handoffs: Some(handoffs),
        }
    }

    fn list() -> LockList {
        let mut list = LockList::default();
        list.refresh(vec![
            row("/a", 1, Some(5), 0.5),
            row("/b", 0, None, 9.0),
            row("/c/d", 7, Some(2), 0.0),
        ]);
        list
    }

    fn paths(list: &LockList) -> Vec<&str> {
        list.shown().iter().map(|row| row.path.as_str()).collect()
    }

    fn press(list: &mut LockList, keys: &str) {
        for key in keys.chars() {
            let key = match key {
                '\n' => Key::Enter,
                '<' => Key::Backspace,
                '\u{1b}' => Key::Escape,
                key => Key::Char(key),
            };
            assert_eq!(list.handle_key(key, 2), Step::Stay, "{key:?}");
        }
    }

    #[test]
    fn locks_are_sorted_and_the_selected_one_is_followed() {
        let mut list = list();
        press(&mut list, "j");
        let orders = [["/a", "/c/d", "/b"], ["/c/d", "/a", "/b"], ["/b", "/a", "/c/d"]];
        for order in orders.into_iter().chain([["/a", "/b", "/c/d"]]) {
            press(&mut list, "s");
            assert_eq!((paths(&list), &*list.selected().unwrap().path), (order.to_vec(), "/b"));
        }
        list.refresh(vec![row("/0", 0, None, 0.0), row("/b", 0, None, 0.0)]);
        assert_eq!(list.selected().unwrap().path, "/b");
        list.refresh(vec![row("/0", 0, None, 0.0)]);
        assert_eq!(list.selected().unwrap().path, "/0");
        list.refresh(Vec::new());
        assert!(list.selected().is_none());
    }

    #[test]
    fn filter_is_typed_and_cleared() {
        let mut list = list();
        press(&mut list, "/c/x<q<\n");
        assert_eq!(paths(&list), ["/c/d"]);
        assert!(list.lines("top", (80, 9))[0].contains("top: 3 locks, 1 with c/, by path"));
        assert!(list.quits(Key::Char('q')));
        press(&mut list, "\u{1b}");
        assert_eq!(paths(&list).len(), 3);
        press(&mut list, "/nothing");
        assert_eq!((list.selected(), list.quits(Key::Char('q'))), (None, false));
    }

    #[test]
    fn selection_moves_by_lines_and_pages() {
        let mut list = list();
        for (key, path) in [
            (Key::PageDown, "/c/d"),
            (Key::Down, "/c/d"),
            (Key::Up, "/b"),
            (Key::End, "/c/d"),
            (Key::PageUp, "/a"),
            (Key::Down, "/b"),
            (Key::Home, "/a"),
        ] {
            assert_eq!(list.handle_key(key, 2), Step::Stay);
            assert_eq!(list.selected().unwrap().path, path, "{key:?}");
        }
        assert_eq!(list.handle_key(Key::Right, 2), Step::Open);
        assert_eq!(list.handle_key(Key::Char('q'), 2), Step::Quit);
    }
}
