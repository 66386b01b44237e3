//! The operations, typed. Each sends its request when it is called.

use bytes::Bytes;
use proto::{
    Acl, Check, ChildList, ChildrenReply, Create2, CreateContainer, CreateMode, CreateReply,
    CreateTtl, DataReply, Delete, ErrorCode, Exists, GetChildren2, GetData, Multi, MultiReply,
    MultiResult, OPEN_ACL, Request, SetData, Stat, Sync, SyncReply,
};
use tokio::sync::oneshot;

use super::Client;
use super::pending::{Ask, Pending, PendingWatch, Waiting, Watch, decode, strip};
use crate::core::{Failure, HEARTBEAT, Reply, Session, Ticket, Waiter, WatchKind};
use crate::driver::{Channels, now};
use crate::error::{ErrorKind, Outcome};

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
    /// The data, a slice of the received frame. Null and empty are different.
    pub data: Option<Bytes>,
    /// The node's Stat.
    pub stat: Stat,
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
        let (path_sent, data, acl) = (full.as_str().into(), Some(data.into()), acl.into());
        let ask = self.ask("create", path, finish_create);
        if let Err(failure) = check_new(&full, mode.is_sequential()) {
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
        let ask = self.ask("create", path, finish_create);
        if let Err(failure) = check_new(&full, sequential) {
            return Pending::new(ask, Err(failure));
        }
        let (path, data) = (full.into(), Some(data.into()));
        self.request(ask, &CreateTtl { path, data, acl: OPEN_ACL.into(), sequential, ttl_ms })
    }

    /// Deletes a node, if its version is the given one; `None` for any.
    ///
    /// # Errors
    /// The server declines with `NoNode`, `BadVersion`, `NotEmpty`, `NoAuth`.
    pub fn delete(&self, path: &str, version: Option<i32>) -> Pending<()> {
        let full = self.full(path);
        let ask = self.ask("delete", path, |result, _| decode(result));
        self.checked(ask, &Delete { path: full.into(), version: version.unwrap_or(-1) })
    }

    /// Looks whether a node exists.
    ///
    /// # Errors
    /// The server declines with `NoAuth` (3.8.4 and later).
    pub fn exists(&self, path: &str) -> Pending<Option<Stat>> {
        let full = self.full(path);
        let ask = self.ask("exists", path, finish_exists);
        self.checked(ask, &Exists { path: full.into(), watch: false })
    }

    /// As [`exists`](Self::exists), with a watch that fires when the node is
    /// created, changed or deleted.
    ///
    /// # Errors
    /// As [`exists`](Self::exists); there is no watch then.
    pub fn exists_and_watch(&self, path: &str) -> PendingWatch<Option<Stat>> {
        let full = self.full(path);
        let ask = self.ask("exists", path, finish_exists);
        self.watched(ask, &Exists { path: full.into(), watch: true }, WatchKind::Exists)
    }

    /// Reads a node's data.
    ///
    /// # Errors
    /// The server declines with `NoNode`, `NoAuth`.
    pub fn get_data(&self, path: &str) -> Pending<NodeData> {
        let full = self.full(path);
        let ask = self.ask("getData", path, finish_data);
        self.checked(ask, &GetData { path: full.into(), watch: false })
    }

    /// As [`get_data`](Self::get_data), with a watch that fires when the node is
    /// changed or deleted.
    ///
    /// # Errors
    /// As [`get_data`](Self::get_data); there is no watch then.
    pub fn get_data_and_watch(&self, path: &str) -> PendingWatch<NodeData> {
        let full = self.full(path);
        let ask = self.ask("getData", path, finish_data);
        self.watched(ask, &GetData { path: full.into(), watch: true }, WatchKind::Data)
    }

    /// Replaces a node's data, if its version is the given one; `None` for any.
    ///
    /// # Errors
    /// The server declines with `NoNode`, `BadVersion`, `NoAuth`.
    pub fn set_data(&self, path: &str, data: &[u8], version: Option<i32>) -> Pending<Stat> {
        let full = self.full(path);
        let ask = self.ask("setData", path, |result, _| decode(result));
        let (path, data) = (full.into(), Some(data.into()));
        self.checked(ask, &SetData { path, data, version: version.unwrap_or(-1) })
    }

    /// Lists a node's children, in no order.
    ///
    /// # Errors
    /// The server declines with `NoNode`, `NoAuth`.
    pub fn get_children(&self, path: &str) -> Pending<Children> {
        let full = self.full(path);
        let ask = self.ask("getChildren", path, finish_children);
        self.checked(ask, &GetChildren2 { path: full.into(), watch: false })
    }

    /// As [`get_children`](Self::get_children), with a watch that fires when a
    /// child is created or deleted, or the node itself deleted.
    ///
    /// # Errors
    /// As [`get_children`](Self::get_children); there is no watch then.
    pub fn get_children_and_watch(&self, path: &str) -> PendingWatch<Children> {
        let full = self.full(path);
        let ask = self.ask("getChildren", path, finish_children);
        self.watched(ask, &GetChildren2 { path: full.into(), watch: true }, WatchKind::Children)
    }

    /// Makes the server catch up with the leader before it answers reads that this
    /// client makes after this one. It proves nothing: a leader that has just been
    /// replaced answers as well; [`check`](Self::check) asks a quorum.
    ///
    /// # Errors
    /// None of its own.
    pub fn sync(&self, path: &str) -> Pending<()> {
        let full = self.full(path);
        let ask = self.ask("sync", path, |result, _| decode::<SyncReply>(result).map(|_| ()));
        self.checked(ask, &Sync { path: full.into() })
    }

    /// Asks a quorum of the ensemble whether a node is there, and at the given
    /// version; `None` for any. It is a transaction without a change, so no server
    /// answers it out of an old view of the world, as it may do with reads.
    ///
    /// # Errors
    /// The server declines with `NoNode`, `BadVersion`, `NoAuth` (it takes the
    /// permission to read).
    pub fn check(&self, path: &str, version: Option<i32>) -> Pending<()> {
        let full = self.full(path);
        let ask = self.ask("check", path, finish_check);
        if let Err(failure) = check(&full) {
            return Pending::new(ask, Err(failure));
        }
        let check = Check { path: full.into(), version: version.unwrap_or(-1) };
        self.request(ask, &Multi::new(&[check.into()]))
    }

    /// A transaction of nothing; see [`LeaseClaim::renew`](super::LeaseClaim::renew).
    pub(super) fn prove(&self) -> Pending<()> {
        let ask = self.ask("prove the session on", "/", finish_proof);
        self.request(ask, &HEARTBEAT)
    }

    /// Adds credentials to the session, on this connection and all later ones:
    /// scheme `digest` with `user:password`, or any that the servers know. If the
    /// server does not accept them the session ends with `AuthFailed`.
    ///
    /// # Errors
    /// [`ErrorKind::SessionEnded`].
    pub fn add_auth(&self, scheme: &str, auth: impl Into<Bytes>) -> Pending<()> {
        let ask = self.ask("addAuth", scheme, |result, _| decode(result));
        let auth = auth.into();
        self.submit(ask, |session, to| {
            session.add_credential(now(), scheme, auth, to).map(|()| None)
        })
    }

    /// Deletes a node for certain: from the moment of the call, and whether or not
    /// anybody waits for the answer, the delete is repeated over reconnects until
    /// a server has answered it, or the session has ended. Meant for nodes whose
    /// names are never used again, since it deletes whatever bears the name.
    ///
    /// Answers false if the node was gone already: somebody else has deleted it. One
    /// that is only found gone when the delete is repeated counts as deleted by it.
    ///
    /// # Errors
    /// The server declines with `NotEmpty`, `NoAuth`; the session ends, and takes
    /// the node along if it is an ephemeral of its own.
    pub fn delete_for_certain(&self, path: &str) -> Pending<bool> {
        let full = self.full(path);
        let ask = self.ask("delete", path, finish_delete_for_certain);
        if let Err(failure) = check(&full) {
            return Pending::new(ask, Err(failure));
        }
        self.submit(ask, |session, to| {
            session.delete_for_certain(now(), &full, Some(to)).map(|()| None)
        })
    }

    /// As [`delete_for_certain`](Self::delete_for_certain), for every child of
    /// `parent` whose name starts with `prefix`, and without an answer: what a
    /// create may have left of which nobody will see the answer. A refusal is told
    /// as [`SessionEvent::CleanUpFailed`](crate::SessionEvent::CleanUpFailed).
    pub fn sweep_for_certain(&self, parent: &str, prefix: &str) {
        let full = self.full(parent);
        // An error means that the session is over, and its ephemerals with it.
        drop(self.shared().lock().sweep_for_certain(now(), &full, prefix));
        self.shared().wake();
    }

    /// The path as the server knows it.
    pub(super) fn full(&self, path: &str) -> String {
        match (self.session.chroot.as_str(), path) {
            ("", path) => path.to_owned(),
            (chroot, "/") => chroot.to_owned(),
            (chroot, path) if path.starts_with('/') => [chroot, path].concat(),
            // Not a path, and must not become one by what is put in front of it.
            (_, path) => path.to_owned(),
        }
    }

    /// The path of a new node as the server knows it. The number of a sequential
    /// child of the root makes its name, and must not end up in the chroot's.
    fn full_new(&self, path: &str, sequential: bool) -> String {
        match (sequential, path) {
            (true, "/") => [self.session.chroot.as_str(), path].concat(),
            _ => self.full(path),
        }
    }

    pub(super) fn ask<T>(
        &self,
        operation: &'static str,
        path: &str,
        finish: fn(Result<Reply, Failure>, usize) -> Result<T, Failure>,
    ) -> Ask<T> {
        Ask { operation, path: path.to_owned(), chroot_len: self.session.chroot.len(), finish }
    }

    fn checked<T, R: Request>(&self, ask: Ask<T>, request: &R) -> Pending<T> {
        match check(request.path().unwrap_or("/")) {
            Ok(()) => self.request(ask, request),
            Err(failure) => Pending::new(ask, Err(failure)),
        }
    }

    fn request<T, R: Request>(&self, ask: Ask<T>, request: &R) -> Pending<T> {
        self.submit(ask, |session, to| session.submit(now(), request, to, None).map(Some))
    }

    fn watched<T, R: Request>(&self, ask: Ask<T>, request: &R, kind: WatchKind) -> PendingWatch<T> {
        let path = request.path().unwrap_or_default().to_owned();
        let (fire, receiver) = oneshot::channel();
        let watch = Watch::new(receiver, self.shared().clone(), path, ask.chroot_len);
        let pending = match check(request.path().unwrap_or("/")) {
            Ok(()) => self.submit(ask, |session, to| {
                session.submit(now(), request, to, Some((kind, fire))).map(Some)
            }),
            Err(failure) => Pending::new(ask, Err(failure)),
        };
        PendingWatch::new(pending, watch)
    }

    pub(super) fn submit<T>(
        &self,
        ask: Ask<T>,
        submit: impl FnOnce(
            &mut Session<Channels>,
            Waiter<oneshot::Sender<Result<Reply, Failure>>>,
        ) -> Result<Option<Ticket>, Failure>,
    ) -> Pending<T> {
        let (to, receiver) = oneshot::channel();
        let deadline = self.within.map(|timeout| now() + timeout);
        let submitted = submit(&mut self.shared().lock(), Waiter { to, deadline });
        self.shared().wake();
        Pending::new(ask, submitted.map(|ticket| Waiting::new(receiver, self.shared(), ticket)))
    }
}

/// The server checks some paths only after it has taken a transaction number for
/// the request, and others not at all; so they are checked here, all of them.
pub(super) fn check(path: &str) -> Result<(), Failure> {
    proto::validate_path(path).map_err(|error| (ErrorKind::InvalidPath(error), Outcome::NotApplied))
}

/// The server appends digits to a sequential node's name before it looks.
fn check_new(path: &str, sequential: bool) -> Result<(), Failure> {
    if !sequential {
        return check(path);
    }
    proto::validate_sequential_path(path)
        .map_err(|error| (ErrorKind::InvalidPath(error), Outcome::NotApplied))
}

fn finish_create(result: Result<Reply, Failure>, chroot_len: usize) -> Result<Created, Failure> {
    let CreateReply { path, stat } = decode(result)?;
    Ok(Created { path: strip(path, chroot_len), stat })
}

fn finish_exists(result: Result<Reply, Failure>, _: usize) -> Result<Option<Stat>, Failure> {
    match result {
        Err((ErrorKind::Server(ErrorCode::NO_NODE), _)) => Ok(None),
        result => decode(result).map(Some),
    }
}

fn finish_delete_for_certain(result: Result<Reply, Failure>, _: usize) -> Result<bool, Failure> {
    match result {
        Ok(_) => Ok(true),
        Err((ErrorKind::Server(ErrorCode::NO_NODE), _)) => Ok(false),
        Err(failure) => Err(failure),
    }
}

/// The answer to a transaction of one check. Only its one result says that the node
/// is there: a list that has come short must not.
fn finish_check(result: Result<Reply, Failure>, _: usize) -> Result<(), Failure> {
    let reply = decode::<MultiReply>(result)?;
    let code = match reply.results.as_slice() {
        [MultiResult::Checked] => return Ok(()),
        [MultiResult::Error(code)] if !code.is_ok() => *code,
        _ => ErrorCode::RUNTIME_INCONSISTENCY,
    };
    Err((ErrorKind::Server(code), Outcome::NotApplied))
}

fn finish_proof(result: Result<Reply, Failure>, _: usize) -> Result<(), Failure> {
    decode::<MultiReply>(result).map(|_| ())
}

fn finish_data(result: Result<Reply, Failure>, _: usize) -> Result<NodeData, Failure> {
    let DataReply { data, stat } = decode(result)?;
    Ok(NodeData { data, stat })
}

fn finish_children(result: Result<Reply, Failure>, _: usize) -> Result<Children, Failure> {
    let ChildrenReply { children, stat } = decode(result)?;
    Ok(Children { names: children, stat })
}
