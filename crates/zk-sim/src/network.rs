//! Connections with latency. Bytes arrive in the order in which they were sent, with any delay.
//! They may arrive after their sender has closed the connection.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use zk_session::{Config, Connector, Host};
use zk_testing::{MemoryStream, Rng};

use crate::clock::now;
use crate::earliest_expiry::Exchange;
use crate::plan::Latency;
use crate::process::Process;
use crate::script::{Due, Fate, Fault, Passing};
use crate::world::World;
use crate::zxids::{Newest, Replies, Seen};

/// Connector of one session, for the hosts `server-0`, `server-1`, …
pub(crate) struct Network {
    pub(crate) world: Arc<World>,
    pub(crate) slot: usize,
    /// The process of the client, if its driver runs outside of it. When it is killed, nothing more is
    /// sent or received.
    pub(crate) process: Option<Arc<Process>>,
    pub(crate) rng: std::sync::Mutex<Rng>,
    /// The newest zxid that the session has read, over all of its connections.
    pub(crate) newest: Arc<Newest>,
}

impl Network {
    pub(crate) fn new(world: &Arc<World>, slot: usize, rng: &mut Rng) -> Self {
        let rng = std::sync::Mutex::new(rng.fork());
        Self { world: Arc::clone(world), slot, process: None, rng, newest: Arc::default() }
    }
}

/// The connector of the client's next session.
impl Clone for Network {
    fn clone(&self) -> Self {
        let rng = self.rng.lock().unwrap_or_else(std::sync::PoisonError::into_inner).fork();
        let (world, rng) = (Arc::clone(&self.world), std::sync::Mutex::new(rng));
        let process = self.process.clone();
        Self { world, slot: self.slot, process, rng, newest: Arc::default() }
    }
}

impl Connector for Network {
    type Stream = Wire;

    fn connect(&self, host: &Host) -> impl Future<Output = io::Result<Wire>> + Send + 'static {
        let number = host.name().strip_prefix("server-").and_then(|digits| digits.parse().ok());
        let (world, newest) = (Arc::clone(&self.world), Arc::clone(&self.newest));
        let slot = self.slot;
        let mut rng = self.rng.lock().unwrap_or_else(std::sync::PoisonError::into_inner).fork();
        let process = self.process.clone();
        if !is_killed(process.as_deref()) {
            world.oracle().connects(slot);
        }
        async move {
            if is_killed(process.as_deref()) {
                return std::future::pending().await;
            }
            let wait = latency(&world, &mut rng);
            if !wait.is_zero() {
                sleep(wait).await;
            }
            let stream = world.server.stream(number.unwrap_or(0))?;
            Ok(Wire {
                server: number.unwrap_or(0),
                inner: Some(stream),
                world,
                unsent: Vec::new(),
                unread: Vec::new(),
                lingers: false,
                rng,
                outgoing: VecDeque::new(),
                incoming: VecDeque::new(),
                ended: false,
                timer: None,
                replies: Replies::new(),
                newest,
                slot,
                process,
                exchange: Exchange::new(now()),
            })
        }
    }
}

/// Returns the settings of a client, with a seed of its own.
pub(crate) fn config(world: &World, slot: usize, generation: u64) -> Option<Config> {
    let plan = &world.plan.clients[slot];
    let hosts = match plan.home {
        Some(home) => format!("server-{home}:1"),
        None => {
            let hosts: Vec<_> =
                (0..world.plan.servers.len()).map(|number| format!("server-{number}:1")).collect();
            hosts.join(",")
        }
    };
    let number = u64::try_from(slot).unwrap_or(0);
    let seed = u128::from(world.plan.seed) << 64 | u128::from(number << 32 | generation);
    let config = Config::new(&hosts).ok()?.session_timeout(plan.asked).seed(seed);
    // One path in each request, a few, or all in one.
    let chunk = Rng::new(world.plan.seed ^ 0x72_6561_726d).pick(&[1, 30, usize::MAX]);
    Some(config.lease_assumptions(world.plan.lease_assumptions()).rearm_chunk_bytes(chunk))
}

/// Takes the next complete frame, its length included, from the front of the bytes.
fn next_frame(bytes: &mut Vec<u8>) -> Option<Vec<u8>> {
    let len = u32::from_be_bytes(bytes.get(..4)?.try_into().ok()?);
    let end = 4 + usize::try_from(len).ok()?;
    (bytes.len() >= end).then(|| bytes.drain(..end).collect())
}

fn is_killed(process: Option<&Process>) -> bool {
    process.is_some_and(Process::is_killed)
}

/// Draws the one-way delay of bytes. A draining run has no slow connections.
fn latency(world: &World, rng: &mut Rng) -> Duration {
    let Latency { typical, tail, longest, .. } = world.plan.latency;
    if !world.is_draining() && rng.chance(tail) { rng.millis(longest) } else { rng.millis(typical) }
}

/// The client's end of one connection.
pub(crate) struct Wire {
    server: usize,
    inner: Option<MemoryStream>,
    world: Arc<World>,
    rng: Rng,
    /// Bytes of incomplete frames, in a run with a script.
    unsent: Vec<u8>,
    unread: Vec<u8>,
    /// Whether the bytes in flight arrive although the client has closed the connection.
    lingers: bool,
    /// Bytes for the server. A piece without bytes ends the connection.
    outgoing: VecDeque<(Instant, Vec<u8>)>,
    incoming: VecDeque<(Instant, Piece)>,
    ended: bool,
    timer: Option<Pin<Box<Sleep>>>,
    replies: Replies,
    newest: Arc<Newest>,
    slot: usize,
    process: Option<Arc<Process>>,
    exchange: Exchange,
}

enum Piece {
    Bytes(Vec<u8>, usize),
    End(Option<io::ErrorKind>),
}

impl Wire {
    /// Moves bytes that are due, in both directions.
    fn pump(&mut self, cx: &mut Context<'_>) {
        self.world.steps.take();
        self.wake();
        let now = now();
        let Some(inner) = &mut self.inner else { return };
        while self.outgoing.front().is_some_and(|(due, _)| *due <= now)
            && let Some((_, bytes)) = self.outgoing.pop_front()
        {
            if bytes.is_empty() {
                return self.hang_up(now);
            }
            // A failure shows up as the end of the stream.
            let _ = Pin::new(&mut *inner).poll_write(cx, &bytes);
        }
        while !self.ended {
            let Some(inner) = &mut self.inner else { return };
            let mut space = [0; 4_096];
            let mut buf = ReadBuf::new(&mut space);
            let piece = match Pin::new(&mut *inner).poll_read(cx, &mut buf) {
                Poll::Pending => return,
                Poll::Ready(Ok(())) if buf.filled().is_empty() => Piece::End(None),
                Poll::Ready(Ok(())) => Piece::Bytes(buf.filled().to_vec(), 0),
                Poll::Ready(Err(error)) => Piece::End(Some(error.kind())),
            };
            self.ended = matches!(piece, Piece::End(_));
            let due = now + latency(&self.world, &mut self.rng);
            let due = self.incoming.back().map_or(due, |(before, _)| due.max(*before));
            match piece {
                Piece::Bytes(bytes, _) if self.world.script.is_some() => {
                    self.unread.extend(bytes);
                    if self.take_in(due) {
                        return;
                    }
                }
                piece => self.incoming.push_back((due, piece)),
            }
        }
    }

    /// Counts the time as a point of the script.
    fn wake(&self) {
        let (Some(script), Some(inner)) = (&self.world.script, &self.inner) else { return };
        if !self.world.is_draining() && self.slot < self.world.slots() {
            let (slot, server, connection) = (self.slot, self.server, inner.id());
            let due = Due { fault: Fault::CutAfter, slot, server, connection };
            script.wake(due, &mut self.world.oracle());
        }
    }

    /// Puts complete frames from the server on their way to the client, each as a point of the script.
    fn take_in(&mut self, due: Instant) -> bool {
        while let Some(frame) = next_frame(&mut self.unread) {
            let fate = self.pass(false, &frame);
            if fate != Fate::CutBefore {
                self.incoming.push_back((due, Piece::Bytes(frame, 0)));
            }
            if fate != Fate::Passes {
                self.hang_up(due);
                return true;
            }
        }
        false
    }

    /// Puts complete frames on their way to the server, each as a point of the script.
    fn send_frames(&mut self, due: Instant) {
        while let Some(frame) = next_frame(&mut self.unsent) {
            let fate = self.pass(true, &frame);
            match fate {
                Fate::Passes => self.outgoing.push_back((due, frame)),
                Fate::CutBefore => self.outgoing.push_back((due, Vec::new())),
                Fate::CutAfter => self.outgoing.extend([(due, frame), (due, Vec::new())]),
                Fate::Late => {
                    let late = due + self.world.plan.longest_timeout() / 2;
                    self.outgoing.push_back((late, frame));
                    self.incoming.push_back((due, Piece::End(None)));
                    (self.ended, self.lingers) = (true, true);
                }
            }
        }
    }

    fn pass(&self, is_sent: bool, frame: &[u8]) -> Fate {
        let (Some(script), Some(inner)) = (&self.world.script, &self.inner) else {
            return Fate::Passes;
        };
        if self.world.is_draining() || self.slot >= self.world.slots() {
            return Fate::Passes;
        }
        let (slot, server, connection) = (self.slot, self.server, inner.id());
        let passing = Passing { slot, server, connection, is_sent, frame };
        script.pass(passing, &mut self.world.oracle())
    }

    /// Closes the connection for both sides. The client reads what has arrived before.
    fn hang_up(&mut self, due: Instant) {
        self.inner = None;
        self.outgoing.clear();
        self.ended = true;
        self.incoming.push_back((due, Piece::End(None)));
    }

    /// Sets the timer that wakes the task when more bytes are due. Returns true if they are due
    /// now.
    fn arm(&mut self, cx: &mut Context<'_>) -> bool {
        let out = self.outgoing.front().map(|(due, _)| *due);
        let due = [out, self.incoming.front().map(|(due, _)| *due)].into_iter().flatten().min();
        let Some(due) = due else { return false };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
        if timer.deadline() != due {
            timer.as_mut().reset(due);
        }
        timer.as_mut().poll(cx).is_ready()
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if is_killed(this.process.as_deref()) {
            return Poll::Pending;
        }
        loop {
            this.pump(cx);
            let due = this.incoming.front().is_some_and(|(due, _)| *due <= now());
            match this.incoming.front_mut() {
                Some((_, Piece::Bytes(bytes, start))) if due => {
                    let len = buf.remaining().min(bytes.len() - *start);
                    let piece = &bytes[*start..*start + len];
                    buf.put_slice(piece);
                    *start += len;
                    let all_seen = this.replies.read(piece, &this.newest);
                    if *start == bytes.len() {
                        this.incoming.pop_front();
                    }
                    for seen in all_seen {
                        let mut oracle = this.world.oracle();
                        match seen {
                            Seen::BackInTime(zxid, newer) => {
                                let text = format!("a reply of {zxid} after one of {newer}");
                                oracle.violated("I9", text);
                            }
                            Seen::Accepted(session, timeout) => {
                                if let Some(least) = this.world.plan.shortest_timeout(this.slot) {
                                    this.exchange.accepted(session, least, &mut oracle.bounds);
                                    if !this.replies.is_read_only() {
                                        oracle.lease_begins(&this.exchange, timeout);
                                    }
                                }
                                oracle.session_accepted(this.slot, session);
                            }
                            Seen::Reply(xid, zxid, code) => {
                                let reply = (xid, code.is_ok());
                                let sent = this.exchange.reply(now(), reply, &mut oracle.bounds);
                                if !this.replies.is_read_only() {
                                    oracle.lease_proof(&this.exchange, sent, (xid, zxid, code));
                                }
                            }
                            Seen::Deleted(session, node) => oracle.deletion_read(session, &node),
                        }
                    }
                    return Poll::Ready(Ok(()));
                }
                Some((_, Piece::End(error))) if due => {
                    return Poll::Ready(error.map_or(Ok(()), |kind| Err(kind.into())));
                }
                _ => {}
            }
            if !this.arm(cx) {
                return Poll::Pending;
            }
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        this.world.steps.take();
        if is_killed(this.process.as_deref()) || this.inner.is_none() {
            return Poll::Ready(Ok(bytes.len()));
        }
        {
            let oracle = &mut *this.world.oracle();
            let requested = this.exchange.send(now(), bytes, &mut oracle.bounds);
            if let Some(session) = requested {
                oracle.follow_lease(|lease, now| lease.reconnects(now, session));
            }
        }
        let latency = latency(&this.world, &mut this.rng);
        let is_scripted = this.world.script.is_some();
        if latency.is_zero()
            && !is_scripted
            && this.outgoing.is_empty()
            && let Some(inner) = &mut this.inner
        {
            return Pin::new(inner).poll_write(cx, bytes);
        }
        let due = now() + latency;
        let due = this.outgoing.back().map_or(due, |(before, _)| due.max(*before));
        if is_scripted {
            this.unsent.extend(bytes);
            this.send_frames(due);
        } else {
            this.outgoing.push_back((due, bytes.to_vec()));
        }
        if this.arm(cx) {
            cx.waker().wake_by_ref();
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.inner {
            Some(inner) => {
                ready!(Pin::new(inner).poll_shutdown(cx))?;
                Poll::Ready(Ok(()))
            }
            None => Poll::Ready(Ok(())),
        }
    }
}

impl Drop for Wire {
    /// Ends the stream. With probability `linger`, all bytes in flight are delivered first.
    ///
    /// These bytes may arrive before the server sees the end of the stream. This is how a write of
    /// an old connection arrives after the session has reconnected.
    ///
    /// A spawned task does this, even if no bytes are left. The client drops its connection while
    /// it holds the lock of its session. The server may then call the oracle, which looks at
    /// sessions.
    fn drop(&mut self) {
        let Some(mut inner) = self.inner.take() else { return };
        let outgoing = if !is_killed(self.process.as_deref())
            && (self.lingers || self.rng.chance(self.world.plan.latency.linger))
        {
            std::mem::take(&mut self.outgoing)
        } else {
            VecDeque::new()
        };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            for (due, bytes) in outgoing {
                sleep_until(due).await;
                let _ = tokio::io::AsyncWriteExt::write_all(&mut inner, &bytes).await;
            }
            drop(inner);
        });
    }
}
