//! Downgrades: a read node that takes the position of a write node.
//!
//! One transaction creates the read node and checks the write node. So a writer that has lost its
//! lock can never place a reader ahead of the current holder. If the reply is lost, the node is
//! found like that of every contender.

use std::pin::pin;
use std::sync::Arc;

use futures::future::{Either, select};
use zk_session::path::child;
use zk_session::{Client, CreateMode, Created, Error, ErrorCode, ErrorKind, Outcome, Repeat};

use crate::child_order::DIGITS;
use crate::error::{LockError, LossReason};
use crate::fencing_token::FencingToken;
use crate::holding::{HeldNode, Holding};
use crate::limits::DOWNGRADE_FITS;
use crate::queue::admission::Admission;
use crate::queue::contender::{Contender, is_final};
use crate::queue::name::READ_WRITE_LEN;
use crate::queue::spec::QueueSpec;
use crate::retry::attempts;

/// Checks that a contender with these nodes can be downgraded, if it is a writer. The transaction has
/// three paths, the request that creates the write node has one, and the server's frame limit is the
/// same for both.
///
/// # Errors
/// As [`Multi::check_len`](zk_session::Multi::check_len).
pub(crate) fn check_len(client: &Client, spec: &QueueSpec) -> Result<(), LockError> {
    let data = spec.data.as_deref().unwrap_or_default();
    let fits = || {
        spec.has_default_acl()
            && data.len() + 4 * client.full_path(&spec.path).len() <= DOWNGRADE_FITS
    };
    if spec.admission != Admission::First || fits() {
        return Ok(());
    }
    let path = child(&spec.path, &"x".repeat(READ_WRITE_LEN));
    let multi = client.multi().check(&path, None);
    let multi = multi.create_with_acl(&path, data, CreateMode::Ephemeral, spec.acl());
    Ok(multi.delete(&path, None).check_len()?)
}

/// Selects whether a downgrade keeps the write node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteNode {
    /// The write node stays: the writer keeps its lock.
    Kept,
    /// The transaction that creates the read node deletes the write node.
    Deleted,
}

/// A held write lock, beside which a read node is made. It is no reference to the hold, so the last guard
/// can release the lock meanwhile.
pub(crate) struct HeldWriter {
    held: Arc<HeldNode>,
    token: FencingToken,
}

impl HeldWriter {
    /// # Errors
    /// Returns [`LockError::Lost`] if the lock may be lost.
    pub(crate) fn of(hold: &Holding) -> Result<Self, LockError> {
        let token = hold.token()?;
        hold.unmark_release();
        Ok(Self { held: hold.held_node(), token })
    }

    /// Returns true if the last guard has released the lock.
    pub(crate) fn is_released(&self) -> bool {
        self.held.end.known() == Some(LossReason::Released)
    }
}

/// Creates a read node with the number of the write node. Fails if the write lock is lost or released in
/// the meantime.
pub(crate) async fn beside(
    writer: &HeldWriter,
    write_node: WriteNode,
) -> Result<Holding, LockError> {
    let HeldWriter { held, token } = writer;
    if write_node == WriteNode::Deleted {
        // This must precede the deletion event of the write node, which arrives before the reply.
        held.end.set(LossReason::Released);
    }
    let spec = Arc::new(held.spec.downgraded());
    let mut reader = Contender::new(&held.client, &spec);
    let lost_meanwhile = pin!(held.claim.lost(held.term));
    match select(pin!(make(&mut reader, held, write_node)), lost_meanwhile).await {
        Either::Left((Err(LockError::Client(_)), _)) if !holds(held) => return Err(lost(held)),
        Either::Left((made, _)) => made?,
        Either::Right((loss, _)) => return Err(LockError::Lost(loss.into())),
    }
    match holds(held) {
        // The reader and the writer share a session, so the reader is bound to the writer's lease.
        true => Ok(Holding::new(reader, held.term)?.with_token(*token)),
        false => Err(lost(held)),
    }
}

async fn make(
    reader: &mut Contender,
    writer: &HeldNode,
    write_node: WriteNode,
) -> Result<(), LockError> {
    let client = reader.client.clone();
    let spec = reader.spec.clone();
    let acl = spec.acl();
    let (number, data) = (number(&writer.node.path), reader.data());
    let path = reader.path_asked_for(number);
    let mut attempts = attempts();
    loop {
        let (made, seen) = {
            let _one_write = client.batch();
            let mode = CreateMode::Ephemeral;
            let mut multi = writer.multi().create_with_acl(&path, &data, mode, acl);
            if write_node == WriteNode::Deleted {
                multi = multi.delete(&writer.node.path, None);
            }
            // Servers before 3.7.2 and 3.8.2 do not return the Stat of the new node.
            (multi.send(), client.exists(&path))
        };
        reader.expect_node();
        let error = match (made.await, seen.await) {
            (Ok(_), Ok(Some(stat))) => return reader.adopt(Created { path, stat }),
            // Another client has deleted it since. The write node may still exist.
            (Ok(_), Ok(None)) => return Err(LockError::NodeDeleted { path }),
            (Err(error), _) if error.outcome() == Outcome::NotApplied => {
                reader.forget_node();
                if is_check_failed(&error) {
                    return Err(writer.found_deleted());
                }
                attempts.again(&client, error, Repeat::NotApplied).await?;
                continue;
            }
            (Err(error), _) | (Ok(_), Err(error)) => error,
        };
        if is_final(&error) {
            return Err(error.into());
        }
        if reader.find().await? {
            return Ok(());
        }
        attempts.again(&client, error, Repeat::Unanswered).await?;
    }
}

/// Returns the digits at the end of a write node's path. The server wrote them, so they are ASCII.
fn number(path: &str) -> &str {
    path.len().checked_sub(DIGITS).and_then(|at| path.get(at..)).unwrap_or_default()
}

fn holds(writer: &HeldNode) -> bool {
    writer.claim.holds(writer.term)
}

fn lost(writer: &HeldNode) -> LockError {
    LockError::Lost(writer.claim.loss().into())
}

/// Returns true if the first operation, the check, found no write node.
fn is_check_failed(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::RolledBack { index: 0, code: ErrorCode::NO_NODE, .. })
}
