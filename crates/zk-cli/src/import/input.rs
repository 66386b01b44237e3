//! The lines of the input, and its nodes.

use std::io::{self, BufRead, Read as _};

use zk_recipes::session::Acl;

use crate::data::INPUT_MAX;
use crate::transfer::{Line, Node};

/// A node of the input.
pub(super) struct Wanted {
    /// Number of its line.
    pub(super) line: usize,
    pub(super) path: String,
    pub(super) node: Node,
    /// The access control list that the node is to have.
    pub(super) acl: Vec<Acl>,
    /// Whether the next node is below it, or may be.
    pub(super) is_parent: bool,
}

impl Wanted {
    pub(super) fn data_len(&self) -> usize {
        self.node.data.as_ref().map_or(0, Vec::len)
    }
}

/// Returns the lines of a source that are not blank, with their numbers. `needs_acl` is whether a node
/// without an access control list is an error.
pub(super) fn lines(
    source: impl BufRead,
    needs_acl: bool,
) -> impl Iterator<Item = (usize, Result<Line, String>)> {
    let is_blank =
        |line: &io::Result<String>| line.as_ref().is_ok_and(|line| line.trim().is_empty());
    let lines = lines_of(source).enumerate().filter(move |(_, line)| !is_blank(line));
    let parse = move |line: String| match Line::parse(&line)? {
        Line::Node(Node { acl: None, .. }) if needs_acl => {
            Err("no list `acl`; --no-acl imports nodes without one".to_owned())
        }
        line => Ok(line),
    };
    lines.map(move |(at, line)| (at + 1, line.map_err(|error| error.to_string()).and_then(parse)))
}

/// Returns the lines of a source, which may be endless.
fn lines_of(mut source: impl BufRead) -> impl Iterator<Item = io::Result<String>> {
    std::iter::from_fn(move || {
        let mut line = Vec::new();
        match source.by_ref().take(LINE_MAX + 1).read_until(b'\n', &mut line) {
            Ok(0) => None,
            Ok(len) if u64::try_from(len).is_ok_and(|len| len <= LINE_MAX) => {
                Some(String::from_utf8(line).map_err(io::Error::other))
            }
            Ok(_) => Some(Err(io::Error::other(format!("a line of more than {LINE_MAX} bytes")))),
            Err(error) => Some(Err(error)),
        }
    })
}

/// Bytes of a line at most. The data of a node are a third longer in it.
const LINE_MAX: u64 = 2 * INPUT_MAX;
