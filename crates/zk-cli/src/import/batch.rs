//! The nodes of the input, many at once.
//!
//! The requests of each step are under way together: creations first, then reads of existing nodes, then
//! their changes. A server handles the requests of a session in order, so a parent exists before its
//! children. Each node that fails at first is tried again alone, in the order of the lines.

use std::convert::Infallible;
use std::mem::take;

use zk_recipes::session::limits::NODES_AT_ONCE;
use zk_recipes::session::{Client, CreateMode, Created, Error, ErrorCode, Outcome, path::parent};

use super::Importer;
use super::compare::Change;
use super::lists::{Own, opened};
use crate::at_once::{ReadNode, ask_each, ask_node};
use crate::at_once::{after_loss, repeat};
use crate::prelude::{Duration, Failure, Result};
use crate::transfer::{Kind, Wanted, is_below};

/// Nodes that are imported together.
pub(super) struct Batch {
    nodes: Vec<Wanted>,
    data_len: usize,
    nodes_max: usize,
}

impl Batch {
    /// Creates the first batch. The first node is alone: if the input does not fit there, it ends the import.
    pub(super) fn first() -> Self {
        Self { nodes: Vec::new(), data_len: 0, nodes_max: 1 }
    }

    /// Returns true if a node can be imported with the others. Two nodes of one path are in two batches: the
    /// second one is compared with the result of the first one.
    pub(super) fn has_room_for(&self, next: &Wanted) -> bool {
        self.nodes.is_empty()
            || self.nodes.len() < self.nodes_max
                && self.data_len + next.data_len() <= BATCH_BYTES_MAX
                && self.nodes.iter().all(|node| node.path != next.path)
    }

    pub(super) fn push(&mut self, next: Wanted) {
        self.data_len += next.data_len();
        self.nodes.push(next);
    }

    /// Returns the nodes, and begins the next batch.
    pub(super) fn take(&mut self) -> Vec<Wanted> {
        self.nodes_max = (4 * self.nodes_max).min(NODES_AT_ONCE);
        self.data_len = 0;
        take(&mut self.nodes)
    }
}

/// Bytes of data in a batch, unless one node has more. On a slow network all of them must arrive within the
/// time limit of a request.
const BATCH_BYTES_MAX: usize = 1024 * 1024;

/// The first attempt to create a node.
struct Attempt {
    created: Result<(), Error>,
    /// Whether the node was to be created with the entry of this client.
    is_open: bool,
    /// The node that was there already.
    present: Option<Result<ReadNode, Error>>,
}

impl Attempt {
    fn code(&self) -> Option<ErrorCode> {
        self.created.as_ref().err()?.code()
    }

    /// Returns true if the node was created, or another one was there before. A repetition may have another
    /// outcome otherwise: an earlier line may not be settled yet.
    fn is_final(&self) -> bool {
        let is_there = |present: &Result<ReadNode, Error>| match present {
            Ok(_) => true,
            // The existence of the node is checked before its list.
            Err(error) => error.is_no_auth(),
        };
        self.created.is_ok() || self.present.as_ref().is_some_and(is_there)
    }
}

impl Importer<'_> {
    /// Creates nodes, or compares them with the existing ones. Some of those behind a node that fails are
    /// created as well.
    pub(super) async fn import_batch(&mut self, batch: Vec<Wanted>) -> Result<()> {
        let opens = self.parents_to_open(&batch).await?;
        let mut attempts = self.create_all(&batch, opens).await;
        self.read_existing(&batch, &mut attempts).await;
        let (mut changes, mut failed, mut later) = (Vec::new(), None, 0);
        for (wanted, attempt) in batch.iter().zip(attempts) {
            if failed.is_some() {
                later += usize::from(attempt.created.is_ok());
                continue;
            }
            match self.settle(wanted, attempt, &mut changes).await {
                Ok(()) => self.progress.one_more(),
                Err(failure) => failed = Some(failure.with_line(wanted.line)),
            }
        }
        // Their lines come before the failed one.
        self.finish(changes).await?;
        let text = format!("; {later} nodes of later lines were created");
        failed.map_or(Ok(()), |failure| Err(failure.applied_to(later, &text)))
    }

    /// Sends the requests to create all nodes, and awaits their answers.
    async fn create_all(&mut self, batch: &[Wanted], opens: Vec<bool>) -> Vec<Attempt> {
        let client = &self.session.client;
        let sent: Vec<_> = batch
            .iter()
            .zip(&opens)
            .map(|(wanted, is_open)| create(client, wanted, *is_open))
            .collect();
        let mut attempts = Vec::with_capacity(batch.len());
        for ((wanted, is_open), sent) in batch.iter().zip(opens).zip(sent) {
            let created = sent.await.map(drop);
            self.has_created(wanted, is_open, &created);
            attempts.push(Attempt { created, is_open, present: None });
        }
        attempts
    }

    /// Notes the end of a request to create a node.
    fn has_created(&mut self, wanted: &Wanted, is_open: bool, created: &Result<(), Error>) {
        if is_open {
            self.has_opened(&wanted.path, &wanted.acl, created.as_ref().err());
        }
        self.created += usize::from(created.is_ok());
    }

    /// Reads the nodes that exist, or may exist below a parent that denies their creation.
    async fn read_existing(&mut self, batch: &[Wanted], attempts: &mut [Attempt]) {
        let may_exist = |attempt: &Attempt| {
            matches!(attempt.code(), Some(ErrorCode::NODE_EXISTS | ErrorCode::NO_AUTH))
        };
        let existing = (0..batch.len()).filter(|at| may_exist(&attempts[*at]));
        let existing: Vec<usize> = existing.collect();
        let (session, wants_acl) = (self.session, !self.args.no_acl);
        let read = |at: &usize| ask_node(session, &batch[*at].path, wants_acl);
        let mut keep = |at: &usize, answers| {
            attempts[*at].present = Some(answers);
            Ok::<(), Infallible>(())
        };
        let Ok(()) = ask_each(&existing, &mut self.at_once, read, &mut keep).await;
    }

    /// Ends the import of one node. Its earlier lines are settled.
    async fn settle<'b>(
        &mut self,
        wanted: &'b Wanted,
        attempt: Attempt,
        changes: &mut Vec<Change<'b>>,
    ) -> Result<()> {
        let (path, is_final) = (&wanted.path, attempt.is_final());
        self.closed.retain(|above| is_below(path, &above.path));
        let Attempt { mut created, is_open, mut present } = attempt;
        let mut was_lost = created.as_ref().is_err_and(|error| error.outcome() == Outcome::Unknown);
        if !is_final {
            present = None;
            let (again, is_lost) = self.create(wanted, is_open).await?;
            was_lost |= is_lost;
            created = after_loss(again, was_lost);
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
        let present = match present {
            Some(present) => present,
            None => ask_node(self.session, path, !self.args.no_acl).await,
        };
        match present {
            Ok((data, acl)) => {
                let is_same = self.compare_data(wanted, &data, changes)?;
                self.created += usize::from(was_lost && is_same);
                match acl {
                    Some(acl) => self.compare_list(wanted, &acl, changes).await,
                    None => Ok(()),
                }
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
                Ok(self.create(wanted, is_open).await?.0?)
            }
            Err(unread) => Err(unread.into()),
        }
    }

    /// Creates a node, and counts it. If it `is_open` and the server takes that, it has the entry of this
    /// client. Returns also whether an answer was lost.
    async fn create(
        &mut self,
        wanted: &Wanted,
        is_open: bool,
    ) -> Result<(Result<(), Error>, bool)> {
        let mut was_lost = false;
        loop {
            let is_open = is_open && !matches!(self.own, Own::Refused);
            if is_open {
                self.opens(&wanted.path)?;
            }
            let request = |client: &Client| create(client, wanted, is_open);
            let (created, is_lost) = repeat(self.session, request).await;
            let created = created.map(drop);
            was_lost |= is_lost;
            self.has_created(wanted, is_open, &created);
            match created {
                Err(error) if is_open && error.code() == Some(ErrorCode::INVALID_ACL) => {
                    self.own = Own::Refused;
                }
                created => return Ok((after_loss(created, was_lost), was_lost)),
            }
        }
    }
}

/// Sends the request to create a node, with the entry of this client if it `is_open`.
fn create(
    client: &Client,
    wanted: &Wanted,
    is_open: bool,
) -> impl Future<Output = Result<Created, Error>> + use<> {
    let new = client.create_builder(&wanted.path);
    let new = if is_open { new.acl(opened(&wanted.acl)) } else { new.acl(&wanted.acl) };
    let new = match &wanted.node.data {
        Some(data) => new.data(data),
        None => new.null_data(),
    };
    match wanted.node.kind {
        Kind::Persistent => new.create(),
        Kind::Container => new.mode(CreateMode::Container).create(),
        Kind::Ttl { ms } => new.ttl(Duration::from_millis(ms)).create(),
    }
}
