//! `zk import`: nodes from the JSON lines of `zk export`.
//!
//! The access control list of a parent may deny the creation of its children to everybody. So a parent
//! is created with an entry of this client added to its list, and gets its own list when all nodes
//! exist. Without an identity of its own, the client presents a one-time one. An import that fails leaves
//! these entries for its repetition. One with a wrong number of nodes
//! leaves none: its repetition would fail at the same line.

use std::collections::BTreeSet;
use std::io::{self, BufRead, Read as _, stdin};
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use zk_recipes::session::{
    Acl, Client, CreateMode, Error, ErrorCode, NodeData, Outcome, Perms, path::parent,
};

use crate::acl;
use crate::data::INPUT_MAX;
use crate::failure::Failure;
use crate::one_time_identity::OneTimeIdentity;
use crate::output::Output;
use crate::own_entry::OwnEntry;
use crate::progress::Progress;
use crate::repeat::repeat;
use crate::sessions::Sessions;
use crate::transfer::{Kind, Line, Node};

/// Creates the nodes of standard input below `root`. Nodes that exist with the same data stay as
/// they are, so an interrupted import can be repeated.
pub(crate) async fn import(
    client: &Client,
    root: &str,
    options: ImportOptions<'_>,
    output: Output,
) -> Result<(), Failure> {
    let ImportOptions { overwrites, resume, has_identity, is_in_the_clear } = options;
    let one_time = resume.map(OneTimeIdentity::read).transpose()?.flatten();
    if let Some(identity) = &one_time {
        identity.present(client).await?;
    }
    let mut import = Import {
        client,
        overwrites,
        output,
        progress: Progress::new("imported", None),
        created: 0,
        other_lists: 0,
        unread: 0,
        own: Own::Unknown,
        one_time,
        resume,
        has_identity,
        is_in_the_clear,
        opened: Vec::new(),
        closed: Vec::new(),
    };
    let ended = match import.all(root).await {
        Ok(()) => import.close_lists().await,
        failed => failed,
    };
    import.progress.hide();
    import.note_opened(ended.is_ok());
    ended?;
    import.print_summary()
}

/// The options of the command.
pub(crate) struct ImportOptions<'a> {
    pub(crate) overwrites: bool,
    /// The file with the one-time identity of an import that has failed, or for that of this one.
    pub(crate) resume: Option<&'a Path>,
    /// Whether the user has given this command an identity.
    pub(crate) has_identity: bool,
    pub(crate) is_in_the_clear: bool,
}

/// An import under way.
struct Import<'a> {
    client: &'a Client,
    overwrites: bool,
    output: Output,
    progress: Progress,
    created: usize,
    /// Number of existing nodes that keep another list than in the input.
    other_lists: usize,
    /// Number of existing nodes that this client may not read.
    unread: usize,
    own: Own,
    one_time: Option<OneTimeIdentity>,
    resume: Option<&'a Path>,
    has_identity: bool,
    is_in_the_clear: bool,
    /// Nodes with an entry of this client in their lists, and the lists without it.
    opened: Vec<(String, Vec<Acl>)>,
    /// Existing nodes above the present one whose lists, which are those of the input, may deny the
    /// creation of children.
    closed: Vec<ClosedParent>,
}

/// The entry of this client, as far as it is known.
enum Own {
    Unknown,
    /// The client has presented no identity.
    None,
    Entry(OwnEntry),
    /// The server takes none for the identities that the client has presented.
    Refused,
}

#[derive(Clone)]
struct ClosedParent {
    path: String,
    list: Vec<Acl>,
}

impl Import<'_> {
    /// Reads the lines, and creates the nodes.
    async fn all(&mut self, root: &str) -> Result<(), Failure> {
        let lines = lines_of(stdin().lock()).enumerate().map(|(at, line)| (at + 1, line));
        let is_blank =
            |line: &io::Result<String>| line.as_ref().is_ok_and(|line| line.trim().is_empty());
        let lines = lines.filter(|(_, line)| !is_blank(line));
        let mut lines = lines.map(|(at, line)| {
            let line = line.map_err(|error| error.to_string());
            (at, line.and_then(|line| Line::parse(&line)))
        });
        let mut next = lines.next();
        // The number of nodes since the last end of an export.
        let mut nodes = 0;
        while let Some((at, line)) = next {
            next = lines.next();
            let failed = |failure: Failure| failure.with_line(at);
            match line.map_err(|why| failed(Failure::other(why)))? {
                Line::Node(node) => {
                    let is_parent = match &next {
                        Some((_, Ok(Line::Node(next)))) => is_below(&next.below, &node.below),
                        Some((_, Ok(Line::End { .. }))) | None => false,
                        // Nobody knows what follows.
                        Some((_, Err(_))) => true,
                    };
                    self.node(&absolute(root, &node.below), &node, is_parent)
                        .await
                        .map_err(failed)?;
                    self.progress.one_more();
                    nodes += 1;
                }
                Line::End { nodes: exported } if exported == nodes => nodes = 0,
                Line::End { nodes: exported } => {
                    // A repetition would end here, too. What stays open is noted.
                    drop(self.close_lists().await);
                    let why =
                        format!("{nodes} nodes came before, of {exported} that were exported");
                    return Err(failed(Failure::other(why)));
                }
            }
        }
        if self.progress.done() == 0 {
            return Err(Failure::other("standard input has no node".to_owned()));
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

    /// Creates a node, or compares it with the existing one.
    async fn node(&mut self, path: &str, node: &Node, is_parent: bool) -> Result<(), Failure> {
        self.closed.retain(|above| is_below(path, &above.path));
        let mut open = None;
        // An identity is made only for a node that is to be created.
        if is_parent
            && denies_children(&node.acl)
            && (self.presented_entry().await?.is_some() || !self.exists(path).await?)
        {
            open = self.opened_list(&node.acl).await?;
        }
        let (mut created, mut was_lost) = self.create(path, node, open.as_ref()).await?;
        if open.is_some() && code(&created) == Some(ErrorCode::INVALID_ACL) {
            (open, self.own) = (None, Own::Refused);
            (created, was_lost) = self.create(path, node, None).await?;
        }
        let Err(error) = created else { return Ok(()) };
        // The list of the parent is checked before the existence of the node.
        if !matches!(error.code(), Some(ErrorCode::NODE_EXISTS | ErrorCode::NO_AUTH)) {
            let parent = parent(path).unwrap_or("/");
            let hint = format!(
                "{parent} does not exist, and no earlier line creates it; zk create --parents does"
            );
            return Err(Failure::from(error).with_hint(ErrorCode::NO_NODE, &hint));
        }
        match Sessions::retry(self.client).get_data(path).await {
            Ok(present) => {
                let is_same = self.compare_data(path, &present, node).await?;
                self.created += usize::from(was_lost && is_same);
                self.compare_list(path, &node.acl, is_parent).await
            }
            // The existence of the node is checked before its list.
            Err(denied) if denied.is_no_auth() => {
                self.count_unread(path);
                Ok(())
            }
            Err(_) if error.is_no_auth() => {
                if !self.open_parent(path).await? {
                    return Err(error.into());
                }
                Ok(self.create(path, node, open.as_ref()).await?.0?)
            }
            Err(unread) => Err(unread.into()),
        }
    }

    /// Compares the data of an existing node with the wanted one, and sets it if asked to. Returns
    /// whether both were the same.
    async fn compare_data(
        &self,
        path: &str,
        present: &NodeData,
        node: &Node,
    ) -> Result<bool, Failure> {
        if present.data.as_deref() == node.data.as_deref() {
            return Ok(true);
        }
        if !self.overwrites {
            let why = "exists with other data; see --overwrite";
            return Err(Failure::other(format!("{path} {why}")));
        }
        let set = repeat(self.client, |client| match &node.data {
            Some(data) => client.set_data(path, data, None),
            None => client.set_null_data(path, None),
        });
        set.await.0?;
        Ok(false)
    }

    /// Creates a node with its own list, or the `open` one, and counts it. Returns also whether an answer
    /// was lost.
    async fn create(
        &mut self,
        path: &str,
        node: &Node,
        open: Option<&Vec<Acl>>,
    ) -> Result<(Result<(), Error>, bool), Failure> {
        let is_new = open.is_some() && self.opens(path)?;
        let list = open.unwrap_or(&node.acl);
        let (created, was_lost) = repeat(self.client, |client| {
            let new = client.create_builder(path).acl(list);
            let new = match &node.data {
                Some(data) => new.data(data),
                None => new.null_data(),
            };
            match node.kind {
                Kind::Persistent => new.create(),
                Kind::Container => new.mode(CreateMode::Container).create(),
                Kind::Ttl { ms } => new.ttl(Duration::from_millis(ms)).create(),
            }
        })
        .await;
        if open.is_some() {
            self.has_opened(path, &node.acl, is_new, created.as_ref().err());
        }
        self.created += usize::from(created.is_ok());
        Ok((created.map(drop), was_lost))
    }

    /// Compares the list of an existing node with the wanted one, and sets it if asked to.
    async fn compare_list(
        &mut self,
        path: &str,
        wanted: &[Acl],
        is_parent: bool,
    ) -> Result<(), Failure> {
        let present = Sessions::retry(self.client).run(|client| client.get_acl(path)).await?.acl;
        let is_begun = is_same(wanted, &present[..wanted.len().min(present.len())]);
        let added = present.get(wanted.len()..).unwrap_or_default();
        if is_begun && added.is_empty() {
            self.closes(path);
            if self.overwrites && is_parent && denies_children(wanted) {
                self.closed.push(ClosedParent { path: path.to_owned(), list: wanted.to_vec() });
            }
            return Ok(());
        }
        let own = if is_begun { self.presented_entry().await? } else { None };
        if own.is_some_and(|own| added.iter().all(|entry| own.has_left(entry))) {
            // An import that failed has left it.
            self.opened.push((path.to_owned(), wanted.to_vec()));
            return Ok(());
        }
        if !self.overwrites {
            self.other_lists += 1;
            if self.other_lists <= NODES_TOLD {
                self.note(&format!("{path} keeps another access control list than in the input"));
            }
            return Ok(());
        }
        let open = if is_parent { self.opened_list(wanted).await? } else { None };
        if let Some(open) = open {
            return self.open(path, &open, wanted).await;
        }
        repeat(self.client, |client| client.set_acl(path, wanted, None)).await.0?;
        Ok(())
    }

    /// Gives an existing node the `open` list until it gets its `own` one.
    async fn open(&mut self, path: &str, open: &[Acl], own: &[Acl]) -> Result<(), Failure> {
        let is_new = self.opens(path)?;
        let set = repeat(self.client, |client| client.set_acl(path, open, None)).await.0;
        self.has_opened(path, own, is_new, set.as_ref().err());
        set?;
        Ok(())
    }

    /// Notes the end of a request to open a node with the list `own`. `is_new` is what
    /// [`opens`](Self::opens) returned before.
    fn has_opened(&mut self, path: &str, own: &[Acl], is_new: bool, failed: Option<&Error>) {
        if failed.is_none_or(|error| error.outcome() == Outcome::Unknown) {
            self.opened.push((path.to_owned(), own.to_vec()));
        } else if is_new {
            self.closes(path);
        }
    }

    /// Notes that a node is about to be opened. Returns true if it was not noted before.
    fn opens(&mut self, path: &str) -> Result<bool, Failure> {
        self.one_time.as_mut().map_or(Ok(false), |identity| identity.opens(path))
    }

    fn closes(&mut self, path: &str) {
        if let Some(identity) = &mut self.one_time {
            identity.closes(path);
        }
    }

    /// Opens the existing parent of a node that it denies. Returns false if there is none that this
    /// client may open.
    async fn open_parent(&mut self, path: &str) -> Result<bool, Failure> {
        let is_parent = |above: &&ClosedParent| parent(path) == Some(&above.path);
        let Some(above) = self.closed.last().filter(is_parent).cloned() else {
            return Ok(false);
        };
        let Some(open) = self.opened_list(&above.list).await? else { return Ok(false) };
        match self.open(&above.path, &open, &above.list).await {
            Err(failure) if failure.is_no_auth() => Ok(false),
            set => {
                set?;
                self.closed.pop();
                Ok(true)
            }
        }
    }

    /// Returns a list with the entry of this client, if `list` may deny it to create children.
    async fn opened_list(&mut self, list: &[Acl]) -> Result<Option<Vec<Acl>>, Failure> {
        if !denies_children(list) {
            return Ok(None);
        }
        let own = self.own_entry().await?;
        Ok(own.map(|own| list.iter().cloned().chain([own.entry]).collect()))
    }

    /// Returns the entry of this client. It presents a one-time identity if it has no other one.
    async fn own_entry(&mut self) -> Result<Option<OwnEntry>, Failure> {
        let presented = self.presented_entry().await?;
        if !matches!(self.own, Own::None) {
            return Ok(presented);
        }
        let own = OwnEntry::of_one_time(self.present_one_time().await?);
        self.own = Own::Entry(own.clone());
        Ok(Some(own))
    }

    /// Returns the entry for the identities that this client has presented so far.
    async fn presented_entry(&mut self) -> Result<Option<OwnEntry>, Failure> {
        if let Own::Unknown = self.own {
            let own = OwnEntry::of(self.client, self.has_identity, self.one_time.as_ref()).await?;
            self.own = own.map_or(Own::None, Own::Entry);
        }
        Ok(match &self.own {
            Own::Entry(own) => Some(own.clone()),
            _ => None,
        })
    }

    async fn exists(&self, path: &str) -> Result<bool, Failure> {
        match Sessions::retry(self.client).exists(path).await {
            // The client may not read it.
            Err(error) if error.is_no_auth() => Ok(true),
            found => Ok(found?.is_some()),
        }
    }

    async fn present_one_time(&mut self) -> Result<&OneTimeIdentity, Failure> {
        self.progress.hide();
        let identity = self.one_time.insert(OneTimeIdentity::new(self.resume, self.output)?);
        if self.is_in_the_clear {
            self.output
                .note("the one-time identity crosses the network in the clear: use TLS (--cacert)");
        }
        identity.present(self.client).await?;
        Ok(identity)
    }

    /// Names the nodes that the import leaves open, or forgets the one-time identity.
    fn note_opened(&self, is_complete: bool) {
        let of_earlier = self.one_time.as_ref().map(|it| it.open().iter()).into_iter().flatten();
        let open: BTreeSet<&String> =
            self.opened.iter().map(|(path, _)| path).chain(of_earlier).collect();
        let Some(first) = open.first() else {
            if let Some(identity) = &self.one_time {
                identity.forget();
            }
            return;
        };
        let (count, file) = (open.len(), self.one_time.as_ref().and_then(OneTimeIdentity::file));
        if let (true, Some(file)) = (is_complete, file) {
            let file = file.display();
            self.output.note(&format!(
                "{count} nodes, such as {first}, are still open to the identity of an earlier import, and \
                 were not among these: {file} stays"
            ));
            return;
        }
        let resume = file.map(|file| format!(" with --resume {}", file.display()));
        self.output.note(&format!(
            "the lists of {count} nodes have an entry more, with which this client creates what is \
             below; an import of these nodes{} that succeeds removes it (before ZooKeeper 3.7, with \
             --overwrite)",
            resume.unwrap_or_default()
        ));
        for path in open.iter().take(NODES_TOLD) {
            self.output.note(&format!("{path} is open"));
        }
    }

    /// Counts an existing node that this client may not read. An import may have created it, with a list
    /// that denies it to the importer.
    fn count_unread(&mut self, path: &str) {
        self.unread += 1;
        if self.unread <= NODES_TOLD {
            self.note(&format!("{path} exists and is not compared: no permission to read it"));
        }
    }

    /// Gives each opened node its own list, children before their parents.
    async fn close_lists(&mut self) -> Result<(), Failure> {
        while let Some((path, list)) = self.opened.last() {
            let closed = repeat(self.client, |client| client.set_acl(path, list, None)).await.0;
            match closed {
                // It was deleted meanwhile.
                Err(error) if error.is_no_node() => {}
                closed => drop(closed?),
            }
            if let Some((path, _)) = self.opened.pop() {
                self.closes(&path);
            }
        }
        Ok(())
    }

    /// Prints the result.
    fn print_summary(&self) -> Result<(), Failure> {
        let (all, created, other) = (self.progress.done(), self.created, self.other_lists);
        let unread = self.unread;
        if unread > 0 && !self.overwrites {
            let what = "of the existing nodes are not compared: no permission to read them";
            self.output.note(&format!("{unread} {what}"));
        }
        if other > 0 {
            let what = "of the existing nodes keep other access control lists; see --overwrite";
            self.output.note(&format!("{other} {what}"));
        }
        let line = format!("{all} nodes imported, {} of which existed", all - created);
        self.output.print(
            [line],
            || json!({ "imported": all, "created": created, "other_acl": other, "unread": unread }),
        )?;
        if unread > 0 && self.overwrites {
            let why = "of the existing nodes are not replaced: no permission to read them";
            return Err(Failure::other(format!("{unread} {why}")));
        }
        Ok(())
    }

    fn note(&mut self, text: &str) {
        self.progress.hide();
        self.output.note(text);
    }
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

/// Returns true if a list may deny this client the creation of children.
fn denies_children(list: &[Acl]) -> bool {
    !list.iter().any(|it| it.scheme == "world" && it.perms.contains(Perms::CREATE))
}

/// Returns true for equal lists. The server may hide the hashes of digests from this client.
fn is_same(wanted: &[Acl], present: &[Acl]) -> bool {
    let is_same = |(wanted, present): (&Acl, &Acl)| {
        let user = |entry: &Acl| entry.id.split(':').next().map(str::to_owned);
        wanted == present
            || acl::hides_hash(present)
                && (&wanted.scheme, wanted.perms) == (&present.scheme, present.perms)
                && user(wanted) == user(present)
    };
    wanted.len() == present.len() && wanted.iter().zip(present).all(is_same)
}

/// Returns true if one path is below another one.
fn is_below(path: &str, other: &str) -> bool {
    path.strip_prefix(other.trim_end_matches('/')).is_some_and(|rest| rest.starts_with('/'))
}

/// Returns the path of a node below the node at `root`.
fn absolute(root: &str, below: &str) -> String {
    match (root.trim_end_matches('/'), below) {
        ("", "/") => "/".to_owned(),
        (root, "/") => root.to_owned(),
        (root, below) => format!("{root}{below}"),
    }
}

fn code<T>(done: &Result<T, Error>) -> Option<ErrorCode> {
    done.as_ref().err()?.code()
}

/// Bytes of a line at most. The data of a node are a third longer in it.
const LINE_MAX: u64 = 2 * INPUT_MAX;

/// Existing nodes that are named, of those with another list and of those that cannot be read.
const NODES_TOLD: usize = 20;
