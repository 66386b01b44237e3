//! The JSON lines of `zk export` and `zk import`.
//!
//! Each line is a node: its path below the exported one, its data as text or in hexadecimal, and its
//! access control list. The last line has the number of nodes, so that a part of an export is not taken
//! for the whole. Servers hide from clients which nodes are containers or have a time to live
//! (`DataNode.getClientEphemeralOwner`), so only a line that says so itself becomes such a node.

use std::io::{self, BufRead, Read as _};

use serde_json::Value;
use zk_recipes::session::Acl;

use crate::acl;
use crate::data::INPUT_MAX;
use crate::output::data_of_json;

/// One line.
pub(crate) enum Line {
    Node(Node),
    /// The last line: the number of nodes.
    End {
        nodes: u64,
    },
}

/// The line of a node.
pub(crate) struct Node {
    /// The path below the exported node; `/` is the exported node.
    pub(crate) below: String,
    /// `None` for null, which is not the same as no bytes.
    pub(crate) data: Option<Vec<u8>>,
    /// `None` if the line has no access control list.
    pub(crate) acl: Option<Vec<Acl>>,
    pub(crate) kind: Kind,
}

/// Kind of an imported node, by its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Persistent,
    Container,
    /// The server removes it after so many milliseconds without a change.
    Ttl {
        ms: u64,
    },
}

impl Line {
    pub(crate) fn parse(line: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(line)
            .map_err(|error| format!("not JSON as zk export writes it: {error}"))?;
        match value["nodes"].as_u64() {
            Some(nodes) if value["path"].is_null() => Ok(Self::End { nodes }),
            _ => Node::parse(&value).map(Self::Node),
        }
    }
}

impl Node {
    fn parse(value: &Value) -> Result<Self, String> {
        let text = |key: &str| value[key].as_str().ok_or_else(|| format!("no text `{key}`"));
        let below = text("path")?.to_owned();
        zk_recipes::session::validate_path(&below).map_err(|error| error.to_string())?;
        let data = data_of_json(&value["data"]).ok_or("`data` is neither text nor hexadecimal")?;
        let acl = match &value["acl"] {
            Value::Null => None,
            Value::Array(entries) => {
                let entries = entries.iter().map(|entry| entry.as_str().unwrap_or_default());
                Some(entries.map(acl::printed).collect::<Result<_, _>>()?)
            }
            _ => return Err("`acl` is no list".to_owned()),
        };
        let kind = match (&value["kind"], value["ttl_ms"].as_u64()) {
            (Value::Null, _) => Kind::Persistent,
            (Value::String(kind), _) if kind == "persistent" => Kind::Persistent,
            (Value::String(kind), _) if kind == "container" => Kind::Container,
            (Value::String(kind), Some(ms)) if kind == "ttl" => Kind::Ttl { ms },
            (kind, _) => return Err(format!("no kind of node is {kind}")),
        };
        Ok(Self { below, data, acl, kind })
    }
}

pub(crate) fn is_below(path: &str, other: &str) -> bool {
    path.strip_prefix(other.trim_end_matches('/')).is_some_and(|rest| rest.starts_with('/'))
}

/// Maximum number of nodes that a note of an export or an import names.
pub(crate) const NODES_TOLD: usize = 20;

/// A node of the input.
pub(crate) struct Wanted {
    /// Number of its line.
    pub(crate) line: usize,
    pub(crate) path: String,
    pub(crate) node: Node,
    /// The access control list that the node is to have.
    pub(crate) acl: Vec<Acl>,
    /// Whether the next node is below it, or may be.
    pub(crate) is_parent: bool,
}

impl Wanted {
    pub(crate) fn data_len(&self) -> usize {
        self.node.data.as_ref().map_or(0, Vec::len)
    }
}

/// Returns the lines of a source that are not blank, with their numbers. `needs_acl` is whether a node
/// without an access control list is an error.
pub(crate) fn lines(
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_or_refused() {
        let parse = |line: &str| match Line::parse(line) {
            Ok(Line::Node(node)) => Ok(node),
            Ok(Line::End { nodes }) => Err(nodes.to_string()),
            Err(why) => Err(why),
        };
        let line = |data: &str| {
            format!(r#"{{"path":"/a","data":{data},"acl":["world:anyone:r"],"kind":"persistent"}}"#)
        };
        let kind = |kind: &str| parse(&line("null").replace("\"persistent\"", kind)).unwrap().kind;
        assert_eq!(kind("null"), Kind::Persistent);
        assert_eq!(kind("\"container\""), Kind::Container);
        assert_eq!(kind("\"ttl\",\"ttl_ms\":7"), Kind::Ttl { ms: 7 });
        assert_eq!(parse(&line("\"ä\"")).unwrap().data.unwrap(), "ä".as_bytes());
        assert_eq!(parse(&line(r#"{"hex":"00fF"}"#)).unwrap().data.unwrap(), [0, 255]);
        assert_eq!(parse(&line("null")).unwrap().data, None);
        assert_eq!(parse(&line("\"\"")).unwrap().data, Some(Vec::new()));
        assert_eq!(parse(r#"{"nodes":7}"#).err().as_deref(), Some("7"));
        for wrong in [
            "",
            "[]",
            "{}",
            r#"{"nodes":-1}"#,
            &line(r#"{"hex":"0"}"#),
            &line(r#"{"hex":"0g"}"#),
            &line("7"),
            &line("null").replace("/a", "a"),
            &line("null").replace("persistent", "ttl"),
            &line("null").replace("world:anyone:r", "world"),
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
