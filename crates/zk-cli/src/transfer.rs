//! The JSON lines of `zk export` and `zk import`, and `zk export`.
//!
//! Each line is a node: its path below the exported one, its data as text or in hexadecimal, and its
//! access control list. The last line has the number of nodes, so that a part of an export is not taken
//! for the whole. Servers hide from clients which nodes are containers or have a time to live
//! (`DataNode.getClientEphemeralOwner`), so only a line that says so itself becomes such a node.

use std::io::{IsTerminal, Write, stdout};

use serde_json::{Value, json};
use zk_recipes::session::{Acl, Client, Retry, SessionId};

use crate::acl;
use crate::failure::Failure;
use crate::output::{Output, data_json, data_of_json, json_line};
use crate::progress::Progress;
use crate::subtree;

/// Prints the node at `root` and all below it. Ephemeral nodes are left out: they belong to sessions.
/// So are the ensemble's own nodes, if all nodes of the ensemble are exported.
pub(crate) async fn export(
    client: &Client,
    retry: &Retry,
    root: &str,
    connect: &str,
    output: Output,
) -> Result<(), Failure> {
    let leaves_out = subtree::ensembles_own(root, connect)?;
    let is_whole = leaves_out("/zookeeper");
    let (paths, hidden) = subtree::sorted_paths_without(client, retry, root, &leaves_out).await?;
    if !hidden.is_empty() {
        return Err(Failure::denied(format!("{hidden}: the export would not be complete")));
    }
    let mut progress = match stdout().is_terminal() {
        true => Progress::silent(),
        false => Progress::new("exported", Some(paths.len())),
    };
    let (mut out, mut nodes, mut ephemerals) = (stdout().lock(), 0_usize, 0);
    for path in &paths {
        let asked = (retry.get_data(path), retry.run(|client| client.get_acl(path)));
        let (data, acl) = tokio::join!(asked.0, asked.1);
        let (data, acl) = match (data, acl) {
            (Ok(data), Ok(acl)) => (data, acl),
            // It was deleted meanwhile.
            (Err(error), _) | (_, Err(error)) if error.is_no_node() => {
                continue;
            }
            (Err(error), _) | (_, Err(error)) => return Err(error.into()),
        };
        if data.stat.ephemeral_owner != SessionId::NONE {
            ephemerals += 1;
            continue;
        }
        if acl.acl.iter().any(acl::hides_hash) {
            let why = "no permission to read the hashes in its access control list";
            return Err(Failure::denied(format!("{path}: {why}: it could not be imported")));
        }
        let below = path.strip_prefix(root.trim_end_matches('/')).unwrap_or(path);
        let line = json!({
            "path": if below.is_empty() { "/" } else { below },
            "data": data.data.as_deref().map(data_json),
            "acl": acl.acl.iter().map(acl::text).collect::<Vec<_>>(),
        });
        write_line(&mut out, &line)?;
        nodes += 1;
        progress.one_more();
    }
    write_line(&mut out, &json!({ "nodes": nodes }))?;
    drop(progress);
    if is_whole {
        output.note("/zookeeper is left out: each ensemble has its own");
    }
    if ephemerals > 0 {
        output.note(&format!("{ephemerals} ephemeral nodes are left out"));
    }
    Ok(())
}

fn write_line(out: &mut impl Write, line: &Value) -> Result<(), Failure> {
    writeln!(out, "{}", json_line(line)).map_err(|error| Failure::of_output(&error))
}

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
    pub(crate) acl: Vec<Acl>,
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
        match value["nodes"].as_u64().filter(|_| value["path"].is_null()) {
            Some(nodes) => Ok(Self::End { nodes }),
            None => Node::parse(&value).map(Self::Node),
        }
    }
}

impl Node {
    fn parse(value: &Value) -> Result<Self, String> {
        let text = |key: &str| value[key].as_str().ok_or_else(|| format!("no text `{key}`"));
        let below = text("path")?.to_owned();
        zk_recipes::session::validate_path(&below).map_err(|error| error.to_string())?;
        let data = data_of_json(&value["data"]).ok_or("`data` is neither text nor hexadecimal")?;
        let entries = value["acl"].as_array().ok_or("no list `acl`")?;
        let acl: Result<Vec<Acl>, String> =
            entries.iter().map(|entry| acl::printed(entry.as_str().unwrap_or_default())).collect();
        let kind = match (&value["kind"], value["ttl_ms"].as_u64()) {
            (Value::Null, _) => Kind::Persistent,
            (Value::String(kind), _) if kind == "persistent" => Kind::Persistent,
            (Value::String(kind), _) if kind == "container" => Kind::Container,
            (Value::String(kind), Some(ms)) if kind == "ttl" => Kind::Ttl { ms },
            (kind, _) => return Err(format!("no kind of node is {kind}")),
        };
        Ok(Self { below, data, acl: acl?, kind })
    }
}

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
