//! Requests that wait for a connection.

use std::collections::BTreeMap;
use std::fmt;

use bytes::BytesMut;
use proto::{OpCode, Request};

use super::deadlines::Due;
use super::{RequestId, WatchOf};
use crate::Handles;

/// Request that waits for a connection, encoded except for its xid.
pub(crate) struct Queued<H: Handles> {
    pub(crate) id: RequestId,
    pub(crate) op: OpCode,
    pub(crate) frame: BytesMut,
    pub(crate) to: H::Reply,
    pub(crate) watch: Option<WatchOf<H>>,
    /// Time limit of the reply.
    pub(crate) due: Option<Due>,
    /// Time limit of the wait for the first session.
    pub(crate) opened_by: Option<Due>,
}

impl<H: Handles> Queued<H> {
    /// Encodes a request, with a time limit if it has one.
    pub(crate) fn new<R: Request>(
        id: RequestId,
        request: &R,
        to: H::Reply,
        watch: Option<WatchOf<H>>,
        due: Option<Due>,
    ) -> Self {
        let mut frame = BytesMut::new();
        proto::encode_request(0, request, &mut frame);
        Self { id, op: R::OP, frame, to, watch, due, opened_by: None }
    }

    /// Replaces the request by another one.
    pub(crate) fn replace<R: Request>(&mut self, request: &R) {
        self.frame.clear();
        proto::encode_request(0, request, &mut self.frame);
        self.op = R::OP;
    }
}

impl<H: Handles> fmt::Debug for Queued<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queued").field("op", &self.op).finish_non_exhaustive()
    }
}

/// Requests that wait for a connection, oldest first.
#[derive(Debug)]
pub(super) struct Queue<H: Handles> {
    requests: BTreeMap<RequestId, Queued<H>>,
    bytes: usize,
}

impl<H: Handles> Queue<H> {
    pub(super) fn new() -> Self {
        Self { requests: BTreeMap::new(), bytes: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn push(&mut self, request: Queued<H>) {
        self.bytes += request.frame.len();
        self.requests.insert(request.id, request);
    }

    /// Removes the oldest request.
    pub(super) fn pop(&mut self) -> Option<Queued<H>> {
        let (id, _) = self.requests.first_key_value()?;
        self.remove(*id)
    }

    pub(super) fn remove(&mut self, id: RequestId) -> Option<Queued<H>> {
        let request = self.requests.remove(&id)?;
        self.bytes -= request.frame.len();
        Some(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Handle;

    #[derive(Debug)]
    struct Caller;

    impl Handle for Caller {}

    struct Callers;

    impl Handles for Callers {
        type Reply = Caller;
        type Watch = Caller;
        type Stream = char;
    }

    #[test]
    fn queued_request_prints_no_data() {
        let (id, op, frame) = (RequestId::of(1), OpCode::SetData, BytesMut::from(&b"secret"[..]));
        let (due, opened_by, watch) = (None, None, None);
        let queued = Queued::<Callers> { id, op, frame, to: Caller, watch, due, opened_by };
        assert_eq!(format!("{queued:?}"), "Queued { op: SetData, .. }");
    }
}
