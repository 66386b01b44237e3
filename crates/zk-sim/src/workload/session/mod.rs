//! Session workload: random requests and watches, with a check of every reply and every event.
//!
//! Each session has one worker. The worker checks its replies and events against the history of the
//! nodes at the leader: see [`History`](crate::history::History).

mod answers;
mod ask;
mod watched;

use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::task::unconstrained;
use tokio::time::{sleep, timeout};
use zk_session::{Error, ErrorCode, ErrorKind, Zxid};

use self::ask::{Asked, PATHS};
use self::watched::{OneShot, Streaming, Uses};
use super::Seat;

/// Works until the session is over or the run drains, and then checks the final state.
pub(crate) async fn work(seat: Seat) {
    let mut worker = Worker::new(seat);
    worker.plant();
    while !worker.seat.world.is_draining() && !worker.is_over() {
        let world = &worker.seat.world;
        let session = world.plan.session;
        // In a run with locks, the worker stops sending after this many requests.
        let is_done = world.plan.locks && world.oracle().asked >= session.requests;
        let pause = if is_done { worker.seat.timeout / 4 } else { session.think };
        if !is_done {
            let burst = worker.seat.rng.between(1, session.burst);
            worker.burst(burst);
        }
        let pause = worker.seat.rng.around(pause) + Duration::from_millis(1);
        worker.pump_for(pause).await;
    }
    worker.settle().await;
    if !worker.is_over() {
        worker.exam().await;
    }
    if worker.is_over() {
        worker.end().await;
    }
}

struct Worker {
    seat: Seat,
    /// Unanswered requests, oldest first.
    window: VecDeque<Asked>,
    one_shots: Vec<OneShot>,
    streams: Vec<Streaming>,
    /// The newest zxid that this session is known to have seen.
    view: Zxid,
    /// Number of requests sent, which is the number of the last one.
    made: u64,
    /// Number of server list updates.
    updates: u64,
    uses: Uses,
    /// Sequential nodes that the session has created.
    own: Vec<String>,
}

impl Worker {
    fn new(mut seat: Seat) -> Self {
        let uses = Uses::draw(&mut seat.rng);
        Self {
            seat,
            window: VecDeque::new(),
            one_shots: Vec::new(),
            streams: Vec::new(),
            view: Zxid::ZERO,
            made: 0,
            updates: 0,
            uses,
            own: Vec::new(),
        }
    }

    fn is_over(&self) -> bool {
        self.seat.client.end_reason().is_some()
    }

    fn violated(&self, invariant: &'static str, text: &str) {
        let text = format!("{}: {text}", self.seat.name);
        self.seat.world.oracle().violated(invariant, text);
    }

    /// Reads and checks replies and events, for `time`.
    async fn pump_for(&mut self, time: Duration) {
        let pumping = poll_fn(|cx| self.pump(cx));
        // tokio's cooperative budget would return `Pending` to a task that polls this much,
        // although events are ready.
        drop(timeout(time, unconstrained(pumping)).await);
    }

    /// Returns `Ready` when the session is over.
    fn pump(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.hear(cx);
        let mut open: Option<u64> = None;
        for mut asked in std::mem::take(&mut self.window) {
            let Poll::Ready(result) = asked.future.as_mut().poll(cx) else {
                if !asked.is_auth() {
                    open = open.or(Some(asked.request));
                }
                self.window.push_back(asked);
                continue;
            };
            match open {
                Some(open) if !asked.is_auth() && is_in_turn(&result) => {
                    let text = format!("{} was answered before request {open}", asked.what());
                    self.violated("I7", &text);
                }
                _ => {}
            }
            self.judge(&asked, result, cx);
        }
        self.check_watches();
        if self.is_over() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Waits until every request is answered.
    async fn settle(&mut self) {
        while !self.window.is_empty() && !self.is_over() {
            self.pump_for(Duration::from_millis(50)).await;
        }
    }

    /// Checks the session without faults. Every watch must fire if its node has changed or changes
    /// now. All dropped watches and finished requests must leave the client.
    async fn exam(&mut self) {
        self.catch_up().await;
        for path in PATHS {
            self.touch(path);
        }
        self.settle().await;
        self.catch_up().await;
        self.one_shots.clear();
        self.streams.clear();
        if self.seat.world.plan.locks {
            return; // the locks have watches too
        }
        let time_limit = self.seat.world.plan.time_limit();
        let until = crate::clock::now() + time_limit;
        while !self.is_over() {
            let stats = self.seat.client.stats();
            let left = stats.one_shot_watches + stats.persistent_watches + stats.recursive_watches;
            if left == 0 && stats.in_flight == 0 && stats.queued == 0 {
                return;
            }
            if crate::clock::now() > until {
                return self.violated("I8", &format!("left behind by what is over: {stats:?}"));
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until the session has seen all that is committed now.
    async fn catch_up(&mut self) {
        let newest = self.seat.world.oracle().history.newest();
        while self.view < newest && !self.is_over() {
            self.sync(&self.seat.client.clone());
            self.settle().await;
        }
    }

    /// Checks that the end of the session ends every request, watch and stream.
    async fn end(&mut self) {
        for _ in 0..100 {
            self.hear_now().await;
            if self.window.is_empty() && self.one_shots.is_empty() && self.streams.is_empty() {
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
        let open: Vec<String> = self.window.iter().map(Asked::what).collect();
        let (watches, streams) = (self.one_shots.len(), self.streams.len());
        let text = format!("not told of the end: {open:?}, {watches} watches, {streams} streams");
        self.violated("I7", &text);
    }

    async fn hear_now(&mut self) {
        let once = poll_fn(|cx| {
            let _ = self.pump(cx);
            Poll::Ready(())
        });
        unconstrained(once).await;
    }
}

/// Returns true for replies that must arrive in the order of the requests. Errors from the client
/// itself are exempt, and errors that a fault makes a server send before it processes the request.
fn is_in_turn<T>(result: &Result<T, Error>) -> bool {
    match result {
        Ok(_) => true,
        Err(error) => error.code().is_some_and(|code| code != ErrorCode::THROTTLED_OP),
    }
}

/// Returns true for errors that a request may return although nothing is wrong.
fn is_fair(kind: &ErrorKind) -> bool {
    use ErrorCode as Code;
    match kind {
        ErrorKind::Server(code) | ErrorKind::RolledBack { code, .. } => [
            Code::NO_NODE,
            Code::NODE_EXISTS,
            Code::BAD_VERSION,
            Code::NOT_EMPTY,
            Code::NO_CHILDREN_FOR_EPHEMERALS,
            Code::THROTTLED_OP,
        ]
        .contains(code),
        ErrorKind::ConnectionLost(_)
        | ErrorKind::SessionEnded(_)
        | ErrorKind::TimedOut
        | ErrorKind::NotReadOnly => true,
        _ => false,
    }
}
