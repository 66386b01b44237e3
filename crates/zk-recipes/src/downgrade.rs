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
use crate::error::LockError;
use crate::holding::Holding;
use crate::limits::DOWNGRADE_FITS;
use crate::queue::admission::Admission;
use crate::queue::contender::{Contender, is_final};
use crate::queue::spec::QueueSpec;
use crate::recipe::WRITE;
use crate::retry::attempts;

/// Length of the name of a reader's or a writer's node.
const NAME_LEN: usize = "_c_0b7f36dc-3cc2-4b57-9c3e-5c3ae2f1c0de-".len() + WRITE.len() + DIGITS;

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
    let path = child(&spec.path, &"x".repeat(NAME_LEN));
    let multi = client.multi().check(&path, None);
    let multi = multi.create_with_acl(&path, data, CreateMode::Ephemeral, spec.acl());
    Ok(multi.delete(&path, None).check_len()?)
}

/// Selects whether a downgrade keeps the write node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteNode {
    /// The write node stays: the writer keeps its lock.
    Stays,
    /// The transaction that creates the read node deletes the write node.
    Goes,
}

/// Creates a read node with the number of the write node. Fails if the write lock is lost in the
/// meantime.
pub(crate) async fn beside(writer: &Holding, write_node: WriteNode) -> Result<Holding, LockError> {
    let token = writer.token()?;
    if write_node == WriteNode::Goes {
        // This must precede the deletion event of the write node, which arrives before the reply.
        writer.retire();
    }
    writer.unmark_release();
    let spec = Arc::new(writer.spec.downgraded());
    let mut reader = Contender::new(&writer.client, &spec);
    let lost_meanwhile = pin!(writer.claim.lost(writer.term));
    match select(pin!(make(&mut reader, writer, write_node)), lost_meanwhile).await {
        Either::Left((Err(LockError::Client(_)), _)) if !holds(writer) => return Err(lost(writer)),
        Either::Left((made, _)) => made?,
        Either::Right((loss, _)) => return Err(LockError::Lost(loss.into())),
    }
    match holds(writer) {
        // The reader and the writer share a session, so the reader is bound to the writer's lease.
        true => Ok(Holding::new(reader, writer.term)?.with_token(token)),
        false => Err(lost(writer)),
    }
}

async fn make(
    reader: &mut Contender,
    writer: &Holding,
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
            if write_node == WriteNode::Goes {
                multi = multi.delete(&writer.node.path, None);
            }
            // Servers before 3.7.2 and 3.8.2 do not return the Stat of the new node.
            (multi.send(), client.exists(&path))
        };
        reader.expect_node();
        let error = match (made.await, seen.await) {
            (Ok(_), Ok(Some(stat))) => return reader.adopt(Created { path, stat }),
            (Ok(_), Ok(None)) => return Err(writer.found_deleted()),
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

fn holds(writer: &Holding) -> bool {
    writer.claim.holds(writer.term)
}

fn lost(writer: &Holding) -> LockError {
    LockError::Lost(writer.claim.loss().into())
}

/// Returns true if the first operation, the check, found no write node.
fn is_check_failed(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::RolledBack { index: 0, code: ErrorCode::NO_NODE, .. })
}
