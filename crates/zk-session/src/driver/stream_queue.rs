//! The bounded queue between the driver and the owner of a persistent watch.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures::task::AtomicWaker;
use zk_session_core::{Handle, SessionEnd, WatchStreamItem};

use crate::limits::{STREAM_BYTES_KEPT, STREAM_EVENTS_KEPT};

/// Creates a queue that never blocks the driver and never exceeds its limits. If the owner does not
/// keep up, the number of lost events replaces the whole queue; the owner must read the nodes again
/// anyway.
pub(crate) fn stream_queue() -> (StreamSender, StreamReceiver) {
    let queue = Arc::new(Queue::default());
    (StreamSender(Arc::clone(&queue)), StreamReceiver(queue))
}

#[derive(Clone, Debug)]
pub(crate) struct StreamSender(Arc<Queue>);

pub(crate) struct StreamReceiver(Arc<Queue>);

#[derive(Debug, Default)]
struct Queue {
    state: Mutex<State>,
    waker: AtomicWaker,
}

#[derive(Debug, Default)]
struct State {
    lost: u64,
    items: VecDeque<WatchStreamItem>,
    bytes: usize,
    end: Option<SessionEnd>,
    is_abandoned: bool,
}

impl StreamSender {
    pub(super) fn send(&self, item: Result<WatchStreamItem, SessionEnd>) {
        match item {
            Ok(item) => self.0.lock().push(item),
            Err(end) => self.0.lock().end = Some(end),
        }
        self.0.waker.wake();
    }
}

impl StreamReceiver {
    /// Polls for the next item; `None` after the end was delivered.
    pub(crate) fn poll(
        &self,
        cx: &Context<'_>,
    ) -> Poll<Option<Result<WatchStreamItem, SessionEnd>>> {
        self.0.waker.register(cx.waker());
        let mut state = self.0.lock();
        match state.pop() {
            Some(item) => Poll::Ready(Some(item)),
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
    fn push(&mut self, item: WatchStreamItem) {
        if self.is_abandoned || (item == WatchStreamItem::Gap && self.items.back() == Some(&item)) {
            return; // consecutive gaps merge into one
        }
        let bytes = path_bytes(&item);
        if self.items.len() >= STREAM_EVENTS_KEPT || self.bytes + bytes > STREAM_BYTES_KEPT {
            let lost = self.items.drain(..).filter(|one| *one != WatchStreamItem::Gap).count();
            self.lost += u64::try_from(lost).unwrap_or(u64::MAX);
            self.bytes = 0;
        }
        if bytes > STREAM_BYTES_KEPT {
            self.lost += 1;
            return;
        }
        self.bytes += bytes;
        self.items.push_back(item);
    }

    fn pop(&mut self) -> Option<Result<WatchStreamItem, SessionEnd>> {
        if self.lost > 0 {
            return Some(Ok(WatchStreamItem::Overflow { lost: std::mem::take(&mut self.lost) }));
        }
        if let Some(item) = self.items.pop_front() {
            self.bytes -= path_bytes(&item);
            return Some(Ok(item));
        }
        let end = self.end.take()?;
        self.is_abandoned = true;
        Some(Err(end))
    }
}

fn path_bytes(item: &WatchStreamItem) -> usize {
    match item {
        WatchStreamItem::Changed(event) => event.path.len(),
        WatchStreamItem::Gap | WatchStreamItem::Overflow { .. } => 0,
    }
}

impl Handle for StreamSender {
    fn is_abandoned(&self) -> bool {
        self.0.lock().is_abandoned
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::{Wake, Waker};

    use proto::EventType;
    use zk_session_core::WatchEvent;

    use super::*;

    fn event(path: String) -> WatchStreamItem {
        WatchStreamItem::Changed(WatchEvent {
            event_type: EventType::NODE_CREATED,
            path,
            zxid: None,
        })
    }

    fn next(receiver: &StreamReceiver) -> Poll<Option<Result<WatchStreamItem, SessionEnd>>> {
        receiver.poll(&Context::from_waker(Waker::noop()))
    }

    fn drain(receiver: &StreamReceiver) -> Vec<Result<WatchStreamItem, SessionEnd>> {
        let ready = || match next(receiver) {
            Poll::Ready(news) => news,
            Poll::Pending => None,
        };
        std::iter::from_fn(ready).collect()
    }

    #[test]
    fn queue_overflow_replaces_events_with_their_count() {
        let (sender, receiver) = stream_queue();
        for n in 0..=STREAM_EVENTS_KEPT {
            sender.send(Ok(event(format!("/{n}"))));
        }
        let lost =
            Ok(WatchStreamItem::Overflow { lost: u64::try_from(STREAM_EVENTS_KEPT).unwrap() });
        let last = event(format!("/{STREAM_EVENTS_KEPT}"));
        assert_eq!(drain(&receiver), [lost, Ok(last)]);
        assert_eq!(next(&receiver), Poll::Pending);
    }

    #[test]
    fn queue_overflows_by_bytes_of_paths() {
        let (sender, receiver) = stream_queue();
        let long = "x".repeat(STREAM_BYTES_KEPT / 4);
        for _ in 0..5 {
            sender.send(Ok(event(long.clone())));
        }
        assert_eq!(receiver.0.lock().bytes, long.len());
        assert_eq!(drain(&receiver)[0], Ok(WatchStreamItem::Overflow { lost: 4 }));
        sender.send(Ok(event("x".repeat(STREAM_BYTES_KEPT + 1))));
        assert_eq!(drain(&receiver), [Ok(WatchStreamItem::Overflow { lost: 1 })]);
        assert_eq!(receiver.0.lock().bytes, 0);
    }

    #[test]
    fn queue_at_its_byte_limit_keeps_every_event() {
        for parts in [1, 4] {
            let (sender, receiver) = stream_queue();
            let long = event("x".repeat(STREAM_BYTES_KEPT / parts));
            // A reader that keeps up can read any number of them.
            for _ in 0..3 {
                (0..parts).for_each(|_| sender.send(Ok(long.clone())));
                assert!(drain(&receiver) == vec![Ok(long.clone()); parts], "{parts} events");
            }
        }
    }

    #[test]
    fn read_events_make_room_in_a_queue_that_is_never_empty() {
        let (sender, receiver) = stream_queue();
        let part = event("x".repeat(STREAM_BYTES_KEPT / 4));
        (0..3).for_each(|_| sender.send(Ok(part.clone())));
        for _ in 0..6 {
            assert!(next(&receiver) == Poll::Ready(Some(Ok(part.clone()))));
            sender.send(Ok(part.clone()));
        }
        assert!(drain(&receiver) == vec![Ok(part); 3]);
    }

    #[test]
    fn consecutive_gaps_merge_and_end_is_delivered_last_and_once() {
        let (sender, receiver) = stream_queue();
        for _ in 0..3 {
            sender.send(Ok(WatchStreamItem::Gap));
        }
        sender.send(Err(SessionEnd::Expired));
        assert_eq!(drain(&receiver), [Ok(WatchStreamItem::Gap), Err(SessionEnd::Expired)]);
        assert_eq!(next(&receiver), Poll::Ready(None));
    }

    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Release);
        }
    }

    #[test]
    fn event_wakes_the_task_that_waits() {
        let (sender, receiver) = stream_queue();
        let woken = Arc::new(Woken(AtomicBool::new(false)));
        let waker = woken.clone().into();
        assert_eq!(receiver.poll(&Context::from_waker(&waker)), Poll::Pending);
        assert!(!woken.0.load(Ordering::Acquire));
        sender.send(Ok(WatchStreamItem::Gap));
        assert!(woken.0.load(Ordering::Acquire));
    }

    #[test]
    fn closed_receiver_keeps_no_events() {
        let (sender, receiver) = stream_queue();
        sender.send(Ok(WatchStreamItem::Gap));
        receiver.close();
        sender.send(Ok(event("/a".into())));
        assert!(sender.is_abandoned());
        assert!(receiver.0.lock().items.is_empty());
    }
}
