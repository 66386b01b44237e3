//! The one place where servers, transports and the clock meet.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use tokio::sync::Notify;

use super::inbox::Inbox;
use crate::server::{ConnectionId, Cut, Ensemble, Output, Refused, Settings};

/// The servers, behind a lock, with what their outputs go to.
#[derive(Debug)]
pub(crate) struct Shared {
    core: Mutex<Core>,
    /// Tells the timer that there is an earlier deadline.
    earlier: Arc<Notify>,
}

#[derive(Debug)]
struct Core {
    ensemble: Ensemble,
    inboxes: HashMap<ConnectionId, Inbox>,
    /// Clients that wait until their connections have room.
    writers: HashMap<ConnectionId, Waker>,
    /// When the timer will fire.
    armed: Option<Instant>,
    is_down: bool,
    next_port: u16,
}

impl Shared {
    pub(crate) fn new(settings: Settings) -> Arc<Self> {
        let core = Core {
            ensemble: Ensemble::new(settings, now()),
            inboxes: HashMap::new(),
            writers: HashMap::new(),
            armed: None,
            is_down: false,
            next_port: 0,
        };
        Arc::new(Self { core: Mutex::new(core), earlier: Arc::default() })
    }

    /// Does something with the servers, and sends on what comes of it.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Ensemble, Instant) -> T) -> T {
        let mut core = self.lock();
        let result = work(&mut core.ensemble, now());
        self.drain(&mut core);
        result
    }

    /// Connects a client to a server; `None` as its address gives it a made-up one.
    pub(crate) fn connect(
        &self,
        server: usize,
        peer: Option<SocketAddr>,
    ) -> Result<(ConnectionId, Inbox), Refused> {
        let mut core = self.lock();
        if core.is_down {
            return Err(Refused);
        }
        let peer = peer.unwrap_or_else(|| {
            core.next_port = core.next_port.wrapping_add(1);
            ([127, 0, 0, 1], core.next_port).into()
        });
        let id = core.ensemble.accept(now(), server, peer)?;
        let inbox = Inbox::default();
        core.inboxes.insert(id, inbox.clone());
        self.drain(&mut core);
        Ok((id, inbox))
    }

    /// Waits until a connection has room for further bytes, or has ended.
    pub(crate) fn poll_room(&self, id: ConnectionId, cx: &Context<'_>) -> Poll<()> {
        let mut core = self.lock();
        if core.is_down || core.ensemble.has_room(id) {
            return Poll::Ready(());
        }
        core.writers.insert(id, cx.waker().clone());
        Poll::Pending
    }

    /// The client is gone.
    pub(crate) fn disconnect(&self, id: ConnectionId) {
        let mut core = self.lock();
        core.inboxes.remove(&id);
        core.ensemble.disconnected(now(), id);
        self.drain(&mut core);
    }

    /// Ends everything: every connection is closed, no other is taken.
    pub(crate) fn shut_down(&self) {
        let mut core = self.lock();
        core.is_down = true;
        for (_, inbox) in core.inboxes.drain() {
            inbox.finish(Cut::Fin);
        }
        for (_, writer) in core.writers.drain() {
            writer.wake();
        }
        self.earlier.notify_one();
    }

    /// Sends on what there is, and sees to it that the timer comes in time.
    fn drain(&self, core: &mut Core) {
        core.send_on();
        let due = core.ensemble.poll_timeout();
        if due.is_some_and(|due| core.armed.is_none_or(|armed| due < armed)) {
            core.armed = due;
            self.earlier.notify_one();
        }
    }

    /// Lets the servers do what is due, and says when to come back.
    fn fire(&self) -> Fired {
        let mut core = self.lock();
        if core.is_down {
            return Fired::Down;
        }
        core.ensemble.handle_timeout(now());
        core.send_on();
        core.armed = core.ensemble.poll_timeout();
        Fired::Next(core.armed)
    }

    fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Core {
    fn send_on(&mut self) {
        while let Some(output) = self.ensemble.poll_output() {
            match output {
                Output::Send(id, bytes) => {
                    if let Some(inbox) = self.inboxes.get(&id) {
                        inbox.deliver(bytes);
                    }
                }
                Output::Close(id, how) => {
                    if let Some(inbox) = self.inboxes.remove(&id) {
                        inbox.finish(how);
                    }
                }
            }
        }
        let ensemble = &self.ensemble;
        for (_, writer) in self.writers.extract_if(|id, _| ensemble.has_room(*id)) {
            writer.wake();
        }
    }
}

enum Fired {
    Next(Option<Instant>),
    Down,
}

/// Tells the servers the time, for as long as there are any.
pub(crate) async fn run_timer(shared: Weak<Shared>) {
    loop {
        let Some(alive) = shared.upgrade() else { return };
        let earlier = Arc::clone(&alive.earlier);
        let next = match alive.fire() {
            Fired::Next(next) => next,
            Fired::Down => return,
        };
        // Whoever drops the last handle ends the servers: the timer must not keep them.
        drop(alive);
        match next {
            // Early or on time, the servers are asked again.
            Some(due) => {
                let _ = tokio::time::timeout_at(due.into(), earlier.notified()).await;
            }
            None => earlier.notified().await,
        }
    }
}

/// The only clock: tokio's, so that a test can stop it.
#[allow(clippy::disallowed_methods, reason = "the servers are told the time from here alone")]
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
