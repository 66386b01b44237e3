//! Transactions: the server applies all operations of a transaction or none of them.

use std::time::Duration;

use proto::{
    Acl, Check, Create2, CreateContainer, CreateMode, CreateTtl, Delete, MultiOp, MultiResult,
    OPEN_ACL_UNSAFE, OpCode, SetData, Stat,
};
use zk_session_core::{Error, ErrorKind, Failure, Outcome, Reply};

use super::Client;
use super::chroot::strip;
use super::operation_list::OperationList;
use super::operations::{NodeName, any, is_name_of, ttl_ms};
use super::pending::{Finish, Pending, decode_multi};

/// Builder for a transaction; see [`Client::multi`].
///
/// Nothing is sent before [`send`](Self::send).
#[must_use = "nothing is sent before `send`"]
#[derive(Clone, Debug)]
pub struct Multi<'a>(OperationList<MultiOp<'a>>);

/// Result of one operation of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MultiOutcome {
    /// A node was created.
    Created {
        /// Path of the node, with the sequence number if it has one.
        path: String,
        /// Stat of the node right after this operation. Servers before 3.7.2 and 3.8.2 send it only
        /// for containers and for nodes with a time to live.
        stat: Option<Stat>,
    },
    /// A node's data was set. The Stat is the one right after this operation.
    Set(Stat),
    /// A node was deleted.
    Deleted,
    /// A node exists, at the required version.
    Checked,
}

/// # Transactions
impl Client {
    /// Starts to build a transaction: the server applies all of its operations or none of them.
    ///
    /// All operations share one transaction number (zxid). Later operations see the effect of
    /// earlier ones. No other client sees an intermediate state.
    ///
    /// ```no_run
    /// # async fn example(client: zk_session::Client) -> Result<(), zk_session::Error> {
    /// use zk_session::{CreateMode, ErrorCode, ErrorKind};
    ///
    /// let moved = client
    ///     .multi()
    ///     .check("/queue", None)
    ///     .create("/done/job-7", b"", CreateMode::Persistent)
    ///     .delete("/queue/job-7", Some(0))
    ///     .send()
    ///     .await;
    /// match moved {
    ///     Ok(outcomes) => println!("{outcomes:?}"),
    ///     Err(error) => match error.kind() {
    ///         ErrorKind::RolledBack { index: 2, code: ErrorCode::BAD_VERSION, .. } => {
    ///             println!("somebody has changed the job");
    ///         }
    ///         _ => return Err(error),
    ///     },
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "transaction")]
    #[doc(alias = "inTransaction")]
    pub fn multi<'a>(&self) -> Multi<'a> {
        Multi(OperationList::new(self))
    }
}

impl<'a> Multi<'a> {
    /// Adds an operation that creates a node, which every client may read, change and delete.
    pub fn create(
        self,
        path: &str,
        data: &'a (impl AsRef<[u8]> + ?Sized),
        mode: CreateMode,
    ) -> Self {
        self.create_with_acl(path, data, mode, OPEN_ACL_UNSAFE)
    }

    /// Adds an operation that creates a node with an access control list.
    pub fn create_with_acl(
        self,
        path: &str,
        data: &'a (impl AsRef<[u8]> + ?Sized),
        mode: CreateMode,
        acl: &'a [Acl],
    ) -> Self {
        let full = self.0.client.checked_new(path, mode.is_sequential());
        let (data, acl) = (Some(data.as_ref().into()), acl.into());
        Self(self.0.with(path, full, |path| match mode {
            CreateMode::Container => CreateContainer { path, data, acl, mode }.into(),
            _ => Create2 { path, data, acl, mode }.into(),
        }))
    }

    /// Adds an operation that creates a node with a time to live. The server deletes the node once
    /// it has had no children and no change for `ttl`, to the millisecond; see
    /// [`CreateBuilder::ttl`](super::CreateBuilder::ttl).
    pub fn create_with_ttl(
        self,
        path: &str,
        data: &'a (impl AsRef<[u8]> + ?Sized),
        ttl: Duration,
    ) -> Self {
        let full = self.0.client.checked(path);
        let (data, acl) = (Some(data.as_ref().into()), OPEN_ACL_UNSAFE.into());
        // An invalid one is reported like an invalid path, and this number is not sent.
        let (full, ttl_ms) = match ttl_ms(ttl) {
            Ok(ttl_ms) => (full, ttl_ms),
            Err(failure) => (full.and(Err(failure)), 0),
        };
        Self(self.0.with(path, full, |path| {
            CreateTtl { path, data, acl, sequential: false, ttl_ms }.into()
        }))
    }

    /// Adds an operation that replaces a node's data, if the node has the given version; `None` for
    /// any.
    pub fn set_data(
        self,
        path: &str,
        data: &'a (impl AsRef<[u8]> + ?Sized),
        version: Option<i32>,
    ) -> Self {
        let (full, data, version) =
            (self.0.client.checked(path), Some(data.as_ref().into()), any(version));
        Self(self.0.with(path, full, |path| SetData { path, data, version }.into()))
    }

    /// Adds an operation that deletes a node, if it has the given version; `None` for any.
    pub fn delete(self, path: &str, version: Option<i32>) -> Self {
        let (full, version) = (self.0.client.checked_doomed(path), any(version));
        Self(self.0.with(path, full, |path| Delete { path, version }.into()))
    }

    /// Adds the condition that a node exists and has the given version; `None` for any.
    pub fn check(self, path: &str, version: Option<i32>) -> Self {
        let (full, version) = (self.0.client.checked(path), any(version));
        Self(self.0.with(path, full, |path| Check { path, version }.into()))
    }

    /// Sends the transaction, and returns one outcome for each operation, in their order.
    ///
    /// An empty transaction succeeds when a quorum of the ensemble has agreed to it.
    ///
    /// # Errors
    /// * [`ErrorKind::RolledBack`] names the operation that failed, and the reason; nothing was
    ///   applied. Each operation can fail as it can outside of a transaction.
    /// * [`ErrorKind::InvalidPath`] names the first invalid path; nothing is sent.
    pub fn send(self) -> Pending<Vec<MultiOutcome>> {
        let OperationList { client, ops, .. } = &self.0;
        let chroot_len = client.chroot.len();
        let asked: Vec<Asked> = ops.iter().map(|op| Asked::of(op, chroot_len)).collect();
        let finish = Finish::Asked(Box::new(move |result| finish(result, &asked, chroot_len)));
        self.0.send(OpCode::Multi, "operation", finish, proto::Multi::new)
    }

    /// Checks that the transaction is not larger than [this client
    /// sends](crate::Config::max_request_len). [`send`](Self::send) checks it too; this method sends
    /// nothing.
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`] if it is larger.
    pub fn check_len(&self) -> Result<(), Error> {
        let len = proto::request_frame_len(&proto::Multi::new(&self.0.ops));
        let max = self.0.client.shared.lock().max_request_len();
        if len <= max {
            Ok(())
        } else {
            let kind = ErrorKind::TooLarge { len, max };
            Err(Error::not_applied(kind).on(OpCode::Multi, self.0.count("operation")))
        }
    }
}

/// An operation that was sent. Its result is checked against it, and errors name it.
struct Asked {
    operation: OpCode,
    /// The path as the caller gave it.
    path: String,
    name: NodeName,
}

impl Asked {
    fn of(op: &MultiOp<'_>, chroot_len: usize) -> Self {
        let operation = match op {
            MultiOp::Delete(_) | MultiOp::SetData(_) | MultiOp::Check(_) => op.op(),
            _ => OpCode::Create,
        };
        let path = strip(op.path().to_owned(), chroot_len);
        let name = match op {
            MultiOp::Create2(op) if op.mode.is_sequential() => NodeName::Sequential,
            _ => NodeName::Exact,
        };
        Self { operation, path, name }
    }
}

/// Decodes the reply to a transaction. The transaction was applied if there is a success of the
/// right kind for each operation; the header of the reply does not say it.
fn finish(
    result: Result<Reply, Failure>,
    asked: &[Asked],
    chroot_len: usize,
) -> Result<Vec<MultiOutcome>, Failure> {
    let reply = decode_multi(result)?;
    if let Some((index, code)) = reply.failure() {
        let Some(Asked { operation, path, .. }) = asked.get(index) else {
            return Err(unfit(Outcome::Unknown));
        };
        let (operation, path) = (*operation, path.clone());
        let kind = ErrorKind::RolledBack { index, operation, path, code };
        return Err((kind, Outcome::NotApplied));
    }
    if reply.results.len() != asked.len() {
        return Err(unfit(Outcome::Unknown));
    }
    let outcomes = reply.results.into_iter().zip(asked).map(|(result, asked)| {
        Ok(match (result, asked.operation) {
            (MultiResult::Created { path, stat }, OpCode::Create) => {
                let path = strip(path, chroot_len);
                if !is_name_of(&path, &asked.path, asked.name) {
                    return Err(unfit(Outcome::Applied));
                }
                MultiOutcome::Created { path, stat }
            }
            (MultiResult::Set(stat), OpCode::SetData) => MultiOutcome::Set(stat),
            (MultiResult::Deleted, OpCode::Delete) => MultiOutcome::Deleted,
            (MultiResult::Checked, OpCode::Check) => MultiOutcome::Checked,
            _ => return Err(unfit(Outcome::Unknown)),
        })
    });
    outcomes.collect()
}

/// Returns the error for a reply that can be decoded but does not fit the request.
pub(super) fn unfit(outcome: Outcome) -> Failure {
    (ErrorKind::UnfitReply, outcome)
}
