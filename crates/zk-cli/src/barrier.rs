//! `zk barrier`: a barrier on the node of Curator's `DistributedBarrier`.

use std::net::IpAddr;

use zk_coordination::{Barrier, BarrierError};
use zk_recipes::session::{ErrorCode, Retry};

use crate::acl::NewNodeAcl;
use crate::prelude::{ClapArgs, Duration, Failure, Instant, Result, Session, clock};
use crate::sessions::until;
use crate::time_arg::seconds;

/// The `barrier` command.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  zk barrier /barriers/migration --set
  zk barrier /barriers/migration --timeout 1 || echo 'it is still set'
  zk barrier /barriers/migration --remove
  zk barrier /barriers/migration && ./backup.sh")]
pub(crate) struct BarrierArgs {
    /// The node.
    path: String,

    /// Set the barrier, and do not wait.
    #[arg(long, conflicts_with_all = ["remove", "timeout"])]
    set: bool,

    /// Remove the barrier, and do not wait.
    ///
    /// A node that is ephemeral, or has other data than an address, is no barrier and stays. So does
    /// a node that this client may not read.
    #[arg(long, conflicts_with = "timeout")]
    remove: bool,

    /// Wait for at most so long; 0 for no wait. The exit status is 75 if the barrier is still set.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,

    #[command(flatten)]
    acl: NewNodeAcl,
}

impl BarrierArgs {
    /// Returns when a wait that begins now ends. A single look has the usual limits.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.timeout.filter(|timeout| !timeout.is_zero()).map(|timeout| clock() + timeout)
    }
}

pub(crate) async fn run(session: &Session, args: &BarrierArgs) -> Result<()> {
    let barrier = Barrier::new(&session.client, &args.path)?.with_acl(args.acl.entries());
    let what = match args {
        BarrierArgs { set: true, .. } => {
            session.run_connected(barrier.set()).await.map_err(Failure::of_write)??;
            "set"
        }
        BarrierArgs { remove: true, .. } => {
            refuse_other_node(&session.retry, &args.path).await?;
            session.run_connected(barrier.remove()).await.map_err(Failure::of_write)??;
            "removed"
        }
        BarrierArgs { timeout: Some(Duration::ZERO), .. } => {
            if !session.run_connected(is_open(&session.retry, &barrier)).await?? {
                return Err(Failure::still_set(&args.path));
            }
            "waited"
        }
        BarrierArgs { .. } => {
            wait(session, &barrier).await?;
            "waited"
        }
    };
    session.print_done(&args.path, what)
}

async fn wait(session: &Session, barrier: &Barrier) -> Result<()> {
    // Without a majority, nobody can tell whether the barrier is set.
    session.wait_for_majority().await?;
    let waited = tokio::select! {
        waited = session.run_connected(barrier.wait()) => Some(waited),
        () = until(session.deadline) => None,
    };
    session.count_answers();
    match waited {
        Some(waited) => Ok(waited??),
        None if session.was_of_use() => Err(Failure::still_set(barrier.path())),
        None => Err(session.silent()),
    }
}

async fn is_open(retry: &Retry, barrier: &Barrier) -> Result<bool> {
    // This server may not have the newest state of the barrier.
    retry.run(|client| client.sync(barrier.path())).await?;
    Ok(!barrier.is_set().await?)
}

/// Refuses a node that no barrier has: its path may be mistyped. Barriers of this command have no data,
/// and those of Java services have an address by default.
async fn refuse_other_node(retry: &Retry, path: &str) -> Result<()> {
    let node = match retry.get_data(path).await {
        Err(error) if error.is_no_node() => return Ok(()),
        Err(error) => {
            let hint = "the node may be no barrier; zk delete removes it unread";
            return Err(Failure::from(error).with_hint(ErrorCode::NO_AUTH, hint));
        }
        Ok(node) => node,
    };
    let why = match &node.data[..] {
        _ if node.stat.num_children > 0 => "the node has children",
        _ if node.stat.is_ephemeral() => "the node is ephemeral; zk delete removes it",
        [] => return Ok(()),
        data if is_address(data) => return Ok(()),
        _ => "the node has other data; zk delete removes it",
    };
    Err(Failure::other(format!("{path}: not a barrier, for {why}")))
}

/// Returns true for an address as Java prints it, which may have a zone.
fn is_address(data: &[u8]) -> bool {
    let text = std::str::from_utf8(data).unwrap_or_default();
    let address = text.split('%').next().unwrap_or_default();
    address.parse::<IpAddr>().is_ok()
}

impl From<BarrierError> for Failure {
    fn from(error: BarrierError) -> Self {
        match error {
            BarrierError::Client(error) => error.into(),
            error => Self::other(error.to_string()),
        }
    }
}
