//! The lines of `--verbose`, printed by a thread of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use tokio::time::timeout;
use zk_recipes::session::{Client, SessionChange, SessionChanges, SessionEvent};

use crate::failure::for_users;
use crate::output::Output;

/// A log on standard error that never blocks its writers. A reader that has stopped must cost neither
/// the session nor the lock.
#[derive(Clone)]
pub(crate) struct VerboseLog {
    lines: Sender<Line>,
    /// Number of lines that wait to be printed.
    waiting: Arc<AtomicUsize>,
    /// Number of lines dropped since the last one was sent.
    dropped: Arc<AtomicUsize>,
}

enum Line {
    Text(String),
    /// Answered once all lines before are printed.
    End(Sender<()>),
}

impl VerboseLog {
    pub(crate) fn new(output: Output) -> Self {
        Self::printing(move |line| output.note(line))
    }

    fn printing(print: impl Fn(&str) + Send + 'static) -> Self {
        let (lines, received) = channel();
        let log = Self { lines, waiting: Arc::default(), dropped: Arc::default() };
        let waiting = Arc::clone(&log.waiting);
        // The thread ends with the process: a write to a full pipe cannot be cancelled.
        thread::spawn(move || {
            for line in received {
                match line {
                    Line::Text(text) => {
                        waiting.fetch_sub(1, Ordering::Relaxed);
                        print(&text);
                    }
                    Line::End(printed) => drop(printed.send(())),
                }
            }
        });
        log
    }

    /// Prints a line, or drops it if too many others wait to be printed.
    pub(crate) fn print(&self, line: String) {
        if self.waiting.load(Ordering::Relaxed) >= LINES_KEPT {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let dropped = self.dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            let why = "lines of --verbose were dropped: nobody read them in time";
            self.send(format!("{dropped} {why}"));
        }
        self.send(line);
    }

    fn send(&self, line: String) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // The thread receives for as long as there is a sender.
        drop(self.lines.send(Line::Text(line)));
    }

    /// Prints the session that was opened, and its events and failed reconnects until it ends.
    pub(crate) fn print_session(&self, client: &Client) {
        let stats = client.stats();
        let server = stats.connected_to.map(|host| format!(" at {host}")).unwrap_or_default();
        let granted = client.session_timeout();
        self.print(format!("session {}{server}, session timeout {granted:?}", stats.session_id));
        // A strong handle would keep the session open.
        let (log, client, mut events) = (self.clone(), client.weak(), client.events());
        tokio::spawn(async move {
            let mut printed = None;
            loop {
                match timeout(CAUSE_INTERVAL, events.next()).await {
                    Ok(Some(event)) => {
                        if let SessionEvent::Suspended { cause, .. } = &event {
                            printed = Some(cause.clone());
                        }
                        log.print(for_users(&event.to_string()));
                    }
                    Ok(None) => return,
                    Err(_) => {
                        let cause = client.last_disconnect();
                        if cause != printed {
                            if let Some(cause) = &cause {
                                log.print(for_users(&format!("not connected: {cause}")));
                            }
                            printed = cause;
                        }
                    }
                }
            }
        });
    }

    /// Prints each failed attempt to open the next session.
    pub(crate) fn print_failed_attempts(&self, mut changes: SessionChanges) {
        let log = self.clone();
        tokio::spawn(async move {
            while let Some(change) = changes.next().await {
                if let SessionChange::AttemptFailed { .. } = change {
                    log.print(for_users(&change.to_string()));
                }
            }
        });
    }

    /// Waits until all lines are printed, for a short time in case nobody reads them.
    pub(crate) fn flush(&self) {
        let (end, printed) = channel();
        drop(self.lines.send(Line::End(end)));
        let _is_in_time = printed.recv_timeout(FLUSH_LIMIT);
    }
}

/// Pause between two reads of the cause of the last failed attempt to connect. Attempts that follow
/// each other faster usually fail for the same cause.
const CAUSE_INTERVAL: Duration = Duration::from_millis(100);
/// Lines that wait to be printed. A session has a few events a minute.
const LINES_KEPT: usize = 256;
/// The longest time that the end of a command waits for its lines.
const FLUSH_LIMIT: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_dropped_and_counted_while_the_reader_stops() {
        let (allow, allowed) = channel::<()>();
        let (shown, lines) = channel();
        let log = VerboseLog::printing(move |line| {
            let _once_all_is_allowed = allowed.recv();
            shown.send(line.to_owned()).unwrap();
        });
        log.print("first".to_owned());
        allow.send(()).unwrap();
        assert_eq!(lines.recv().unwrap(), "first");
        // The thread may hold one more line than the queue.
        for number in 0..LINES_KEPT + 11 {
            log.print(number.to_string());
        }
        let dropped = log.dropped.load(Ordering::Relaxed);
        assert!((10..=11).contains(&dropped), "{dropped}");
        drop(allow);
        for number in 0..LINES_KEPT + 11 - dropped {
            assert_eq!(lines.recv().unwrap(), number.to_string());
        }
        log.print("last".to_owned());
        log.flush();
        let rest: Vec<String> = lines.try_iter().collect();
        assert!(rest[0].starts_with(&format!("{dropped} lines of --verbose")), "{rest:?}");
        assert_eq!(rest[1..], ["last"]);
    }
}
