//! `zk export` and `zk import`: a node and all below it, as JSON lines.
//!
//! Each line is a node: its path below the exported one, its data as text or in hexadecimal, and its
//! access control list. Servers hide from clients which nodes are containers or have a time to live
//! (`DataNode.getClientEphemeralOwner`), so only a line that says so itself becomes such a node.

use std::io::{BufRead, IsTerminal, Write, stdin, stdout};
use std::time::Duration;

use serde_json::{Value, json};
use zk_recipes::session::{
    Acl, Client, ConnectString, CreateMode, Error, ErrorCode, Outcome, Retry, SessionId,
    path::parent,
};

use crate::acl;
use crate::failure::{Failure, is_end};
use crate::output::{Output, data_json, data_of_json, data_text, json_line};
use crate::progress::Progress;
use crate::sessions::{Sessions, clock, patience};
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
    let is_all = root == "/" && connect.parse::<ConnectString>()?.chroot().is_empty();
    let leaves_out = |path: &str| is_all && path == ENSEMBLES_OWN;
    let (paths, hidden) = subtree::sorted_paths_without(client, retry, root, leaves_out).await?;
    if hidden > 0 {
        let why = format!("no permission to list the children of {hidden} of the nodes");
        return Err(Failure::other(format!("{why}: the export would not be complete")));
    }
    let mut progress = match stdout().is_terminal() {
        true => Progress::silent(),
        false => Progress::new("exported", Some(paths.len())),
    };
    let (mut out, mut ephemerals) = (stdout().lock(), 0);
    for path in &paths {
        let asked = (retry.get_data(path), retry.run(|client| client.get_acl(path)));
        let (data, acl) = tokio::join!(asked.0, asked.1);
        let (data, acl) = match (data, acl) {
            (Ok(data), Ok(acl)) => (data, acl),
            // It was deleted meanwhile.
            (Err(error), _) | (_, Err(error)) if error.code() == Some(ErrorCode::NO_NODE) => {
                continue;
            }
            (Err(error), _) | (_, Err(error)) => return Err(error.into()),
        };
        if acl.acl.iter().any(acl::hides_hash) {
            let path = data_text(path.as_bytes());
            let why = "no permission to read the hashes in its access control list";
            return Err(Failure::other(format!("{path}: {why}: it could not be imported")));
        }
        if data.stat.ephemeral_owner != SessionId::NONE {
            ephemerals += 1;
            continue;
        }
        let below = path.strip_prefix(root.trim_end_matches('/')).unwrap_or(path);
        let line = json!({
            "path": if below.is_empty() { "/" } else { below },
            "data": data.data.as_deref().map(data_json),
            "acl": acl.acl.iter().map(ToString::to_string).collect::<Vec<_>>(),
        });
        writeln!(out, "{}", json_line(&line)).map_err(|error| Failure::of_output(&error))?;
        progress.one_more();
    }
    if is_all {
        output.note("/zookeeper is left out: each ensemble has its own");
    }
    if ephemerals > 0 {
        output.note(&format!("{ephemerals} ephemeral nodes are left out"));
    }
    Ok(())
}

/// The node below which an ensemble keeps its configuration and quotas.
const ENSEMBLES_OWN: &str = "/zookeeper";

/// Creates the nodes of standard input below `root`. Nodes that exist with the same data stay as
/// they are, so an interrupted import can be repeated.
pub(crate) async fn import(
    client: &Client,
    root: &str,
    overwrites: bool,
    output: Output,
) -> Result<(), Failure> {
    let mut progress = Progress::new("imported", None);
    let mut created = 0;
    for (at, line) in stdin().lock().lines().enumerate() {
        let failed = |why: &str| Failure::other(why.to_owned()).with_line(at + 1);
        let line = line.map_err(|error| failed(&error.to_string()))?;
        if line.trim().is_empty() {
            continue;
        }
        let node = Node::parse(&line).map_err(|why| failed(&why))?;
        let path = match (root.trim_end_matches('/'), node.below.as_str()) {
            ("", "/") => "/".to_owned(),
            (root, "/") => root.to_owned(),
            (root, below) => format!("{root}{below}"),
        };
        let imported = create(client, &path, &node, overwrites).await;
        created += usize::from(imported.map_err(|failure| failure.with_line(at + 1))?);
        progress.one_more();
    }
    let all = progress.done();
    if all == 0 {
        return Err(Failure::other("standard input has no node".to_owned()));
    }
    let line = format!("{all} nodes imported, {} of which existed", all - created);
    output.print([line], || json!({ "imported": all, "created": created }))
}

/// Creates a node. Returns false if it existed before.
async fn create(
    client: &Client,
    path: &str,
    node: &Node,
    overwrites: bool,
) -> Result<bool, Failure> {
    let (created, was_lost) = repeat(client, |client| {
        let new = client.create_builder(path).data(&node.data).acl(&node.acl);
        match node.kind {
            Kind::Persistent => new.create(),
            Kind::Container => new.mode(CreateMode::Container).create(),
            Kind::Ttl { ms } => new.ttl(Duration::from_millis(ms)).create(),
        }
    })
    .await;
    match created {
        Ok(_) => Ok(true),
        Err(error) if error.code() == Some(ErrorCode::NODE_EXISTS) => {
            let present = Sessions::retry(client).get_data(path).await?;
            if present.data.as_deref().unwrap_or_default() == node.data {
                return Ok(was_lost);
            }
            if !overwrites {
                let why = "exists with other data; see --overwrite";
                return Err(Failure::other(format!("{} {why}", data_text(path.as_bytes()))));
            }
            let set = repeat(client, |client| client.set_data(path, &node.data, None)).await;
            Ok(set.0.map(|_| false)?)
        }
        Err(error) => {
            let parent = parent(path).unwrap_or("/");
            let hint = format!(
                "{} does not exist; zk create --parents creates it",
                data_text(parent.as_bytes())
            );
            Err(Failure::from(error).with_hint(ErrorCode::NO_NODE, &hint))
        }
    }
}

/// Sends a request, and repeats it if its answer is lost: it does no harm to apply it twice. Returns
/// also whether an answer was lost.
async fn repeat<T, F: Future<Output = Result<T, Error>>>(
    client: &Client,
    request: impl Fn(&Client) -> F,
) -> (Result<T, Error>, bool) {
    let (retry, begun) = (Sessions::retry(client), clock());
    let mut was_lost = false;
    loop {
        let done = retry.run(&request).await;
        let is_lost = |error: &Error| error.outcome() == Outcome::Unknown && !is_end(error);
        if !done.as_ref().is_err_and(is_lost) || clock() - begun > patience(client) {
            let whole = |error: Error| match was_lost {
                true => error.with_outcome(Outcome::Unknown),
                false => error,
            };
            return (done.map_err(whole), was_lost);
        }
        was_lost = true;
    }
}

/// One line.
struct Node {
    below: String,
    data: Vec<u8>,
    acl: Vec<Acl>,
    kind: Kind,
}

/// Kind of an imported node, by its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Persistent,
    Container,
    /// The server removes it after so many milliseconds without a change.
    Ttl {
        ms: u64,
    },
}

impl Node {
    fn parse(line: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let text = |key: &str| value[key].as_str().ok_or_else(|| format!("no text `{key}`"));
        let below = text("path")?.to_owned();
        zk_recipes::session::validate_path(&below).map_err(|error| error.to_string())?;
        let data = data_of_json(&value["data"]).ok_or("`data` is neither text nor hexadecimal")?;
        let entries = value["acl"].as_array().ok_or("no list `acl`")?;
        let acl: Result<Vec<Acl>, String> =
            entries.iter().map(|entry| acl::entry(entry.as_str().unwrap_or_default())).collect();
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
        let line = |data: &str| {
            format!(r#"{{"path":"/a","data":{data},"acl":["world:anyone:r"],"kind":"persistent"}}"#)
        };
        let kind =
            |kind: &str| Node::parse(&line("null").replace("\"persistent\"", kind)).unwrap().kind;
        assert_eq!(kind("null"), Kind::Persistent);
        assert_eq!(kind("\"container\""), Kind::Container);
        assert_eq!(kind("\"ttl\",\"ttl_ms\":7"), Kind::Ttl { ms: 7 });
        assert_eq!(Node::parse(&line("\"ä\"")).unwrap().data, "ä".as_bytes());
        assert_eq!(Node::parse(&line(r#"{"hex":"00fF"}"#)).unwrap().data, [0, 255]);
        assert!(Node::parse(&line("null")).unwrap().data.is_empty());
        for wrong in [
            "",
            "[]",
            &line(r#"{"hex":"0"}"#),
            &line(r#"{"hex":"0g"}"#),
            &line("7"),
            &line("null").replace("/a", "a"),
            &line("null").replace("persistent", "ttl"),
            &line("null").replace("world:anyone:r", "world"),
        ] {
            assert!(Node::parse(wrong).is_err(), "{wrong}");
        }
    }
}
