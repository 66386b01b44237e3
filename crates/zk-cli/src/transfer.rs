//! `zk export` and `zk import`: a node and all below it, as JSON lines.
//!
//! Each line is a node: its path below the exported one, its data as text or in hexadecimal, its
//! access control list, and its kind.

use std::io::{BufRead, IsTerminal, Write, stderr, stdin, stdout};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use zk_recipes::session::{Acl, Client, CreateMode, ErrorCode, Retry, Stat};

use crate::acl;
use crate::failure::Failure;
use crate::output::{data_json, data_of_json, data_text};
use crate::subtree;

/// Prints the node at `root` and all below it. Ephemeral nodes are left out: they belong to sessions.
pub(crate) async fn export(client: &Client, retry: &Retry, root: &str) -> Result<(), Failure> {
    let paths = subtree::sorted_paths(client, retry, root).await?;
    let mut progress = Progress::new("exported", Some(paths.len()));
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
        let Some(kind) = Kind::of(&data.stat) else {
            ephemerals += 1;
            continue;
        };
        let below = path.strip_prefix(root.trim_end_matches('/')).unwrap_or(path);
        let line = json!({
            "path": if below.is_empty() { "/" } else { below },
            "data": data.data.as_deref().map(data_json),
            "acl": acl.acl.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "kind": kind.name(),
            "ttl_ms": kind.ttl_ms(),
        });
        let written = writeln!(out, "{line}");
        written.map_err(|error| Failure::other(format!("standard output: {error}")))?;
        progress.one_more();
    }
    progress.end();
    if ephemerals > 0 {
        eprintln!("zk: {ephemerals} ephemeral nodes are left out");
    }
    Ok(())
}

/// Creates the nodes of standard input below `root`. Nodes that exist with the same data stay as
/// they are, so an interrupted import can be repeated.
pub(crate) async fn import(retry: &Retry, root: &str, overwrites: bool) -> Result<(), Failure> {
    let mut progress = Progress::new("imported", None);
    for (at, line) in stdin().lock().lines().enumerate() {
        let failed = |why: &str| Failure::other(format!("line {}: {why}", at + 1));
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
        let imported = create(retry, &path, &node, overwrites).await;
        imported.map_err(|failure| failure.with_place(&format!("line {}", at + 1)))?;
        progress.one_more();
    }
    progress.end();
    Ok(())
}

async fn create(retry: &Retry, path: &str, node: &Node, overwrites: bool) -> Result<(), Failure> {
    let created = retry
        .run(|client| {
            let new = client.create_builder(path).data(&node.data).acl(&node.acl);
            match node.kind {
                Kind::Persistent => new.create(),
                Kind::Container => new.mode(CreateMode::Container).create(),
                Kind::Ttl(ms) => new.ttl(Duration::from_millis(ms)).create(),
            }
        })
        .await;
    match created {
        Ok(_) => Ok(()),
        Err(error) if error.code() == Some(ErrorCode::NODE_EXISTS) => {
            let present = retry.get_data(path).await?;
            if present.data.as_deref().unwrap_or_default() == node.data {
                return Ok(());
            }
            if !overwrites {
                let why = "exists with other data; see --overwrite";
                return Err(Failure::other(format!("{} {why}", data_text(path.as_bytes()))));
            }
            Ok(retry.run(|client| client.set_data(path, &node.data, None)).await.map(drop)?)
        }
        Err(error) => Err(error.into()),
    }
}

/// One line.
struct Node {
    below: String,
    data: Vec<u8>,
    acl: Vec<Acl>,
    kind: Kind,
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
        let kind = match (text("kind")?, value["ttl_ms"].as_u64()) {
            ("persistent", _) => Kind::Persistent,
            ("container", _) => Kind::Container,
            ("ttl", Some(ms)) => Kind::Ttl(ms),
            (kind, _) => return Err(format!("no kind of node is `{kind}`")),
        };
        Ok(Self { below, data, acl: acl?, kind })
    }
}

/// What removes a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Persistent,
    Container,
    /// It goes after so many milliseconds without a change.
    Ttl(u64),
}

impl Kind {
    /// Returns the kind, which the server keeps in the field for the owner of an ephemeral node
    /// (`EphemeralType`). Returns `None` for an ephemeral node.
    fn of(stat: &Stat) -> Option<Self> {
        let owner = u64::from_ne_bytes(stat.ephemeral_owner.to_ne_bytes());
        match owner {
            0 => Some(Self::Persistent),
            CONTAINER => Some(Self::Container),
            _ if owner >> TTL_BITS == TTL_MARK => Some(Self::Ttl(owner & ((1 << TTL_BITS) - 1))),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Persistent => "persistent",
            Self::Container => "container",
            Self::Ttl(_) => "ttl",
        }
    }

    fn ttl_ms(self) -> Option<u64> {
        match self {
            Self::Ttl(ms) => Some(ms),
            _ => None,
        }
    }
}

const CONTAINER: u64 = 1 << 63;
/// `ExtendedEphemeralTypes.TTL`: a byte of ones and two of zeros, before the milliseconds.
const TTL_MARK: u64 = 0xff_0000;
const TTL_BITS: u32 = 40;

/// The number of nodes so far, on a terminal only.
struct Progress {
    what: &'static str,
    done: usize,
    all: Option<usize>,
    shown: Option<Instant>,
    is_terminal: bool,
}

impl Progress {
    fn new(what: &'static str, all: Option<usize>) -> Self {
        Self { what, done: 0, all, shown: None, is_terminal: stderr().is_terminal() }
    }

    fn one_more(&mut self) {
        self.done += 1;
        if !self.is_terminal {
            return;
        }
        let now = now();
        if self.shown.is_none_or(|shown| now - shown >= SHOWN_EVERY) {
            self.shown = Some(now);
            self.show();
        }
    }

    fn show(&self) {
        let all = self.all.map(|all| format!(" of {all}")).unwrap_or_default();
        eprint!("\r{} {}{all} nodes\u{1b}[K", self.what, self.done);
    }

    fn end(&self) {
        if self.is_terminal {
            self.show();
            eprintln!();
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "the progress that people watch")]
fn now() -> Instant {
    Instant::now()
}

const SHOWN_EVERY: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(owner: u64) -> Option<Kind> {
        let ephemeral_owner = i64::from_ne_bytes(owner.to_ne_bytes());
        Kind::of(&Stat { ephemeral_owner, ..Stat::default() })
    }

    #[test]
    fn kind_is_read_from_the_owner() {
        assert_eq!(kind(0), Some(Kind::Persistent));
        assert_eq!(kind(0x8000_0000_0000_0000), Some(Kind::Container));
        assert_eq!(kind(0xff00_0000_0000_0bb8), Some(Kind::Ttl(3000)));
        assert_eq!(kind(0x0100_0010_1465_b000), None, "a session");
    }

    #[test]
    fn lines_are_read_or_refused() {
        let line = |data: &str| {
            format!(r#"{{"path":"/a","data":{data},"acl":["world:anyone:r"],"kind":"persistent"}}"#)
        };
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
