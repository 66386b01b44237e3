//! Waiters whose sessions come back while their server works through the bucket with them.
//!
//! A leader takes all sessions that expire in one tick out of its queue, and then closes one after the
//! other (`SessionTrackerImpl.run`). Until its turn, a session of that bucket still answers everything:
//! neither a reconnect nor a write saves it. A waiter that took these answers for proofs would acquire a
//! lock with a session that is closed some moments later.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use tokio::task::JoinHandle;
use zk_recipes::session::Client;
use zk_recipes::{Guard, Mutex};
use zk_testing::FaultProxy;
use zk_tests::chaos::Error;
use zk_tests::{Settings, Standalone, connect, contenders, monotonic_us, raw};

use crate::Ending;
use crate::options::{End, Options};

pub(crate) fn run(options: &Options) -> Result<Ending, Error> {
    let runs = match options.end {
        End::Runs(runs) => runs,
        End::After(_) => RUNS,
    };
    println!("{SESSIONS} sessions of one bucket, T {} s", TIMEOUT.as_secs());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut overlaps = 0;
    for number in 0..runs {
        // Back 1 to 25 ms after the tick; every second one is cut off again.
        let back = Duration::from_millis(1 + u64::from(number) * 5 % 25);
        let is_cut_again = number % 2 == 1;
        let seen = runtime.block_on(run_once(back, is_cut_again))?;
        let Seen { granted, overlapping, longest_ms } = seen;
        println!(
            "run {} of {runs}: back {} ms after the tick{}: {granted} of {LOCKS} waiters acquired a \
             lock, {overlapping} of them beside another guard, for up to {longest_ms} ms",
            number + 1,
            back.as_millis(),
            if is_cut_again { ", cut off again" } else { "" }
        );
        overlaps += overlapping;
    }
    println!("{overlaps} guards were valid beside another one");
    Ok(if overlaps == 0 { Ending::Sound } else { Ending::Broken })
}

/// Result of one run.
struct Seen {
    granted: usize,
    overlapping: usize,
    longest_ms: u64,
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
    proxy.stall();
    let tick = next_tick(touched + us(TIMEOUT));
    wait_until(tick + us(back)).await;
    proxy.resume();
    let mut waiting = Vec::new();
    for queue in queues {
        let Queue { held, returning, healthy } = queue;
        // The clean-up goes on in the background.
        drop(held);
        waiting.push((returning, healthy));
    }
    if is_cut_again {
        wait_until(monotonic_us() + us(CUT_AGAIN)).await;
        proxy.stall();
    }
    let mut seen = Seen { granted: 0, overlapping: 0, longest_ms: 0 };
    for (returning, healthy) in waiting {
        let next = tokio::time::timeout(4 * TIMEOUT, healthy).await??;
        // A waiter that never acquired the lock ends with its session.
        let Ok(ended) = tokio::time::timeout(TIMEOUT, returning).await else { continue };
        let Some(Term { from, until }) = ended? else { continue };
        seen.granted += 1;
        if from < next && next < until {
            seen.overlapping += 1;
            seen.longest_ms = seen.longest_ms.max((until - next) / 1000);
        }
    }
    Ok(seen)
}

/// A lock that a healthy session holds, that a returning one is next for, and a healthy one after that.
struct Queue {
    held: Guard,
    returning: JoinHandle<Option<Term>>,
    /// The time at which the lock was acquired.
    healthy: JoinHandle<u64>,
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
        let returning = tokio::spawn(async move { Some(watch(next.acquire().await.ok()?).await) });
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
/// Time after which a returning session is cut off again: enough for a few requests.
const CUT_AGAIN: Duration = Duration::from_millis(100);
const RUNS: u32 = 10;
