//! Downgrades: a read node that takes the position of a write node.
//!
//! One transaction creates the read node and checks the write node. So a writer that has lost its
//! lock can never place a reader ahead of the current holder. If the reply is lost, the node is
//! found like that of every contender.

use std::pin::pin;

use futures::future::{Either, select};
use zk_session::path::child;
use zk_session::{Client, CreateMode, Created, Error, ErrorCode, ErrorKind, Outcome, Repeat};

use crate::child_order::DIGITS;
use crate::error::{LockError, LossReason};
use crate::fencing_token::FencingToken;
use crate::hold::{Guard, Hold};
use crate::limits::DOWNGRADE_FITS;
use crate::queue::Queue;
use crate::queue::contender::{Contender, Granted, is_final};
use crate::queue::spec::READ_WRITE_LEN;
use crate::retry::attempts;

/// Checks that a writer with these nodes can be downgraded. The transaction has three paths, the request
/// that creates the write node has one, and the server's frame limit is the same for both.
pub(super) fn check_len(Queue { client, spec, .. }: &Queue) -> Result<(), LockError> {
    let data = spec.data.as_deref().unwrap_or_default();
    let len = data.len() + 4 * client.full_path(&spec.path).len();
    if spec.has_default_acl() && len <= DOWNGRADE_FITS {
        return Ok(());
    }
    let path = child(&spec.path, &"x".repeat(READ_WRITE_LEN));
    let multi = client.multi().check(&path, None);
    let multi = multi.create_with_acl(&path, data, CreateMode::Ephemeral, spec.acl());
    Ok(multi.delete(&path, None).check_len()?)
}

/// Selects whether a downgrade keeps the write node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteNode {
    /// The write node stays: the writer keeps its lock.
    Kept,
    /// The transaction that creates the read node deletes the write node.
    Deleted,
}

/// Creates a read node with the number of the write node, which has [made place](Hold::prepare_beside) for
/// it and returned `client`. Fails if the write lock is lost, or its node deleted, in the meantime. The
/// guard of the read lock keeps `token`, that of the writer.
pub(super) async fn beside(
    writer: &Hold,
    client: Client,
    token: FencingToken,
    write_node: WriteNode,
) -> Result<Guard, LockError> {
    if write_node == WriteNode::Deleted {
        // This must precede the deletion event of the write node, which arrives before the reply.
        writer.set_end(LossReason::Released);
    }
    let queue = Queue::new(&client, writer.queue.spec.downgraded());
    let (observed, term) = (queue.spec.observe(), writer.term);
    // The reader and the writer share a session, so the reader is bound to the writer's term.
    let lease = client.claim_lease();
    let mut reader = Contender::new(&queue);
    match select(pin!(make(&mut reader, writer, write_node)), pin!(lease.lost(term))).await {
        Either::Left((Err(LockError::Client(_)), _)) if !lease.holds(term) => {}
        Either::Left((made, _)) => made?,
        Either::Right((loss, _)) => return Err(LockError::Lost(loss.into())),
    }
    if !lease.holds(term) {
        return Err(LockError::Lost(lease.loss().into()));
    }
    let reading = Granted { observed, ..reader.grant(lease, term)? };
    Ok(Guard::with_token(reading, token))
}

async fn make(
    reader: &mut Contender,
    writer: &Hold,
    write_node: WriteNode,
) -> Result<(), LockError> {
    let Queue { client, spec, .. } = reader.queue.clone();
    let acl = spec.acl();
    let (number, data) = (number(&writer.node.path), spec.data(&client));
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
            (Ok(_), Ok(Some(stat))) => return reader.adopt(Created { path, stat }).map(drop),
            // Another client has deleted it since. Without the write node, the lock is lost.
            (Ok(_), Ok(None)) if write_node == WriteNode::Deleted => {
                return Err(LockError::Lost(LossReason::NodeDeleted));
            }
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

/// Returns true if the first operation, the check, found no write node.
fn is_check_failed(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::RolledBack { index: 0, code: ErrorCode::NO_NODE, .. })
}
