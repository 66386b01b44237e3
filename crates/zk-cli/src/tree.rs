//! `zk tree`: a node and all below it, as a drawing.

use std::collections::BTreeMap;

use clap::Args as ClapArgs;
use serde_json::{Value, json};
use zk_recipes::session::path;

use crate::failure::Failure;
use crate::sessions::Session;
use crate::subtree::{print_hidden, walk};

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

pub(crate) async fn run(session: &Session, tree: &Tree) -> Result<(), Failure> {
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
