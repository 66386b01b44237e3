//! The tokio side of a session: one task that owns the connection and the clock.
//!
//! Callers submit requests to the core themselves, under its lock, and wake this task. The task
//! moves bytes, passes the time to the core, and delivers replies. It runs no user code: a reply
//! goes into a oneshot channel, and an event into a bounded broadcast or a bounded queue.

mod connection;
mod lookup;
mod probe;
mod runtime;
mod sasl;
mod shared;
mod stream_queue;
mod thread;
mod transport;

use std::collections::VecDeque;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::runtime::Handle;
use tokio::time::Sleep;
use zk_session_core::{Host, Output, ProbeAnswer, TlsProbeAnswer};

pub use self::runtime::{DelayedStart, Runtime};
pub use self::sasl::{DigestMd5, Sasl, SaslPreparation};
pub(crate) use self::shared::{Channels, OneShot, ReplyReceiver, Shared, WatchReceiver};
pub(crate) use self::stream_queue::{StreamReceiver, stream_queue};
pub use self::thread::DedicatedThread;
pub(crate) use self::thread::{DriverThread, SessionThread};
pub(crate) use self::transport::TlsUse;
pub use self::transport::{Connector, Tcp};

use self::connection::{Connection, Progress, Rest};
use crate::clock::{now, observe, slept_nanos, timer};
use crate::limits::{OUTPUTS_KEPT, WORK_PER_POLL};

/// Drives one session until it ends.
pub(crate) struct Driver<C: Connector> {
    shared: Arc<Shared>,
    connection: Connection<C>,
    outputs: VecDeque<Output<Channels>>,
    timer: Option<(Instant, Pin<Box<Sleep>>)>,
    /// How long the machine had been suspended when the timer was armed.
    slept_nanos: u64,
    probe: Option<Probe>,
    /// A task beside the session, until it is spawned.
    beside: Option<Beside>,
    closes_on_drop: bool,
    /// Whether [`poll`](Future::poll) runs, or has ended in a panic of user code.
    is_polled: bool,
    /// Probes of whether servers speak TLS. Each server has at most one.
    tls_probes: FuturesUnordered<TlsProbe>,
}

/// Work beside a session, which ends with it.
pub(crate) type Beside = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A probe of whether a server accepts writes.
type Probe = (Host, Pin<Box<dyn Future<Output = ProbeAnswer> + Send>>);

type TlsProbe = Pin<Box<dyn Future<Output = (Host, TlsProbeAnswer)> + Send>>;

impl<C: Connector> Driver<C> {
    /// Creates the driver. It spawns `beside` on its runtime.
    pub(crate) fn new(
        shared: Arc<Shared>,
        connector: C,
        sasl: Option<Arc<dyn Sasl>>,
        beside: Option<Beside>,
    ) -> Self {
        Self {
            shared,
            connection: Connection::new(connector, sasl),
            outputs: VecDeque::new(),
            timer: None,
            slept_nanos: slept_nanos(),
            probe: None,
            beside,
            closes_on_drop: false,
            is_polled: false,
            tls_probes: FuturesUnordered::new(),
        }
    }

    /// Makes the driver close the session if it is dropped before the session has ended, as by a
    /// runtime that shuts down.
    pub(crate) fn closing_on_drop(mut self) -> Self {
        self.closes_on_drop = true;
        self
    }

    /// Sends as much as the socket accepts at once; the request to close the session is last.
    /// Nobody waits for the reply, because the program is about to end. Without this request, the
    /// server would keep the locks for a whole session timeout.
    fn close_without_waiting(&mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        self.shared.lock().close_at_once(now());
        for _ in 0..WORK_PER_POLL {
            let has_more = {
                let mut session = self.shared.lock();
                self.connection.report(&mut session, now(), Progress::None);
                session.poll_transmit(self.connection.outgoing())
            };
            let failed = self.connection.poll_write(&mut cx);
            if failed || !has_more || !self.connection.outgoing().is_empty() {
                return;
            }
        }
    }

    /// Runs rounds until all is done, or other tasks must run.
    fn rounds(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..WORK_PER_POLL {
            match self.round(cx) {
                Poll::Ready(Round::Again) => {}
                Poll::Ready(Round::Ended) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
        cx.waker().wake_by_ref(); // yield to other tasks
        Poll::Pending
    }

    /// Runs one round: reads from the connection, passes the input to the core, and carries out the
    /// core's output. `Again` requests another round. `Pending` means that every source will wake
    /// this task.
    fn round(&mut self, cx: &mut Context<'_>) -> Poll<Round> {
        let progress = self.connection.poll_read(cx);
        let probed = self.poll_probe(cx);
        let tls_probed = self.poll_tls_probes(cx);
        let read_all = matches!(progress, Progress::None | Progress::Received(Rest::Nothing));
        let went_on = !read_all || probed.is_some() || tls_probed.is_some();
        let (deadline, has_more) = {
            let mut session = self.shared.lock();
            // After the read: an answer from before a suspension counts as received after it.
            observe();
            let now = now();
            session.handle_turn(now);
            self.connection.report(&mut session, now, progress);
            if let Some((host, answer)) = probed {
                session.handle_probed(now, &host, answer);
            }
            if let Some((host, answer)) = tls_probed {
                session.handle_tls_probed(now, &host, answer);
            }
            let mut deadline = session.poll_timeout();
            if deadline.is_some_and(|due| due <= now) {
                session.handle_timeout(now);
                deadline = session.poll_timeout();
            }
            session.poll_outputs(&mut self.outputs);
            (deadline, session.poll_transmit(self.connection.outgoing()))
        };
        let link_changed = self.deliver();
        let write_failed = self.connection.poll_write(cx);
        let Some(deadline) = deadline else { return Poll::Ready(Round::Ended) };
        let timer_fired = self.poll_timer(cx, deadline);
        let takes_more = has_more && self.connection.outgoing().is_empty();
        if went_on || link_changed || write_failed || timer_fired || takes_more {
            Poll::Ready(Round::Again)
        } else {
            Poll::Pending
        }
    }

    /// Carries out the outputs of the core; returns true if that changed the connection.
    fn deliver(&mut self) -> bool {
        let mut link_changed = false;
        // One by one: the connector is user code, and if it panics the rest must still be delivered.
        while let Some(output) = self.outputs.pop_front() {
            match output {
                Output::Connect(host) => {
                    self.connection.connect(host);
                    link_changed = true;
                }
                Output::Disconnect => {
                    self.probe = None;
                    self.connection.close();
                }
                Output::Probe(host) => {
                    let answer = probe::probe_writes(self.connection.connector().connect(&host));
                    self.probe = Some((host, Box::pin(answer)));
                    link_changed = true;
                }
                Output::ProbeTls(host) if !self.connection.connector().is_plain(&host) => {}
                Output::ProbeTls(host) => {
                    let connects = [0; 2].map(|_| self.connection.connector().connect(&host));
                    let answer = probe::probe_tls(connects);
                    self.tls_probes.push(Box::pin(async { (host, answer.await) }));
                    link_changed = true;
                }
                Output::Reply { to, result } => to.send(result),
                Output::Watch { to, result } => to.send(result),
                Output::Stream { to, item } => to.send(item),
                Output::Refused(cause) => self.shared.set_refused(cause),
                Output::Event(event) => self.shared.announce(event),
                Output::LeaseState(lease_state) => self.shared.set_lease_state(lease_state),
            }
        }
        self.outputs.shrink_to(OUTPUTS_KEPT);
        self.shared.set_local_address(self.connection.take_local_address());
        link_changed
    }

    fn poll_probe(&mut self, cx: &mut Context<'_>) -> Option<(Host, ProbeAnswer)> {
        let (_, answer) = self.probe.as_mut()?;
        let Poll::Ready(answer) = answer.as_mut().poll(cx) else { return None };
        self.probe.take().map(|(host, _)| (host, answer))
    }

    fn poll_tls_probes(&mut self, cx: &mut Context<'_>) -> Option<(Host, TlsProbeAnswer)> {
        match self.tls_probes.poll_next_unpin(cx) {
            Poll::Ready(probed) => probed,
            Poll::Pending => None,
        }
    }

    /// Arms the timer so that this task wakes at `deadline`; returns true if that is now.
    ///
    /// Nearly every round moves the deadline further away. The timer then stays as it is, and is
    /// re-armed when it fires too early.
    fn poll_timer(&mut self, cx: &mut Context<'_>, deadline: Instant) -> bool {
        let slept = slept_nanos();
        if slept != self.slept_nanos {
            // A suspension of the machine brings timers forward, but not the deadline.
            (self.slept_nanos, self.timer) = (slept, None);
        }
        let (armed, sleep) = self
            .timer
            .get_or_insert_with(|| (deadline, Box::pin(tokio::time::sleep_until(timer(deadline)))));
        if deadline < *armed {
            *armed = deadline;
            sleep.as_mut().reset(timer(deadline));
        }
        while sleep.as_mut().poll(cx).is_ready() {
            if deadline <= *armed {
                return true;
            }
            *armed = deadline;
            sleep.as_mut().reset(timer(deadline));
        }
        false
    }
}

/// No field is ever pinned in place: streams are `Unpin`, futures are boxed.
impl<C: Connector> Unpin for Driver<C> {}

enum Round {
    Again,
    Ended,
}

impl<C: Connector> Future for Driver<C> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.shared.register(cx.waker());
        self.shared.runtime.init(Handle::current);
        if let Some(beside) = self.beside.take() {
            drop(self.shared.runtime.spawn(beside));
        }
        self.is_polled = true;
        let polled = self.rounds(cx);
        self.is_polled = false;
        polled
    }
}

/// The runtime is shutting down, or the session has ended: pending callers must get an error, and
/// later requests must be rejected.
impl<C: Connector> Drop for Driver<C> {
    fn drop(&mut self) {
        // A second panic during the first one would abort the process, so no user code runs then.
        let mut has_panicked = self.is_polled;
        if self.closes_on_drop && !has_panicked {
            let closed = catch_unwind(AssertUnwindSafe(|| self.close_without_waiting()));
            has_panicked = closed.is_err();
        }
        {
            let mut session = self.shared.lock();
            // The bytes that were written decide which requests may have been applied.
            self.connection.report(&mut session, now(), Progress::None);
            if has_panicked {
                session.abort_after_panic();
            } else {
                session.abort();
            }
            session.poll_outputs(&mut self.outputs);
        }
        let is_told = |output: &Output<Channels>| {
            !matches!(
                output,
                Output::Connect(_) | Output::Disconnect | Output::Probe(_) | Output::ProbeTls(_)
            )
        };
        self.outputs.retain(is_told);
        self.deliver();
    }
}
