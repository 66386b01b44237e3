//! The typed operations. Each sends its request when it is called.
//!
//! This module has their common parts: how a path becomes a path of the server, and how a request
//! is submitted to the session. The operations are in the submodules:
//!
//! * [`nodes`]: basic operations on one node.
//! * [`acl`]: access control lists and identities.
//! * [`quorum`]: requests that involve more than one server.
//! * [`cleanup`]: guaranteed deletes, and the search for a protected node.
//! * [`subtree`]: requests about many nodes.
//! * [`ensemble`]: the configuration of the ensemble.

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
use super::pending::{Ask, Finish, Pending, PendingReply, PendingWatch, Watch};
use crate::driver::{Channels, OneShot, now};
use zk_session_core::{ErrorKind, Outcome};
use zk_session_core::{Failure, Reply, RequestId, Session, Waiter, WatchKind};

impl Client {
    /// Returns the path as the server knows it.
    pub(super) fn full<'a>(&self, path: &'a str) -> Cow<'a, str> {
        match (&*self.chroot, path) {
            ("", path) => path.into(),
            (chroot, "/") => chroot.to_owned().into(),
            (chroot, path) if path.starts_with('/') => [chroot, path].concat().into(),
            // An invalid path must not become valid because of the chroot in front of it.
            (_, path) => path.into(),
        }
    }

    /// Returns the path of a new node as the server knows it. The name of a sequential child of the
    /// root is only its number, which must not become part of the chroot's name.
    pub(super) fn full_new<'a>(&self, path: &'a str, sequential: bool) -> Cow<'a, str> {
        match (sequential, path) {
            (true, "/") => [&*self.chroot, path].concat().into(),
            _ => self.full(path),
        }
    }

    /// Returns the path of a node to delete as the server knows it. The root of a chroot cannot be
    /// deleted, like any root, so it is sent as `/` and the server rejects it.
    pub(super) fn full_doomed<'a>(&self, path: &'a str) -> Cow<'a, str> {
        match path {
            "/" => path.into(),
            path => self.full(path),
        }
    }

    /// Prepares a create. `sent` is the path that is sent, if it differs from `path`; the reply
    /// must name that path.
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

    /// Sends a request about the node of `ask`, if its path is valid.
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
        ) -> Result<Option<RequestId>, Failure>,
    ) -> Pending<T> {
        let (to, receiver) = OneShot::channel();
        let deadline = self.within.map(|timeout| now() + timeout);
        let submitted = submit(&mut self.shared().lock(), Waiter { to, deadline });
        self.shared().wake();
        Pending::new(
            ask,
            submitted.map(|ticket| PendingReply::new(receiver, self.shared(), ticket)),
        )
    }
}

/// Checks a path as the caller gives it; the chroot was checked before. The server checks some
/// paths only after it has used a transaction number for the request, and does not check others at
/// all.
pub(super) fn check(path: &str) -> Result<(), Failure> {
    proto::validate_path(path).map_err(|error| (ErrorKind::InvalidPath(error), Outcome::NotApplied))
}

/// Checks the path of a new node. The server appends digits to the name of a sequential node before
/// it checks the path.
pub(super) fn check_new(path: &str, sequential: bool) -> Result<(), Failure> {
    if !sequential {
        return check(path);
    }
    proto::validate_sequential_path(path)
        .map_err(|error| (ErrorKind::InvalidPath(error), Outcome::NotApplied))
}
