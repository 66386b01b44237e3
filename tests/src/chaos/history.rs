//! The history of a run: events from all contenders, in the order in which they arrive.

use std::fmt::Write as _;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::event::{Event, What};
use crate::monotonic_us;

/// A history that threads append to and wait for. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct History {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    events: Mutex<Vec<Event>>,
    appended: Condvar,
}

impl History {
    /// Appends an event.
    pub fn push(&self, event: Event) {
        self.events().push(event);
        self.inner.appended.notify_all();
    }

    /// Appends an event of a contender, with the current time.
    pub fn note(&self, contender: u32, what: What) {
        let mut event = Event::note(monotonic_us(), contender, "");
        event.what = what;
        self.push(event);
    }

    /// Appends a note about an action of the engine, with the current time.
    pub fn engine(&self, text: impl Into<String>) {
        self.push(Event::note(monotonic_us(), ENGINE, text));
    }

    /// Waits until `probe` returns `Some` for the events, or until `limit` has passed.
    pub fn wait_for<T>(
        &self,
        limit: Duration,
        mut probe: impl FnMut(&[Event]) -> Option<T>,
    ) -> Option<T> {
        let deadline_us = monotonic_us() + micros(limit);
        let mut events = self.events();
        loop {
            if let Some(found) = probe(&events) {
                return Some(found);
            }
            let left = deadline_us.checked_sub(monotonic_us()).filter(|left| *left > 0)?;
            let waited = self.inner.appended.wait_timeout(events, Duration::from_micros(left));
            events = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until the clock reads `at_us`. For points in time that must be exact to a few
    /// milliseconds.
    pub fn wait_until(&self, at_us: u64) {
        let left = at_us.saturating_sub(monotonic_us());
        // reason: the test depends on the time itself, and no appended event ends the wait.
        let never = self.wait_for(Duration::from_micros(left), |_| None::<()>);
        assert!(never.is_none());
    }

    /// Copies the events so far.
    pub fn snapshot(&self) -> Vec<Event> {
        self.events().clone()
    }

    /// Returns the events as text, without the samples of tokens.
    pub fn digest(&self) -> String {
        let events = self.events();
        let shown = events.iter().filter(|event| event.what != What::Valid);
        shown.map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    /// Returns all events as text, one a line.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for event in self.events().iter() {
            let _ = writeln!(text, "{event}");
        }
        text
    }

    fn events(&self) -> MutexGuard<'_, Vec<Event>> {
        self.inner.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// The contender number of the engine's own notes.
pub const ENGINE: u32 = 0;
