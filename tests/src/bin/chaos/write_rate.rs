//! Measures the load that holders and waiters put on an ensemble.

use std::fs;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use zk_recipes::Mutex;
use zk_tests::chaos::Error;
use zk_tests::chaos::history::History;
use zk_tests::{Ensemble, Server, Settings, connect, eventually, monotonic_us, now};

use crate::options::{End, Options};

pub(crate) fn run(tick: Duration, options: &Options) -> Result<(), Error> {
    let settings = Settings::default().tick_ms(u32::try_from(tick.as_millis())?);
    let length = match options.end() {
        End::Runs(_) => LENGTH,
        End::After(length) => length,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut table = String::new();
    for load in &LOADS {
        // Each load needs a new ensemble, because the end of a session is a write as well.
        let ensemble = settings.start_ensemble(3)?;
        let leader = ensemble.leader()?;
        let sessions = load.start(&ensemble, &runtime)?;
        let version = ensemble.server(leader).status()?.map(|status| status.version);
        println!(
            "{}: ZooKeeper {}, tick {} ms, {} s, leader is server {leader}",
            load.name,
            version.unwrap_or_default(),
            tick.as_millis(),
            length.as_secs()
        );
        let counted = count(&ensemble, leader, length)?;
        drop(sessions);
        table.push_str(&counted.row(load));
    }
    println!("{HEADER}{table}");
    Ok(())
}

/// Sessions that hold locks and wait for them.
struct Load {
    name: &'static str,
    sessions: usize,
    timeout: Duration,
    queue: Queue,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Queue {
    /// Each session holds a lock of its own.
    Own,
    /// One session holds the lock that all others wait for.
    Shared,
}

impl Load {
    /// Opens the sessions. They end when the returned `JoinSet` is dropped.
    fn start(&self, ensemble: &Ensemble, runtime: &Runtime) -> Result<JoinSet<()>, Error> {
        runtime.block_on(async {
            let mut tasks = JoinSet::new();
            let root = format!("{ROOT}{}", monotonic_us());
            for number in 0..self.sessions {
                let path = match self.queue {
                    Queue::Own => format!("{root}/{number}"),
                    Queue::Shared => root.clone(),
                };
                let (servers, timeout) = (ensemble.connect_string(), self.timeout);
                tasks.spawn(async move {
                    let client = connect(&servers, timeout).await;
                    let lock = Mutex::new(&client, &path);
                    let guard = match lock {
                        Ok(lock) => lock.acquire().await.map_err(|error| error.to_string()),
                        Err(error) => Err(error.to_string()),
                    };
                    match guard {
                        Ok(guard) => println!("a lock was lost: {}", guard.lost().await),
                        Err(error) => println!("a lock was not acquired: {error}"),
                    }
                });
            }
            let nodes = async || {
                let dump = ensemble.server(0).four_letter("dump").unwrap_or_default();
                let nodes = dump.lines().filter(|line| line.trim().starts_with(ROOT)).count();
                (nodes == self.sessions).then_some(())
            };
            let ready = eventually(START_LIMIT, nodes).await;
            ready.ok_or("the sessions do not all have a node")?;
            Ok(tasks)
        })
    }
}

/// Activity of an ensemble during an interval.
struct Counted {
    seconds: f64,
    logged: u64,
    packets: Vec<u64>,
    leader_cpu: f64,
}

fn count(ensemble: &Ensemble, leader: usize, length: Duration) -> Result<Counted, Error> {
    let packets = || ensemble.servers().iter().map(packets_received).collect::<Result<Vec<_>, _>>();
    let (zxid, cpu) = (zxid(ensemble.server(leader))?, cpu_seconds(ensemble.server(leader))?);
    let (packets_before, start) = (packets()?, now());
    // reason: a rate is counted over an interval.
    History::default().wait_until(monotonic_us() + u64::try_from(length.as_micros())?);
    let seconds = start.elapsed().as_secs_f64();
    let grown = packets()?.iter().zip(&packets_before).map(|(now, before)| now - before).collect();
    Ok(Counted {
        seconds,
        logged: self::zxid(ensemble.server(leader))? - zxid,
        packets: grown,
        leader_cpu: (cpu_seconds(ensemble.server(leader))? - cpu) / seconds,
    })
}

impl Counted {
    #[allow(clippy::cast_precision_loss, reason = "counts of a minute are small")]
    fn row(&self, load: &Load) -> String {
        let logged = self.logged as f64 / self.seconds;
        let packets: Vec<String> = self
            .packets
            .iter()
            .map(|packets| format!("{:.0}", *packets as f64 / self.seconds))
            .collect();
        let total: u64 = self.packets.iter().sum();
        let each = load.timeout.as_secs_f64() / load.sessions as f64;
        format!(
            "| {} | {} s | {logged:.1} | {:.2} | {} | {:.2} | {:.0} % |\n",
            load.name,
            load.timeout.as_secs(),
            logged * each,
            packets.join(", "),
            total as f64 / self.seconds * each,
            100.0 * self.leader_cpu
        )
    }
}

/// Returns the last zxid that the server has logged. Each logged write takes one zxid.
fn zxid(server: &Server) -> Result<u64, Error> {
    let srvr = server.four_letter("srvr")?;
    let text = srvr.lines().find_map(|line| line.strip_prefix("Zxid: 0x"));
    Ok(u64::from_str_radix(text.ok_or("srvr has no zxid")?.trim(), 16)?)
}

/// Returns how many requests and pings the server has received from clients.
fn packets_received(server: &Server) -> Result<u64, Error> {
    let mntr = server.four_letter("mntr")?;
    let text = mntr.lines().find_map(|line| line.strip_prefix("zk_packets_received\t"));
    Ok(text.ok_or("mntr has no zk_packets_received")?.trim().parse()?)
}

/// Returns the processor time of the server's process in seconds.
fn cpu_seconds(server: &Server) -> Result<f64, Error> {
    let pid = server.pid().ok_or("the server does not run")?;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, rest) = stat.rsplit_once(") ").ok_or("no stat of the server")?;
    // Fields 14 and 15 are user and system time; `rest` begins with field 3.
    let times = rest.split(' ').skip(11).take(2).map(str::parse::<u32>);
    let times: u32 = times.collect::<Result<Vec<_>, _>>()?.iter().sum();
    Ok(f64::from(times) / CLOCK_TICKS_PER_SECOND)
}

const LOADS: [Load; 2] = [
    Load { name: "200 holders", sessions: 200, timeout: Duration::from_secs(4), queue: Queue::Own },
    Load {
        name: "1 holder and 999 waiters",
        sessions: 1_000,
        timeout: Duration::from_secs(10),
        queue: Queue::Shared,
    },
];

const HEADER: &str = "\
| load | T | logged writes/s | per session and T | requests/s by server | per session and T | leader CPU |
|---|---:|---:|---:|---:|---:|---:|
";

/// Prefix of the paths of all locks.
const ROOT: &str = "/write-rate-";
const LENGTH: Duration = Duration::from_secs(60);
const START_LIMIT: Duration = Duration::from_secs(60);
/// The value of `getconf CLK_TCK` on Linux.
const CLOCK_TICKS_PER_SECOND: f64 = 100.0;
