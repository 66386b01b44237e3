//! Plain operations.

use std::time::Duration;

use clap::Args as ClapArgs;
use serde_json::{Value, json};
use zk_recipes::session::limits::NODES_AT_ONCE;
use zk_recipes::session::{
    Acl, Client, CreateMode, Error, ErrorCode, Outcome, ParentMode, Retry, Stat, path,
};

use crate::acl::NewNodeAcl;
use crate::data::NewData;
use crate::failure::{Failure, NO_CHROOT};
use crate::output::{Output, data_json};
use crate::progress::Progress;
use crate::sessions::Sessions;
use crate::subtree::{TreeSize, checked, sorted_paths};

/// The `create` command.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  zk create /app/flags '{\"dark\":true}'
  zk create /app/teams/blue --parents
  zk create /app/task- --sequential --ephemeral
  zk create /app/secret 42 --acl auth::cdrwa --auth digest:alice:secret")]
pub(crate) struct Create {
    /// The path; with --sequential, the part before the number.
    pub(crate) path: String,
    #[command(flatten)]
    pub(crate) data: NewData,
    /// The node is deleted with the session, a session timeout after this command has
    /// ended.
    #[arg(long, conflicts_with_all = ["container", "ttl"])]
    pub(crate) ephemeral: bool,
    /// The server appends a growing number.
    #[arg(long, conflicts_with = "container")]
    pub(crate) sequential: bool,
    /// The server removes the node when its last child has been gone for a while.
    #[arg(long, conflicts_with = "ttl")]
    pub(crate) container: bool,
    /// The server removes the node after so many milliseconds without a change
    /// and without children. It must have been started with TTL nodes enabled.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=0xff_ffff_ffff))]
    pub(crate) ttl: Option<u64>,
    /// Create the missing parents, too.
    #[arg(long)]
    pub(crate) parents: bool,

    #[command(flatten)]
    pub(crate) acl: NewNodeAcl,
}

pub(crate) async fn revoke(
    sessions: &mut Sessions,
    client: &Client,
    node: &str,
    output: Output,
) -> Result<(), Failure> {
    let asked = sessions.run_connected(request_revocation(client, node, output)).await;
    asked.map_err(Failure::of_write)?
}

async fn request_revocation(client: &Client, node: &str, output: Output) -> Result<(), Failure> {
    // The request replaces the data of the node. Only the ephemeral nodes of holders are meant for it.
    if client.exists(node).await?.is_some_and(|stat| !stat.is_ephemeral()) {
        let why = "not a holder's node, which is ephemeral; zk participants lists those of a lock";
        return Err(Failure::other(format!("{node}: {why}")));
    }
    if zk_recipes::revoke(client, node).await? {
        done(node, "revocation requested", output)
    } else {
        Err(Failure::other(format!("{node}: nobody holds it, there is no such node")))
    }
}

/// Prints what was done, for a command without a result of its own: nothing but with `--json`.
pub(crate) fn done(path: &str, what: &str, output: Output) -> Result<(), Failure> {
    output.print([], || json!({ "path": path, "done": what }))
}

pub(crate) async fn sync(retry: &Retry, path: &str, output: Output) -> Result<(), Failure> {
    retry.run(|client| client.sync(path)).await?;
    done(path, "synced", output)
}

pub(crate) async fn create(
    client: &Client,
    retry: &Retry,
    create: &Create,
    output: Output,
) -> Result<(), Failure> {
    if create.parents {
        create_parents(client, &create.path, create.acl.entries()).await?;
    }
    let (path, data) = (create.path.as_str(), create.data.or_empty()?);
    let acl = create.acl.entries();
    let create = |client: &Client| {
        let node = client.create_builder(path).data(data).acl(acl).mode(mode(create));
        match create.ttl {
            Some(ttl_ms) => node.ttl(Duration::from_millis(ttl_ms)).create(),
            None => node.create(),
        }
    };
    let created = retry.run(create).await;
    let hint = "create the parents first, or use --parents";
    let ttl_hint = "nodes with a time to live need extendedTypesEnabled=true on the servers";
    let created = created.map_err(|error| {
        let failure = Failure::of_data(error, data.len());
        // Only the chroot can be missing above a top-level node, and the error says so.
        let failure = match path::parent(path) {
            Some("/") => failure,
            _ => failure.with_hint(ErrorCode::NO_NODE, hint),
        };
        failure.with_hint(ErrorCode::UNIMPLEMENTED, ttl_hint)
    })?;
    output.print([created.path.clone()], || json!({ "path": created.path }))
}

fn mode(create: &Create) -> CreateMode {
    match (create.ephemeral, create.sequential, create.container) {
        (_, _, true) => CreateMode::Container,
        (false, false, false) => CreateMode::Persistent,
        (false, true, false) => CreateMode::PersistentSequential,
        (true, false, false) => CreateMode::Ephemeral,
        (true, true, false) => CreateMode::EphemeralSequential,
    }
}

/// Creates the missing parents, from the lowest one up: an access control list may deny the creation
/// of a node that exists already.
async fn create_parents(client: &Client, path: &str, acl: &[Acl]) -> Result<(), Error> {
    match path::parent(path) {
        None | Some("/") => Ok(()),
        Some(parent) => client.ensure_path_with_acl(parent, ParentMode::Persistent, acl).await,
    }
}

pub(crate) async fn get(retry: &Retry, path: &str, output: Output) -> Result<(), Failure> {
    let node = retry.get_data(path).await?;
    let json = || json!({ "data": node.nullable().map(data_json), "stat": stat_json(&node.stat) });
    output.print_data(&node.data, json)
}

pub(crate) async fn set(
    retry: &Retry,
    path: &str,
    data: &NewData,
    version: Option<i32>,
    output: Output,
) -> Result<(), Failure> {
    let data = data.required()?;
    let set = retry.run(|client| client.set_data(path, data, version)).await;
    let hint = "zk create, or set --create, creates it";
    let stat = set
        .map_err(|error| Failure::of_data(error, data.len()).with_hint(ErrorCode::NO_NODE, hint))?;
    output.print([], || json!({ "stat": stat_json(&stat) }))
}

/// Replaces the data of a node, and creates the node if it does not exist.
pub(crate) async fn set_or_create(
    retry: &Retry,
    path: &str,
    data: &NewData,
    acl: &NewNodeAcl,
    output: Output,
) -> Result<(), Failure> {
    let data = data.required()?;
    let set = || retry.run(|client| client.set_data(path, data, None));
    let is = |done: &Result<_, Error>, code| {
        done.as_ref().is_err_and(|error: &Error| error.code() == Some(code))
    };
    let mut stat = set().await;
    if is(&stat, ErrorCode::NO_NODE) {
        let create = |client: &Client| {
            client.create_with_acl(path, data, CreateMode::Persistent, acl.entries())
        };
        let created = retry.run(create).await;
        stat = created.map(|created| created.stat);
    }
    if is(&stat, ErrorCode::NODE_EXISTS) {
        // Another client has created it meanwhile.
        stat = set().await;
    }
    let hint = "create the parents first: zk create --parents";
    let stat = stat
        .map_err(|error| Failure::of_data(error, data.len()).with_hint(ErrorCode::NO_NODE, hint))?;
    output.print([], || json!({ "stat": stat_json(&stat) }))
}

pub(crate) async fn delete(
    retry: &Retry,
    path: &str,
    version: Option<i32>,
    output: Output,
) -> Result<(), Failure> {
    let deleted = retry.run(|client| client.delete(path, version)).await;
    let hint = "--recursive deletes what is below, too";
    deleted.map_err(|error| deletion_failure(error).with_hint(ErrorCode::NOT_EMPTY, hint))?;
    print_deleted(path, 1, output)
}

fn deletion_failure(failure: impl Into<Failure>) -> Failure {
    let hint = "servers delete neither the root nor /zookeeper and its quota and config; \
                name the nodes below";
    failure.into().with_hint(ErrorCode::BAD_ARGUMENTS, hint)
}

/// Deletes a node and everything below it, from the leaves up. Nodes that other clients create
/// meanwhile are deleted too, unless they are created faster than deleted.
pub(crate) async fn delete_recursive(
    client: &Client,
    retry: &Retry,
    path: &str,
    version: Option<i32>,
    output: Output,
) -> Result<(), Failure> {
    let mut progress = Progress::new("deleted", None);
    let ended = async {
        // The server checks the version before it looks for children.
        match retry.run(|client| client.delete(path, version)).await {
            Err(error) if error.is_not_empty() => {}
            Ok(()) => {
                progress.one_more();
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
        delete_below(client, retry, path, &mut progress).await?;
        delete_branch(retry, path, version, &mut progress).await
    };
    let ended: Result<(), Failure> = ended.await;
    progress.hide();
    ended.map_err(|failure| deletion_failure(failure).with_deleted(progress.done()))?;
    print_deleted(path, progress.done(), output)
}

/// Prints the number of deleted nodes, with `--json` only.
fn print_deleted(path: &str, nodes: usize, output: Output) -> Result<(), Failure> {
    output.print([], || json!({ "path": path, "done": "deleted", "nodes": nodes }))
}

/// Deletes what is below `path` now, a hundred nodes at once. The server deletes them in this order:
/// children before their parents. Nodes with new children stay.
async fn delete_below(
    client: &Client,
    retry: &Retry,
    path: &str,
    progress: &mut Progress,
) -> Result<(), Failure> {
    let (mut paths, _) = sorted_paths(client, retry, path).await?;
    paths.reverse();
    paths.pop();
    for chunk in paths.chunks(NODES_AT_ONCE) {
        let asked: Vec<_> = chunk.iter().map(|path| client.delete(path, None)).collect();
        let mut failed: Option<Error> = None;
        // All of these deletes are under way. Those after a failed one are applied as well.
        for (path, asked) in chunk.iter().zip(asked) {
            let deleted = match asked.await {
                Err(error) if error.code().is_none() && failed.is_none() => {
                    delete_again(retry, path, error.outcome()).await
                }
                deleted => deleted,
            };
            match deleted {
                Ok(()) => progress.one_more(),
                Err(error)
                    if matches!(error.code(), Some(ErrorCode::NO_NODE | ErrorCode::NOT_EMPTY)) => {}
                Err(error) => failed = Some(first_or_unknown(failed, error)),
            }
        }
        if let Some(error) = failed {
            return Err(error.into());
        }
    }
    Ok(())
}

/// Returns the first error, unless only the second one is of a delete that may have been applied.
fn first_or_unknown(first: Option<Error>, second: Error) -> Error {
    let is_unknown = second.outcome() == Outcome::Unknown;
    first.filter(|first| !is_unknown || first.outcome() == Outcome::Unknown).unwrap_or(second)
}

/// Repeats a delete that has failed with this outcome because the connection was lost. A repeated
/// delete does no harm.
async fn delete_again(retry: &Retry, path: &str, outcome: Outcome) -> Result<(), Error> {
    match retry.delete(path, None).await {
        Err(error) if error.is_no_node() && outcome == Outcome::Unknown => Ok(()),
        deleted => deleted,
    }
}

/// Deletes the node at `path` and everything below it. `progress` counts the deleted nodes.
pub(crate) async fn delete_branch(
    retry: &Retry,
    path: &str,
    version: Option<i32>,
    progress: &mut Progress,
) -> Result<(), Failure> {
    let mut branch = vec![path.to_owned()];
    let (mut size, mut in_vain) = (TreeSize::default(), 0);
    while let Some(node) = branch.last().cloned() {
        let result = match branch.len() {
            1 => retry.run(|client| client.delete(path, version)).await,
            // A repeated delete does no harm, because every node at this path must be deleted.
            _ => retry.delete(&node, None).await,
        };
        match result {
            Ok(()) => {
                branch.pop();
                progress.one_more();
                in_vain = 0;
            }
            Err(error) if error.is_not_empty() => {
                // Each time, another client may have added a node.
                in_vain += 1;
                if in_vain > LISTED_IN_VAIN_MAX {
                    let why = "has got new nodes below it as fast as they were listed";
                    return Err(Failure::other(format!("{node} {why}")));
                }
                let children = match retry.get_children(&node).await {
                    Ok(children) => checked(children)?,
                    Err(error) if error.is_no_node() => continue,
                    Err(error) => return Err(error.into()),
                };
                size.add(&node, &children)?;
                branch.extend(children.names.names().map(|name| path::child(&node, &name)));
            }
            // Another client was faster. Only the node on the command line must have existed.
            Err(error) if error.is_no_node() && branch.len() > 1 => {
                branch.pop();
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Lists in a row without a node deleted, of which each level of the tree takes one.
const LISTED_IN_VAIN_MAX: usize = 2_000;

pub(crate) async fn exists(retry: &Retry, path: &str, output: Output) -> Result<(), Failure> {
    let stat = retry.exists(path).await?;
    output.print(
        [stat.is_some().to_string()],
        || json!({ "exists": stat.is_some(), "stat": stat.as_ref().map(stat_json) }),
    )?;
    match stat {
        Some(_) => Ok(()),
        None => Err(missing(path)),
    }
}

fn missing(path: &str) -> Failure {
    match path {
        "/" => Failure::other(format!("/: {NO_CHROOT}")),
        path => Failure::other(format!("{path} does not exist")),
    }
}

pub(crate) async fn ls(retry: &Retry, path: &str, output: Output) -> Result<(), Failure> {
    let children = checked(retry.get_children(path).await?)?.names;
    let mut names: Vec<String> = children.names().map(std::borrow::Cow::into_owned).collect();
    names.sort_unstable();
    output.print(names.iter().cloned(), || names.iter().map(|name| json!(name)).collect())
}

pub(crate) async fn stat(retry: &Retry, path: &str, output: Output) -> Result<(), Failure> {
    let Some(stat) = retry.exists(path).await? else {
        return Err(missing(path));
    };
    output.print(stat_lines(&stat), || stat_json(&stat))
}

fn stat_lines(stat: &Stat) -> Vec<String> {
    vec![
        format!("czxid = {}", stat.czxid),
        format!("mzxid = {}", stat.mzxid),
        format!("pzxid = {}", stat.pzxid),
        format!("ctime = {} ms", stat.ctime_ms),
        format!("mtime = {} ms", stat.mtime_ms),
        format!("version = {}", stat.version),
        format!("cversion = {}", stat.cversion),
        format!("aversion = {}", stat.aversion),
        format!("ephemeralOwner = {}", stat.ephemeral_owner),
        format!("dataLength = {}", stat.data_length),
        format!("numChildren = {}", stat.num_children),
    ]
}

fn stat_json(stat: &Stat) -> Value {
    json!({
        "czxid": stat.czxid.0,
        "mzxid": stat.mzxid.0,
        "pzxid": stat.pzxid.0,
        "ctime": stat.ctime_ms,
        "mtime": stat.mtime_ms,
        "version": stat.version,
        "cversion": stat.cversion,
        "aversion": stat.aversion,
        "ephemeralOwner": stat.ephemeral_owner.to_string(),
        "dataLength": stat.data_length,
        "numChildren": stat.num_children,
    })
}
