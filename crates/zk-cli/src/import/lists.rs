//! The lists that an import opens to itself, and closes at its end.

use std::collections::{BTreeSet, HashSet};

use zk_recipes::session::limits::NODES_AT_ONCE;
use zk_recipes::session::{Acl, Client, Error, Outcome, Perms, path::parent};

use super::Importer;
use super::identity::{OneTimeIdentity, Stored, own_entry};
use crate::at_once::{ask, repeat, write_each};
use crate::prelude::{Failure, Result, Session};
use crate::transfer::{NODES_TOLD, Wanted};

/// Whether this client can have an entry in a list, as far as it is known.
pub(super) enum Own {
    Unknown,
    /// The client has presented no identity.
    None,
    /// It has, and the server stores these for its entry.
    Presented(Stored),
    /// The server takes none for the identities that the client has presented.
    Refused,
}

/// An existing parent whose list, which is that of the input, may deny the creation of children.
#[derive(Clone)]
pub(super) struct ClosedParent {
    pub(super) path: String,
    pub(super) list: Vec<Acl>,
}

impl Importer<'_> {
    /// Returns for each node of a batch whether it is created open: the parents that may deny this client
    /// to create their children. One that exists is opened only if the client has presented an identity.
    pub(super) async fn parents_to_open(&mut self, batch: &[Wanted]) -> Result<Vec<bool>> {
        let is_closed = |node: &Wanted| node.is_parent && denies_children(&node.acl);
        let mut has_identity = false;
        if let Some(first) = batch.iter().find(|node| is_closed(node)) {
            let own = self.presented().await;
            has_identity = own.map_err(|failure| failure.with_line(first.line))?.is_some();
        }
        let is_asked = !has_identity && !matches!(self.own, Own::Refused);
        let session = self.session;
        let asked = batch.iter().map(|node| {
            let is_asked = is_asked && is_closed(node);
            is_asked.then(|| ask(session, move |client| client.exists(&node.path)))
        });
        let asked: Vec<_> = asked.collect();
        let mut opens = Vec::with_capacity(batch.len());
        for (wanted, asked) in batch.iter().zip(asked) {
            let failed = |failure: Failure| failure.with_line(wanted.line);
            if let (false, Some(asked)) = (has_identity, asked) {
                // An identity is made only for a node that is to be created.
                has_identity = match asked.await {
                    // The client may not read it.
                    Err(error) if error.is_no_auth() => false,
                    found => found.map_err(|error| failed(error.into()))?.is_none(),
                };
            }
            let is_opened =
                has_identity && is_closed(wanted) && self.can_open().await.map_err(failed)?;
            if is_opened {
                self.opens(&wanted.path).map_err(failed)?;
            }
            opens.push(is_opened);
        }
        Ok(opens)
    }

    /// Gives an existing node the entry of this client, until it gets its own `list`. Returns false if
    /// that does not help to create its children.
    pub(super) async fn open(&mut self, path: &str, list: &[Acl]) -> Result<bool> {
        if !denies_children(list) || !self.can_open().await? {
            return Ok(false);
        }
        self.opens(path)?;
        let open = opened(list);
        let set = repeat(self.session, |client| client.set_acl(path, &open, None)).await.0;
        self.has_opened(path, list, set.as_ref().err());
        set?;
        Ok(true)
    }

    /// Notes the end of a request to open a node with the list `own`.
    pub(super) fn has_opened(&mut self, path: &str, own: &[Acl], failed: Option<&Error>) {
        if failed.is_none_or(|error| error.outcome() == Outcome::Unknown) {
            self.opened.push((path.to_owned(), own.to_vec()));
        } else if let Some(identity) = &mut self.one_time {
            identity.has_not_opened(path);
        }
    }

    /// Notes that a node is about to be opened.
    pub(super) fn opens(&mut self, path: &str) -> Result<()> {
        self.one_time.as_mut().map_or(Ok(()), |identity| identity.opens(path))
    }

    pub(super) fn closes(&mut self, path: &str) {
        if let Some(identity) = &mut self.one_time {
            identity.closes(path);
        }
    }

    /// Opens the existing parent of a node that it denies. Returns false if there is none that this
    /// client may open.
    pub(super) async fn open_parent(&mut self, path: &str) -> Result<bool> {
        let is_parent = |above: &&ClosedParent| parent(path) == Some(&above.path);
        let Some(above) = self.closed.last().filter(is_parent).cloned() else {
            return Ok(false);
        };
        let is_opened = match self.open(&above.path, &above.list).await {
            Err(failure) if failure.is_no_auth() => false,
            opened => opened?,
        };
        if is_opened {
            self.closed.pop();
        }
        Ok(is_opened)
    }

    /// Returns true if this client can have an entry in a list. It presents a one-time identity if it has
    /// no other one.
    async fn can_open(&mut self) -> Result<bool> {
        self.presented().await?;
        if let Own::None = self.own {
            self.own = Own::Presented(Stored::of_one_time(self.present_one_time().await?));
        }
        Ok(matches!(self.own, Own::Presented(_)))
    }

    /// Returns the identities that this client has presented so far.
    pub(super) async fn presented(&mut self) -> Result<Option<&Stored>> {
        if let Own::Unknown = self.own {
            let own = Stored::of(self.session, self.one_time.as_ref()).await?;
            self.own = own.map_or(Own::None, Own::Presented);
        }
        Ok(match &self.own {
            Own::Presented(own) => Some(own),
            _ => None,
        })
    }

    async fn present_one_time(&mut self) -> Result<&OneTimeIdentity> {
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
        let of_identity = self.one_time.iter().flat_map(OneTimeIdentity::open);
        let open: BTreeSet<&String> =
            self.opened.iter().map(|(path, _)| path).chain(of_identity).collect();
        let Some(first) = open.first() else {
            if let Some(identity) = &self.one_time {
                identity.forget();
            }
            return;
        };
        let (count, file) =
            (open.len(), self.one_time.as_ref().and_then(|identity| identity.file.as_ref()));
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
    pub(super) async fn close_lists(&mut self) -> Result<()> {
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
        let close =
            |client: &Client, (path, list): &(String, Vec<Acl>)| client.set_acl(path, list, None);
        let session = self.session;
        let closing = write_each(session, last.iter().rev(), close, |node, closed, was_lost| {
            match closed {
                // It was deleted meanwhile, or the lost request has set the list, which denies this client
                // the next one.
                Err(error) if !(error.is_no_node() || was_lost && error.is_no_auth()) => {
                    self.opened.push(node.clone());
                    return Err(error);
                }
                _ => self.closes(&node.0),
            }
            Ok(())
        });
        closing.await.map_err(|(_, error)| error)
    }
}

/// Returns a list with the entry of this client.
pub(super) fn opened(list: &[Acl]) -> Vec<Acl> {
    list.iter().cloned().chain([own_entry()]).collect()
}

/// Returns true if a list may deny this client the creation of children.
pub(super) fn denies_children(list: &[Acl]) -> bool {
    !list.iter().any(|entry| entry.scheme == "world" && entry.perms.contains(Perms::CREATE))
}
