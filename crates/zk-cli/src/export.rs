//! `zk export`: a node and all below it as JSON lines.

use std::io::{IsTerminal, StdoutLock, Write, stdout};

use zk_recipes::session::{Error, NodeAcl, NodeData};

use crate::acl;
use crate::at_once::{AtOnce, ReadNode, ask_each, ask_node};
use crate::output::{data_json, json_line};
use crate::prelude::{ClapArgs, Failure, Output, Result, Session, Value, json};
use crate::progress::Progress;
use crate::subtree::{ensembles_own, sorted_paths};
use crate::transfer::{NODES_TOLD, is_below};

/// The `export` command.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  zk export /app > app.jsonl
  set -o pipefail; zk export /app | zk import /copy
  zk export / --skip-unreadable > readable.jsonl")]
pub(crate) struct Export {
    /// The node.
    path: String,

    /// Leave out nodes that this client may not read, and all nodes below them.
    ///
    /// Notes on standard error name them, and the last line has their number as unreadable. Nodes that the
    /// servers hide from this client are not in it. A node with a hidden hash in its access control list
    /// is left out, too, unless --no-acl is given. Without this option such a node ends the export.
    #[arg(long)]
    skip_unreadable: bool,

    /// Export no access control lists.
    ///
    /// It needs the permission to read a node only. zk import --no-acl takes such lines.
    #[arg(long)]
    no_acl: bool,
}

/// Prints a node and all below it. Ephemeral nodes are left out: they belong to sessions. So are the
/// ensemble's own nodes, if all nodes of the ensemble are exported.
pub(crate) async fn run(session: &Session, args: &Export) -> Result<()> {
    export(session, args).await.map_err(Failure::of_stream)
}

async fn export(session: &Session, export: &Export) -> Result<()> {
    let root = &export.path;
    let leaves_out = ensembles_own(root, &session.context.servers)?;
    let is_whole = leaves_out("/zookeeper");
    let (paths, hidden) = sorted_paths(session, root, &leaves_out).await?;
    if !hidden.is_empty() && !export.skip_unreadable {
        let why = "the export would not be complete; see --skip-unreadable";
        return Err(Failure::denied(format!("{hidden}: {why}")));
    }
    let mut exporter = Exporter::new(export, session.output, paths.len());
    let (at_once, wants_acl) = (&mut AtOnce::default(), !export.no_acl);
    ask_each(&paths, at_once, |path| ask_node(session, path, wants_acl), &mut |path, answers| {
        exporter.add(path, answers)
    })
    .await?;
    exporter.finish()?;
    if is_whole {
        session.output.note("/zookeeper is left out: each ensemble has its own");
    }
    Ok(())
}

/// An export under way.
struct Exporter<'a> {
    args: &'a Export,
    output: Output,
    out: StdoutLock<'static>,
    progress: Progress,
    ephemerals: usize,
    /// Number of nodes that this client may not read, and of those below them.
    unreadable: usize,
    /// The last node that this client may not read.
    left_out: Option<String>,
}

impl<'a> Exporter<'a> {
    fn new(args: &'a Export, output: Output, nodes: usize) -> Self {
        let progress = if stdout().is_terminal() {
            Progress::silent()
        } else {
            Progress::new("exported", Some(nodes))
        };
        Self {
            args,
            output,
            out: stdout().lock(),
            progress,
            ephemerals: 0,
            unreadable: 0,
            left_out: None,
        }
    }

    /// Prints a node, unless it was deleted meanwhile.
    fn add(&mut self, path: &str, read: Result<ReadNode, Error>) -> Result<()> {
        // A node without its parent could not be imported.
        if self.left_out.as_ref().is_some_and(|above| is_below(path, above)) {
            self.unreadable += 1;
            return Ok(());
        }
        let (data, acl) = match read {
            Ok(read) => read,
            Err(error) if error.is_no_node() => return Ok(()),
            Err(error) if error.is_no_auth() => {
                return self.leave_out(path, "no permission to read it", error.into());
            }
            Err(error) => return Err(error.into()),
        };
        if data.stat.is_ephemeral() {
            self.ephemerals += 1;
            return Ok(());
        }
        if acl.iter().flat_map(|known| &known.acl).any(acl::hides_hash) {
            let why = "no permission to read the hashes in its access control list";
            let advice = "it could not be imported; see --no-acl and --skip-unreadable";
            let failure = Failure::denied(format!("{path}: {why}: {advice}"));
            return self.leave_out(path, why, failure);
        }
        self.print(path, &data, acl.as_ref())?;
        self.progress.one_more();
        Ok(())
    }

    /// Leaves out a node that this client may not read, or returns the failure. Without the exported node
    /// itself, nothing is left.
    fn leave_out(&mut self, path: &str, why: &str, failure: Failure) -> Result<()> {
        if !self.args.skip_unreadable || path == self.args.path {
            return Err(failure);
        }
        self.unreadable += 1;
        self.left_out = Some(path.to_owned());
        if self.unreadable <= NODES_TOLD {
            self.progress.hide();
            self.output.note(&format!("{path} is left out: {why}"));
        }
        Ok(())
    }

    fn print(&mut self, path: &str, data: &NodeData, acl: Option<&NodeAcl>) -> Result<()> {
        let below = path.strip_prefix(self.args.path.trim_end_matches('/')).unwrap_or(path);
        let mut line = json!({
            "path": if below.is_empty() { "/" } else { below },
            "data": data.nullable().map(data_json),
        });
        if let Some(acl) = acl {
            line["acl"] = acl.acl.iter().map(acl::text).collect();
        }
        self.write(&line)
    }

    /// Prints the last line, and the numbers of nodes that are left out.
    fn finish(mut self) -> Result<()> {
        let (output, ephemerals, unreadable) = (self.output, self.ephemerals, self.unreadable);
        let mut last = json!({ "nodes": self.progress.done });
        if self.args.skip_unreadable {
            last["unreadable"] = unreadable.into();
        }
        self.write(&last)?;
        self.progress.hide();
        if ephemerals > 0 {
            let text = match ephemerals {
                1 => "1 ephemeral node is left out".to_owned(),
                _ => format!("{ephemerals} ephemeral nodes are left out"),
            };
            output.print_error(&text, || json!({ "note": text, "ephemerals": ephemerals }));
        }
        if unreadable > 0 {
            let text = format!("{unreadable} nodes are left out: no permission to read them");
            output.print_error(&text, || json!({ "note": text, "unreadable": unreadable }));
        }
        Ok(())
    }

    fn write(&mut self, line: &Value) -> Result<()> {
        writeln!(self.out, "{}", json_line(line)).map_err(|error| Failure::of_output(&error))
    }
}
