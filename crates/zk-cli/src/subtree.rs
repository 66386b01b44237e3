//! Commands on a node and all below it: `zk ls --recursive` and `zk count`.

use std::fmt;
use std::sync::OnceLock;

use serde_json::json;
use zk_recipes::session::{Children, ConnectString, ErrorCode, path};

use crate::at_once::{AtOnce, or_again};
use crate::failure::Failure;
use crate::sessions::Session;

/// Prints the paths of a node and of all nodes below it, each before those below it.
pub(crate) async fn ls(session: &Session, root: &str) -> Result<(), Failure> {
    let paths = visible_paths(session, root).await?;
    session.output.print_each(&paths, String::clone, |path| json!(path))
}

/// The nodes whose children this client may not list.
#[derive(Default)]
pub(crate) struct Hidden {
    nodes: usize,
    first: String,
}

impl Hidden {
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes == 0
    }

    fn add(&mut self, path: &str) {
        if self.is_empty() {
            path.clone_into(&mut self.first);
        }
        self.nodes += 1;
    }
}

impl fmt::Display for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { nodes, first } = self;
        write!(f, "no permission to list the children of {nodes} of the nodes, such as {first}")
    }
}

/// Lists a node and all nodes below it, each before those below it. Prints how many nodes hide their
/// children from this client.
pub(crate) async fn visible_paths(session: &Session, root: &str) -> Result<Vec<String>, Failure> {
    let (paths, hidden) = sorted_paths(session, root, &|_| false).await?;
    print_hidden(session, &hidden);
    Ok(paths)
}

/// Lists a node and all nodes below it, each before those below it, without those that `leaves_out`
/// accepts, and all below them. Returns also the nodes whose children this client may not list.
pub(crate) async fn sorted_paths(
    session: &Session,
    root: &str,
    leaves_out: &dyn Fn(&str) -> bool,
) -> Result<(Vec<String>, Hidden), Failure> {
    let (mut paths, hidden) = paths(session, root, leaves_out).await?;
    // By component: `/a/b` comes before `/a-b`.
    paths.sort_unstable_by(|one, other| one.split('/').cmp(other.split('/')));
    Ok((paths, hidden))
}

/// Returns whether a path is left out of a change or a copy of all below `root`: of the whole ensemble,
/// the nodes in which it keeps its configuration and quotas.
pub(crate) fn ensembles_own(root: &str, connect: &str) -> Result<impl Fn(&str) -> bool, Failure> {
    let is_whole = root == "/" && connect.parse::<ConnectString>()?.chroot().is_empty();
    Ok(move |path: &str| is_whole && path == "/zookeeper")
}

/// Prints how many nodes hide their children from this client, and its credentials in words.
pub(crate) fn print_hidden(session: &Session, hidden: &Hidden) {
    if !hidden.is_empty() {
        session.output.note(&format!("{hidden} ({})", session.context.identity.presented));
    }
}

pub(crate) async fn count(session: &Session, root: &str) -> Result<(), Failure> {
    let number = match session.retry.run(|client| client.all_children_number(root)).await {
        Ok(number) => usize::try_from(number).unwrap_or(0),
        // A server before 3.6.
        Err(error) if error.code() == Some(ErrorCode::UNIMPLEMENTED) => {
            let (paths, hidden) = paths(session, root, &|_| false).await?;
            print_hidden(session, &hidden);
            paths.len() - 1
        }
        Err(error) => return Err(error.into()),
    };
    session.output.print([number.to_string()], || json!({ "descendants": number }))
}

/// Lists a node and all nodes below it, level by level; see [`walk`].
async fn paths(
    session: &Session,
    root: &str,
    leaves_out: &dyn Fn(&str) -> bool,
) -> Result<(Vec<String>, Hidden), Failure> {
    let mut found = vec![root.to_owned()];
    let hidden = walk(session, root, &mut |node, children| {
        let below = children.names.names().map(|name| path::child(node, &name));
        let below: Vec<String> = below.filter(|path| !leaves_out(path)).collect();
        found.extend_from_slice(&below);
        below
    })
    .await?;
    Ok((found, hidden))
}

/// Lists the children of `root`, which must exist, and of all nodes that `visit` returns, level by
/// level. Nodes that vanish meanwhile are left out. Returns the nodes whose children this client
/// may not list.
///
/// The servers choose what there is: a server that gives every node one more child must not fill the
/// memory.
pub(crate) async fn walk(
    Session { client, retry, .. }: &Session,
    root: &str,
    visit: &mut dyn FnMut(&str, Children) -> Vec<String>,
) -> Result<Hidden, Failure> {
    let mut size = TreeSize::default();
    let children = checked(retry.get_children(root).await?)?;
    size.add(root, &children)?;
    let mut level = visit(root, children);
    let (mut hidden, mut at_once) = (Hidden::default(), AtOnce::default());
    while !level.is_empty() {
        size.add_level(root)?;
        let (mut next, mut rest) = (Vec::new(), &level[..]);
        while !rest.is_empty() {
            let chunk = at_once.take(&mut rest);
            let asked: Vec<_> = chunk.iter().map(|node| client.get_children(node)).collect();
            for (node, asked) in chunk.iter().zip(asked) {
                match or_again(asked, || retry.get_children(node)).await {
                    Err(error) if error.is_no_node() => {}
                    Err(error) if error.is_no_auth() => hidden.add(node),
                    listed => {
                        let children = checked(listed?)?;
                        at_once.answered(children.names.names().map(|name| name.len()).sum());
                        size.add(node, &children)?;
                        next.extend(visit(node, children));
                    }
                }
            }
        }
        level = next;
    }
    Ok(hidden)
}

/// Returns children whose names ZooKeeper permits.
pub(crate) fn checked(children: Children) -> Result<Children, Failure> {
    let is_wrong = |name: &str| {
        matches!(name, "" | "." | "..") || name.contains(|c: char| c == '/' || c.is_control())
    };
    if let Some(name) = children.names.names().find(|name| is_wrong(name)) {
        return Err(Failure::not_permitted("name", &name));
    }
    Ok(children)
}

/// Size of the part of a tree that a command has seen.
#[derive(Debug, Default)]
pub(crate) struct TreeSize {
    /// Memory of the paths in bytes.
    bytes: usize,
    levels: usize,
}

impl TreeSize {
    pub(crate) fn add(&mut self, node: &str, children: &Children) -> Result<(), Failure> {
        children.names.names().try_for_each(|name| self.add_path(node.len() + 1 + name.len()))
    }

    /// Counts a path of so many bytes.
    pub(crate) fn add_path(&mut self, bytes: usize) -> Result<(), Failure> {
        self.bytes = self.bytes.saturating_add(bytes + PATH_COST);
        let mib_max = TREE_MIB_MAX.get().copied().unwrap_or(TREE_MIB_DEFAULT);
        if self.bytes / MIB < usize::try_from(mib_max).unwrap_or(usize::MAX) {
            Ok(())
        } else {
            Err(Failure::other(format!(
                "the tree is too large: its paths take {mib_max} MiB; raise --tree-limit, or name a node \
                 further down"
            )))
        }
    }

    /// Takes back a path of so many bytes.
    pub(crate) fn remove_path(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes + PATH_COST);
    }

    /// Counts a level of nodes below `root`.
    fn add_level(&mut self, root: &str) -> Result<(), Failure> {
        self.levels += 1;
        if self.levels <= LEVELS_MAX {
            Ok(())
        } else {
            Err(Failure::other(format!(
                "{root}: the tree has more than {LEVELS_MAX} levels; name a node further down"
            )))
        }
    }
}

/// Sets the limit of [`TreeSize`] for this process, in MiB.
pub(crate) fn limit_trees(mib: u32) {
    // A process runs one command.
    let _ = TREE_MIB_MAX.set(mib);
}

static TREE_MIB_MAX: OnceLock<u32> = OnceLock::new();

/// Memory that keeps a path, beside its bytes: it is in a string of its own, and mostly in two.
const PATH_COST: usize = 100;

/// Default limit for the paths of a tree. A million nodes of 100 bytes have less than it.
pub(crate) const TREE_MIB_DEFAULT: u32 = 256;
const MIB: usize = 1024 * 1024;

/// Levels of a tree. Real ones have less than a hundred, and drawing one takes a stack frame for each.
const LEVELS_MAX: usize = 1_000;
