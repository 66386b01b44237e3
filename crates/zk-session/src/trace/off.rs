//! Without tracing.

use std::future::Future;

use proto::SessionId;
use zk_session_core::{Error, Host, IoFailure, LeaseState, Operation, SessionEvent};

pub(crate) fn announce(_event: &SessionEvent) {}

pub(crate) fn lease_ended(_claimed_by: impl FnOnce() -> Option<SessionId>, _state: &LeaseState) {}

pub(crate) fn server_list_failed(_failure: &IoFailure) {}

pub(crate) fn servers_replaced(_servers: &[Host]) {}

pub(crate) fn members_followed(_config: &str) {}

pub(crate) fn members_not_followed(_why: &Error) {}

pub(crate) fn connect<F: Future>(_servers: &str, attempt: F) -> F {
    attempt
}

#[derive(Debug)]
pub(crate) struct RequestSpan;

impl RequestSpan {
    pub(crate) fn begin(_operation: Operation, _path: &str) -> Self {
        Self
    }

    pub(crate) fn end(&self, _operation: Operation, _path: &str, _error: Option<&Error>) {}
}
