//! The waiters of one process, in the order in which they arrived.
//!
//! One task at a time has the turn. Every way in which a turn ends hands it to the next waiter,
//! together with an item: the turn is dropped, or a waiter is dropped that was just handed it. So
//! no waiter is forgotten, and no item is kept for nobody.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::sync::oneshot;

/// A queue of tasks. `T` is what one turn leaves to the next.
pub(crate) struct TurnQueue<T> {
    state: Mutex<State<T>>,
}

struct State<T> {
    is_taken: bool,
    /// The waiters by the number of their arrival. A waiter whose future is dropped removes itself.
    waiters: BTreeMap<u64, oneshot::Sender<T>>,
    /// Number of the next waiter.
    arrivals: u64,
}

impl<T> Default for TurnQueue<T> {
    fn default() -> Self {
        Self { state: Mutex::new(State { is_taken: false, waiters: BTreeMap::new(), arrivals: 0 }) }
    }
}

impl<T: Default> TurnQueue<T> {
    /// Joins the queue at its end. Returns the turn at once if no task has it.
    pub(crate) fn join(self: &Arc<Self>) -> TurnFuture<T> {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.lock();
        let number = state.arrivals;
        state.arrivals += 1;
        if state.is_taken {
            state.waiters.insert(number, sender);
        } else {
            state.is_taken = true;
            drop(sender.send(T::default()));
        }
        drop(state);
        TurnFuture { queue: self.clone(), number, receiver }
    }

    /// Returns the turn if no task has it.
    pub(crate) fn try_join(self: &Arc<Self>) -> Option<Turn<T>> {
        let is_taken = std::mem::replace(&mut self.lock().is_taken, true);
        (!is_taken).then(|| Turn::new(self.clone(), T::default()))
    }

    /// Hands a turn to the next waiter with an item. Returns false if no task waits.
    ///
    /// The queue is not locked while an item is made or sent: both wake tasks, and a waker is code of
    /// the user's runtime. It may lock, or drop a waiter.
    fn hand_over(&self, item: impl FnOnce() -> T) -> bool {
        let Some((number, waiter)) = self.next() else { return false };
        let waiting = Waiting { queue: self, number, waiter: Some(waiter) };
        let mut sent = waiting.send(item());
        while let Err(item) = sent {
            // That waiter was dropped meanwhile.
            let Some((_, waiter)) = self.next() else {
                let _free = FreeOnDrop(self); // after the item, also if its drop panics
                drop(item);
                return true;
            };
            sent = waiter.send(item);
        }
        true
    }

    /// Ends a turn that leaves no item.
    fn free(&self) {
        while let Some(waiter) = self.next_or_free() {
            if waiter.send(T::default()).is_ok() {
                return;
            }
        }
    }
}

impl<T> TurnQueue<T> {
    fn next(&self) -> Option<(u64, oneshot::Sender<T>)> {
        self.lock().waiters.pop_first()
    }

    /// Returns the next waiter. If there is none, no task has the turn any longer.
    fn next_or_free(&self) -> Option<oneshot::Sender<T>> {
        let mut state = self.lock();
        let next = state.waiters.pop_first();
        state.is_taken = next.is_some();
        next.map(|(_, waiter)| waiter)
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The first waiter while its item is made. If that panics, it gets the turn without an item.
struct Waiting<'a, T: Default> {
    queue: &'a TurnQueue<T>,
    number: u64,
    waiter: Option<oneshot::Sender<T>>,
}

impl<T: Default> Waiting<'_, T> {
    /// # Errors
    /// Returns the item if the waiter was dropped.
    fn send(mut self, item: T) -> Result<(), T> {
        match self.waiter.take() {
            Some(waiter) => waiter.send(item),
            None => Err(item),
        }
    }
}

impl<T: Default> Drop for Waiting<'_, T> {
    fn drop(&mut self) {
        if let Some(waiter) = self.waiter.take() {
            self.queue.lock().waiters.insert(self.number, waiter);
            self.queue.free();
        }
    }
}

/// Ends a turn that leaves no item.
struct FreeOnDrop<'a, T: Default>(&'a TurnQueue<T>);

impl<T: Default> Drop for FreeOnDrop<'_, T> {
    fn drop(&mut self) {
        self.0.free();
    }
}

/// A task in the queue, as the future of its turn. Dropping it leaves the queue.
pub(crate) struct TurnFuture<T: Default> {
    queue: Arc<TurnQueue<T>>,
    number: u64,
    receiver: oneshot::Receiver<T>,
}

impl<T: Default> Future for TurnFuture<T> {
    type Output = Turn<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Turn<T>> {
        match Pin::new(&mut self.receiver).poll(cx) {
            Poll::Ready(Ok(item)) => Poll::Ready(Turn::new(self.queue.clone(), item)),
            // The queue keeps the sender until it sends the item.
            Poll::Ready(Err(_)) | Poll::Pending => Poll::Pending,
        }
    }
}

impl<T: Default> Drop for TurnFuture<T> {
    fn drop(&mut self) {
        let waiter = self.queue.lock().waiters.remove(&self.number);
        if waiter.is_some() {
            return;
        }
        // A turn that has arrived, and that no task has seen. After this, the next waiter gets it.
        self.receiver.close();
        if let Ok(item) = self.receiver.try_recv() {
            drop(Turn::new(self.queue.clone(), item));
        }
    }
}

/// The turn of one task. Dropping it hands the turn and its item to the next waiter; if no task
/// waits, the item is dropped.
pub(crate) struct Turn<T: Default> {
    /// `None` once the turn has ended.
    queue: Option<Arc<TurnQueue<T>>>,
    pub(crate) item: T,
}

impl<T: Default> Turn<T> {
    fn new(queue: Arc<TurnQueue<T>>, item: T) -> Self {
        Self { queue: Some(queue), item }
    }

    /// Ends the turn, and hands the next waiter an item.
    ///
    /// # Errors
    /// Returns the turn if no task waits. The item is not made then.
    pub(crate) fn pass(mut self, item: impl FnOnce() -> T) -> Result<(), Self> {
        // Taken before: if a waker panics, the turn has been handed over.
        let Some(queue) = self.queue.take() else { return Ok(()) };
        if queue.hand_over(item) {
            return Ok(());
        }
        self.queue = Some(queue);
        Err(self)
    }
}

impl<T: Default> Drop for Turn<T> {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.take() {
            if !queue.hand_over(|| std::mem::take(&mut self.item)) {
                // The item leaves the ensemble's queue before a new task can join this one.
                let _free = FreeOnDrop(&queue);
                drop(std::mem::take(&mut self.item));
            }
        }
    }
}

impl<T> fmt::Debug for TurnQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TurnQueue")
            .field("waiters", &self.lock().waiters.len())
            .finish_non_exhaustive()
    }
}

impl<T: Default> fmt::Debug for Turn<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures::future::FutureExt;

    use super::*;

    /// A waker that runs while the item is made may drop the waiter.
    #[test]
    fn turn_is_free_if_its_only_waiter_is_dropped_during_hand_over() {
        let queue = Arc::new(TurnQueue::<u8>::default());
        let turn = queue.try_join().unwrap();
        let waiter = queue.join();
        let make = || {
            drop(waiter);
            7
        };
        assert!(turn.pass(make).is_ok());
        assert!(queue.try_join().is_some());
    }

    /// A lock that nobody takes over. Its release must precede the next request for it.
    #[derive(Default)]
    struct Left(Option<Arc<TurnQueue<Self>>>);

    impl Drop for Left {
        fn drop(&mut self) {
            assert!(self.0.take().is_none_or(|queue| queue.try_join().is_none()));
        }
    }

    #[test]
    fn item_for_a_dropped_waiter_ends_before_the_turn_is_free() {
        let queue = Arc::new(TurnQueue::<Left>::default());
        let turn = queue.try_join().unwrap();
        let waiter = queue.join();
        let make = || {
            drop(waiter);
            Left(Some(queue.clone()))
        };
        assert!(turn.pass(make).is_ok());
        assert!(queue.try_join().is_some());
    }

    /// A lock whose release lets two tasks join the queue.
    #[derive(Default)]
    struct Joining {
        queue: Option<Arc<TurnQueue<Self>>>,
        joined: Arc<Mutex<Vec<TurnFuture<Self>>>>,
    }

    impl Drop for Joining {
        fn drop(&mut self) {
            if let Some(queue) = self.queue.take() {
                self.joined.lock().unwrap().extend([queue.join(), queue.join()]);
            }
        }
    }

    #[test]
    fn turn_goes_to_the_first_waiter_that_joins_during_its_end() {
        let queue = Arc::new(TurnQueue::<Joining>::default());
        let turn = queue.try_join().unwrap();
        let waiter = queue.join();
        let joined = Arc::<Mutex<Vec<_>>>::default();
        let make = || {
            drop(waiter);
            Joining { queue: Some(queue.clone()), joined: joined.clone() }
        };
        assert!(turn.pass(make).is_ok());
        let mut joined = std::mem::take(&mut *joined.lock().unwrap());
        let second = joined.pop().unwrap();
        let first = joined.pop().unwrap().now_or_never().expect("it has the turn");
        let mut second = Box::pin(second);
        assert!(second.as_mut().now_or_never().is_none());
        drop(first);
        assert!(second.now_or_never().is_some());
    }
}
