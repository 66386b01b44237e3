//! The node of an atomic value: reads, and changes that are never applied twice.

use bytes::Bytes;
use zk_recipes::session::{
    Client, CreateMode, Created, Error, ErrorCode, NodeData, Outcome, PathError, Pending, Stat,
    path, validate_path,
};

use super::contention::{Contention, Promotion};
use super::error::AtomicError;
use crate::create_acl::CreateAcl;
use crate::requests::{Repeated, create_parents, repeat, retry, unless};

/// The node of an atomic value.
#[derive(Clone, Debug)]
pub(super) struct ValueNode {
    pub(super) client: Client,
    pub(super) path: String,
    pub(super) promotion: Option<Promotion>,
    /// The data of a node that a change creates. It stands for the same value as a missing node.
    pub(super) zero: Bytes,
    /// The list of all nodes that the handle creates.
    pub(super) acl: CreateAcl,
}

/// A value with the node that it was read from.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) data: Bytes,
    pub(super) stat: Stat,
}

/// Meaning of a missing node for a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// It takes the value for `zero`.
    IsZero,
    /// It changes nothing.
    IsNoValue,
}

/// Result of an attempt to write a value.
pub(super) enum Written {
    Done,
    /// Another client changed the value first.
    Conflict,
}

impl ValueNode {
    pub(super) fn new(client: &Client, path: &str, zero: Bytes) -> Result<Self, PathError> {
        validate_path(path)?;
        let (client, path, acl) = (client.clone(), path.to_owned(), CreateAcl::default());
        Ok(Self { client, path, promotion: None, zero, acl })
    }

    pub(super) fn contention(&self) -> Contention<'_> {
        Contention::new(&self.client, &self.path, self.promotion.as_ref())
    }

    pub(super) async fn read(&self) -> Result<Option<Read>, Error> {
        let read = retry(&self.client).get_data(&self.path).await;
        Ok(unless(ErrorCode::NO_NODE, read)?.map(Read::from))
    }

    /// Replaces the value with the result of `next`, and starts again after each conflict. Returns
    /// `None`, and changes nothing, if `next` does. Returns the error of `next`.
    ///
    /// The server may lag, so `next` decides again after a `sync` before nothing is changed. A conflict
    /// shows that the server has caught up.
    pub(super) async fn change(
        &self,
        missing: Missing,
        mut next: impl FnMut(&Bytes) -> Result<Option<Bytes>, AtomicError>,
    ) -> Result<Option<Bytes>, AtomicError> {
        let mut contention = self.contention();
        let mut has_caught_up = false;
        loop {
            let read = self.read().await?;
            let data = match &read {
                None if missing == Missing::IsNoValue => Ok(None),
                None => next(&self.zero),
                Some(read) => next(&read.data),
            };
            match (read, data) {
                (_, Ok(None)) if has_caught_up => return Ok(None),
                (_, Err(error)) if has_caught_up => return Err(error),
                (_, Ok(None) | Err(_)) => {
                    retry(&self.client).run(|client| client.sync(&self.path)).await?;
                    has_caught_up = true;
                }
                (None, Ok(Some(_))) => self.create_zero().await?,
                (Some(read), Ok(Some(data))) => match self.write(&read, &data).await? {
                    Written::Done => return Ok(Some(data)),
                    Written::Conflict => {
                        has_caught_up = true;
                        contention.conflict().await?;
                    }
                },
            }
        }
    }

    /// Creates the node with the value of a missing one. Repeating it does no harm, so a lost reply
    /// needs no evidence. The change itself follows in a second request, so after an error it is not
    /// applied.
    pub(super) async fn create_zero(&self) -> Result<(), Error> {
        let create = || self.create(&self.client, &self.zero);
        match repeat(&self.client, create).await.reply {
            Err(error) if error.is_node_exists() => Ok(()),
            Err(error) => {
                let error = error.with_outcome(Outcome::NotApplied);
                self.create_parents_if_missing(error).await
            }
            Ok(_) => Ok(()),
        }
    }

    pub(super) fn create(&self, client: &Client, value: &[u8]) -> Pending<Created> {
        client.create_with_acl(&self.path, value, CreateMode::Persistent, self.acl.entries())
    }

    /// Creates the parents if they caused the error; otherwise returns the error. If the parents cannot
    /// be created, the value is not changed.
    pub(super) async fn create_parents_if_missing(&self, error: Error) -> Result<(), Error> {
        let is_top = path::parent(&self.path) == Some("/");
        match error.code() {
            Some(ErrorCode::NO_NODE) if !is_top => {
                let created = create_parents(&self.client, &self.path, self.acl.entries()).await;
                created.map_err(|error| error.with_outcome(Outcome::NotApplied))
            }
            _ => Err(error), // for example because the chroot is missing
        }
    }

    /// Writes a value if it has not changed since it was read.
    ///
    /// The condition makes the write safe to repeat after a lost reply: of several attempts, the
    /// server applies one. If it rejects a later attempt, the data decides; see
    /// [`decide`](Self::decide).
    pub(super) async fn write(&self, read: &Read, data: &[u8]) -> Result<Written, AtomicError> {
        let version = self.version(&read.stat)?;
        let set = || self.client.set_data(&self.path, data, Some(version));
        let Repeated { reply, is_unconfirmed } = repeat(&self.client, set).await;
        let error = match reply {
            Ok(stat) => return self.done(read, &stat),
            Err(error) => error,
        };
        match error.code() {
            Some(ErrorCode::BAD_VERSION | ErrorCode::NO_NODE) if !is_unconfirmed => {
                Ok(Written::Conflict)
            }
            Some(ErrorCode::BAD_VERSION) => self.decide(read, data, error).await,
            _ if is_unconfirmed => Err(error.with_outcome(Outcome::Unknown).into()),
            _ => Err(error.into()),
        }
    }

    /// Returns the version that a change may expect.
    pub(super) fn version(&self, stat: &Stat) -> Result<i32, AtomicError> {
        match stat.version {
            -1 => Err(AtomicError::VersionsUsedUp { path: self.path.clone() }),
            version => Ok(version),
        }
    }

    /// Reports a write that the server has applied.
    pub(super) fn done(&self, read: &Read, stat: &Stat) -> Result<Written, AtomicError> {
        if stat.czxid == read.stat.czxid {
            Ok(Written::Done)
        } else {
            Err(AtomicError::NodeRecreated { path: self.path.clone() })
        }
    }

    /// Decides whether a write whose reply was lost was applied, after the server has rejected its
    /// repetition.
    ///
    /// Somebody has written the version after the one that was read: an earlier attempt, or another
    /// client. If that version is still there with other data, it is from another client, and the
    /// attempts were not applied. With equal data, and with a later version, nothing tells them
    /// apart: two clients that add 1 to the same number write the same bytes.
    async fn decide(&self, read: &Read, data: &[u8], error: Error) -> Result<Written, AtomicError> {
        let now = self.read().await.map_err(|error| error.with_outcome(Outcome::Unknown))?;
        match now {
            Some(now)
                if now.stat.czxid == read.stat.czxid
                    && is_next_version(read.stat.version, now.stat.version)
                    && now.data != data =>
            {
                Ok(Written::Conflict)
            }
            _ => Err(error.with_outcome(Outcome::Unknown).into()),
        }
    }
}

/// Returns true if one change leads from one version to the other. New servers leave out version -1
/// (ZOOKEEPER-4743).
fn is_next_version(version: i32, next: i32) -> bool {
    next == version.wrapping_add(1) || (version == -2 && next == 0)
}

impl From<NodeData> for Read {
    fn from(NodeData { data, stat, .. }: NodeData) -> Self {
        Self { data, stat }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_version_wraps_and_may_leave_out_minus_1() {
        for (version, next) in [(0, 1), (i32::MAX, i32::MIN), (-2, -1), (-2, 0)] {
            assert!(is_next_version(version, next), "{version}, {next}");
        }
        for (version, next) in [(0, 0), (0, 2), (-3, -1), (-2, 1), (1, 0)] {
            assert!(!is_next_version(version, next), "{version}, {next}");
        }
    }
}
