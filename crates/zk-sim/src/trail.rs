//! What a persistent watch has told so far, beside what it had to tell.
//!
//! Events carry no zxid on the wire of most servers. How far a stream has got with a path is a
//! set of places in the path's history, therefore: usually one, several where it is not known
//! exactly when the watch was armed.

use std::collections::{BTreeMap, BTreeSet};

use zk_session::{EventType, WatchedEvent};

use crate::history::{History, News, Watched, is_at_or_below};

#[derive(Debug)]
pub(crate) struct Trail {
    path: String,
    is_recursive: bool,
    /// It was armed after `low`, and not after `high`, of paths that it has not told of yet.
    low: i64,
    high: i64,
    /// How many of the news of a path were told, or came before.
    told: BTreeMap<Watched, BTreeSet<usize>>,
    /// Up to where it was looked through, and what must be looked at again.
    checked: i64,
    told_since: Vec<Watched>,
    gap: Option<Gap>,
}

/// What is not known since the connection was lost.
#[derive(Clone, Copy, Debug)]
struct Gap {
    /// The first request that, once answered, shows that the watch is armed again.
    next_request: u64,
    /// What the session had seen for certain.
    view: i64,
}

impl Gap {
    /// How far the stream may have got with a path, which had got to one of these places.
    fn widened(self, places: &BTreeSet<usize>, news: &[News]) -> BTreeSet<usize> {
        let seen = news.partition_point(|(at, _)| *at <= self.view);
        let first = places.first().map_or(seen, |first| seen.min(*first));
        (first..=news.len()).collect()
    }
}

impl Trail {
    /// It was armed when the session's view was `low`, and the leader had got to `high`.
    pub(crate) fn new(path: &str, is_recursive: bool, low: i64, high: i64) -> Self {
        let (path, told) = (path.to_owned(), BTreeMap::new());
        let (checked, told_since) = (high, Vec::new());
        Self { path, is_recursive, low, high, told, checked, told_since, gap: None }
    }

    /// An event was told; what is wrong with it, if anything.
    pub(crate) fn tell(&mut self, history: &History, event: &WatchedEvent) -> Result<(), String> {
        let is_children = event.event_type == EventType::NODE_CHILDREN_CHANGED;
        let of = Watched { path: event.path.clone(), is_children };
        let news = history.news(&of);
        let mut places = self.places(&of, news);
        if let Some(gap) = self.gap {
            places = gap.widened(&places, news);
        }
        let is_it = |place: &&usize| news.get(**place).is_some_and(|it| it.1 == event.event_type);
        let next: BTreeSet<usize> = places.iter().filter(is_it).map(|place| place + 1).collect();
        let result = match next.is_empty() {
            true => Err(format!("{event:?} after {places:?} of {news:?}")),
            false => Ok(()),
        };
        self.told.insert(of.clone(), next);
        self.told_since.push(of);
        result
    }

    /// Events may be missing, until a request that is made from now on is answered; and the
    /// next server may be behind the last one, and tell of what comes after `view` once more.
    pub(crate) fn gap(&mut self, next_request: u64, view: i64) {
        let view = self.gap.map_or(view, |gap| gap.view.min(view));
        self.gap = Some(Gap { next_request, view });
    }

    /// A request was answered when the leader had got to `newest`.
    pub(crate) fn answered(&mut self, history: &History, request: u64) {
        let Some(gap) = self.gap.take_if(|gap| request >= gap.next_request) else { return };
        self.high = history.newest();
        self.checked = self.high;
        for (of, places) in &mut self.told {
            *places = gap.widened(places, history.news(of));
        }
    }

    /// What a session with this view must have been told, and was not. Looks at what is new
    /// only: in the view, or told of.
    pub(crate) fn missing(&mut self, history: &History, view: i64) -> Option<String> {
        if self.gap.is_some() {
            return None;
        }
        let mut suspects = std::mem::take(&mut self.told_since);
        if view > self.checked {
            let changes = history.changes(self.checked, view);
            suspects.extend(changes.flat_map(|path| self.concerns(path)));
            self.checked = view;
        }
        suspects.into_iter().find_map(|of| {
            let news = history.news(&of);
            let last = self.places(&of, news).last().copied().unwrap_or(0);
            let (zxid, event) = news.get(last).filter(|(zxid, _)| *zxid <= view)?;
            Some(format!("{event:?} of {} at {zxid:#x}, view {view:#x}", of.path))
        })
    }

    fn places(&self, of: &Watched, news: &[News]) -> BTreeSet<usize> {
        if let Some(places) = self.told.get(of) {
            return places.clone();
        }
        let until = |zxid: i64| news.partition_point(|(at, _)| *at <= zxid);
        (until(self.low)..=until(self.high)).collect()
    }

    /// What it is told of when a node has changed. That may or may not have changed its
    /// parent's list of children, of which the list knows.
    fn concerns(&self, path: &str) -> Option<Watched> {
        let is_own = match self.is_recursive {
            true => is_at_or_below(path, &self.path),
            false => path == self.path,
        };
        let is_child = path.rsplit_once('/').is_some_and(|(parent, _)| parent == self.path);
        let is_children = is_child && !self.is_recursive;
        (is_own || is_children).then(|| {
            let path = if is_children { &self.path } else { path };
            Watched { path: path.to_owned(), is_children }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(event_type: EventType) -> WatchedEvent {
        WatchedEvent { event_type, path: "/s/a".to_owned() }
    }

    fn history() -> History {
        let mut history = History::default();
        for (zxid, number) in [(3, "1"), (5, "2"), (7, "3")] {
            history.put("/s/a", zxid, number.as_bytes(), 0).unwrap();
            history.reached(zxid);
        }
        history
    }

    #[test]
    fn an_event_that_was_not_told_is_missed() {
        let history = history();
        let mut trail = Trail::new("/s/a", false, 0, 3);
        assert_eq!(trail.missing(&history, 4), None);
        assert!(trail.missing(&history, 5).is_some());
        trail.tell(&history, &event(EventType::NODE_DATA_CHANGED)).unwrap();
        assert_eq!(trail.missing(&history, 5), None);
        assert!(trail.missing(&history, 7).is_some());
        trail.tell(&history, &event(EventType::NODE_DATA_CHANGED)).unwrap();
        assert!(trail.tell(&history, &event(EventType::NODE_DATA_CHANGED)).is_err());
    }

    #[test]
    fn a_gap_excuses_until_an_answer_to_a_later_request() {
        let mut history = history();
        let mut trail = Trail::new("/s/a", true, 0, 3);
        trail.gap(4, 3);
        trail.answered(&history, 3);
        assert_eq!(trail.missing(&history, 7), None);
        trail.answered(&history, 4);
        history.put("/s/a", 9, b"4", 0).unwrap();
        assert_eq!(trail.missing(&history, 8), None);
        assert!(trail.missing(&history, 9).is_some());
        assert!(trail.tell(&history, &event(EventType::NODE_DELETED)).is_err());
    }

    #[test]
    fn a_server_that_is_behind_may_tell_again_of_what_was_not_seen() {
        let history = history();
        for (view, is_fine) in [(4, true), (7, false)] {
            let mut trail = Trail::new("/s/a", true, 0, 3);
            trail.tell(&history, &event(EventType::NODE_DATA_CHANGED)).unwrap();
            trail.tell(&history, &event(EventType::NODE_DATA_CHANGED)).unwrap();
            trail.gap(4, view);
            trail.answered(&history, 4);
            let told = trail.tell(&history, &event(EventType::NODE_DATA_CHANGED));
            assert_eq!(told.is_ok(), is_fine, "{told:?}");
        }
    }
}
