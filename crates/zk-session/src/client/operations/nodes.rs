//! Basic operations on one node, and guaranteed deletes.

use std::time::Instant;

use bytes::Bytes;
use proto::{
    Acl, ChildList, ChildrenReply, CreateMode, DataReply, Delete, ErrorCode, Exists, GetChildren2,
    GetData, OPEN_ACL_UNSAFE, OpCode, SetData, Stat,
};
use zk_session_core::{ErrorKind, Failure, Reply, ReplyTo, Session, WatchKind};

use super::create::{Kind, NewNode};
use crate::client::Client;
use crate::client::pending::{Finish, Pending, PendingWatch, decode, decode_read};
use crate::clock::now;
use crate::driver::{Channels, OneShot};
use crate::limits::DATA_COPIED_MAX;

/// Result of a create.
// Closed: recipes create it from the stat of a node that they find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// Path of the node, with the sequence number if it has one.
    pub path: String,
    /// Stat of the node. Its `czxid` only grows over the life of the ensemble.
    pub stat: Stat,
}

/// Data of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeData {
    /// The data; empty if it is null.
    ///
    /// More than [`DATA_COPIED_MAX`](crate::limits::DATA_COPIED_MAX) bytes are a slice of the
    /// buffer that was read from the connection, and keep that buffer in memory.
    pub data: Bytes,
    /// Whether the data is null, which is not the same as no bytes: the Java client writes null for a node
    /// that is created without data.
    pub is_null: bool,
    /// Stat of the node.
    pub stat: Stat,
}

impl NodeData {
    /// Returns the data, or `None` if it is null.
    #[must_use]
    pub fn nullable(&self) -> Option<&[u8]> {
        (!self.is_null).then_some(&self.data)
    }

    pub(in crate::client) fn new(data: Option<Bytes>, stat: Stat) -> Self {
        let is_null = data.is_none();
        let mut data = data.unwrap_or_default();
        // A caller that keeps ten bytes must not keep the whole read buffer.
        if data.len() <= DATA_COPIED_MAX {
            data = Bytes::copy_from_slice(&data);
        }
        Self { data, is_null, stat }
    }
}

/// Children of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Children {
    /// Names of the children, unsorted, still in the received frame.
    pub names: ChildList,
    /// Stat of the node itself.
    pub stat: Stat,
}

/// # Operations
///
/// Every operation can fail with these errors:
///
/// * [`ErrorKind::InvalidPath`], [`ErrorKind::TooLarge`] and [`ErrorKind::LimitReached`], before
///   anything is sent.
/// * [`ErrorKind::ConnectionLost`], if the connection is lost before the reply arrives.
/// * [`ErrorKind::SessionEnded`].
/// * [`ErrorKind::TimedOut`], if the caller has set a timeout.
///
/// Each operation documents the codes with which the server may reject it.
///
/// Without a connection, requests wait until there is one or the session has ended. Limit the wait
/// with [`Config::request_timeout`](crate::Config::request_timeout) or [`with_timeout`](Self::with_timeout).
impl Client {
    /// Creates a node that every client may read, change and delete.
    ///
    /// The server deletes a [`CreateMode::Container`] node some time after its last child was
    /// deleted. Servers before 3.5.1 do not support containers.
    ///
    /// # Errors
    /// The server can reject the request with `NodeExists`, `NoNode` if the parent does not exist,
    /// `NoChildrenForEphemerals`, or `NoAuth`.
    pub fn create(&self, path: &str, data: impl AsRef<[u8]>, mode: CreateMode) -> Pending<Created> {
        self.create_with_acl(path, data, mode, OPEN_ACL_UNSAFE)
    }

    /// Creates a node with an access control list; otherwise like [`create`](Self::create).
    ///
    /// # Errors
    /// Returns the errors of [`create`](Self::create), and `InvalidACL`.
    pub fn create_with_acl(
        &self,
        path: &str,
        data: impl AsRef<[u8]>,
        mode: CreateMode,
        acl: &[Acl],
    ) -> Pending<Created> {
        let (kind, is_sequential) = (Kind::of(mode), mode.is_sequential());
        NewNode { path, data: Some(data.as_ref()), acl, kind, is_sequential }.create(self)
    }

    /// Deletes a node, if it has the given version; `None` for any.
    ///
    /// # Errors
    /// The server can reject the request with `NoNode`, `BadVersion`, `NotEmpty` or `NoAuth`.
    pub fn delete(&self, path: &str, version: Option<i32>) -> Pending<()> {
        let request = self.checked_doomed(path).map(|path| Delete { path, version: any(version) });
        self.request(self.ask(OpCode::Delete, path, Finish::Plain(decode)), request)
    }

    /// Returns the Stat of a node, or `None` if it does not exist.
    ///
    /// # Errors
    /// The server can reject the request with `NoAuth` (3.8.4 and later).
    #[doc(alias = "checkExists")]
    pub fn exists(&self, path: &str) -> Pending<Option<Stat>> {
        self.on_node(OpCode::Exists, path, finish_exists, |path| Exists { path, watch: false })
    }

    /// Returns the Stat of a node like [`exists`](Self::exists), and sets a watch that fires when
    /// the node is created, changed or deleted.
    ///
    /// # Errors
    /// Returns the errors of [`exists`](Self::exists); no watch is set then.
    pub fn exists_and_watch(&self, path: &str) -> PendingWatch<Option<Stat>> {
        self.watch_node(OpCode::Exists, path, finish_exists, WatchKind::Exists, |path| Exists {
            path,
            watch: true,
        })
    }

    /// Reads a node's data.
    ///
    /// # Errors
    /// The server can reject the request with `NoNode` or `NoAuth`.
    #[doc(alias = "getData")]
    #[doc(alias = "get")]
    pub fn get_data(&self, path: &str) -> Pending<NodeData> {
        self.on_node(OpCode::GetData, path, finish_data, |path| GetData { path, watch: false })
    }

    /// Reads a node's data like [`get_data`](Self::get_data), and sets a watch that fires when the
    /// node is changed or deleted.
    ///
    /// # Errors
    /// Returns the errors of [`get_data`](Self::get_data); no watch is set then.
    pub fn get_data_and_watch(&self, path: &str) -> PendingWatch<NodeData> {
        self.watch_node(OpCode::GetData, path, finish_data, WatchKind::Data, |path| GetData {
            path,
            watch: true,
        })
    }

    /// Replaces a node's data, if the node has the given version; `None` for any.
    ///
    /// # Errors
    /// The server can reject the request with `NoNode`, `BadVersion` or `NoAuth`.
    #[doc(alias = "setData")]
    #[doc(alias = "set")]
    pub fn set_data(
        &self,
        path: &str,
        data: impl AsRef<[u8]>,
        version: Option<i32>,
    ) -> Pending<Stat> {
        self.on_node(OpCode::SetData, path, decode, |path| SetData {
            path,
            data: Some(data.as_ref().into()),
            version: any(version),
        })
    }

    /// Replaces a node's data with null; otherwise like [`set_data`](Self::set_data). Reads show it by
    /// [`NodeData::is_null`].
    ///
    /// # Errors
    /// Returns the errors of [`set_data`](Self::set_data).
    pub fn set_null_data(&self, path: &str, version: Option<i32>) -> Pending<Stat> {
        let set = |path| SetData { path, data: None, version: any(version) };
        self.on_node(OpCode::SetData, path, decode, set)
    }

    /// Lists the names of a node's children, unsorted.
    ///
    /// ```no_run
    /// # async fn example(client: zk_session::Client) -> Result<(), zk_session::Error> {
    /// let children = client.get_children("/workers").await?;
    /// for name in children.names.names() {
    ///     println!("/workers/{name}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The server can reject the request with `NoNode` or `NoAuth`.
    #[doc(alias = "getChildren")]
    #[doc(alias = "ls")]
    pub fn get_children(&self, path: &str) -> Pending<Children> {
        self.on_node(OpCode::GetChildren, path, finish_children, |path| GetChildren2 {
            path,
            watch: false,
        })
    }

    /// Lists a node's children like [`get_children`](Self::get_children), and sets a watch. The
    /// watch fires when a child is created or deleted, or the node itself is deleted.
    ///
    /// # Errors
    /// Returns the errors of [`get_children`](Self::get_children); no watch is set then.
    pub fn get_children_and_watch(&self, path: &str) -> PendingWatch<Children> {
        let kind = WatchKind::Children;
        self.watch_node(OpCode::GetChildren, path, finish_children, kind, |path| GetChildren2 {
            path,
            watch: true,
        })
    }
}

/// # Guaranteed deletes
impl Client {
    /// Deletes a node, guaranteed, as in Curator.
    ///
    /// From the call on, the session repeats the delete over reconnects until a server has answered
    /// it or the session has ended, even if the future is dropped. Use it for nodes with names that
    /// are never used again, because it deletes any node with the name.
    ///
    /// If no server answers, only the end of the session bounds the delete. Bound the wait with
    /// [`with_timeout`](Self::with_timeout) or [`Config::request_timeout`](crate::Config::request_timeout):
    /// it ends with [`ErrorKind::TimedOut`] and [`Outcome::Unknown`](crate::Outcome::Unknown), and the
    /// delete continues.
    ///
    /// Returns false if the node did not exist: another client has deleted it. If only a repeated
    /// delete finds no node, it counts as deleted by this one.
    ///
    /// If [too many](crate::SessionEvent::CleanUpBacklog) deletes are pending, this one waits in the
    /// backlog. The caller gets [`ErrorKind::LimitReached`] with
    /// [`Outcome::Unknown`](crate::Outcome::Unknown) at once, and the node is deleted later. The
    /// limit is [`Limit::CleanUps`](crate::Limit::CleanUps) or
    /// [`Limit::CleanUpBytes`](crate::Limit::CleanUpBytes).
    ///
    /// # Errors
    /// * The server can reject the request with `NotEmpty` or `NoAuth`.
    /// * [`ErrorKind::SessionEnded`] if the session ends first. An ephemeral node of this session
    ///   is then deleted with the session.
    #[doc(alias = "guaranteed")]
    pub fn delete_guaranteed(&self, path: &str) -> Pending<bool> {
        self.delete_by(path, Session::delete_guaranteed)
    }

    /// Deletes a node, guaranteed. A node that this session does not delete goes to the next one.
    pub(in crate::client) fn delete_by(
        &self,
        path: &str,
        delete: GuaranteedDelete,
    ) -> Pending<bool> {
        let ask = self.ask(OpCode::Delete, path, Finish::Plain(finish_delete_guaranteed));
        let full = self.checked_doomed(path);
        let mut is_accepted = true;
        let deleted = self.submit(ask, |session, to| {
            let accepted = delete(session, now(), &full?, Some(to));
            is_accepted = accepted.is_ok();
            accepted.map(|()| None)
        });
        self.hand_over_unless(is_accepted);
        deleted
    }
}

type GuaranteedDelete = fn(
    &mut Session<Channels>,
    Instant,
    &str,
    Option<ReplyTo<OneShot<Result<Reply, Failure>>>>,
) -> Result<(), Failure>;

/// Version of a request that applies to any version.
pub(in crate::client) const ANY_VERSION: i32 = -1;

pub(in crate::client) fn any(version: Option<i32>) -> i32 {
    version.unwrap_or(ANY_VERSION)
}

fn finish_exists(result: Result<Reply, Failure>) -> Result<Option<Stat>, Failure> {
    match result {
        Err((ErrorKind::Server(ErrorCode::NO_NODE), _)) => Ok(None),
        result => decode_read(result).map(Some),
    }
}

fn finish_data(result: Result<Reply, Failure>) -> Result<NodeData, Failure> {
    let DataReply { data, stat } = decode_read(result)?;
    Ok(NodeData::new(data, stat))
}

fn finish_children(result: Result<Reply, Failure>) -> Result<Children, Failure> {
    let ChildrenReply { children, stat } = decode_read(result)?;
    Ok(Children { names: children, stat })
}

fn finish_delete_guaranteed(result: Result<Reply, Failure>) -> Result<bool, Failure> {
    match result {
        Ok(_) => Ok(true),
        Err((ErrorKind::Server(ErrorCode::NO_NODE), _)) => Ok(false),
        Err(failure) => Err(failure),
    }
}
