//! What the driver and the clients of one session share.

use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Poll, Waker};

use futures::task::AtomicWaker;
use tokio::runtime;
use tokio::sync::{broadcast, oneshot, watch};

use super::clock::now;
use super::notices::NoticeSender;
use crate::limits::EVENTS_KEPT;
use crate::{LossCause, SessionEnd, SessionEvent};
use zk_session_core::{Failure, Handle, Handles, Reply, Session, Settings, Standing, WatchedEvent};

/// Answers and the events of one-shot watches go through oneshot channels.
pub(crate) struct Channels;

impl Handles for Channels {
    type Reply = OneShot<Result<Reply, Failure>>;
    type Watch = OneShot<Result<WatchedEvent, SessionEnd>>;
    type Stream = NoticeSender;
}

pub(crate) type ReplyReceiver = oneshot::Receiver<Result<Reply, Failure>>;
pub(crate) type WatchReceiver = oneshot::Receiver<Result<WatchedEvent, SessionEnd>>;

/// The sender of one value.
#[derive(Debug)]
pub(crate) struct OneShot<T>(oneshot::Sender<T>);

impl<T> OneShot<T> {
    pub(crate) fn channel() -> (Self, oneshot::Receiver<T>) {
        let (sender, receiver) = oneshot::channel();
        (Self(sender), receiver)
    }

    /// Sends the value, if the receiver still exists.
    pub(crate) fn send(self, value: T) {
        drop(self.0.send(value));
    }
}

impl<T: std::fmt::Debug> Handle for OneShot<T> {
    fn is_abandoned(&self) -> bool {
        self.0.is_closed()
    }
}

/// The session behind its lock, and the ways out of it.
pub(crate) struct Shared {
    /// Tells the sessions of a process apart, those that never were one included.
    number: u64,
    /// That of the connect string.
    chroot: Arc<str>,
    session: Mutex<Session<Channels>>,
    waker: AtomicWaker,
    batches: AtomicUsize,
    events: broadcast::Sender<SessionEvent>,
    standing: watch::Sender<Standing>,
    /// Why no server gives a session.
    refused: watch::Sender<Option<LossCause>>,
    local_address: Mutex<Option<IpAddr>>,
    /// Of the driver, once it has run.
    runtime: OnceLock<runtime::Handle>,
}

impl Shared {
    pub(crate) fn new(settings: Settings, chroot: &str) -> Arc<Self> {
        static SESSIONS: AtomicU64 = AtomicU64::new(0);
        let session = Session::new(settings, now());
        Arc::new(Self {
            number: SESSIONS.fetch_add(1, Ordering::Relaxed),
            chroot: chroot.into(),
            standing: watch::Sender::new(session.standing()),
            refused: watch::Sender::new(None),
            session: Mutex::new(session),
            waker: AtomicWaker::new(),
            batches: AtomicUsize::new(0),
            events: broadcast::Sender::new(EVENTS_KEPT),
            local_address: Mutex::new(None),
            runtime: OnceLock::new(),
        })
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn chroot(&self) -> &Arc<str> {
        &self.chroot
    }

    /// Held only for moments, never across an await. A panic while it was held
    /// would be a bug of the core, which must not take the whole service along.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Session<Channels>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets the watches on a path that nobody waits for any more.
    pub(crate) fn prune_watches(&self, path: &str) {
        let is_earlier = self.lock().prune_watches(now(), path);
        if is_earlier {
            self.wake();
        }
    }

    /// Lets the driver look at the session, at once or when the batch is complete.
    pub(crate) fn wake(&self) {
        if self.batches.load(Ordering::Acquire) == 0 {
            self.waker.wake();
        }
    }

    pub(crate) fn begin_batch(&self) {
        self.batches.fetch_add(1, Ordering::AcqRel);
    }

    /// Whatever was asked of the driver meanwhile, by anybody, it does now.
    pub(crate) fn end_batch(&self) {
        self.batches.fetch_sub(1, Ordering::AcqRel);
        self.wake();
    }

    pub(super) fn register(&self, waker: &Waker) {
        self.waker.register(waker);
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<SessionEvent> {
        self.events.subscribe()
    }

    pub(super) fn announce(&self, event: SessionEvent) {
        drop(self.events.send(event)); // an error only says that nobody listens
    }

    pub(crate) fn standing(&self) -> watch::Receiver<Standing> {
        self.standing.subscribe()
    }

    pub(super) fn set_standing(&self, standing: Standing) {
        self.standing.send_replace(standing);
    }

    pub(super) fn set_refused(&self, cause: LossCause) {
        self.refused.send_replace(Some(cause));
    }

    /// Waits until every server has refused to be connected to; why the last did.
    pub(crate) async fn refused(&self) -> LossCause {
        let mut refused = self.refused.subscribe();
        let told = refused.wait_for(Option::is_some).await.ok().and_then(|cause| *cause);
        told.unwrap_or(LossCause::Silent) // the sender is in `self`
    }

    /// The driver runs here.
    pub(super) fn set_runtime(&self, runtime: runtime::Handle) {
        let _ = self.runtime.set(runtime); // it stays where it is
    }

    pub(crate) fn runtime(&self) -> Option<&runtime::Handle> {
        self.runtime.get()
    }

    /// Waits until `deadline`, on the runtime of the caller, or on that of the driver where the caller
    /// has none. There it also returns when the session ends: a timer of a runtime that is gone
    /// panics, and the driver, which ends the session then, goes first.
    ///
    /// # Panics
    /// If neither has a runtime, or that of the caller has no timers.
    pub(crate) fn sleep_until(
        self: &Arc<Self>,
        deadline: tokio::time::Instant,
    ) -> impl Future<Output = ()> + Send + use<> {
        let is_outside = runtime::Handle::try_current().is_err();
        let driver = self.runtime().filter(|_| is_outside);
        let sleep = {
            let _entered = driver.map(runtime::Handle::enter);
            tokio::time::sleep_until(deadline)
        };
        let shared = driver.map(|_| Arc::clone(self));
        async move {
            let mut sleep = pin!(sleep);
            let is_over = || shared.as_ref().is_some_and(|it| it.lock().ended().is_some());
            poll_fn(|cx| if is_over() { Poll::Ready(()) } else { sleep.as_mut().poll(cx) }).await;
        }
    }

    pub(crate) fn local_address(&self) -> Option<IpAddr> {
        *self.local_address.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_local_address(&self, address: Option<IpAddr>) {
        if address.is_some() {
            *self.local_address.lock().unwrap_or_else(PoisonError::into_inner) = address;
        }
    }
}
