//! The typed operations. Each sends its request when it is called.
//!
//! This module submits requests to the session. The operations are in the submodules:
//!
//! * [`nodes`]: basic operations on one node, and guaranteed deletes.
//! * [`create`]: the request that creates a node.
//! * [`acl`]: access control lists and identities.
//! * [`quorum`]: requests that involve more than one server.
//! * [`delete_recursive`]: a node and everything below it.
//! * [`subtree`]: requests about many nodes.
//! * [`ensemble`]: the configuration of the ensemble.

// The page of `Client` shows its methods in this order.
mod create;
mod nodes;

mod delete_recursive;
mod quorum;
mod subtree;

mod acl;
mod ensemble;

use std::borrow::Cow;

use proto::Request;
use zk_session_core::{Failure, Operation, Reply, ReplyTo, RequestId, Session, WatchKind};

pub use self::acl::NodeAcl;
pub use self::create::validate_ttl;
pub(super) use self::create::{Kind, NewNode, NodeName, is_name_of, ttl_ms};
pub use self::ensemble::{EnsembleConfig, EnsembleMember};
pub(super) use self::nodes::{ANY_VERSION, any};
pub use self::nodes::{Children, Created, NodeData};

use super::Client;
use super::budget::Budget;
use super::pending::{Ask, Finish, Pending, PendingWatch, State, Watch};
use crate::clock::now;
use crate::driver::{Channels, OneShot};

/// Submission of requests to the session.
impl Client {
    pub(super) fn ask<T>(
        &self,
        operation: impl Into<Operation>,
        path: impl Into<String>,
        finish: Finish<T>,
    ) -> Ask<T> {
        Ask {
            operation: operation.into(),
            path: path.into(),
            chroot_len: self.chroot.len(),
            finish,
        }
    }

    /// Sends the request that `request` makes of the path of a node.
    fn on_node<'a, T, R: Request>(
        &self,
        operation: impl Into<Operation>,
        path: &'a str,
        decode: fn(Result<Reply, Failure>) -> Result<T, Failure>,
        request: impl FnOnce(Cow<'a, str>) -> R,
    ) -> Pending<T> {
        let ask = self.ask(operation, path, Finish::Plain(decode));
        self.request(ask, self.checked(path).map(request))
    }

    /// As [`on_node`](Self::on_node), for a request that sets a watch of this kind.
    fn watch_node<'a, T, R: Request>(
        &self,
        operation: impl Into<Operation>,
        path: &'a str,
        decode: fn(Result<Reply, Failure>) -> Result<T, Failure>,
        kind: WatchKind,
        request: impl FnOnce(Cow<'a, str>) -> R,
    ) -> PendingWatch<T> {
        let ask = self.ask(operation, path, Finish::Plain(decode));
        let full = self.full(path).into_owned();
        self.watched(ask, full, self.checked(path).map(request), kind)
    }

    /// Sends a request that sets a watch of this kind on a path of the server.
    fn watched<T, R: Request>(
        &self,
        ask: Ask<T>,
        full: String,
        request: Result<R, Failure>,
        kind: WatchKind,
    ) -> PendingWatch<T> {
        let (fire, receiver) = OneShot::channel();
        let watch = Watch::new(receiver, self.shared.clone(), full, ask.chroot_len);
        let pending = self.submit(ask, |session, to| {
            session.submit(now(), &request?, to, Some((kind, fire))).map(Some)
        });
        PendingWatch::new(pending, watch)
    }

    /// Sends a request, or refuses it if its path is invalid.
    pub(super) fn request<T, R: Request>(
        &self,
        ask: Ask<T>,
        request: Result<R, Failure>,
    ) -> Pending<T> {
        self.submit(ask, |session, to| session.submit(now(), &request?, to, None).map(Some))
    }

    pub(super) fn submit<T>(
        &self,
        ask: Ask<T>,
        submit: impl FnOnce(
            &mut Session<Channels>,
            ReplyTo<OneShot<Result<Reply, Failure>>>,
        ) -> Result<Option<RequestId>, Failure>,
    ) -> Pending<T> {
        let (to, receiver) = OneShot::channel();
        let deadline = self.timeout.map(|timeout| now() + timeout);
        let submitted = submit(&mut self.shared.lock(), ReplyTo { to, deadline });
        self.shared.wake();
        let state = match submitted {
            Ok(id) => State::Sent(receiver, id),
            Err(failure) => State::Refused(failure, Budget::default()),
        };
        Pending::new(ask, &self.shared, state)
    }
}
