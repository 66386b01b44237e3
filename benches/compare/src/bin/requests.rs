//! Requests per second and their CPU time in the client, pipelined and one at a time.
//!
//! The contestants send `exists` to one real server. They take turns, round by round, in one
//! process. The figures are medians of the rounds. CPU is the time of all threads of this process,
//! in which only the contestant has work; the server is another process. `raw` is a blocking socket
//! that writes a window of requests at once and reads the replies without parsing them: no client
//! can be faster. `in memory` is this client with `zk-testing` as its server on the same thread, so
//! its CPU is that of both ends.
//!
//! One run against 3.8.0 on two cores under other load. CPU is per request. The CPU ratio compares
//! this client with `zookeeper-client`, the last column compares its p50 with that of `raw`:
//!
//! | runtime | window | this | zookeeper-client | raw | CPU ratio | p50 to raw |
//! |---|---|---|---|---|---|---|
//! | current-thread | 1 | 27.3 us | 55.3 us | 16.5 us | 0.49 | 1.09 |
//! | | 16 | 7.5 us | 11.5 us | 5.3 us | 0.65 | 0.44 |
//! | | 1,000 | 7.5 us | 10.9 us | 4.7 us | 0.69 | 0.76 |
//! | multi-thread | 1 | 22.4 us | 64.4 us | 12.6 us | 0.35 | 1.06 |
//! | | 16 | 7.4 us | 15.6 us | 5.2 us | 0.47 | 0.46 |
//! | | 1,000 | 7.3 us | 14.2 us | 4.6 us | 0.51 | 0.72 |
//!
//! In memory, with the server on the same thread, both ends together take 1.2 to 1.9 us: the kernel
//! takes the rest. A server answers request by request. A client whose requests follow its replies
//! is therefore woken for every second one, and makes three system calls each time. `raw` makes one
//! write for a window and then reads. It takes nearly half of the time of `zookeeper-client`.
//!
//! If this client holds writes back until a part of the window is unsent, the CPU ratio of one thread
//! is 0.56 to 0.67. It then loses its position in the server's queue.
//!
//! Run: `cargo xtask zookeeper start`, then
//! `cargo run --release --manifest-path benches/compare/Cargo.toml --bin requests [HOST:PORT]`

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::stream::FuturesOrdered;
use zk_session::{Client, Config};
use zk_testing::TestServer;

/// Numbers of requests in flight.
const WINDOWS: [usize; 3] = [1, 16, 1_000];
const CONTESTANTS: [&str; 4] = ["raw", "this", "zookeeper-client 0.11.2", "this, in memory"];
const ROUNDS: usize = 15;
const PATH: &str = "/zookeeper";

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:2181".to_owned());
    for flavour in ["current-thread", "multi-thread"] {
        let runtime = match flavour {
            "current-thread" => {
                tokio::runtime::Builder::new_current_thread().enable_all().build()?
            }
            _ => tokio::runtime::Builder::new_multi_thread().enable_all().build()?,
        };
        println!("\n{flavour} runtime, medians of {ROUNDS} rounds");
        // The futures are polled on a worker thread, as those of a service are.
        runtime.block_on(async { tokio::spawn(compare(address.clone())).await })??;
    }
    Ok(())
}

async fn compare(address: String) -> Result<(), Failure> {
    let mut raw = Raw::connect(&address)?;
    // On one thread, the blocking socket delays the heartbeats of the other clients.
    let timeout = Duration::from_secs(30);
    let this: Client = Config::new(&address)?.session_timeout(timeout).connect().await?;
    let connector = zookeeper_client::Client::connector().with_session_timeout(timeout);
    let other = connector.connect(&address).await?;
    let memory = Config::new("memory:1")?.session_timeout(timeout);
    let memory = memory.connector(TestServer::in_memory()).connect().await?;
    println!(
        "{:>7} {:<24} {:>11} {:>9} {:>12} {:>10} {:>10}",
        "window", "client", "requests/s", "of raw", "CPU/request", "p50", "p99"
    );
    for window in WINDOWS {
        let requests = if window == 1 { 3_000 } else { 40_000 };
        let mut rounds = vec![Vec::new(); CONTESTANTS.len()];
        for _ in 0..ROUNDS {
            for (contestant, rounds) in rounds.iter_mut().enumerate() {
                let meter = Meter::start(requests);
                rounds.push(match contestant {
                    0 => raw.pipeline(window, meter)?,
                    1 => pipeline(|| this.exists(PATH), window, meter).await?,
                    2 => pipeline(|| other.check_stat(PATH), window, meter).await?,
                    _ => pipeline(|| memory.exists(PATH), window, meter).await?,
                });
            }
        }
        let medians: Vec<Round> = rounds.into_iter().map(median).collect();
        for (name, round) in CONTESTANTS.iter().zip(&medians) {
            let us = |time: Duration| format!("{:.1} us", time.as_secs_f64() * 1e6);
            println!(
                "{window:>7} {name:<24} {:>11.0} {:>8.2}x {:>12} {:>10} {:>10}",
                1.0 / round.wall.as_secs_f64(),
                medians[0].wall.as_secs_f64() / round.wall.as_secs_f64(),
                us(round.cpu),
                us(round.p50),
                us(round.p99),
            );
        }
        let ratio = medians[1].cpu.as_secs_f64() / medians[2].cpu.as_secs_f64();
        let p50 = medians[1].p50.as_secs_f64() / medians[0].p50.as_secs_f64();
        println!(
            "{window:>7} CPU of this / zookeeper-client: {ratio:.2}; p50 of this / raw: {p50:.2}"
        );
    }
    Ok(())
}

/// Keeps `window` requests in flight until all requests of the meter are answered.
async fn pipeline<F, T, E>(
    mut request: impl FnMut() -> F,
    window: usize,
    mut meter: Meter,
) -> Result<Round, E>
where
    F: Future<Output = Result<T, E>>,
{
    if window == 1 {
        for _ in 0..meter.requests {
            let start = Instant::now();
            request().await?;
            meter.took(start.elapsed());
        }
        return Ok(meter.stop());
    }
    let mut on_their_way = FuturesOrdered::new();
    for _ in 0..meter.requests {
        if on_their_way.len() == window {
            let next: Option<(F::Output, Instant)> = on_their_way.next().await;
            if let Some((answer, start)) = next {
                answer?;
                meter.took(start.elapsed());
            }
        }
        on_their_way.push_back(timed(request(), Instant::now()));
    }
    while let Some((answer, start)) = on_their_way.next().await {
        answer?;
        meter.took(start.elapsed());
    }
    Ok(meter.stop())
}

async fn timed<F: Future>(future: F, start: Instant) -> (F::Output, Instant) {
    (future.await, start)
}

/// Results of one contestant in one round. The times are per request.
#[derive(Clone, Copy)]
struct Round {
    wall: Duration,
    cpu: Duration,
    p50: Duration,
    p99: Duration,
}

fn median(rounds: Vec<Round>) -> Round {
    let of = |part: fn(&Round) -> Duration| {
        let mut times: Vec<Duration> = rounds.iter().map(part).collect();
        times.sort_unstable();
        times[times.len() / 2]
    };
    Round {
        wall: of(|it| it.wall),
        cpu: of(|it| it.cpu),
        p50: of(|it| it.p50),
        p99: of(|it| it.p99),
    }
}

struct Meter {
    requests: u32,
    start: Instant,
    cpu: Duration,
    times: Vec<Duration>,
}

impl Meter {
    fn start(requests: u32) -> Self {
        let times = Vec::with_capacity(requests as usize);
        Self { requests, cpu: cpu(), start: Instant::now(), times }
    }

    fn took(&mut self, time: Duration) {
        self.times.push(time);
    }

    fn stop(mut self) -> Round {
        let (wall, cpu) = (self.start.elapsed(), cpu() - self.cpu);
        self.times.sort_unstable();
        let at =
            |part: usize| self.times[(self.times.len() * part / 100).min(self.times.len() - 1)];
        Round { wall: wall / self.requests, cpu: cpu / self.requests, p50: at(50), p99: at(99) }
    }
}

/// Returns the CPU time of all threads of this process, to the nanosecond.
fn cpu() -> Duration {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return Duration::ZERO };
    let nanoseconds = threads.flatten().filter_map(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        stat.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanoseconds.sum())
}

/// A socket that reads replies without parsing them.
struct Raw {
    stream: TcpStream,
    request: Vec<u8>,
    reply_len: usize,
}

impl Raw {
    fn connect(address: &str) -> Result<Self, Failure> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let mut hello = vec![0; 4 + 4 + 8 + 4 + 8 + 4 + 16 + 1];
        hello[..4].copy_from_slice(&45_u32.to_be_bytes());
        hello[16..20].copy_from_slice(&30_000_u32.to_be_bytes());
        hello[28..32].copy_from_slice(&16_u32.to_be_bytes());
        stream.write_all(&hello)?;
        read_frame(&mut stream)?;
        let path = PATH.as_bytes();
        let mut body = [1_u32.to_be_bytes(), 3_u32.to_be_bytes()].concat();
        body.extend((path.len() as u32).to_be_bytes());
        body.extend(path);
        body.push(0);
        let mut request = (body.len() as u32).to_be_bytes().to_vec();
        request.extend(body);
        stream.write_all(&request)?;
        let reply_len = 4 + read_frame(&mut stream)?.len();
        Ok(Self { stream, request, reply_len })
    }

    fn pipeline(&mut self, window: usize, mut meter: Meter) -> io::Result<Round> {
        let requests = self.request.repeat(window);
        let mut replies = vec![0; self.reply_len * window];
        for _ in 0..meter.requests as usize / window {
            let start = Instant::now();
            self.stream.write_all(&requests)?;
            self.stream.read_exact(&mut replies)?;
            meter.took(start.elapsed());
        }
        Ok(meter.stop())
    }
}

fn read_frame(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut len = [0; 4];
    stream.read_exact(&mut len)?;
    let mut frame = vec![0; u32::from_be_bytes(len) as usize];
    stream.read_exact(&mut frame)?;
    Ok(frame)
}
