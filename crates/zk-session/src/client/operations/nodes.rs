//! Basic operations on one node.

use bytes::Bytes;
use proto::{
    Acl, ChildList, ChildrenReply, Create2, CreateContainer, CreateMode, CreateReply, CreateTtl,
    DataReply, Delete, ErrorCode, Exists, GetChildren2, GetData, OPEN_ACL_UNSAFE, SetData, Stat,
};

use super::check_new;
use crate::client::Client;
use crate::client::pending::{Pending, PendingWatch, decode, decode_read, strip};
use crate::limits::DATA_COPIED_MAX;
use zk_session_core::{ErrorKind, Outcome};
use zk_session_core::{Failure, Reply, WatchKind};

/// Result of a create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// Path of the node, with the sequence number if it has one.
    pub path: String,
    /// Stat of the node. Its `czxid` only grows over the life of the ensemble.
    pub stat: Stat,
}

/// Data of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeData {
    /// The data. Null and empty are different.
    ///
    /// More than [`DATA_COPIED_MAX`](crate::limits::DATA_COPIED_MAX) bytes are a slice of the
    /// buffer that was read from the connection, and keep that buffer in memory.
    pub data: Option<Bytes>,
    /// Stat of the node.
    pub stat: Stat,
}

impl NodeData {
    pub(in crate::client) fn new(data: Option<Bytes>, stat: Stat) -> Self {
        // A caller that keeps ten bytes must not keep the whole read buffer.
        let data = data.map(|data| match data.len() <= DATA_COPIED_MAX {
            true => Bytes::copy_from_slice(&data),
            false => data,
        });
        Self { data, stat }
    }
}

/// Children of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    pub fn create(&self, path: &str, data: &[u8], mode: CreateMode) -> Pending<Created> {
        self.create_with_acl(path, data, mode, OPEN_ACL_UNSAFE)
    }

    /// Creates a node with an access control list; otherwise like [`create`](Self::create).
    ///
    /// # Errors
    /// Returns the errors of [`create`](Self::create), and `InvalidACL`.
    pub fn create_with_acl(
        &self,
        path: &str,
        data: &[u8],
        mode: CreateMode,
        acl: &[Acl],
    ) -> Pending<Created> {
        let full = self.full_new(path, mode.is_sequential());
        let (path_sent, data, acl) = (full, Some(data.into()), acl.into());
        let ask = self.ask_to_create(path, None, mode.is_sequential());
        if let Err(failure) = check_new(path, mode.is_sequential()) {
            return Pending::new(ask, Err(failure));
        }
        match mode {
            CreateMode::Container => {
                self.request(ask, &CreateContainer { path: path_sent, data, acl, mode })
            }
            _ => self.request(ask, &Create2 { path: path_sent, data, acl, mode }),
        }
    }

    /// Creates a node with a time to live. The server deletes it once it has had no children and no
    /// change for `ttl_ms` milliseconds.
    ///
    /// # Errors
    /// Returns the errors of [`create`](Self::create), and `Unimplemented` if the server was not
    /// started with `zookeeper.extendedTypesEnabled=true`.
    pub fn create_with_ttl(
        &self,
        path: &str,
        data: &[u8],
        sequential: bool,
        ttl_ms: i64,
    ) -> Pending<Created> {
        let full = self.full_new(path, sequential);
        let ask = self.ask_to_create(path, None, sequential);
        if let Err(failure) = check_new(path, sequential) {
            return Pending::new(ask, Err(failure));
        }
        let (path, data) = (full, Some(data.into()));
        self.request(
            ask,
            &CreateTtl { path, data, acl: OPEN_ACL_UNSAFE.into(), sequential, ttl_ms },
        )
    }

    /// Deletes a node, if it has the given version; `None` for any.
    ///
    /// # Errors
    /// The server can reject the request with `NoNode`, `BadVersion`, `NotEmpty` or `NoAuth`.
    pub fn delete(&self, path: &str, version: Option<i32>) -> Pending<()> {
        let full = self.full_doomed(path);
        let ask = self.ask("delete", path, |result, _| decode(result));
        self.checked(ask, &Delete { path: full, version: version.unwrap_or(-1) })
    }

    /// Returns the Stat of a node, or `None` if it does not exist.
    ///
    /// # Errors
    /// The server can reject the request with `NoAuth` (3.8.4 and later).
    pub fn exists(&self, path: &str) -> Pending<Option<Stat>> {
        let full = self.full(path);
        let ask = self.ask("exists", path, finish_exists);
        self.checked(ask, &Exists { path: full, watch: false })
    }

    /// Returns the Stat of a node like [`exists`](Self::exists), and sets a watch that fires when
    /// the node is created, changed or deleted.
    ///
    /// # Errors
    /// Returns the errors of [`exists`](Self::exists); no watch is set then.
    pub fn exists_and_watch(&self, path: &str) -> PendingWatch<Option<Stat>> {
        let full = self.full(path);
        let ask = self.ask("exists", path, finish_exists);
        self.watched(ask, &Exists { path: full, watch: true }, WatchKind::Exists)
    }

    /// Reads a node's data.
    ///
    /// # Errors
    /// The server can reject the request with `NoNode` or `NoAuth`.
    pub fn get_data(&self, path: &str) -> Pending<NodeData> {
        let full = self.full(path);
        let ask = self.ask("getData", path, finish_data);
        self.checked(ask, &GetData { path: full, watch: false })
    }

    /// Reads a node's data like [`get_data`](Self::get_data), and sets a watch that fires when the
    /// node is changed or deleted.
    ///
    /// # Errors
    /// Returns the errors of [`get_data`](Self::get_data); no watch is set then.
    pub fn get_data_and_watch(&self, path: &str) -> PendingWatch<NodeData> {
        let full = self.full(path);
        let ask = self.ask("getData", path, finish_data);
        self.watched(ask, &GetData { path: full, watch: true }, WatchKind::Data)
    }

    /// Replaces a node's data, if the node has the given version; `None` for any.
    ///
    /// # Errors
    /// The server can reject the request with `NoNode`, `BadVersion` or `NoAuth`.
    pub fn set_data(&self, path: &str, data: &[u8], version: Option<i32>) -> Pending<Stat> {
        let full = self.full(path);
        let ask = self.ask("setData", path, |result, _| decode(result));
        let (path, data) = (full, Some(data.into()));
        self.checked(ask, &SetData { path, data, version: version.unwrap_or(-1) })
    }

    /// Lists the names of a node's children, unsorted.
    ///
    /// # Errors
    /// The server can reject the request with `NoNode` or `NoAuth`.
    pub fn get_children(&self, path: &str) -> Pending<Children> {
        let full = self.full(path);
        let ask = self.ask("getChildren", path, finish_children);
        self.checked(ask, &GetChildren2 { path: full, watch: false })
    }

    /// Lists a node's children like [`get_children`](Self::get_children), and sets a watch. The
    /// watch fires when a child is created or deleted, or the node itself is deleted.
    ///
    /// # Errors
    /// Returns the errors of [`get_children`](Self::get_children); no watch is set then.
    pub fn get_children_and_watch(&self, path: &str) -> PendingWatch<Children> {
        let full = self.full(path);
        let ask = self.ask("getChildren", path, finish_children);
        self.watched(ask, &GetChildren2 { path: full, watch: true }, WatchKind::Children)
    }
}

pub(super) fn finish_create(
    result: Result<Reply, Failure>,
    asked: &str,
    chroot_len: usize,
) -> Result<Created, Failure> {
    created(result, asked, chroot_len, false)
}

pub(super) fn finish_create_sequential(
    result: Result<Reply, Failure>,
    asked: &str,
    chroot_len: usize,
) -> Result<Created, Failure> {
    created(result, asked, chroot_len, true)
}

fn created(
    result: Result<Reply, Failure>,
    asked: &str,
    chroot_len: usize,
    is_sequential: bool,
) -> Result<Created, Failure> {
    let CreateReply { path, stat } = decode(result)?;
    let path = strip(path, chroot_len);
    match is_name_of(&path, asked, is_sequential) {
        true => Ok(Created { path, stat }),
        false => Err((ErrorKind::UnfitReply, Outcome::Applied)),
    }
}

/// Returns true if a node that was created as `asked` may have the name `path`. A sequential node
/// has a number after `asked`, which is negative once the counter has overflowed; any other node
/// has exactly the name `asked`.
pub(in crate::client) fn is_name_of(path: &str, asked: &str, is_sequential: bool) -> bool {
    let Some(number) = path.strip_prefix(asked) else { return false };
    let digits = number.strip_prefix('-').unwrap_or(number);
    let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    if is_sequential { is_number } else { number.is_empty() }
}

fn finish_exists(result: Result<Reply, Failure>, _: usize) -> Result<Option<Stat>, Failure> {
    match result {
        Err((ErrorKind::Server(ErrorCode::NO_NODE), _)) => Ok(None),
        result => decode_read(result).map(Some),
    }
}

fn finish_data(result: Result<Reply, Failure>, _: usize) -> Result<NodeData, Failure> {
    let DataReply { data, stat } = decode_read(result)?;
    Ok(NodeData::new(data, stat))
}

fn finish_children(result: Result<Reply, Failure>, _: usize) -> Result<Children, Failure> {
    let ChildrenReply { children, stat } = decode_read(result)?;
    Ok(Children { names: children, stat })
}

#[cfg(test)]
mod tests {
    use super::is_name_of;

    #[test]
    fn is_name_of_accepts_only_the_requested_name() {
        assert!(is_name_of("/a", "/a", false));
        assert!(!is_name_of("/b", "/a", false) && !is_name_of("/a0000000001", "/a", false));
        for (path, asked) in
            [("/a-0000000001", "/a-"), ("/a--000000001", "/a-"), ("/0000000001", "/")]
        {
            assert!(is_name_of(path, asked, true), "{path}");
        }
        for path in ["/a-", "/a--", "/a-00x", "/b-0000000001", "/a-1/b"] {
            assert!(!is_name_of(path, "/a-", true), "{path}");
        }
    }
}
