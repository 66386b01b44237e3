//! Progress of a persistent watch: the events it has delivered, against the events it must deliver.
//!
//! Most servers send events without a zxid. The progress of a stream on a path is therefore a set
//! of positions in the path's history. The set usually has one position. It has several if the
//! exact time at which the watch was set is unknown.

use std::collections::{BTreeMap, BTreeSet};

use zk_session::{EventType, WatchEvent, Zxid};

use crate::history::{History, News, Watched, is_at_or_below};

#[derive(Debug)]
pub(crate) struct WatchProgress {
    path: String,
    is_recursive: bool,
    /// For paths without an event so far: the watch was set after `low`, and not after `high`.
    low: Zxid,
    high: Zxid,
    /// Possible positions in the events of each path. A position is the number of events that were
    /// delivered, or happened before the watch was set.
    told: BTreeMap<Watched, BTreeSet<usize>>,
    /// The zxid up to which events were checked, and the paths to check again.
    checked: Zxid,
    told_since: Vec<Watched>,
    gap: Option<Gap>,
}

/// Uncertainty since the connection was lost.
#[derive(Clone, Copy, Debug)]
struct Gap {
    /// The first request whose reply shows that the watch is set again.
    next_request: u64,
    /// The view of the session when the connection was lost.
    view: Zxid,
}

impl Gap {
    /// Returns the possible positions after the gap, given the positions before it.
    fn widened(self, places: &BTreeSet<usize>, news: &[News]) -> BTreeSet<usize> {
        let seen = news.partition_point(|(at, _)| *at <= self.view);
        let first = places.first().map_or(seen, |first| seen.min(*first));
        (first..=news.len()).collect()
    }
}

impl WatchProgress {
    /// Creates the progress of a watch that was set after the session's view `low`, at the latest when
    /// the leader was at `high`.
    pub(crate) fn new(path: &str, is_recursive: bool, low: Zxid, high: Zxid) -> Self {
        let (path, told) = (path.to_owned(), BTreeMap::new());
        let (checked, told_since) = (high, Vec::new());
        Self { path, is_recursive, low, high, told, checked, told_since, gap: None }
    }

    /// Checks a delivered event against the history.
    pub(crate) fn tell(&mut self, history: &History, event: &WatchEvent) -> Result<(), String> {
        let is_children = event.event_type == EventType::NODE_CHILDREN_CHANGED;
        let of = Watched { path: event.path.clone(), is_children };
        let news = history.news(&of);
        let mut places = self.places(&of, news);
        if let Some(gap) = self.gap {
            places = gap.widened(&places, news);
        }
        let is_it =
            |place: &&usize| news.get(**place).is_some_and(|change| change.1 == event.event_type);
        let next: BTreeSet<usize> = places.iter().filter(is_it).map(|place| place + 1).collect();
        let result = if next.is_empty() {
            Err(format!("{event:?} after {places:?} of {news:?}"))
        } else {
            Ok(())
        };
        self.told.insert(of.clone(), next);
        self.told_since.push(of);
        result
    }

    /// Records a gap. Events may be missing until a request made from now on is answered. The next
    /// server may lag behind the last one, and deliver events after `view` again.
    pub(crate) fn gap(&mut self, next_request: u64, view: Zxid) {
        let view = self.gap.map_or(view, |gap| gap.view.min(view));
        self.gap = Some(Gap { next_request, view });
    }

    /// Records the reply to a request. It ends the gap if the request was made after the gap began.
    pub(crate) fn answered(&mut self, history: &History, request: u64) {
        let Some(gap) = self.gap.take_if(|gap| request >= gap.next_request) else { return };
        self.high = history.newest();
        self.checked = self.high;
        for (of, places) in &mut self.told {
            *places = gap.widened(places, history.news(of));
        }
    }

    /// Returns an event that a session with this view must have received and did not. It checks
    /// only paths that are new in the view or that had an event since the last check.
    pub(crate) fn missing(&mut self, history: &History, view: Zxid) -> Option<String> {
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
            Some(format!("{event:?} of {} at {zxid}, view {view}", of.path))
        })
    }

    fn places(&self, of: &Watched, news: &[News]) -> BTreeSet<usize> {
        if let Some(places) = self.told.get(of) {
            return places.clone();
        }
        let until = |zxid: Zxid| news.partition_point(|(at, _)| *at <= zxid);
        (until(self.low)..=until(self.high)).collect()
    }

    /// Returns the watch target that a change of the node `path` may affect. The change may or may
    /// not affect the parent's list of children; the history of that list decides.
    fn concerns(&self, path: &str) -> Option<Watched> {
        let is_own =
            if self.is_recursive { is_at_or_below(path, &self.path) } else { path == self.path };
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
    use zk_session::SessionId;

    use super::*;

    fn event(event_type: EventType) -> WatchEvent {
        WatchEvent { event_type, path: "/s/a".to_owned(), zxid: None }
    }

    fn history() -> History {
        let mut history = History::default();
        for (zxid, number) in [(3, "1"), (5, "2"), (7, "3")] {
            history.put("/s/a", Zxid(zxid), number.as_bytes(), SessionId::NONE).unwrap();
            history.reached(Zxid(zxid));
        }
        history
    }

    #[test]
    fn undelivered_event_within_view_is_missing() {
        let history = history();
        let mut progress = WatchProgress::new("/s/a", false, Zxid::ZERO, Zxid(3));
        assert_eq!(progress.missing(&history, Zxid(4)), None);
        assert!(progress.missing(&history, Zxid(5)).is_some());
        progress.tell(&history, &event(EventType::NODE_DATA_CHANGED)).unwrap();
        assert_eq!(progress.missing(&history, Zxid(5)), None);
        assert!(progress.missing(&history, Zxid(7)).is_some());
        progress.tell(&history, &event(EventType::NODE_DATA_CHANGED)).unwrap();
        assert!(progress.tell(&history, &event(EventType::NODE_DATA_CHANGED)).is_err());
    }

    #[test]
    fn gap_excuses_missing_events_until_later_request_is_answered() {
        let mut history = history();
        let mut progress = WatchProgress::new("/s/a", true, Zxid::ZERO, Zxid(3));
        progress.gap(4, Zxid(3));
        progress.answered(&history, 3);
        assert_eq!(progress.missing(&history, Zxid(7)), None);
        progress.answered(&history, 4);
        history.put("/s/a", Zxid(9), b"4", SessionId::NONE).unwrap();
        assert_eq!(progress.missing(&history, Zxid(8)), None);
        assert!(progress.missing(&history, Zxid(9)).is_some());
        assert!(progress.tell(&history, &event(EventType::NODE_DELETED)).is_err());
    }

    #[test]
    fn lagging_server_may_repeat_events_after_the_view() {
        let history = history();
        for (view, is_fine) in [(4, true), (7, false)] {
            let mut progress = WatchProgress::new("/s/a", true, Zxid::ZERO, Zxid(3));
            progress.tell(&history, &event(EventType::NODE_DATA_CHANGED)).unwrap();
            progress.tell(&history, &event(EventType::NODE_DATA_CHANGED)).unwrap();
            progress.gap(4, Zxid(view));
            progress.answered(&history, 4);
            let told = progress.tell(&history, &event(EventType::NODE_DATA_CHANGED));
            assert_eq!(told.is_ok(), is_fine, "{told:?}");
        }
    }
}
