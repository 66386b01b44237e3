//! `zk counter`: the number in a node, as Curator's `DistributedAtomicLong` has it.

use zk_coordination::{AtomicError, AtomicInteger, AtomicLong, AtomicNumber, Number};
use zk_recipes::session::{Client, ErrorCode, Retry};

use crate::acl::NewNodeAcl;
use crate::prelude::{ClapArgs, Failure, Result, Session, json};

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
    path: String,

    /// Add this number, and print the new one.
    #[arg(long, value_name = "N", allow_negative_numbers = true, conflicts_with = "set")]
    add: Option<i64>,

    /// Add only once for this id, and print the number right after that addition.
    ///
    /// The addition leaves the node operation-ID below the counter.
    #[arg(long, value_name = "ID", requires = "add")]
    once: Option<String>,

    /// Set the number, whatever it is.
    ///
    /// A node whose data has another length than the number is no counter, and stays as it is. A missing
    /// node and one without data are 0.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    set: Option<i64>,

    /// Let --set replace data of any length. It then needs no permission to read the node.
    #[arg(long, requires = "set")]
    force: bool,

    /// The number has 4 bytes, as in Curator's DistributedAtomicInteger.
    #[arg(long)]
    integer: bool,

    #[command(flatten)]
    acl: NewNodeAcl,
}

pub(crate) async fn run(session: &Session, counter: &Counter) -> Result<()> {
    if counter.set.is_some() && !counter.force {
        refuse_other_data(&session.retry, counter).await?;
    }
    let is_read = counter.add.is_none() && counter.set.is_none();
    let applied = session.run_connected(apply(&session.client, counter)).await;
    let number = applied.map_err(|silent| if is_read { silent } else { silent.of_write() })??;
    session.output.print([number.to_string()], || json!({ "number": number }))
}

/// Refuses a node that is no counter: its path may be mistyped.
async fn refuse_other_data(retry: &Retry, counter: &Counter) -> Result<()> {
    let len = match retry.get_data(&counter.path).await {
        Err(error) if error.is_no_node() => 0,
        Err(error) => {
            let hint = "--force sets the number without reading it";
            return Err(Failure::from(error).with_hint(ErrorCode::NO_AUTH, hint));
        }
        Ok(node) => node.data.len(),
    };
    let wanted = if counter.integer { size_of::<i32>() } else { size_of::<i64>() };
    if len == 0 || len == wanted {
        return Ok(());
    }
    let path = &counter.path;
    let why = format!("the node has {len} bytes of data, and the number has {wanted}");
    Err(Failure::other(format!("{path}: {why}; --force replaces them")))
}

async fn apply(client: &Client, counter: &Counter) -> Result<i64> {
    Ok(if counter.integer {
        change(AtomicInteger::new(client, &counter.path)?, counter).await?.into()
    } else {
        change(AtomicLong::new(client, &counter.path)?, counter).await?
    })
}

async fn change<N>(number: AtomicNumber<N>, counter: &Counter) -> Result<N>
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
