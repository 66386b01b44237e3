//! Waiters whose sessions come back while their server works through the bucket with them.
//!
//! A leader takes all sessions that expire in one tick out of its queue, and then closes one after the
//! other (`SessionTrackerImpl.run`). Until its turn, a session of that bucket still answers everything:
//! neither a reconnect nor a write saves it. A waiter that took these answers for proofs would acquire a
//! lock with a session that is closed some moments later.

use std::fmt;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use tokio::task::JoinHandle;
use zk_recipes::session::{Client, SessionEvent};
use zk_recipes::{Guard, Mutex};
use zk_testing::{Cut, FaultProxy};
use zk_tests::chaos::Error;
use zk_tests::{Settings, Standalone, connect, contenders, monotonic_us, raw};

use crate::Ending;
use crate::options::{End, Options};

pub(crate) fn run(options: &Options) -> Result<Ending, Error> {
    let runs = match options.end() {
        End::Runs(runs) => runs,
        End::After(_) => return Err("this scenario takes --runs, not --minutes".into()),
    };
    let (tick, timeout) = (TICK.as_millis(), TIMEOUT.as_millis());
    println!("\nexpiring-bucket: {SESSIONS} sessions, tick {tick} ms, T {timeout} ms");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut all = Seen::default();
    for number in 0..runs {
        // Back 1 to 9 ms after the tick. Every second run cuts them off again.
        let back = Duration::from_millis(1 + u64::from(number) * 3 % 9);
        let is_cut_again = number % 2 == 1;
        let seen = runtime.block_on(run_once(back, is_cut_again))?;
        let cut_again = if is_cut_again { ", cut off again" } else { "" };
        println!(
            "  run {:>3}: back {} ms after the tick{cut_again}: {seen}",
            number + 1,
            back.as_millis()
        );
        all.add(&seen);
    }
    println!("  all {runs}: {all}");
    // Without a session that comes back before it is closed, the runs show nothing.
    let is_sound = all.beside_another == 0 && all.back > 0;
    Ok(if is_sound { Ending::Sound } else { Ending::Broken })
}

/// Counts of waiters.
#[derive(Default)]
struct Seen {
    /// Their session was accepted again, and closed later.
    back: usize,
    acquired: usize,
    /// Their guard was valid beside the one of the next contender.
    beside_another: usize,
    longest_us: u64,
}

impl Seen {
    fn add(&mut self, other: &Self) {
        self.back += other.back;
        self.acquired += other.acquired;
        self.beside_another += other.beside_another;
        self.longest_us = self.longest_us.max(other.longest_us);
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { back, acquired, beside_another, longest_us } = self;
        write!(f, "{back} doomed sessions accepted, {acquired} of them acquired the lock")?;
        write!(f, ", {beside_another} beside another valid guard")?;
        match longest_us {
            0 => Ok(()),
            _ => write!(f, ", for up to {} ms", longest_us.div_ceil(1_000)),
        }
    }
}

async fn run_once(back: Duration, is_cut_again: bool) -> Result<Seen, Error> {
    let tick_ms = u32::try_from(TICK.as_millis())?;
    // With Java's default of 50, the kernel drops connects, and each of them takes a second longer.
    let settings = Settings::default().tick_ms(tick_ms).config("clientPortListenBacklog", "4096");
    let server = settings.jvm_flag("-Xmx1g").start()?;
    let proxy = FaultProxy::in_front_of(server.address()).await?;
    let healthy = connect(&server.connect_string(), TIMEOUT).await;
    let queues = queue_up(&healthy, proxy.address()).await?;
    let mut crowd = Crowd::gather(&server).await?;

    // The touches of all sessions are in one tick, at its beginning.
    wait_until(next_tick(monotonic_us())).await;
    let touched = monotonic_us();
    crowd.touch();
    wait_until(touched + us(TICK / 2)).await;
    // New connections are accepted, and nothing comes of them.
    let cut_off = || {
        proxy.stall();
        proxy.cut_all(Cut::Rst);
    };
    cut_off();
    let tick = next_tick(touched + us(TIMEOUT));
    wait_until(tick - us(RELEASE_BEFORE)).await;
    // Each session has one connect request under way when the tick comes.
    proxy.cut_all(Cut::Rst);
    let mut waiting = Vec::new();
    for queue in queues {
        let Queue { held, returning, healthy } = queue;
        held.release().await?;
        waiting.push((returning, healthy));
    }
    wait_until(tick + us(back)).await;
    proxy.resume();
    if is_cut_again {
        wait_until(monotonic_us() + us(CUT_AGAIN)).await;
        cut_off();
    }
    let mut seen = Seen::default();
    for (returning, healthy) in waiting {
        let next = tokio::time::timeout(4 * TIMEOUT, healthy).await??;
        // A session that was cut off again ends by its own clock.
        let Returned { is_back, held } = tokio::time::timeout(4 * TIMEOUT, returning).await??;
        seen.back += usize::from(is_back);
        let Some(Term { from, until }) = held else { continue };
        seen.acquired += 1;
        if from < next && next < until {
            seen.beside_another += 1;
            seen.longest_us = seen.longest_us.max(until - next);
        }
    }
    Ok(seen)
}

/// A lock that a healthy session holds, that a returning one is next for, and a healthy one after that.
struct Queue {
    held: Guard,
    returning: JoinHandle<Returned>,
    /// The time at which the lock was acquired.
    healthy: JoinHandle<u64>,
}

/// End of a session that was cut off.
struct Returned {
    /// Whether a server accepted it once more.
    is_back: bool,
    held: Option<Term>,
}

/// Time in which a guard was valid, on the monotonic clock, in us.
struct Term {
    from: u64,
    until: u64,
}

async fn queue_up(healthy: &Client, proxy: SocketAddr) -> Result<Vec<Queue>, Error> {
    let mut queues = Vec::new();
    for number in 0..LOCKS {
        let path = format!("/locks/{number}");
        // Each has a session of its own, and so a turn of its own in the bucket.
        let returning = connect(&proxy.to_string(), TIMEOUT).await;
        let (held, next) = (Mutex::new(healthy, &path)?, Mutex::new(&returning, &path)?);
        let last = held.clone();
        let held = held.acquire().await?;
        let returning = tokio::spawn(wait_and_hold(returning, next));
        contenders(healthy, &path, 2).await;
        let healthy_waits = tokio::spawn(async move {
            let acquired = last.acquire().await;
            let at = monotonic_us();
            drop(acquired);
            at
        });
        contenders(healthy, &path, 3).await;
        queues.push(Queue { held, returning, healthy: healthy_waits });
    }
    Ok(queues)
}

/// Waits for a lock and holds it, until its session ends.
async fn wait_and_hold(client: Client, lock: Mutex) -> Returned {
    let mut events = client.events();
    let mut is_back = false;
    let until_end = async {
        while let Some(event) = events.next().await {
            is_back |= matches!(event, SessionEvent::Reconnected { .. });
        }
    };
    let holds = async {
        match lock.acquire().await {
            Ok(guard) => Some(watch(guard).await),
            Err(_) => None,
        }
    };
    let (held, ()) = tokio::join!(holds, until_end);
    Returned { is_back, held }
}

/// Asks a guard for its token again and again, as a careful holder does.
async fn watch(guard: Guard) -> Term {
    let from = monotonic_us();
    let mut until = from;
    while guard.token().is_ok() {
        until = monotonic_us();
        // reason: the interval at which the guard is asked
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Term { from, until }
}

/// Sessions that fill the bucket.
struct Crowd(Vec<TcpStream>);

impl Crowd {
    async fn gather(server: &Standalone) -> Result<Self, Error> {
        let mut crowd = Self(Vec::with_capacity(SESSIONS));
        let mut touched = monotonic_us();
        while crowd.0.len() < SESSIONS {
            crowd.0.push(open(server.address())?);
            // The first ones must not expire before the last ones are there.
            if monotonic_us() > touched + us(TIMEOUT / 3) {
                crowd.touch();
                touched = monotonic_us();
            }
        }
        crowd.touch();
        let found = connections(server)?;
        if found < SESSIONS * 9 / 10 {
            return Err(format!("only {found} of {SESSIONS} sessions are there").into());
        }
        Ok(crowd)
    }

    /// Sends a ping on each connection. The answers are not read: they fit into the buffers.
    fn touch(&mut self) {
        let ping = raw::frame(&[(-2_i32).to_be_bytes(), 11_i32.to_be_bytes()].concat());
        for stream in &mut self.0 {
            // A session that is gone is one less.
            let _ = stream.write_all(&ping);
        }
    }
}

fn connections(server: &Standalone) -> Result<usize, Error> {
    let status = server.four_letter("srvr")?;
    let line = status.lines().find_map(|line| line.strip_prefix("Connections: "));
    Ok(line.ok_or("no number of connections")?.trim().parse()?)
}

fn open(address: SocketAddr) -> Result<TcpStream, Error> {
    let mut stream = TcpStream::connect(address)?;
    let timeout = i32::try_from(TIMEOUT.as_millis())?.to_be_bytes();
    let handshake = [&[0; 12][..], &timeout, &[0; 8], &raw::buffer(&[0; 16])].concat();
    stream.write_all(&raw::frame(&handshake))?;
    Ok(stream)
}

/// Returns the next tick of the server after a time. Its clock is the monotonic one of the machine.
fn next_tick(at: u64) -> u64 {
    (at / us(TICK) + 1) * us(TICK)
}

async fn wait_until(at: u64) {
    let left = Duration::from_micros(at.saturating_sub(monotonic_us()));
    // reason: the run is about what happens at a certain moment of the server's tick
    tokio::time::sleep(left).await;
}

fn us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// About what a rack of services has. Each needs a socket in this process and one in the server.
const SESSIONS: usize = 15_000;
const LOCKS: usize = 20;
const TICK: Duration = Duration::from_secs(2);
const TIMEOUT: Duration = Duration::from_secs(6);
/// Time before the tick at which the holders release their locks, so that the returning sessions are first
/// in line.
const RELEASE_BEFORE: Duration = Duration::from_millis(700);
/// Time after which a returning session is cut off again: enough for a few requests.
const CUT_AGAIN: Duration = Duration::from_millis(700);
