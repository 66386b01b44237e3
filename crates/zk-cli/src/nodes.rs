//! Plain operations.

use zk_recipes::session::limits::NODES_AT_ONCE;
use zk_recipes::session::{Client, CreateMode, Error, ErrorCode, ParentMode, Retry, Stat, path};

use crate::acl::NewNodeAcl;
use crate::at_once::write_each;
use crate::data::NewData;
use crate::failure::NO_CHROOT;
use crate::node_arg::Node;
use crate::output::data_json;
use crate::prelude::{ClapArgs, Duration, Failure, Result, Session, Value, json};
use crate::progress::Progress;
use crate::subtree::{TreeSize, checked, sorted_paths, visible_paths};

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
    path: String,
    #[command(flatten)]
    pub(crate) data: NewData,
    /// The node is deleted with the session, a session timeout after this command has
    /// ended.
    #[arg(long, conflicts_with_all = ["container", "ttl"])]
    ephemeral: bool,
    /// The server appends a growing number.
    #[arg(long, conflicts_with = "container")]
    sequential: bool,
    /// The server removes the node when its last child has been gone for a while.
    #[arg(long, conflicts_with = "ttl")]
    container: bool,
    /// The server removes the node after so many milliseconds without a change
    /// and without children. It must have been started with TTL nodes enabled.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=0xff_ffff_ffff))]
    ttl: Option<u64>,
    /// Create the missing parents, too.
    #[arg(long)]
    parents: bool,

    #[command(flatten)]
    acl: NewNodeAcl,
}

/// The `set` command.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  zk set /app/config '{\"a\":2}'
  zk set /app/config '{\"a\":2}' --version 0
  zk set /app/state ready --create
  zk set /app/logo --file logo.png
  zk get /app/config | zk set /app/logo -")]
#[command(mut_arg("acl", |acl| acl.requires("create")))]
pub(crate) struct Set {
    /// The node.
    path: String,
    #[command(flatten)]
    pub(crate) data: NewData,
    /// Only if the data's version is this one.
    #[arg(long, value_name = "N")]
    version: Option<i32>,
    /// Create the node if it does not exist. Its parent must exist.
    #[arg(long, conflicts_with = "version")]
    create: bool,
    #[command(flatten)]
    acl: NewNodeAcl,
}

/// The `delete` command.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  zk delete /app/logo
  zk delete /app --recursive")]
pub(crate) struct Delete {
    /// The node.
    path: String,
    /// Only if the data's version is this one.
    #[arg(long, value_name = "N")]
    version: Option<i32>,
    /// Everything below it too.
    #[arg(long)]
    recursive: bool,
}

/// The `revoke` command.
#[derive(Debug, ClapArgs)]
pub(crate) struct Revoke {
    /// The node, as `participants` lists it.
    node: String,
}

/// The `sync` command.
#[derive(Debug, ClapArgs)]
pub(crate) struct Sync {
    /// Any node.
    #[arg(default_value = "/")]
    path: String,
}

/// The `ls` command.
#[derive(Debug, ClapArgs)]
pub(crate) struct Ls {
    /// The node.
    path: String,
    /// List the paths of the node and of all nodes below it.
    #[arg(long, short = 'R')]
    recursive: bool,
}

pub(crate) async fn revoke(session: &Session, Revoke { node }: &Revoke) -> Result<()> {
    let asked = session.run_connected(request_revocation(session, node)).await;
    asked.map_err(Failure::of_write)?
}

async fn request_revocation(session: &Session, node: &str) -> Result<()> {
    let client = &session.client;
    // The request replaces the data of the node. Only the ephemeral nodes of holders are meant for it.
    if client.exists(node).await?.is_some_and(|stat| !stat.is_ephemeral()) {
        let why = "not a holder's node, which is ephemeral; zk participants lists those of a lock";
        return Err(Failure::other(format!("{node}: {why}")));
    }
    if zk_recipes::revoke(client, node).await? {
        session.print_done(node, "revocation requested")
    } else {
        Err(Failure::other(format!("{node}: nobody holds it, there is no such node")))
    }
}

pub(crate) async fn sync(session: &Session, Sync { path }: &Sync) -> Result<()> {
    session.retry.run(|client| client.sync(path)).await?;
    session.print_done(path, "synced")
}

pub(crate) async fn create(session: &Session, create: &Create) -> Result<()> {
    let (path, data) = (create.path.as_str(), create.data.or_empty()?);
    let (acl, ephemeral) = (create.acl.entries(), create.ephemeral);
    let create = |client: &Client| {
        let mut node = client.create_builder(path).data(data).acl(acl).mode(mode(create));
        if create.parents {
            node = node.parents(ParentMode::Persistent).parents_acl(acl);
        }
        if let Some(ttl_ms) = create.ttl {
            node = node.ttl(Duration::from_millis(ttl_ms));
        }
        node.create()
    };
    let created = session.retry.run(create).await;
    let hint = "create the parents first, or use --parents";
    let ttl_hint = "nodes with a time to live need ZooKeeper 3.5.3 or newer, and \
                    extendedTypesEnabled=true on the servers";
    let created = created.map_err(|error| {
        let failure = Failure::of_data(error, data.len());
        // Only the chroot can be missing above a top-level node, and the error says so.
        let failure = match path::parent(path) {
            Some("/") => failure,
            _ => failure.with_hint(ErrorCode::NO_NODE, hint),
        };
        failure.with_hint(ErrorCode::UNIMPLEMENTED, ttl_hint)
    })?;
    session.output.print([created.path.clone()], || json!({ "path": created.path }))?;
    if ephemeral {
        // The session is left to expire, and the node with it.
        drop(session.client.detach());
    }
    Ok(())
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

pub(crate) async fn get(session: &Session, Node { path }: &Node) -> Result<()> {
    let node = session.retry.get_data(path).await?;
    let json = || json!({ "data": node.nullable().map(data_json), "stat": stat_json(&node.stat) });
    session.output.print_data(&node.data, json)
}

/// Replaces the data of a node. With --create, it creates the node if it does not exist.
pub(crate) async fn set(session: &Session, wanted: &Set) -> Result<()> {
    let Set { path, version, acl, .. } = wanted;
    let data = wanted.data.required()?;
    let set = || session.retry.run(|client| client.set_data(path, data, *version));
    let mut stat = set().await;
    if wanted.create && stat.as_ref().is_err_and(Error::is_no_node) {
        let mode = CreateMode::Persistent;
        let create = |client: &Client| client.create_with_acl(path, data, mode, acl.entries());
        stat = match session.retry.run(create).await {
            // Another client has created it meanwhile.
            Err(error) if error.is_node_exists() => set().await,
            created => created.map(|created| created.stat),
        };
    }
    let hint = if wanted.create {
        "create the parents first: zk create --parents"
    } else {
        "zk create, or set --create, creates it"
    };
    let stat = stat
        .map_err(|error| Failure::of_data(error, data.len()).with_hint(ErrorCode::NO_NODE, hint))?;
    session.output.print([], || json!({ "stat": stat_json(&stat) }))
}

pub(crate) async fn delete(session: &Session, wanted: &Delete) -> Result<()> {
    let Delete { path, version, recursive } = wanted;
    let mut progress = if *recursive { Progress::new("deleted", None) } else { Progress::silent() };
    // The server checks the version before it looks for children.
    let ended = match session.retry.run(|client| client.delete(path, *version)).await {
        Err(error) if error.is_not_empty() && *recursive => {
            delete_tree(session, path, *version, &mut progress).await
        }
        deleted => deleted.map(|()| progress.one_more()).map_err(|error| {
            let hint = "--recursive deletes what is below, too";
            Failure::from(error).with_hint(ErrorCode::NOT_EMPTY, hint)
        }),
    };
    progress.hide();
    let hint = "servers delete neither the root nor /zookeeper and its quota and config; \
                name the nodes below";
    let nodes = progress.done;
    let text = format!("; of what is below, {nodes} deleted");
    ended.map_err(|failure| {
        failure.with_hint(ErrorCode::BAD_ARGUMENTS, hint).applied_to(nodes, &text)
    })?;
    session.output.print([], || json!({ "path": path, "done": "deleted", "nodes": nodes }))
}

/// Deletes a node and everything below it, from the leaves up. Nodes that other clients create
/// meanwhile are deleted too, unless they are created faster than deleted.
async fn delete_tree(
    session: &Session,
    path: &str,
    version: Option<i32>,
    progress: &mut Progress,
) -> Result<()> {
    delete_below(session, path, progress).await?;
    delete_branch(&session.retry, path, version, progress).await
}

/// Deletes what is below `path` now, a hundred nodes at once. The server deletes them in this order:
/// children before their parents. Nodes with new children stay.
async fn delete_below(session: &Session, path: &str, progress: &mut Progress) -> Result<()> {
    let (mut paths, _) = sorted_paths(session, path, &|_| false).await?;
    paths.reverse();
    paths.pop();
    let delete = |client: &Client, path: &String| client.delete(path, None);
    for chunk in paths.chunks(NODES_AT_ONCE) {
        let deleted = write_each(session, chunk.iter(), delete, |_, deleted, was_lost| {
            match deleted {
                Err(error) if error.is_not_empty() || error.is_no_node() && !was_lost => {}
                Err(error) if !error.is_no_node() => return Err(error),
                _ => progress.one_more(),
            }
            Ok(())
        });
        deleted.await.map_err(|(_, error)| error)?;
    }
    Ok(())
}

/// Deletes the node at `path` and everything below it. `progress` counts the deleted nodes.
pub(crate) async fn delete_branch(
    retry: &Retry,
    path: &str,
    version: Option<i32>,
    progress: &mut Progress,
) -> Result<()> {
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

pub(crate) async fn exists(session: &Session, Node { path }: &Node) -> Result<()> {
    let stat = session.retry.exists(path).await?;
    session.output.print(
        [stat.is_some().to_string()],
        || json!({ "exists": stat.is_some(), "stat": stat.as_ref().map(stat_json) }),
    )?;
    stat.map(drop).ok_or_else(|| missing(path))
}

fn missing(path: &str) -> Failure {
    match path {
        "/" => Failure::other(format!("/: {NO_CHROOT}")),
        path => Failure::other(format!("{path} does not exist")),
    }
}

/// Prints the names of the children, or the paths of a node and of all nodes below it, each before those
/// below it.
pub(crate) async fn ls(session: &Session, Ls { path, recursive }: &Ls) -> Result<()> {
    let listed = if *recursive {
        visible_paths(session, path).await?
    } else {
        let children = checked(session.retry.get_children(path).await?)?.names;
        let mut names: Vec<_> = children.names().map(std::borrow::Cow::into_owned).collect();
        names.sort_unstable();
        names
    };
    session.output.print_each(&listed, String::clone, |name| json!(name))
}

pub(crate) async fn stat(session: &Session, Node { path }: &Node) -> Result<()> {
    let stat = session.retry.exists(path).await?.ok_or_else(|| missing(path))?;
    session.output.print(stat_lines(&stat), || stat_json(&stat))
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
