//! `zk export`: a node and all below it as JSON lines.

use std::io::{IsTerminal, StdoutLock, Write, stdout};

use clap::Args as ClapArgs;
use serde_json::{Value, json};
use zk_recipes::session::{Client, NodeAcl, NodeData, Retry, SessionId};

use crate::acl;
use crate::at_once::{AtOnce, NodeAnswers, ask_each, ask_node};
use crate::failure::Failure;
use crate::output::{Output, data_json, json_line};
use crate::progress::Progress;
use crate::subtree;

/// The `export` command.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  zk export /app > app.jsonl
  set -o pipefail; zk export /app | zk import /copy")]
pub(crate) struct Export {
    /// The node.
    pub(crate) path: String,
}

/// Prints a node and all below it. Ephemeral nodes are left out: they belong to sessions. So are the
/// ensemble's own nodes, if all nodes of the ensemble are exported.
pub(crate) async fn run(
    client: &Client,
    retry: &Retry,
    export: &Export,
    connect: &str,
    output: Output,
) -> Result<(), Failure> {
    let root = &export.path;
    let leaves_out = subtree::ensembles_own(root, connect)?;
    let is_whole = leaves_out("/zookeeper");
    let (paths, hidden) = subtree::sorted_paths_without(client, retry, root, &leaves_out).await?;
    if !hidden.is_empty() {
        return Err(Failure::denied(format!("{hidden}: the export would not be complete")));
    }
    let mut exporter = Exporter::new(root, paths.len());
    let ask = |path| ask_node(client, retry, path, true);
    ask_each(&paths, &mut AtOnce::default(), ask, &mut |path, answers| exporter.add(path, answers))
        .await?;
    let ephemerals = exporter.finish()?;
    if is_whole {
        output.note("/zookeeper is left out: each ensemble has its own");
    }
    if ephemerals > 0 {
        output.note(&format!("{ephemerals} ephemeral nodes are left out"));
    }
    Ok(())
}

/// An export under way.
struct Exporter<'a> {
    root: &'a str,
    out: StdoutLock<'static>,
    progress: Progress,
    /// Number of nodes that were printed.
    nodes: usize,
    ephemerals: usize,
}

impl<'a> Exporter<'a> {
    fn new(root: &'a str, nodes: usize) -> Self {
        let progress = match stdout().is_terminal() {
            true => Progress::silent(),
            false => Progress::new("exported", Some(nodes)),
        };
        Self { root, out: stdout().lock(), progress, nodes: 0, ephemerals: 0 }
    }

    /// Prints a node, unless it was deleted meanwhile.
    fn add(&mut self, path: &str, (data, acl): NodeAnswers) -> Result<(), Failure> {
        let (data, acl) = match (data, acl.transpose()) {
            (Ok(data), Ok(acl)) => (data, acl),
            (Err(error), _) | (_, Err(error)) if error.is_no_node() => {
                return Ok(());
            }
            (Err(error), _) | (_, Err(error)) => return Err(error.into()),
        };
        if data.stat.ephemeral_owner != SessionId::NONE {
            self.ephemerals += 1;
            return Ok(());
        }
        if acl.iter().flat_map(|it| &it.acl).any(acl::hides_hash) {
            let why = "no permission to read the hashes in its access control list";
            return Err(Failure::denied(format!("{path}: {why}: it could not be imported")));
        }
        self.print(path, &data, acl.as_ref())?;
        self.nodes += 1;
        self.progress.one_more();
        Ok(())
    }

    fn print(&mut self, path: &str, data: &NodeData, acl: Option<&NodeAcl>) -> Result<(), Failure> {
        let below = path.strip_prefix(self.root.trim_end_matches('/')).unwrap_or(path);
        let mut line = json!({
            "path": if below.is_empty() { "/" } else { below },
            "data": data.data.as_deref().map(data_json),
        });
        if let Some(acl) = acl {
            line["acl"] = acl.acl.iter().map(acl::text).collect();
        }
        self.write(&line)
    }

    /// Prints the last line. Returns the number of ephemeral nodes.
    fn finish(mut self) -> Result<usize, Failure> {
        self.write(&json!({ "nodes": self.nodes }))?;
        Ok(self.ephemerals)
    }

    fn write(&mut self, line: &Value) -> Result<(), Failure> {
        writeln!(self.out, "{}", json_line(line)).map_err(|error| Failure::of_output(&error))
    }
}
