//! State that the driver and the clients of one session share.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use futures::task::AtomicWaker;
use tokio::sync::{OnceCell, broadcast, oneshot, watch};
use zk_session_core::{
    DisconnectReason, Failure, Handle, Handles, LeaseState, Reply, Session, SessionEnd,
    SessionEvent, Settings, WatchEvent,
};

use super::runtime::Runtime;
use super::stream_queue::StreamSender;
use super::transport::TlsUse;
use crate::clock::now;
use crate::limits::EVENTS_KEPT;
use crate::trace;

/// Channels of the driver: replies and the events of one-shot watches use oneshot channels.
pub(crate) struct Channels;

impl Handles for Channels {
    type Reply = OneShot<Result<Reply, Failure>>;
    type Watch = OneShot<Result<WatchEvent, SessionEnd>>;
    type Stream = StreamSender;
}

pub(crate) type ReplyReceiver = oneshot::Receiver<Result<Reply, Failure>>;
pub(crate) type WatchReceiver = oneshot::Receiver<Result<WatchEvent, SessionEnd>>;

/// Sender of one value.
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

/// The session behind its lock, and the channels that it reports to.
pub(crate) struct Shared {
    /// Distinguishes the sessions of a process, including attempts that never became a session.
    pub(crate) number: u64,
    /// The chroot of the connect string.
    pub(crate) chroot: Arc<str>,
    /// The client's name for people.
    pub(crate) name: Option<Arc<str>>,
    pub(crate) tls: TlsUse,
    session: Mutex<Session<Channels>>,
    waker: AtomicWaker,
    batches: AtomicUsize,
    events: broadcast::Sender<SessionEvent>,
    lease_state: watch::Sender<LeaseState>,
    /// Why no server opens a session.
    refused: watch::Sender<Option<DisconnectReason>>,
    local_address: Mutex<Option<IpAddr>>,
    pub(crate) runtime: Runtime,
    /// Whether events of watches have a zxid, once a caller has asked.
    pub(crate) event_zxids: OnceCell<bool>,
    /// One value of each type; see [`Client::session_value`](crate::Client::session_value).
    values: Mutex<HashMap<TypeId, SessionValue>>,
}

type SessionValue = Arc<dyn Any + Send + Sync>;

impl Shared {
    pub(crate) fn new(
        settings: Settings,
        chroot: &str,
        name: Option<Arc<str>>,
        tls: TlsUse,
    ) -> Arc<Self> {
        static SESSIONS: AtomicU64 = AtomicU64::new(0);
        let session = Session::new(settings, now());
        let lease_state = watch::Sender::new(session.lease_state());
        Arc::new(Self {
            number: SESSIONS.fetch_add(1, Ordering::Relaxed),
            chroot: chroot.into(),
            name,
            tls,
            runtime: Runtime::new(lease_state.subscribe()),
            lease_state,
            refused: watch::Sender::new(None),
            session: Mutex::new(session),
            waker: AtomicWaker::new(),
            batches: AtomicUsize::new(0),
            events: broadcast::Sender::new(EVENTS_KEPT),
            local_address: Mutex::new(None),
            event_zxids: OnceCell::new(),
            values: Mutex::default(),
        })
    }

    pub(crate) fn value<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        let value = values.entry(TypeId::of::<T>()).or_insert_with(|| Arc::<T>::default());
        // The key is the type of the value.
        value.clone().downcast().unwrap_or_default()
    }

    /// Locks the session; held only briefly, never across an await. A panic under the lock would be
    /// a bug of the core. The lock ignores poisoning, so that such a panic does not spread to the
    /// whole service.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Session<Channels>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the watches on a path that have no receiver any more.
    pub(crate) fn prune_watches(&self, path: &str) {
        let is_earlier = self.lock().prune_watches(now(), path);
        if is_earlier {
            self.wake();
        }
    }

    /// Wakes the driver, at once or at the end of the current batch.
    pub(crate) fn wake(&self) {
        if self.batches.load(Ordering::Acquire) == 0 {
            self.waker.wake();
        }
    }

    pub(crate) fn begin_batch(&self) {
        self.batches.fetch_add(1, Ordering::AcqRel);
    }

    /// Ends a batch, and wakes the driver for everything that was submitted meanwhile.
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
        trace::announce(&event);
        drop(self.events.send(event)); // an error means that there is no subscriber
    }

    pub(crate) fn lease_state(&self) -> watch::Receiver<LeaseState> {
        self.lease_state.subscribe()
    }

    pub(super) fn set_lease_state(&self, lease_state: LeaseState) {
        let claimed_by = || {
            let session = self.lock();
            session.is_lease_claimed().then(|| session.session_id())
        };
        trace::lease_ended(claimed_by, &lease_state);
        self.lease_state.send_replace(lease_state);
    }

    pub(super) fn set_refused(&self, cause: DisconnectReason) {
        self.refused.send_replace(Some(cause));
    }

    /// Waits until every server has refused the connection; returns the cause of the last refusal.
    pub(crate) async fn refused(&self) -> DisconnectReason {
        let mut refused = self.refused.subscribe();
        let told = refused.wait_for(Option::is_some).await.ok().and_then(|cause| cause.clone());
        told.unwrap_or(DisconnectReason::IdleTimeout) // the sender is in `self`
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
