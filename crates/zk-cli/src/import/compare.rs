//! Existing nodes, compared with those of the input.

use zk_recipes::session::{Acl, Client, NodeAcl, NodeData, Pending, Stat};

use super::Importer;
use super::lists::{ClosedParent, denies_children};
use crate::acl;
use crate::at_once::write_each;
use crate::prelude::{Failure, Result};
use crate::transfer::{NODES_TOLD, Wanted};

/// A change of an existing node.
pub(super) struct Change<'b> {
    wanted: &'b Wanted,
    request: fn(&Client, &Wanted) -> Pending<Stat>,
}

impl Importer<'_> {
    /// Compares the data of an existing node with the wanted one, and sets it if asked to. Returns
    /// whether both were the same.
    pub(super) fn compare_data<'b>(
        &self,
        wanted: &'b Wanted,
        present: &NodeData,
        changes: &mut Vec<Change<'b>>,
    ) -> Result<bool> {
        if present.nullable() == wanted.node.data.as_deref() {
            return Ok(true);
        }
        if !self.args.overwrite {
            let why = "exists with other data; see --overwrite";
            return Err(Failure::other(format!("{} {why}", wanted.path)));
        }
        changes.push(Change { wanted, request: set_data });
        Ok(false)
    }

    /// Compares the list of an existing node with the wanted one, and sets it if asked to.
    pub(super) async fn compare_list<'b>(
        &mut self,
        wanted: &'b Wanted,
        present: &NodeAcl,
        changes: &mut Vec<Change<'b>>,
    ) -> Result<()> {
        let (path, list, present) = (&wanted.path, &wanted.acl, &present.acl);
        let is_begun = is_same(list, &present[..list.len().min(present.len())]);
        let added = present.get(list.len()..).unwrap_or_default();
        if is_begun && added.is_empty() {
            self.closes(path);
            if self.args.overwrite && wanted.is_parent && denies_children(list) {
                self.closed.push(ClosedParent { path: path.clone(), list: list.clone() });
            }
            return Ok(());
        }
        let own = if is_begun { self.presented().await? } else { None };
        if own.is_some_and(|own| added.iter().all(|entry| own.has_left(entry))) {
            // An import that failed has left it.
            self.opened.push((path.clone(), list.clone()));
            return Ok(());
        }
        if !self.args.overwrite {
            self.other_lists += 1;
            if self.other_lists <= NODES_TOLD {
                self.note(&format!("{path} keeps another access control list than in the input"));
            }
            return Ok(());
        }
        if !wanted.is_parent || !self.open(path, list).await? {
            changes.push(Change { wanted, request: set_list });
        }
        Ok(())
    }

    /// Counts an existing node that this client may not read. An import may have created it, with a list
    /// that denies it to the importer.
    pub(super) fn count_unread(&mut self, path: &str) {
        self.unread += 1;
        if self.unread <= NODES_TOLD {
            self.note(&format!("{path} exists and is not compared: no permission to read it"));
        }
    }

    /// Changes the existing nodes. Changes after a failed one are applied as well.
    pub(super) async fn finish(&self, changes: Vec<Change<'_>>) -> Result<()> {
        let request =
            |client: &Client, change: &Change<'_>| (change.request)(client, change.wanted);
        let done =
            write_each(self.session, changes.iter(), request, |_, done, was_lost| match done {
                // A list that a lost request has set may deny this client the next one.
                Err(error) if !(was_lost && error.is_no_auth()) => Err(error),
                _ => Ok(()),
            });
        let failed =
            |(change, error): (&Change<'_>, _)| Failure::from(error).with_line(change.wanted.line);
        done.await.map_err(failed)
    }
}

fn set_data(client: &Client, wanted: &Wanted) -> Pending<Stat> {
    match &wanted.node.data {
        Some(data) => client.set_data(&wanted.path, data, None),
        None => client.set_null_data(&wanted.path, None),
    }
}

fn set_list(client: &Client, wanted: &Wanted) -> Pending<Stat> {
    client.set_acl(&wanted.path, &wanted.acl, None)
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
