//! Operations that are sent in one request.

use std::borrow::Cow;

use proto::{OpCode, Request};
use zk_session_core::Failure;

use super::Client;
use super::pending::{Finish, Pending};

/// Collects the operations of a [`Multi`](super::Multi) or a [`MultiRead`](super::MultiRead).
#[derive(Clone, Debug)]
pub(super) struct OperationList<O> {
    pub(super) client: Client,
    pub(super) ops: Vec<O>,
    /// Error and path of the first invalid operation.
    refused: Option<(Failure, String)>,
}

impl<O> OperationList<O> {
    pub(super) fn new(client: &Client) -> Self {
        Self { client: client.clone(), ops: Vec::new(), refused: None }
    }

    /// Adds the operation that `op` makes of the checked path.
    pub(super) fn with(
        mut self,
        path: &str,
        checked: Result<Cow<'_, str>, Failure>,
        op: impl FnOnce(Cow<'static, str>) -> O,
    ) -> Self {
        match checked {
            Ok(full) => self.ops.push(op(full.into_owned().into())),
            Err(failure) if self.refused.is_none() => {
                self.refused = Some((failure, path.to_owned()));
            }
            Err(_) => {}
        }
        self
    }

    /// Sends the operations, or refuses all of them if one is invalid.
    ///
    /// Errors name `op`, and the path of the invalid operation or the number of operations.
    pub(super) fn send<'o, T, R: Request>(
        &'o self,
        op: OpCode,
        noun: &str,
        finish: Finish<T>,
        request: impl FnOnce(&'o [O]) -> R,
    ) -> Pending<T> {
        match &self.refused {
            None => {
                let ask = self.client.ask(op, self.count(noun), finish);
                self.client.request(ask, Ok(request(&self.ops)))
            }
            Some((failure, path)) => {
                let ask = self.client.ask(op, path.as_str(), finish);
                self.client.request(ask, Err::<R, _>(failure.clone()))
            }
        }
    }

    /// Returns the number of operations, for errors.
    pub(super) fn count(&self, noun: &str) -> String {
        match self.ops.len() {
            1 => format!("1 {noun}"),
            len => format!("{len} {noun}s"),
        }
    }
}
