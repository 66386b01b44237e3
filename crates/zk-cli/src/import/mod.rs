//! `zk import`: nodes from the JSON lines of `zk export`.
//!
//! The access control list of a parent may deny the creation of its children to everybody. So a parent
//! is created with an entry of this client added to its list, and gets its own list when all nodes
//! exist. Without an identity of its own, the client presents a one-time one. An import that fails leaves
//! these entries for its repetition. One with a wrong number of nodes
//! leaves none: its repetition would fail at the same line.
//!
//! * [`batch`] creates the nodes, many at once.
//! * [`compare`] compares them with existing ones.
//! * [`identity`] is what it presents, and the entry for that.
//! * [`lists`] opens the lists of parents, and closes them.

mod batch;
mod compare;
mod identity;
mod lists;

use std::io::stdin;
use std::path::PathBuf;

use zk_recipes::session::{Acl, OPEN_ACL_UNSAFE};

use self::batch::Batch;
use self::identity::OneTimeIdentity;
use self::lists::{ClosedParent, Own};
use crate::at_once::AtOnce;
use crate::prelude::{ClapArgs, Failure, Result, Session, json};
use crate::progress::Progress;
use crate::transfer::{Line, Node, Wanted, is_below, lines};

/// The `import` command.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  zk import /app < app.jsonl
  zk import /app --overwrite < app.jsonl
  zk import /app --no-acl < app.jsonl
  zk import /app --resume app.auth < app.jsonl")]
pub(crate) struct Import {
    /// The node below which they are created; its parent must exist.
    path: String,

    /// Replace the data and the access control lists of nodes that exist.
    #[arg(long)]
    overwrite: bool,

    /// Ignore the access control lists of the input.
    ///
    /// Everybody has all permissions on the new nodes, and existing nodes keep their lists. The result tells
    /// the number of ignored lists.
    #[arg(long, conflicts_with = "resume")]
    no_acl: bool,

    /// The file with the one-time identity of an import that has failed.
    ///
    /// Without credentials, an import makes such an identity to create the children of nodes
    /// whose lists deny that. It keeps it in this file, or in one of the current folder,
    /// until all nodes have their own lists. The file also names the nodes that are open to it,
    /// and must be readable by you alone.
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
}

/// Creates the nodes of standard input below a node. Nodes that exist with the same data stay as
/// they are, so an interrupted import can be repeated.
pub(crate) async fn run(session: &Session, args: &Import) -> Result<()> {
    import(session, args).await.map_err(Failure::of_stream)
}

async fn import(session: &Session, args: &Import) -> Result<()> {
    let one_time = args.resume.as_deref().map(OneTimeIdentity::read).transpose()?.flatten();
    if let Some(identity) = &one_time {
        identity.present(&session.client).await?;
    }
    let mut importer = Importer {
        session,
        args,
        progress: Progress::new("imported", None),
        at_once: AtOnce::default(),
        created: 0,
        other_lists: 0,
        ignored_lists: 0,
        unread: 0,
        own: Own::Unknown,
        one_time,
        opened: Vec::new(),
        closed: Vec::new(),
    };
    let ended = match importer.all().await {
        Ok(()) => importer.close_lists().await,
        failed => failed,
    };
    importer.progress.hide();
    importer.note_opened(ended.is_ok());
    ended?;
    importer.print_summary()
}

/// An import under way.
struct Importer<'a> {
    session: &'a Session,
    args: &'a Import,
    progress: Progress,
    /// How many existing nodes are read at once.
    at_once: AtOnce,
    created: usize,
    /// Number of existing nodes that keep another list than in the input.
    other_lists: usize,
    /// Number of lists of the input that --no-acl ignores.
    ignored_lists: usize,
    /// Number of existing nodes that this client may not read.
    unread: usize,
    own: Own,
    one_time: Option<OneTimeIdentity>,
    /// Nodes with an entry of this client in their lists, and the lists without it.
    opened: Vec<(String, Vec<Acl>)>,
    /// Existing nodes above the present one whose lists, which are those of the input, may deny the
    /// creation of children.
    closed: Vec<ClosedParent>,
}

impl Importer<'_> {
    async fn all(&mut self) -> Result<()> {
        let mut lines = lines(stdin().lock(), !self.args.no_acl).peekable();
        let mut batch = Batch::first();
        // The number of nodes since the last end of an export.
        let mut nodes = 0;
        while let Some((at, line)) = lines.next() {
            match line {
                Ok(Line::Node(mut node)) => {
                    let is_parent = is_parent(&node.below, lines.peek());
                    let path = absolute(&self.args.path, &node.below);
                    let acl = self.acl_of(&mut node);
                    let wanted = Wanted { line: at, path, node, acl, is_parent };
                    if !batch.has_room_for(&wanted) {
                        self.import_batch(batch.take()).await?;
                    }
                    batch.push(wanted);
                    nodes += 1;
                }
                Ok(Line::End { nodes: exported }) => {
                    self.import_batch(batch.take()).await?;
                    self.check_number(nodes, exported)
                        .await
                        .map_err(|failure| failure.with_line(at))?;
                    nodes = 0;
                }
                Err(why) => {
                    self.import_batch(batch.take()).await?;
                    return Err(Failure::other(why).with_line(at));
                }
            }
        }
        self.import_batch(batch.take()).await?;
        self.check_end(nodes)
    }

    /// Takes the access control list of a line, or that of nodes without one.
    fn acl_of(&mut self, node: &mut Node) -> Vec<Acl> {
        let acl = node.acl.take();
        if self.args.no_acl {
            self.ignored_lists += usize::from(acl.is_some());
            return OPEN_ACL_UNSAFE.to_vec();
        }
        acl.unwrap_or_default()
    }

    async fn check_number(&mut self, nodes: u64, exported: u64) -> Result<()> {
        if nodes == exported {
            return Ok(());
        }
        // A repetition would end here, too. Nodes that stay open are noted.
        drop(self.close_lists().await);
        let why = format!("{nodes} nodes came before, of {exported} that were exported");
        Err(Failure::other(why))
    }

    /// Checks the end of the input, with so many nodes since the last end of an export.
    fn check_end(&mut self, nodes: u64) -> Result<()> {
        if self.progress.done == 0 {
            return Err(Failure::other("standard input has no node"));
        }
        if nodes > 0 {
            let why = "the input has no last line with the number of nodes, and may be incomplete";
            if !self.opened.is_empty() {
                // With their own lists, a repetition with the whole input could not complete them.
                let mend = format!(r#"if it is whole, add the line {{"nodes":{nodes}}}"#);
                return Err(Failure::other(format!("{why}: {mend}")));
            }
            self.note(why);
        }
        Ok(())
    }

    fn print_summary(&self) -> Result<()> {
        let (all, created, other) = (self.progress.done, self.created, self.other_lists);
        let unread = self.unread;
        if unread > 0 && !self.args.overwrite {
            let what = "of the existing nodes are not compared: no permission to read them";
            self.session.output.note(&format!("{unread} {what}"));
        }
        if other > 0 {
            let what = "of the existing nodes keep other access control lists; see --overwrite";
            self.session.output.note(&format!("{other} {what}"));
        }
        let mut line = format!("{all} nodes imported, {} of which existed", all - created);
        let mut json =
            json!({ "imported": all, "created": created, "other_acl": other, "unread": unread });
        if self.args.no_acl {
            line.push_str(&format!(", {} access control lists ignored", self.ignored_lists));
            json["ignored_acl"] = self.ignored_lists.into();
        }
        self.session.output.print([line], || json)?;
        if unread > 0 && self.args.overwrite {
            let why = "of the existing nodes are not replaced: no permission to read them";
            return Err(Failure::other(format!("{unread} {why}")));
        }
        Ok(())
    }

    fn note(&mut self, text: &str) {
        self.progress.hide();
        self.session.output.note(text);
    }
}

/// Returns true if the next line is a node below this one, or may be.
fn is_parent(below: &str, next: Option<&(usize, Result<Line, String>)>) -> bool {
    match next {
        Some((_, Ok(Line::Node(next)))) => is_below(&next.below, below),
        Some((_, Ok(Line::End { .. }))) | None => false,
        // Nobody knows what follows.
        Some((_, Err(_))) => true,
    }
}

fn absolute(root: &str, below: &str) -> String {
    match (root.trim_end_matches('/'), below) {
        ("", "/") => "/".to_owned(),
        (root, "/") => root.to_owned(),
        (root, below) => format!("{root}{below}"),
    }
}
