//! A part of the tree as text, for the assertions of tests.

use std::fmt::Write as _;

use super::node::{Node, NodeKind};
use super::tree::{OWN_NODES, Tree};

impl Tree {
    /// Returns a line for a node and for each node below it, sorted by path.
    pub(crate) fn text(&self, path: &str) -> String {
        let mut text = String::new();
        if !self.contains(path) {
            return text;
        }
        let mut paths = self.subtree(path);
        paths.sort_unstable();
        for path in paths.iter().filter(|below| path != "/" || !OWN_NODES.contains(&below.as_str()))
        {
            if let Some(node) = self.node(path) {
                push_line(&mut text, path, node);
            }
        }
        text
    }
}

fn push_line(text: &mut String, path: &str, node: &Node) {
    text.push_str(path);
    text.push_str(match node.kind() {
        NodeKind::Persistent => "",
        NodeKind::Ephemeral(_) => " (ephemeral)",
        NodeKind::Container => " (container)",
        NodeKind::Ttl(_) => " (ttl)",
    });
    let data = node.data().unwrap_or_default();
    if !data.is_empty() {
        // Writing to a string cannot fail.
        let _ = write!(text, " {:?}", String::from_utf8_lossy(data));
    }
    text.push('\n');
}
