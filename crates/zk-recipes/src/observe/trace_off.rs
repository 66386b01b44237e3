//! Without the feature `tracing`: everything here is empty, and costs neither time nor memory.

#![allow(clippy::needless_pass_by_ref_mut, reason = "the same calls as with tracing")]

use std::time::Duration;

use zk_session::SessionId;

use crate::error::{LockError, LossReason};
use crate::fencing_token::FencingToken;

pub(crate) const IS_ON: bool = false;

pub(crate) fn node_deleted(_node: &str, _session_id: SessionId) {}

pub(crate) fn not_elected(_path: &str, _error: &LockError) {}

#[derive(Debug)]
pub(crate) struct AcquireSpan;

impl AcquireSpan {
    pub(crate) fn begin(_path: &str) -> Self {
        Self
    }

    pub(crate) fn granted(&mut self, _node: &str, _token: FencingToken) -> Option<Duration> {
        None
    }
}

#[derive(Debug)]
pub(crate) struct HoldSpan;

impl HoldSpan {
    pub(crate) fn begin(
        _path: &str,
        _node: &str,
        _token: FencingToken,
        _waited: Option<Duration>,
        _session_id: SessionId,
    ) -> Self {
        Self
    }

    pub(crate) fn end(&self, _held: Duration, _loss: Option<LossReason>, _left: Duration) {}
}
