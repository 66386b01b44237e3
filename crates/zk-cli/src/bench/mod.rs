//! `zk bench`: the speed of requests and locks on an ensemble.
//!
//! * [`measure`] does the work and takes the times.
//! * [`plot`] prints them.

mod measure;
mod plot;

use std::time::Duration;

use clap::Args as ClapArgs;
use zk_recipes::session::{ErrorCode, ParentMode, Retry, path};

use self::measure::Bench;
use crate::acl::NewNodeAcl;
use crate::failure::Failure;
use crate::nodes;
use crate::progress::{Progress, ProgressLine};
use crate::sessions::{Session, Sessions};
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

pub(crate) async fn run(mut sessions: Sessions, args: &BenchArgs) -> Result<u8, Failure> {
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
) -> Result<(), Failure> {
    let acl = args.acl.entries();
    client.ensure_path_with_acl(root, ParentMode::Containers, acl).await?;
    let size = usize::try_from(args.size).unwrap_or(usize::MAX);
    let bench = Bench::new(client, root, acl, size, args.seconds).await?;
    let mut line = ProgressLine::new();
    if !output.is_json() {
        output.print([plot::HEAD.to_owned()], serde_json::Value::default)?;
    }
    for (at, work) in measure::ALL.iter().enumerate() {
        line.show(format_args!("measuring {}, {} of {}", work.name(), at + 1, measure::ALL.len()));
        let times = bench.measure(*work).await?;
        line.remove();
        output.print([plot::line(work.name(), &times)], || plot::to_json(work.name(), &times))?;
    }
    Ok(())
}

/// Returns those of a path and its parents that do not exist, from the lowest one up.
async fn missing<'a>(retry: &Retry, path: &'a str) -> Result<Vec<&'a str>, Failure> {
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
async fn remove(retry: &Retry, root: &str, ours: &[&str]) -> Result<(), Failure> {
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
