//! Comparison of clients that read the same getChildren2 reply.
//!
//! The other clients do not publish their decoders, so the benchmark measures each client as a
//! whole: a call over loopback to a server that answers with prepared bytes. The contestants take
//! turns, call by call, and the table compares medians of one run. `raw` is a blocking socket that
//! reads the bytes and does nothing with them: no client can be faster.
//!
//! One run, in microseconds, on two virtual cores of a Xeon at 2.3 GHz under other load. Because of
//! that load, `raw` took 4 to 7 ms to read six megabytes, and the ratios vary with it:
//!
//! | children | `raw` | this | this, ranked | zookeeper-client | zookeeper-async |
//! |---|---|---|---|---|---|
//! | 10 | 7.2 | 10.8 | 9.7 | 13.4 | 12.5 |
//! | 1,000 | 13.5 | 21.0 | 25.1 | 84.4 | 99.0 |
//! | 10,000 | 108 | 159 | 210 | 760 | 949 |
//! | 100,000 | 7,152 | 7,575 | 9,084 | 19,493 | 29,870 |
//!
//! Run: `cargo run --release --manifest-path benches/compare/Cargo.toml`

mod server;

use std::error::Error;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use zk_benches::{LIST_LENGTHS, curator_names};
use zk_recipes::child_order::SequenceOrder;
use zk_session::Client;

const MUTEX: SequenceOrder<'static> = SequenceOrder::new(&["lock-"]);
const CONTESTANTS: [&str; 5] =
    ["raw", "this", "this, ranked", "zookeeper-client 0.11.2", "zookeeper-async 5.0.0"];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    println!("{:>9} {}", "children", CONTESTANTS.map(|name| format!("{name:>26}")).concat());
    for len in LIST_LENGTHS {
        let names = curator_names(len);
        let address = server::start(&names)?;
        let medians = race(&address, &names).await?;
        let raw = medians[0].as_secs_f64();
        let cell = |median: &Duration| {
            let ratio = median.as_secs_f64() / raw;
            format!("{:>19.1} us {ratio:>4.1}x", median.as_secs_f64() * 1e6)
        };
        println!("{len:>9} {}", medians.iter().map(cell).collect::<String>());
    }
    Ok(())
}

async fn race(address: &str, names: &[String]) -> Result<Vec<Duration>, Box<dyn Error>> {
    let own = names[names.len() / 2].as_bytes();
    let rounds = if names.len() > 10_000 { 60 } else { 400 };
    let mut raw = Raw::connect(address)?;
    let this = Client::connect(address).await?;
    let client = zookeeper_client::Client::connect(address).await?;
    let timeout = Duration::from_secs(10);
    // This client fails on frames larger than its buffer. Then there is nothing to measure.
    let other = zookeeper_async::ZooKeeper::connect(address, timeout, |_| {}).await?;
    let mut times = vec![Vec::new(); CONTESTANTS.len()];
    for _ in 0..rounds {
        for (contestant, times) in times.iter_mut().enumerate() {
            let start = Instant::now();
            let count = match contestant {
                0 => raw.get_children()?,
                1 => this.get_children("/").await?.names.len(),
                2 => {
                    let names = this.get_children("/").await?.names;
                    MUTEX.rank(&names, own).ok_or("not listed")?;
                    names.len()
                }
                3 => client.get_children("/").await?.0.len(),
                _ => other.get_children("/", false).await?.len(),
            };
            times.push(start.elapsed());
            if contestant > 0 && count != names.len() {
                return Err(format!("{}: {count} children", CONTESTANTS[contestant]).into());
            }
        }
    }
    Ok(times
        .into_iter()
        .map(|mut times| {
            times.sort_unstable();
            times[times.len() / 2]
        })
        .collect())
}

/// A socket that reads replies without parsing them.
struct Raw {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Raw {
    fn connect(address: &str) -> std::io::Result<Self> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let mut connect = [0; 49];
        connect[3] = 45;
        connect[16..20].copy_from_slice(&10_000_i32.to_be_bytes());
        connect[31] = 16;
        stream.write_all(&connect)?;
        let mut raw = Self { stream, buffer: Vec::new() };
        raw.read_frame()?;
        Ok(raw)
    }

    fn get_children(&mut self) -> std::io::Result<usize> {
        // xid 1, opcode 12, path "/", no watch.
        let request = [0, 0, 0, 14, 0, 0, 0, 1, 0, 0, 0, 12, 0, 0, 0, 1, b'/', 0];
        self.stream.write_all(&request)?;
        self.read_frame()
    }

    fn read_frame(&mut self) -> std::io::Result<usize> {
        let mut len = [0; 4];
        self.stream.read_exact(&mut len)?;
        self.buffer.resize(u32::from_be_bytes(len) as usize, 0);
        self.stream.read_exact(&mut self.buffer)?;
        Ok(self.buffer.len())
    }
}
