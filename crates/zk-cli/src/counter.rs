//! `zk counter`: the number in a node, as Curator's `DistributedAtomicLong` has it.

use clap::Args as ClapArgs;
use serde_json::json;
use zk_coordination::{AtomicError, AtomicInteger, AtomicLong, AtomicNumber, Number};
use zk_recipes::session::Client;

use crate::acl::NewNodeAcl;
use crate::failure::Failure;
use crate::output::Output;

/// The `counter` command.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  zk counter /counters/orders
  zk counter /counters/orders --add 5
  zk counter /counters/orders --add -2 --once order-4711
  zk counter /counters/orders --set 0")]
pub(crate) struct Counter {
    /// The node.
    pub(crate) path: String,

    /// Add this number, and print the new one.
    #[arg(long, value_name = "N", allow_negative_numbers = true, conflicts_with = "set")]
    add: Option<i64>,

    /// Add only once for this id, and print the number right after that addition.
    ///
    /// The addition leaves the node operation-ID below the counter.
    #[arg(long, value_name = "ID", requires = "add")]
    once: Option<String>,

    /// Set the number unconditionally.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    set: Option<i64>,

    /// The number has 4 bytes, as in Curator's DistributedAtomicInteger.
    #[arg(long)]
    integer: bool,

    #[command(flatten)]
    acl: NewNodeAcl,
}

/// Reads or changes the number, and prints it.
pub(crate) async fn run(client: &Client, counter: &Counter, output: Output) -> Result<(), Failure> {
    let number = match counter.integer {
        true => change(AtomicInteger::new(client, &counter.path)?, counter).await?.into(),
        false => change(AtomicLong::new(client, &counter.path)?, counter).await?,
    };
    output.print([number.to_string()], || json!({ "number": number }))
}

async fn change<N>(number: AtomicNumber<N>, counter: &Counter) -> Result<N, Failure>
where
    N: Number + TryFrom<i64>,
{
    let number = number.with_acl(counter.acl.entries());
    let fit = |wide: i64| {
        let out_of_range = |_| Failure::usage(format!("{wide}: the number has 4 bytes"));
        N::try_from(wide).map_err(out_of_range)
    };
    let changed = match (counter.add, counter.set, &counter.once) {
        (Some(delta), _, Some(id)) => number.add_once(id, fit(delta)?).await,
        (Some(delta), _, None) => number.add(fit(delta)?).await,
        (None, Some(to), _) => number.set(fit(to)?).await.and(Ok(fit(to)?)),
        (None, None, _) => number.get().await,
    };
    Ok(changed?)
}

impl From<AtomicError> for Failure {
    fn from(error: AtomicError) -> Self {
        match error {
            AtomicError::Client(error) => error.into(),
            AtomicError::InvalidOperationId { .. } => Self::usage(error.to_string()),
            error => Self::other(error.to_string()),
        }
    }
}
