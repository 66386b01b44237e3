//! `zk barrier`: a barrier on the node of Curator's `DistributedBarrier`.

use std::time::Duration;

use clap::Args as ClapArgs;
use zk_coordination::{Barrier, BarrierError};
use zk_recipes::session::Client;

use crate::failure::Failure;
use crate::nodes::done;
use crate::output::Output;
use crate::sessions::Sessions;
use crate::time_arg::positive_seconds;

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
    pub(crate) path: String,

    /// Set the barrier, and do not wait.
    #[arg(long, conflicts_with_all = ["remove", "timeout"])]
    set: bool,

    /// Remove the barrier, and do not wait.
    #[arg(long, conflicts_with = "timeout")]
    remove: bool,

    /// Wait for at most so long; exit status 75 if the barrier is still set.
    #[arg(long, value_name = "SECONDS", value_parser = positive_seconds)]
    timeout: Option<Duration>,
}

/// Sets or removes the barrier, or waits until it is not set.
pub(crate) async fn run(
    sessions: &mut Sessions,
    client: &Client,
    args: &BarrierArgs,
    output: Output,
) -> Result<(), Failure> {
    let barrier = Barrier::new(client, &args.path)?;
    let what = match args {
        BarrierArgs { set: true, .. } => {
            barrier.set().await?;
            "set"
        }
        BarrierArgs { remove: true, .. } => {
            barrier.remove().await?;
            "removed"
        }
        BarrierArgs { timeout: None, .. } => {
            sessions.attend(barrier.wait()).await??;
            "waited"
        }
        BarrierArgs { timeout: Some(timeout), .. } => {
            if !sessions.attend(barrier.wait_timeout(*timeout)).await?? {
                return Err(Failure::still_set(&args.path));
            }
            "waited"
        }
    };
    done(&args.path, what, output)
}

impl From<BarrierError> for Failure {
    fn from(error: BarrierError) -> Self {
        match error {
            BarrierError::Client(error) => error.into(),
            error => Self::other(error.to_string()),
        }
    }
}
