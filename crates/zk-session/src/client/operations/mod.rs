//! The operations, typed. Each sends its request when it is called.
//!
//! Here is what they share: how a path becomes the server's, and how a request is
//! handed to the session. [`nodes`] are the plain operations, [`acl`] says who may do
//! them and who one is, [`quorum`] asks more than one server, [`cleanup`] are the
//! guaranteed deletes, [`subtree`] looks at many nodes at once, [`ensemble`] is about the
//! servers themselves.

mod acl;
mod cleanup;
mod ensemble;
mod nodes;
mod quorum;
mod subtree;

use std::borrow::Cow;

use proto::Request;

pub use self::acl::NodeAcl;
pub use self::ensemble::{EnsembleConfig, Member};
pub(super) use self::nodes::is_name_of;
pub use self::nodes::{Children, Created, NodeData};
use self::nodes::{finish_create, finish_create_sequential};

use super::Client;
use super::pending::{Ask, Finish, Pending, PendingWatch, Waiting, Watch};
use crate::driver::{Channels, OneShot, now};
use zk_session_core::{ErrorKind, Outcome};
use zk_session_core::{Failure, Reply, Session, Ticket, Waiter, WatchKind};

impl Client {
    /// The path as the server knows it.
    pub(super) fn full<'a>(&self, path: &'a str) -> Cow<'a, str> {
        match (&*self.chroot, path) {
            ("", path) => path.into(),
            (chroot, "/") => chroot.to_owned().into(),
            (chroot, path) if path.starts_with('/') => [chroot, path].concat().into(),
            // Not a path, and must not become one by what is put in front of it.
            (_, path) => path.into(),
        }
    }

    /// The path of a new node as the server knows it. The number of a sequential
    /// child of the root makes its name, and must not end up in the chroot's.
    pub(super) fn full_new<'a>(&self, path: &'a str, sequential: bool) -> Cow<'a, str> {
        match (sequential, path) {
            (true, "/") => [&*self.chroot, path].concat().into(),
            _ => self.full(path),
        }
    }

    /// The path of a node to delete as the server knows it. A root cannot be deleted,
    /// and that of a chroot is none the less one; the server says so.
    pub(super) fn full_doomed<'a>(&self, path: &'a str) -> Cow<'a, str> {
        match path {
            "/" => path.into(),
            path => self.full(path),
        }
    }

    /// Asks for a node to be created: the path that is sent, if not `path`, is what the answer has to
    /// name.
    pub(super) fn ask_to_create(
        &self,
        path: &str,
        sent: Option<&str>,
        is_sequential: bool,
    ) -> Ask<Created> {
        let chroot_len = self.chroot.len();
        let finish = match (sent.filter(|sent| *sent != path), is_sequential) {
            (None, false) => Finish::OfPath(finish_create),
            (None, true) => Finish::OfPath(finish_create_sequential),
            (Some(sent), is_sequential) => {
                let sent = sent.to_owned();
                Finish::Asked(Box::new(move |result| match is_sequential {
                    true => finish_create_sequential(result, &sent, chroot_len),
                    false => finish_create(result, &sent, chroot_len),
                }))
            }
        };
        Ask { operation: "create", path: path.to_owned(), chroot_len, finish }
    }

    pub(super) fn ask<T>(
        &self,
        operation: &'static str,
        path: &str,
        finish: fn(Result<Reply, Failure>, usize) -> Result<T, Failure>,
    ) -> Ask<T> {
        Ask {
            operation,
            path: path.to_owned(),
            chroot_len: self.chroot.len(),
            finish: Finish::Plain(finish),
        }
    }

    /// Sends a request about the node that is asked about, if its path can be one.
    fn checked<T, R: Request>(&self, ask: Ask<T>, request: &R) -> Pending<T> {
        match check(&ask.path) {
            Ok(()) => self.request(ask, request),
            Err(failure) => Pending::new(ask, Err(failure)),
        }
    }

    pub(super) fn request<T, R: Request>(&self, ask: Ask<T>, request: &R) -> Pending<T> {
        self.submit(ask, |session, to| session.submit(now(), request, to, None).map(Some))
    }

    fn watched<T, R: Request>(&self, ask: Ask<T>, request: &R, kind: WatchKind) -> PendingWatch<T> {
        let path = request.path().unwrap_or_default().to_owned();
        let (fire, receiver) = OneShot::channel();
        let watch = Watch::new(receiver, self.shared().clone(), path, ask.chroot_len);
        let pending = match check(&ask.path) {
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
            Waiter<OneShot<Result<Reply, Failure>>>,
        ) -> Result<Option<Ticket>, Failure>,
    ) -> Pending<T> {
        let (to, receiver) = OneShot::channel();
        let deadline = self.within.map(|timeout| now() + timeout);
        let submitted = submit(&mut self.shared().lock(), Waiter { to, deadline });
        self.shared().wake();
        Pending::new(ask, submitted.map(|ticket| Waiting::new(receiver, self.shared(), ticket)))
    }
}

/// The server checks some paths only after it has taken a transaction number for
/// the request, and others not at all; so they are checked here, all of them, as the
/// caller gives them: the chroot in front has been checked by itself.
pub(super) fn check(path: &str) -> Result<(), Failure> {
    proto::validate_path(path).map_err(|error| (ErrorKind::InvalidPath(error), Outcome::NotApplied))
}

/// The server appends digits to a sequential node's name before it looks.
pub(super) fn check_new(path: &str, sequential: bool) -> Result<(), Failure> {
    if !sequential {
        return check(path);
    }
    proto::validate_sequential_path(path)
        .map_err(|error| (ErrorKind::InvalidPath(error), Outcome::NotApplied))
}
