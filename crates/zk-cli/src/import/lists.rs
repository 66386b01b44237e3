//! The lists that an import opens to itself, and closes at its end.

use std::collections::{BTreeSet, HashSet};

use zk_recipes::session::limits::NODES_AT_ONCE;
use zk_recipes::session::{Acl, Client, Error, Outcome, Pending, Perms, Stat, path::parent};

use super::Importer;
use super::identity::{OneTimeIdentity, OwnEntry};
use crate::at_once::or_again;
use crate::at_once::{repeat, repeat_sent};
use crate::failure::Failure;
use crate::sessions::Session;
use crate::transfer::{NODES_TOLD, Wanted};

/// The entry of this client, as far as it is known.
pub(super) enum Own {
    Unknown,
    /// The client has presented no identity.
    None,
    Entry(OwnEntry),
    /// The server takes none for the identities that the client has presented.
    Refused,
}

/// An existing parent whose list, which is that of the input, may deny the creation of children.
#[derive(Clone)]
pub(super) struct ClosedParent {
    pub(super) path: String,
    pub(super) list: Vec<Acl>,
}

/// The list with which a parent is created.
pub(super) struct Opening {
    pub(super) list: Vec<Acl>,
    /// Whether the one-time identity did not note the node before.
    pub(super) is_new: bool,
}

impl Importer<'_> {
    /// Returns the lists for the parents in a batch that may deny this client to create their children. A
    /// parent that exists is opened only if the client has presented an identity.
    pub(super) async fn lists_to_open(
        &mut self,
        batch: &[Wanted],
    ) -> Result<Vec<Option<Opening>>, Failure> {
        let is_closed = |node: &Wanted| node.is_parent && denies_children(&node.acl);
        let mut has_identity = false;
        if let Some(first) = batch.iter().find(|node| is_closed(node)) {
            let own = self.presented_entry().await;
            has_identity = own.map_err(|failure| failure.with_line(first.line))?.is_some();
        }
        let is_asked = |node: &Wanted| is_closed(node) && !has_identity && !self.is_refused();
        let asked: Vec<_> = batch
            .iter()
            .map(|node| is_asked(node).then(|| self.session.client.exists(&node.path)))
            .collect();
        let mut opens = Vec::with_capacity(batch.len());
        for (wanted, asked) in batch.iter().zip(asked) {
            let failed = |failure: Failure| failure.with_line(wanted.line);
            if !has_identity {
                if let Some(asked) = asked {
                    // An identity is made only for a node that is to be created.
                    has_identity = !self.exists(asked, &wanted.path).await.map_err(failed)?;
                }
            }
            let is_opened = has_identity && is_closed(wanted);
            opens.push(if is_opened { self.opening(wanted).await.map_err(failed)? } else { None });
        }
        Ok(opens)
    }

    async fn opening(&mut self, wanted: &Wanted) -> Result<Option<Opening>, Failure> {
        let Some(list) = self.opened_list(&wanted.acl).await? else { return Ok(None) };
        Ok(Some(Opening { list, is_new: self.opens(&wanted.path)? }))
    }

    fn is_refused(&self) -> bool {
        matches!(self.own, Own::Refused)
    }

    /// Gives an existing node the `open` list until it gets its `own` one.
    pub(super) async fn open(
        &mut self,
        path: &str,
        open: &[Acl],
        own: &[Acl],
    ) -> Result<(), Failure> {
        let is_new = self.opens(path)?;
        let set = repeat(self.session, |client| client.set_acl(path, open, None)).await.0;
        self.has_opened(path, own, is_new, set.as_ref().err());
        set?;
        Ok(())
    }

    /// Notes the end of a request to open a node with the list `own`. `is_new` is what
    /// [`opens`](Self::opens) returned before.
    pub(super) fn has_opened(
        &mut self,
        path: &str,
        own: &[Acl],
        is_new: bool,
        failed: Option<&Error>,
    ) {
        if failed.is_none_or(|error| error.outcome() == Outcome::Unknown) {
            self.opened.push((path.to_owned(), own.to_vec()));
        } else if is_new {
            self.closes(path);
        }
    }

    /// Notes that a node is about to be opened. Returns true if it was not noted before.
    pub(super) fn opens(&mut self, path: &str) -> Result<bool, Failure> {
        self.one_time.as_mut().map_or(Ok(false), |identity| identity.opens(path))
    }

    pub(super) fn closes(&mut self, path: &str) {
        if let Some(identity) = &mut self.one_time {
            identity.closes(path);
        }
    }

    /// Opens the existing parent of a node that it denies. Returns false if there is none that this
    /// client may open.
    pub(super) async fn open_parent(&mut self, path: &str) -> Result<bool, Failure> {
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
    pub(super) async fn opened_list(&mut self, list: &[Acl]) -> Result<Option<Vec<Acl>>, Failure> {
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
    pub(super) async fn presented_entry(&mut self) -> Result<Option<OwnEntry>, Failure> {
        if let Own::Unknown = self.own {
            let own = OwnEntry::of(self.session, self.one_time.as_ref()).await?;
            self.own = own.map_or(Own::None, Own::Entry);
        }
        Ok(match &self.own {
            Own::Entry(own) => Some(own.clone()),
            _ => None,
        })
    }

    async fn exists(&self, asked: Pending<Option<Stat>>, path: &str) -> Result<bool, Failure> {
        match or_again(asked, || self.session.retry.exists(path)).await {
            // The client may not read it.
            Err(error) if error.is_no_auth() => Ok(true),
            found => Ok(found?.is_some()),
        }
    }

    async fn present_one_time(&mut self) -> Result<&OneTimeIdentity, Failure> {
        let Session { client, output, context, .. } = self.session;
        self.progress.hide();
        let identity = OneTimeIdentity::new(self.args.resume.as_deref(), *output)?;
        let identity = self.one_time.insert(identity);
        if context.is_in_the_clear {
            output
                .note("the one-time identity crosses the network in the clear: use TLS (--cacert)");
        }
        identity.present(client).await?;
        Ok(identity)
    }

    /// Names the nodes that the import leaves open, or forgets the one-time identity.
    pub(super) fn note_opened(&self, is_complete: bool) {
        let of_earlier =
            self.one_time.as_ref().map(|identity| identity.open().iter()).into_iter().flatten();
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
            self.session.output.note(&format!(
                "{count} nodes, such as {first}, are still open to the identity of an earlier import, and \
                 were not among these: {file} stays"
            ));
            return;
        }
        let resume = file.map(|file| format!(" with --resume {}", file.display()));
        self.session.output.note(&format!(
            "the lists of {count} nodes have an entry more, with which this client creates what is \
             below; an import of these nodes{} that succeeds removes it (before ZooKeeper 3.7, with \
             --overwrite)",
            resume.unwrap_or_default()
        ));
        for path in open.iter().take(NODES_TOLD) {
            self.session.output.note(&format!("{path} is open"));
        }
    }

    /// Gives each opened node its own list, children before their parents.
    pub(super) async fn close_lists(&mut self) -> Result<(), Failure> {
        // The first change of a list may deny this client a second one.
        let mut noted = HashSet::new();
        self.opened.retain(|(path, _)| noted.insert(path.clone()));
        while !self.opened.is_empty() {
            let behind = self.opened.len().saturating_sub(NODES_AT_ONCE);
            self.close_last(behind).await?;
        }
        Ok(())
    }

    /// Gives the opened nodes from the one at `behind` on their own lists. Nodes that stay open stay noted.
    async fn close_last(&mut self, behind: usize) -> Result<(), Error> {
        let last = self.opened.split_off(behind);
        let close = |path: &str, list: &[Acl]| self.session.client.set_acl(path, list, None);
        let sent: Vec<_> = last.iter().rev().map(|(path, list)| close(path, list)).collect();
        let mut failed = None;
        for ((path, list), sent) in last.iter().rev().zip(sent) {
            let again = |client: &Client| client.set_acl(path, list, None);
            let (closed, was_lost) = match failed {
                None => repeat_sent(self.session, sent, again).await,
                Some(_) => (sent.await, false),
            };
            match closed {
                // The lost request has set the list, which denies this client the next one.
                Err(error) if was_lost && error.is_no_auth() => self.closes(path),
                // It was deleted meanwhile.
                Err(error) if !error.is_no_node() => {
                    self.opened.push((path.clone(), list.clone()));
                    failed.get_or_insert(error);
                }
                _ => self.closes(path),
            }
        }
        failed.map_or(Ok(()), Err)
    }
}

/// Returns true if a list may deny this client the creation of children.
pub(super) fn denies_children(list: &[Acl]) -> bool {
    !list.iter().any(|entry| entry.scheme == "world" && entry.perms.contains(Perms::CREATE))
}
