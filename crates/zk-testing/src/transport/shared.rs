//! Servers, inboxes and clock behind one lock.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use tokio::sync::Notify;

use super::inbox::Inbox;
use crate::server::{ConnectionId, Cut, Ensemble, Output, Refused, Settings};

/// Servers and the destinations of their output, behind a lock.
#[derive(Debug)]
pub(crate) struct Shared {
    core: Mutex<Core>,
    /// Wakes the timer when an earlier deadline is set.
    earlier: Arc<Notify>,
}

#[derive(Debug)]
struct Core {
    ensemble: Ensemble,
    inboxes: HashMap<ConnectionId, Inbox>,
    /// Wakers of clients that wait until their connections have room.
    writers: HashMap<ConnectionId, Waker>,
    /// Time at which the timer fires.
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

    /// Runs `work` on the servers and delivers their output.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Ensemble, Instant) -> T) -> T {
        let mut core = self.lock();
        let result = work(&mut core.ensemble, now());
        self.drain(&mut core);
        result
    }

    /// Connects a client to a server. Without a `peer` the client gets a made-up address.
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

    /// Waits until a connection has room for further bytes or has ended.
    pub(crate) fn poll_room(&self, id: ConnectionId, cx: &Context<'_>) -> Poll<()> {
        let mut core = self.lock();
        if core.is_down || core.ensemble.has_room(id) {
            return Poll::Ready(());
        }
        core.writers.insert(id, cx.waker().clone());
        Poll::Pending
    }

    /// Removes the connection of a client that has disconnected.
    pub(crate) fn disconnect(&self, id: ConnectionId) {
        let mut core = self.lock();
        core.inboxes.remove(&id);
        core.ensemble.disconnected(now(), id);
        self.drain(&mut core);
    }

    /// Closes every connection and refuses new ones.
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

    /// Delivers the servers' output and wakes the timer if the next deadline is earlier.
    fn drain(&self, core: &mut Core) {
        core.send_on();
        let due = core.ensemble.poll_timeout();
        if due.is_some_and(|due| core.armed.is_none_or(|armed| due < armed)) {
            core.armed = due;
            self.earlier.notify_one();
        }
    }

    /// Runs what is due on the servers and returns the next deadline.
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
        self.writers.retain(|id, writer| {
            let has_room = ensemble.has_room(*id);
            if has_room {
                writer.wake_by_ref();
            }
            !has_room
        });
    }
}

enum Fired {
    Next(Option<Instant>),
    Down,
}

/// Drives the servers' timers until the servers are dropped.
pub(crate) async fn run_timer(shared: Weak<Shared>) {
    loop {
        let Some(alive) = shared.upgrade() else { return };
        let earlier = Arc::clone(&alive.earlier);
        let next = match alive.fire() {
            Fired::Next(next) => next,
            Fired::Down => return,
        };
        // Dropping the last handle ends the servers, so the timer must not hold one.
        drop(alive);
        match next {
            // A wake-up may be early: the loop then reads the deadline again.
            Some(due) => {
                let _ = tokio::time::timeout_at(due.into(), earlier.notified()).await;
            }
            None => earlier.notified().await,
        }
    }
}

/// Reads tokio's clock, the only clock in use, so that a test can pause it.
#[allow(clippy::disallowed_methods, reason = "the servers are told the time from here alone")]
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
