//! `zk bench`: the speed of requests and locks on an ensemble.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};

use tokio::task::JoinSet;
use zk_recipes::Mutex;
use zk_recipes::session::limits::INFLIGHT_BYTES_MAX;
use zk_recipes::session::{CreateMode, ErrorCode, ParentMode, Pending, Retry, path};

use crate::acl::NewNodeAcl;
use crate::nodes;
use crate::prelude::{
    ClapArgs, Duration, Failure, Instant, Output, Result, Session, Sessions, Value, clock, json,
};
use crate::progress::{Progress, ProgressLine};
use crate::signals::Signals;
use crate::time_arg::positive_seconds;

/// The `bench` command.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
It puts a real load on the ensemble, from one connection, and creates its nodes below PATH. They are \
deleted at the end, with the parents of PATH that did not exist. If the command is killed, the servers \
delete them: they are ephemeral nodes and containers. A node that exists at PATH stays.

  sync        a round trip to the leader
  read        one read after the other
  write       one write after the other, each on the disks of a majority
  reads       100 reads under way
  writes      100 writes under way, or fewer with 256 KiB in all
  lock        a free lock: acquire and release it
  hand-off    a lock with 10 waiters: from a release to the next holder

PER SECOND counts completed requests, holds of the lock, or hand-offs. The plot has a column for each \
doubling of the time, from 31 µs at the left to a second and more at the right.

Example:
  zk bench /bench --seconds 0.5 --size 1000")]
pub(crate) struct BenchArgs {
    /// The node below which the nodes are created; it is created if it does not exist.
    #[arg(default_value = "/zk-bench")]
    path: String,

    /// Time for each measurement.
    #[arg(long, value_name = "S", default_value = "2", value_parser = seconds)]
    seconds: Duration,

    /// Bytes of data to read and write.
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = 100,
        value_parser = clap::value_parser!(u32).range(..=SIZE_MAX)
    )]
    size: u32,

    #[command(flatten)]
    acl: NewNodeAcl,
}

/// Parses the time for a measurement. All times are kept until it ends, with 16 bytes each.
fn seconds(text: &str) -> Result<Duration, String> {
    let time = positive_seconds(text)?;
    if time <= Duration::from_secs(60) {
        Ok(time)
    } else {
        Err("write at most 60 seconds".to_owned())
    }
}

/// Servers accept somewhat less than a megabyte for a request, unless `jute.maxbuffer` says more.
const SIZE_MAX: i64 = 1_000_000;

pub(crate) async fn run(mut sessions: Sessions, args: &BenchArgs) -> Result<u8> {
    let mut signals = Signals::new()?;
    let opened = async {
        let session = sessions.open(None).await?;
        let ours = missing(&session.retry, &args.path).await?;
        Ok::<_, Failure>((session, ours))
    };
    let (session, ours) = signals.unless_interrupted(opened).await??;
    let root = path::child(&args.path, &path::random_uuid(&session.client));
    let measuring = measure_all(&session, &root, args);
    let measured = signals.unless_interrupted(measuring).await.and_then(|measured| measured);
    let removed = tokio::select! {
        removed = remove(&session.retry, &root, &ours) => removed,
        _ = signals.next() => Ok(()), // the servers delete the nodes
    };
    sessions.close().await;
    measured.and(removed).map(|()| 0)
}

async fn measure_all(
    Session { client, output, .. }: &Session,
    root: &str,
    args: &BenchArgs,
) -> Result<()> {
    let (acl, time) = (args.acl.entries(), args.seconds);
    client.ensure_path_with_acl(root, ParentMode::Containers, acl).await?;
    let size = usize::try_from(args.size).unwrap_or(usize::MAX);
    let (node, data) = (path::child(root, "data"), vec![b'x'; size]);
    client.create_with_acl(&node, &data, CreateMode::Ephemeral, acl).await?;
    let lock = Mutex::new(client, &path::child(root, "lock"))?.with_acl(acl);
    if !output.is_json {
        output.print([HEAD.to_owned()], Value::default)?;
    }
    let mut report = Report { output: *output, line: ProgressLine::new(), begun: 0 };
    let sync = || client.sync("/");
    let read = || client.get_data(&node);
    let write = || client.set_data(&node, &data, None);
    report.add("sync", requests(time, 1, sync)).await?;
    report.add("read", requests(time, 1, read)).await?;
    report.add("write", requests(time, 1, write)).await?;
    report.add("reads", requests(time, AT_ONCE, read)).await?;
    report.add("writes", requests(time, writes_at_once(size), write)).await?;
    report.add("lock", holds(time, &lock)).await?;
    report.add("hand-off", hand_offs(time, &lock)).await
}

/// Returns those of a path and its parents that do not exist, from the lowest one up.
async fn missing<'a>(retry: &Retry, path: &'a str) -> Result<Vec<&'a str>> {
    let mut missing = Vec::new();
    let mut next = Some(path).filter(|path| *path != "/");
    while let Some(path) = next {
        if retry.exists(path).await?.is_some() {
            break;
        }
        missing.push(path);
        next = path::parent(path).filter(|path| *path != "/");
    }
    Ok(missing)
}

/// Deletes the nodes, and those of the paths above them that this command has created, if they are
/// empty.
async fn remove(retry: &Retry, root: &str, ours: &[&str]) -> Result<()> {
    let gone =
        |error: Option<ErrorCode>| matches!(error, Some(ErrorCode::NO_NODE | ErrorCode::NOT_EMPTY));
    match nodes::delete_branch(retry, root, None, &mut Progress::silent()).await {
        Err(failure) if !failure.is_no_node() => return Err(failure),
        _ => {}
    }
    for path in ours {
        match retry.delete(path, None).await {
            Err(error) if !gone(error.code()) => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

/// The times of one kind of work.
struct Times {
    /// How long each one took, sorted.
    each: Vec<Duration>,
    /// How long all of them took.
    all: Duration,
}

/// Prints the times of one kind of work after the other.
struct Report {
    output: Output,
    line: ProgressLine,
    /// Number of measurements that have begun.
    begun: usize,
}

impl Report {
    /// Does work that returns how long each piece of it took, and prints the times.
    async fn add(
        &mut self,
        name: &str,
        work: impl Future<Output = Result<Vec<Duration>>>,
    ) -> Result<()> {
        self.begun += 1;
        self.line.show(format_args!("measuring {name}, {} of {MEASUREMENTS}", self.begun));
        let begun = clock();
        let each = work.await?;
        let mut times = Times { each, all: clock() - begun };
        times.each.sort_unstable();
        self.line.remove();
        self.output.print([line_of(name, &times)], || to_json(name, &times))
    }
}

const MEASUREMENTS: usize = 7;

/// Keeps so many requests under way.
async fn requests<T>(
    time: Duration,
    at_once: usize,
    send: impl Fn() -> Pending<T>,
) -> Result<Vec<Duration>> {
    let (end, mut times) = (clock() + time, Vec::new());
    let mut sent: VecDeque<(Instant, Pending<T>)> = VecDeque::new();
    loop {
        while sent.len() < at_once && clock() < end {
            sent.push_back((clock(), send()));
        }
        // Answers arrive in the order of the requests.
        let Some((begun, request)) = sent.pop_front() else { return Ok(times) };
        request.await?;
        times.push(clock() - begun);
    }
}

async fn holds(time: Duration, lock: &Mutex) -> Result<Vec<Duration>> {
    let (end, mut times) = (clock() + time, Vec::new());
    while clock() < end {
        let begun = clock();
        lock.acquire().await?.release().await?;
        times.push(clock() - begun);
    }
    Ok(times)
}

async fn hand_offs(time: Duration, lock: &Mutex) -> Result<Vec<Duration>> {
    let end = clock() + time;
    let released: Arc<StdMutex<Option<Instant>>> = Arc::default();
    let mut waiters = JoinSet::new();
    // One of them holds the lock.
    for _ in 0..=WAITERS {
        let (lock, released) = (lock.clone(), Arc::clone(&released));
        waiters.spawn(async move {
            let mut times = Vec::new();
            while clock() < end {
                let guard = lock.acquire().await?;
                let last = released.lock().unwrap_or_else(PoisonError::into_inner).take();
                times.extend(last.map(|last| clock() - last));
                *released.lock().unwrap_or_else(PoisonError::into_inner) = Some(clock());
                guard.release().await?;
            }
            Ok::<_, Failure>(times)
        });
    }
    let mut times = Vec::new();
    while let Some(ended) = waiters.join_next().await {
        let ended = ended.map_err(|error| Failure::other(format!("a waiter: {error}")))?;
        times.extend(ended?);
    }
    Ok(times)
}

/// Requests that are under way at once.
const AT_ONCE: usize = 100;

/// Returns the number of writes that are under way at once. More bytes than a session sends before an
/// answer would wait in this process, and their times would count that wait.
fn writes_at_once(size: usize) -> usize {
    (INFLIGHT_BYTES_MAX / size.max(1)).clamp(1, AT_ONCE)
}

/// Waiters in the queue of the lock.
const WAITERS: usize = 10;

/// The head above the lines.
const HEAD: &str = "WORK       PER SECOND        P50        P99        MAX   31 µs … 1 s";

/// Columns of the plot: the first one ends at 31 µs, each one at twice the time of the one before,
/// and the last one has all that is longer.
const COLUMNS: usize = 17;
const FIRST_COLUMN: Duration = Duration::from_micros(31);

fn line_of(name: &str, times: &Times) -> String {
    let shown = |time: Duration| format!("{:.2} ms", time.as_secs_f64() * 1_000.0);
    format!(
        "{name:<10} {:>10.0} {:>10} {:>10} {:>10}   {}",
        per_second(times),
        shown(quantile(times, 50)),
        shown(quantile(times, 99)),
        shown(quantile(times, 100)),
        bars(&columns(times)),
    )
}

fn to_json(name: &str, times: &Times) -> Value {
    let micros = |time: Duration| u64::try_from(time.as_micros()).ok();
    json!({
        "work": name,
        "count": times.each.len(),
        "per_second": per_second(times),
        "p50_us": micros(quantile(times, 50)),
        "p99_us": micros(quantile(times, 99)),
        "max_us": micros(quantile(times, 100)),
    })
}

fn per_second(times: &Times) -> f64 {
    let count = u32::try_from(times.each.len()).unwrap_or(u32::MAX);
    f64::from(count) / times.all.as_secs_f64()
}

/// Returns the time that so many of a hundred do not exceed.
fn quantile(times: &Times, percent: usize) -> Duration {
    let rank = (times.each.len() * percent).div_ceil(100).saturating_sub(1);
    times.each.get(rank).copied().unwrap_or_default()
}

fn columns(times: &Times) -> [usize; COLUMNS] {
    let mut columns = [0; COLUMNS];
    for time in &times.each {
        let column = (0..COLUMNS - 1).find(|column| *time <= FIRST_COLUMN * (1 << column));
        columns[column.unwrap_or(COLUMNS - 1)] += 1;
    }
    columns
}

/// Draws a bar for each column. The longest bar fills the line. A column with any time has a bar.
fn bars(columns: &[usize]) -> String {
    let most = columns.iter().copied().max().unwrap_or(0).max(1);
    let bar = |count: &usize| match *count {
        0 => ' ',
        count => BARS[(count * BARS.len()).div_ceil(most) - 1],
    };
    columns.iter().map(bar).collect::<String>().trim_end().to_owned()
}

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_writes_fit_into_what_a_session_sends_at_once() {
        assert_eq!([0, 100, 2_621].map(writes_at_once), [100; 3]);
        assert_eq!([2_622, 100_000, 1_000_000].map(writes_at_once), [99, 2, 1]);
    }

    fn times(micros: &[u64]) -> Times {
        let each = micros.iter().map(|micros| Duration::from_micros(*micros)).collect();
        Times { each, all: Duration::from_secs(2) }
    }

    #[test]
    fn line_has_quantiles_and_bars() {
        let mut micros = vec![30; 90];
        micros.extend([100; 9]);
        micros.push(5_000_000);
        assert_eq!(
            line_of("read", &times(&micros)),
            "read               50    0.03 ms    0.10 ms 5000.00 ms   █ ▁             ▁"
        );
    }

    #[test]
    fn line_without_times_has_zeros() {
        let line = line_of("lock", &times(&[]));
        assert!(line.starts_with("lock                0    0.00 ms"), "{line}");
    }
}
