//! The plain operations on one node.

use bytes::Bytes;
use proto::{
    Acl, ChildList, ChildrenReply, Create2, CreateContainer, CreateMode, CreateReply, CreateTtl,
    DataReply, Delete, ErrorCode, Exists, GetChildren2, GetData, OPEN_ACL, SetData, Stat,
};

use super::check_new;
use crate::client::Client;
use crate::client::pending::{Pending, PendingWatch, decode, decode_read, strip};
use crate::limits::DATA_COPIED_MAX;
use zk_session_core::{ErrorKind, Outcome};
use zk_session_core::{Failure, Reply, WatchKind};

/// A node that was created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// Its path, with the sequence number if it has one.
    pub path: String,
    /// Its Stat; `czxid` is a number that only ever grows over the ensemble's life.
    pub stat: Stat,
}

/// A node's data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeData {
    /// The data. Null and empty are different. More than
    /// [`DATA_COPIED_MAX`](crate::limits::DATA_COPIED_MAX) bytes are a slice of what was
    /// read from the connection, and keep that for as long as they live.
    pub data: Option<Bytes>,
    /// The node's Stat.
    pub stat: Stat,
}

impl NodeData {
    pub(in crate::client) fn new(data: Option<Bytes>, stat: Stat) -> Self {
        // Who keeps ten bytes must not keep the buffer they came in.
        let data = data.map(|data| match data.len() <= DATA_COPIED_MAX {
            true => Bytes::copy_from_slice(&data),
            false => data,
        });
        Self { data, stat }
    }
}

/// A node's children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Children {
    /// Their names, unsorted, still in the received frame.
    pub names: ChildList,
    /// The Stat of the node itself.
    pub stat: Stat,
}

/// # Operations
///
/// The errors that any operation may end with: [`ErrorKind::InvalidPath`],
/// [`ErrorKind::TooLarge`] and [`ErrorKind::LimitReached`] before anything is
/// sent; [`ErrorKind::ConnectionLost`] when the answer did not come;
/// [`ErrorKind::SessionEnded`]. What the server may decline is said at each
/// operation. Without a connection requests wait until there is one, or the
/// session has ended: bound the wait with [`Config::request_timeout`](crate::Config::request_timeout)
/// or [`within`](Self::within), which end with [`ErrorKind::TimedOut`].
impl Client {
    /// Creates a node that everybody may read, change and delete.
    ///
    /// A [`CreateMode::Container`] node is removed by the server some time after
    /// its last child has gone; servers older than 3.5.1 do not have them.
    ///
    /// # Errors
    /// The server declines with `NodeExists`, `NoNode` when the parent does not
    /// exist, `NoChildrenForEphemerals`, `NoAuth`.
    pub fn create(&self, path: &str, data: &[u8], mode: CreateMode) -> Pending<Created> {
        self.create_with_acl(path, data, mode, OPEN_ACL)
    }

    /// As [`create`](Self::create), with an access control list.
    ///
    /// # Errors
    /// As [`create`](Self::create), and `InvalidACL`.
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

    /// Creates a node that the server removes once it has had no children and no
    /// change for `ttl_ms` milliseconds.
    ///
    /// # Errors
    /// As [`create`](Self::create); `Unimplemented` from a server that was not
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
        self.request(ask, &CreateTtl { path, data, acl: OPEN_ACL.into(), sequential, ttl_ms })
    }

    /// Deletes a node, if its version is the given one; `None` for any.
    ///
    /// # Errors
    /// The server declines with `NoNode`, `BadVersion`, `NotEmpty`, `NoAuth`.
    pub fn delete(&self, path: &str, version: Option<i32>) -> Pending<()> {
        let full = self.full_doomed(path);
        let ask = self.ask("delete", path, |result, _| decode(result));
        self.checked(ask, &Delete { path: full, version: version.unwrap_or(-1) })
    }

    /// Looks whether a node exists.
    ///
    /// # Errors
    /// The server declines with `NoAuth` (3.8.4 and later).
    pub fn exists(&self, path: &str) -> Pending<Option<Stat>> {
        let full = self.full(path);
        let ask = self.ask("exists", path, finish_exists);
        self.checked(ask, &Exists { path: full, watch: false })
    }

    /// As [`exists`](Self::exists), with a watch that fires when the node is
    /// created, changed or deleted.
    ///
    /// # Errors
    /// As [`exists`](Self::exists); there is no watch then.
    pub fn exists_and_watch(&self, path: &str) -> PendingWatch<Option<Stat>> {
        let full = self.full(path);
        let ask = self.ask("exists", path, finish_exists);
        self.watched(ask, &Exists { path: full, watch: true }, WatchKind::Exists)
    }

    /// Reads a node's data.
    ///
    /// # Errors
    /// The server declines with `NoNode`, `NoAuth`.
    pub fn get_data(&self, path: &str) -> Pending<NodeData> {
        let full = self.full(path);
        let ask = self.ask("getData", path, finish_data);
        self.checked(ask, &GetData { path: full, watch: false })
    }

    /// As [`get_data`](Self::get_data), with a watch that fires when the node is
    /// changed or deleted.
    ///
    /// # Errors
    /// As [`get_data`](Self::get_data); there is no watch then.
    pub fn get_data_and_watch(&self, path: &str) -> PendingWatch<NodeData> {
        let full = self.full(path);
        let ask = self.ask("getData", path, finish_data);
        self.watched(ask, &GetData { path: full, watch: true }, WatchKind::Data)
    }

    /// Replaces a node's data, if its version is the given one; `None` for any.
    ///
    /// # Errors
    /// The server declines with `NoNode`, `BadVersion`, `NoAuth`.
    pub fn set_data(&self, path: &str, data: &[u8], version: Option<i32>) -> Pending<Stat> {
        let full = self.full(path);
        let ask = self.ask("setData", path, |result, _| decode(result));
        let (path, data) = (full, Some(data.into()));
        self.checked(ask, &SetData { path, data, version: version.unwrap_or(-1) })
    }

    /// Lists a node's children, in no order.
    ///
    /// # Errors
    /// The server declines with `NoNode`, `NoAuth`.
    pub fn get_children(&self, path: &str) -> Pending<Children> {
        let full = self.full(path);
        let ask = self.ask("getChildren", path, finish_children);
        self.checked(ask, &GetChildren2 { path: full, watch: false })
    }

    /// As [`get_children`](Self::get_children), with a watch that fires when a
    /// child is created or deleted, or the node itself deleted.
    ///
    /// # Errors
    /// As [`get_children`](Self::get_children); there is no watch then.
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

/// Whether the server may give this name to a node that is created as `asked`: the very same, or, of a
/// sequential one, with a number behind it, which is negative when the counter has overflowed.
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
    fn answer_names_the_node_that_was_asked_for() {
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
