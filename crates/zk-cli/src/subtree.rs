//! Commands on a node and all below it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

use zk_recipes::session::path::file_name;
use zk_recipes::session::{Children, Client, ConnectString, Error, ErrorCode, SessionId, path};

use crate::at_once::{AtOnce, ask, ask_each, read_each};
use crate::node_arg::Node;
use crate::prelude::{ClapArgs, Failure, Result, Session, Value, json};

/// The nodes whose children this client may not list.
#[derive(Default)]
pub(crate) struct Hidden(Vec<String>);

impl Hidden {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (nodes, first) = (self.0.len(), self.0.first().map_or("", String::as_str));
        write!(f, "no permission to list the children of {nodes} of the nodes, such as {first}")
    }
}

/// Lists a node and all nodes below it, each before those below it. Prints how many nodes hide their
/// children from this client.
pub(crate) async fn visible_paths(session: &Session, root: &str) -> Result<Vec<String>> {
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
) -> Result<(Vec<String>, Hidden)> {
    let mut paths = vec![root.to_owned()];
    let hidden = walk(session, root, &mut |node, children| {
        let below = children.names.names().map(|name| path::child(node, &name));
        let below: Vec<String> = below.filter(|path| !leaves_out(path)).collect();
        paths.extend_from_slice(&below);
        below
    })
    .await?;
    // By component: `/a/b` comes before `/a-b`.
    paths.sort_unstable_by(|one, other| one.split('/').cmp(other.split('/')));
    Ok((paths, hidden))
}

/// Returns whether a path is left out of a change or a copy of all below `root`: of the whole ensemble,
/// the nodes in which it keeps its configuration and quotas.
pub(crate) fn ensembles_own(root: &str, connect: &str) -> Result<impl Fn(&str) -> bool> {
    let is_whole = root == "/" && connect.parse::<ConnectString>()?.chroot().is_empty();
    Ok(move |path: &str| is_whole && path == "/zookeeper")
}

/// Prints how many nodes hide their children from this client, and its credentials in words.
pub(crate) fn print_hidden(session: &Session, hidden: &Hidden) {
    if !hidden.is_empty() {
        session.output.note(&format!("{hidden} ({})", session.context.identity.presented));
    }
}

pub(crate) async fn count(session: &Session, Node { path }: &Node) -> Result<()> {
    let number = match session.retry.run(|client| client.all_children_number(path)).await {
        Ok(number) => usize::try_from(number).unwrap_or(0),
        // A server before 3.6.
        Err(error) if error.code() == Some(ErrorCode::UNIMPLEMENTED) => {
            visible_paths(session, path).await?.len() - 1
        }
        Err(error) => return Err(error.into()),
    };
    session.output.print([number.to_string()], || json!({ "descendants": number }))
}

/// Lists the children of `root`, which must exist, and of all nodes that `visit` returns, level by
/// level. Nodes that vanish meanwhile are left out. Returns the nodes whose children this client
/// may not list.
///
/// The servers choose what there is: a server that gives every node one more child must not fill the
/// memory.
pub(crate) async fn walk(
    session: &Session,
    root: &str,
    visit: &mut dyn FnMut(&str, Children) -> Vec<String>,
) -> Result<Hidden> {
    let mut size = TreeSize::default();
    let children = checked(session.retry.get_children(root).await?)?;
    size.add(root, &children)?;
    let mut level = visit(root, children);
    let (mut hidden, mut at_once) = (Hidden::default(), AtOnce::default());
    let mut levels = 0;
    while !level.is_empty() {
        levels += 1;
        if levels > LEVELS_MAX {
            let why =
                format!("the tree has more than {LEVELS_MAX} levels; name a node further down");
            return Err(Failure::other(format!("{root}: {why}")));
        }
        let mut next = Vec::new();
        let mut keep = |node: &String, listed| {
            match listed {
                Err(error) if Error::is_no_node(&error) => {}
                Err(error) if error.is_no_auth() => hidden.0.push(node.clone()),
                listed => {
                    let children = checked(listed?)?;
                    size.add(node, &children)?;
                    next.extend(visit(node, children));
                }
            }
            Ok::<_, Failure>(())
        };
        let list = |node| ask(session, move |client| client.get_children(node));
        ask_each(&level, &mut at_once, |node| list(node), &mut keep).await?;
        level = next;
    }
    Ok(hidden)
}

/// Returns children whose names ZooKeeper permits.
pub(crate) fn checked(children: Children) -> Result<Children> {
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
}

impl TreeSize {
    pub(crate) fn add(&mut self, node: &str, children: &Children) -> Result<()> {
        children.names.names().try_for_each(|name| self.add_path(node.len() + 1 + name.len()))
    }

    /// Counts a path of so many bytes.
    pub(crate) fn add_path(&mut self, bytes: usize) -> Result<()> {
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
}

/// The limit of [`TreeSize`] in MiB, set once for this process, which runs one command.
pub(crate) static TREE_MIB_MAX: OnceLock<u32> = OnceLock::new();

/// Memory that keeps a path, beside its bytes: it is in a string of its own, and mostly in two.
const PATH_COST: usize = 100;

/// Default limit for the paths of a tree. A million nodes of 100 bytes have less than it.
pub(crate) const TREE_MIB_DEFAULT: u32 = 256;
const MIB: usize = 1024 * 1024;

/// Levels of a tree. Real ones have less than a hundred, and drawing one takes a stack frame for each.
const LEVELS_MAX: usize = 1_000;

/// The `find` command.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  zk find /app --name 'conf*'
  zk find /app --contains localhost
  zk find / --name '*lock-*'")]
pub(crate) struct Find {
    /// The node below which to search; it is searched, too.
    #[arg(default_value = "/")]
    path: String,

    /// Only nodes with this name; * stands for any characters, ? for one.
    #[arg(long, value_name = "PATTERN")]
    name: Option<String>,

    /// Only nodes whose data contains this text.
    #[arg(long, value_name = "TEXT")]
    contains: Option<String>,

    /// End each path with a byte 0 and not with a newline, for `xargs -0`.
    #[arg(long, short = '0', conflicts_with = "json")]
    nul: bool,
}

/// The `ephemerals` command.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  zk ephemerals
  zk ephemerals /app --session 0x10000a1b2c3d4e5")]
pub(crate) struct Ephemerals {
    /// The node below which to search.
    #[arg(default_value = "/")]
    path: String,

    /// Only the nodes of this session.
    #[arg(long, value_name = "ID", value_parser = session_id)]
    session: Option<SessionId>,
}

pub(crate) async fn find(session: &Session, find: &Find) -> Result<()> {
    let mut paths = visible_paths(session, &find.path).await?;
    if let Some(pattern) = &find.name {
        paths.retain(|path| matches(file_name(path), pattern));
    }
    if let Some(text) = &find.contains {
        let mut found = Vec::new();
        read_each(session, &paths, Client::get_data, &mut |path, node| {
            let mut windows = node.data.windows(text.len().max(1));
            let contains = text.is_empty() || windows.any(|window| window == text.as_bytes());
            found.extend(contains.then(|| path.to_owned()));
        })
        .await?;
        paths = found;
    }
    if find.nul {
        return session.output.print_nul(&paths);
    }
    session.output.print_each(&paths, String::clone, |path| json!(path))
}

/// Prints the ephemeral nodes of all sessions, with the session of each.
pub(crate) async fn ephemerals(session: &Session, wanted: &Ephemerals) -> Result<()> {
    let paths = visible_paths(session, &wanted.path).await?;
    let mut found = Vec::new();
    read_each(session, &paths, Client::exists, &mut |path, stat| {
        let owner = stat.map_or(SessionId::NONE, |stat| stat.ephemeral_owner);
        if owner != SessionId::NONE && wanted.session.is_none_or(|wanted| wanted == owner) {
            found.push((owner.to_string(), path.to_owned()));
        }
    })
    .await?;
    let line = |(owner, path): &(String, String)| format!("{owner}\t{path}");
    session.output.print_each(
        &found,
        line,
        |(owner, path)| json!({ "session": owner, "path": path }),
    )
}

/// Returns true if a name matches a pattern, in which * stands for any characters, and ? for one.
fn matches(name: &str, pattern: &str) -> bool {
    let name: Vec<char> = name.chars().collect();
    // For each beginning of the name, by its length: whether the pattern so far matches it.
    let mut matched = vec![false; name.len() + 1];
    matched[0] = true;
    for wanted in pattern.chars() {
        if wanted == '*' {
            let shortest = matched.iter().position(|is_match| *is_match);
            matched[shortest.unwrap_or(name.len() + 1)..].fill(true);
        } else {
            for (at, char) in name.iter().enumerate().rev() {
                matched[at + 1] = matched[at] && (wanted == '?' || wanted == *char);
            }
            matched[0] = false;
        }
    }
    matched[name.len()]
}

/// Parses a session id in hexadecimal, as all commands print it.
fn session_id(text: &str) -> Result<SessionId, String> {
    text.parse()
        .map_err(|_| "write a session id in hexadecimal, such as 0x10000a1b2c3d4e5".to_owned())
}

/// The `tree` command.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
A node whose children are not shown has their number in parentheses.

Examples:
  zk tree /app
  zk tree / --depth 2")]
pub(crate) struct Tree {
    /// The node.
    #[arg(default_value = "/")]
    path: String,

    /// Show at most so many levels below the node.
    #[arg(
        long,
        value_name = "N",
        default_value_t = DEPTH_MAX,
        value_parser = clap::value_parser!(u32).range(..=i64::from(DEPTH_MAX))
    )]
    depth: u32,
}

/// Levels that are shown at most. The drawing is recursive, and a deeper tree could exhaust the
/// stack.
const DEPTH_MAX: u32 = 500;

/// A node of the drawing.
#[derive(Default)]
struct Branch {
    children: BTreeMap<String, Self>,
    /// The number of children, if they are too deep for the drawing.
    hidden: Option<usize>,
}

pub(crate) async fn tree(session: &Session, tree: &Tree) -> Result<()> {
    let mut root = Branch::default();
    let depth_max = usize::try_from(tree.depth).unwrap_or(usize::MAX);
    let hidden = walk(session, &tree.path, &mut |node, children| {
        let below = names_below(&tree.path, node);
        let depth = below.len();
        let branch = below
            .iter()
            .fold(&mut root, |branch, name| branch.children.entry((*name).to_owned()).or_default());
        let children = children.names;
        if depth >= depth_max {
            branch.hidden = Some(children.names().count()).filter(|count| *count > 0);
            return Vec::new();
        }
        let names: Vec<String> = children.names().map(std::borrow::Cow::into_owned).collect();
        let paths = names.iter().map(|name| path::child(node, name)).collect();
        branch.children.extend(names.into_iter().map(|name| (name, Branch::default())));
        paths
    })
    .await?;
    print_hidden(session, &hidden);
    let mut lines = vec![root.line(&tree.path)];
    root.draw("", &mut lines);
    session.output.print(lines, || root.to_json(&tree.path))
}

/// Returns the names that lead from `root` to a node at or below it.
fn names_below<'a>(root: &str, node: &'a str) -> Vec<&'a str> {
    let below = node.strip_prefix(root.trim_end_matches('/')).unwrap_or(node);
    below.split('/').filter(|name| !name.is_empty()).collect()
}

impl Branch {
    fn line(&self, name: &str) -> String {
        let hidden = self.hidden.map(|count| format!(" ({count})")).unwrap_or_default();
        format!("{name}{hidden}")
    }

    fn draw(&self, indent: &str, lines: &mut Vec<String>) {
        for (at, (name, child)) in self.children.iter().enumerate() {
            let is_last = at + 1 == self.children.len();
            let (knee, below) =
                if is_last { ("└── ", "    ") } else { ("├── ", "│   ") };
            lines.push(format!("{indent}{knee}{}", child.line(name)));
            child.draw(&format!("{indent}{below}"), lines);
        }
    }

    fn to_json(&self, name: &str) -> Value {
        let children: Vec<Value> =
            self.children.iter().map(|(name, child)| child.to_json(name)).collect();
        json!({ "name": name, "children": children, "hidden_children": self.hidden })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names() {
        for (name, pattern) in [
            ("config", "config"),
            ("config", "*"),
            ("config", "c*g"),
            ("config", "*on*"),
            ("config", "c?nfi?"),
            ("aab", "*ab"),
            ("ä", "?"),
            ("", "*"),
        ] {
            assert!(matches(name, pattern), "{name} {pattern}");
        }
        for (name, pattern) in
            [("config", "conf"), ("config", "onfig"), ("config", "c*x"), ("a", "??"), ("", "?")]
        {
            assert!(!matches(name, pattern), "{name} {pattern}");
        }
    }

    #[test]
    fn session_id_is_read_as_printed() {
        assert_eq!(session_id("0xff"), Ok(SessionId(255)));
        assert_eq!(session_id("ffffffffffffffff"), Ok(SessionId(-1)));
        assert!(session_id("soon").is_err());
    }
}
