//! The bounded queue between the driver and the owner of a persistent watch.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures::task::AtomicWaker;

use crate::SessionEnd;
use crate::limits::{STREAM_BYTES_KEPT, STREAM_EVENTS_KEPT};
use zk_session_core::{Handle, Notice, WatchedEvent};

/// Creates a queue that never blocks the driver and never exceeds its limits. If the owner does not
/// keep up, the number of lost events replaces the whole queue; the owner must read the nodes again
/// anyway.
pub(crate) fn notices() -> (NoticeSender, NoticeReceiver) {
    let queue = Arc::new(Queue::default());
    (NoticeSender(Arc::clone(&queue)), NoticeReceiver(queue))
}

/// Item that the owner receives.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum News {
    Event(WatchedEvent),
    Gap,
    Lost(u64),
    End(SessionEnd),
}

#[derive(Clone)]
pub(crate) struct NoticeSender(Arc<Queue>);

pub(crate) struct NoticeReceiver(Arc<Queue>);

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    waker: AtomicWaker,
}

#[derive(Default)]
struct State {
    lost: u64,
    notices: VecDeque<Notice>,
    bytes: usize,
    end: Option<SessionEnd>,
    is_abandoned: bool,
}

impl NoticeSender {
    pub(super) fn send(&self, notice: Result<Notice, SessionEnd>) {
        match notice {
            Ok(notice) => self.0.lock().push(notice),
            Err(end) => self.0.lock().end = Some(end),
        }
        self.0.waker.wake();
    }
}

impl NoticeReceiver {
    /// Polls for the next item; `None` after the end was delivered.
    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<Option<News>> {
        self.0.waker.register(cx.waker());
        let mut state = self.0.lock();
        match state.pop() {
            Some(news) => Poll::Ready(Some(news)),
            None if state.is_abandoned => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    /// Discards the queue and all later events.
    pub(crate) fn close(&self) {
        let mut state = self.0.lock();
        *state = State { is_abandoned: true, ..State::default() };
    }
}

impl Queue {
    /// Held only briefly. No user code runs under this lock.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn push(&mut self, notice: Notice) {
        if self.is_abandoned || (notice == Notice::Gap && self.notices.back() == Some(&notice)) {
            return; // consecutive gaps merge into one
        }
        let bytes = path_bytes(&notice);
        if self.notices.len() >= STREAM_EVENTS_KEPT || self.bytes + bytes > STREAM_BYTES_KEPT {
            let lost = self.notices.drain(..).filter(|one| *one != Notice::Gap).count();
            self.lost += u64::try_from(lost).unwrap_or(u64::MAX);
            self.bytes = 0;
        }
        if bytes > STREAM_BYTES_KEPT {
            self.lost += 1;
            return;
        }
        self.bytes += bytes;
        self.notices.push_back(notice);
    }

    fn pop(&mut self) -> Option<News> {
        if self.lost > 0 {
            return Some(News::Lost(std::mem::take(&mut self.lost)));
        }
        if let Some(notice) = self.notices.pop_front() {
            self.bytes -= path_bytes(&notice);
            return Some(match notice {
                Notice::Event(event) => News::Event(event),
                Notice::Gap => News::Gap,
            });
        }
        let end = self.end.take()?;
        self.is_abandoned = true;
        Some(News::End(end))
    }
}

fn path_bytes(notice: &Notice) -> usize {
    match notice {
        Notice::Event(event) => event.path.len(),
        Notice::Gap => 0,
    }
}

impl Handle for NoticeSender {
    fn is_abandoned(&self) -> bool {
        self.0.lock().is_abandoned
    }
}

impl fmt::Debug for NoticeSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NoticeSender")
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use proto::EventType;

    use super::*;

    fn event(path: String) -> Notice {
        Notice::Event(WatchedEvent { event_type: EventType::NODE_CREATED, path })
    }

    fn next(receiver: &NoticeReceiver) -> Poll<Option<News>> {
        receiver.poll(&Context::from_waker(Waker::noop()))
    }

    fn drain(receiver: &NoticeReceiver) -> Vec<News> {
        let ready = || match next(receiver) {
            Poll::Ready(news) => news,
            Poll::Pending => None,
        };
        std::iter::from_fn(ready).collect()
    }

    #[test]
    fn queue_overflow_replaces_events_with_their_count() {
        let (sender, receiver) = notices();
        for n in 0..=STREAM_EVENTS_KEPT {
            sender.send(Ok(event(format!("/{n}"))));
        }
        let lost = News::Lost(u64::try_from(STREAM_EVENTS_KEPT).unwrap());
        let Notice::Event(last) = event(format!("/{STREAM_EVENTS_KEPT}")) else { unreachable!() };
        assert_eq!(drain(&receiver), [lost, News::Event(last)]);
        assert_eq!(next(&receiver), Poll::Pending);
    }

    #[test]
    fn queue_overflows_by_bytes_of_paths() {
        let (sender, receiver) = notices();
        let long = "x".repeat(STREAM_BYTES_KEPT / 4);
        for _ in 0..5 {
            sender.send(Ok(event(long.clone())));
        }
        assert_eq!(receiver.0.lock().bytes, long.len());
        assert_eq!(drain(&receiver)[0], News::Lost(4));
        sender.send(Ok(event("x".repeat(STREAM_BYTES_KEPT + 1))));
        assert_eq!(drain(&receiver), [News::Lost(1)]);
        assert_eq!(receiver.0.lock().bytes, 0);
    }

    #[test]
    fn consecutive_gaps_merge_and_end_is_delivered_last_and_once() {
        let (sender, receiver) = notices();
        for _ in 0..3 {
            sender.send(Ok(Notice::Gap));
        }
        sender.send(Err(SessionEnd::Expired));
        assert_eq!(drain(&receiver), [News::Gap, News::End(SessionEnd::Expired)]);
        assert_eq!(next(&receiver), Poll::Ready(None));
    }

    #[test]
    fn closed_receiver_keeps_no_events() {
        let (sender, receiver) = notices();
        sender.send(Ok(Notice::Gap));
        receiver.close();
        sender.send(Ok(event("/a".into())));
        assert!(sender.is_abandoned());
        assert!(receiver.0.lock().notices.is_empty());
    }
}
