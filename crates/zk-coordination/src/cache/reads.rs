//! Reads of a cache that wait, and reads in flight.
//!
//! Reads are answered in the order in which they are sent. So the answers are states of the tree in
//! the order of its history. A read that is sent after an event shows a state after the event.
//!
//! Reads because of events wait until a walk over the tree is done. Until then, the cached parent of
//! a node may be an earlier one of the same path, and the node must not be added below it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use zk_recipes::session::{Client, Error, ErrorCode, ErrorKind};

use super::request::{Answer, Cause, Read, Request, What};
use crate::limits::{NAMES_PER_READ, READS_PER_REQUEST};

#[derive(Debug)]
pub(super) struct Reads {
    /// Reads of a walk over the tree, to be sent.
    walk: VecDeque<Read>,
    /// Reads because of events and checks, to be sent.
    events: VecDeque<Read>,
    in_flight: VecDeque<Request>,
    /// Reads of data and Stats that are not done, by path.
    pending: HashMap<Arc<str>, Pending>,
    /// Reads of a walk that are not done.
    walk_left: usize,
    in_flight_max: usize,
    /// Reads in one request; 1 if the server does not support several, or they were too large.
    per_request: usize,
    /// The server does not support several reads in one request. The next one may.
    is_unsupported: bool,
}

#[derive(Debug, Default)]
struct Pending {
    /// Reads that are not sent. One is enough for all events until then.
    queued: usize,
    in_flight: usize,
    /// An event reported that the node was created or deleted. Until it is read, the cached node
    /// may be an earlier one of the same path.
    is_unconfirmed: bool,
}

impl Reads {
    pub(super) fn new(in_flight_max: usize) -> Self {
        let in_flight_max = in_flight_max.max(1);
        Self {
            walk: VecDeque::new(),
            events: VecDeque::new(),
            in_flight: VecDeque::new(),
            pending: HashMap::new(),
            walk_left: 0,
            in_flight_max,
            per_request: READS_PER_REQUEST.min(in_flight_max),
            is_unsupported: false,
        }
    }

    /// Requests a read of a node, unless one waits to be sent.
    pub(super) fn add(&mut self, read: Read) {
        if !matches!(read.what, What::Children(_)) {
            let pending = self.pending.entry(Arc::clone(&read.path)).or_default();
            // The read of an event does not go on below the node, so a walk needs its own.
            if pending.queued > 0 && read.cause != Cause::Walk {
                return;
            }
            pending.queued += 1;
        }
        self.walk_left += usize::from(read.cause == Cause::Walk);
        self.queue_of(&read).push_back(read);
    }

    /// Requests a read because of an event that reported a creation or a deletion.
    pub(super) fn add_unconfirmed(&mut self, path: Arc<str>) {
        self.add(Read { path: Arc::clone(&path), what: What::Data, cause: Cause::Event });
        self.pending.entry(path).or_default().is_unconfirmed = true;
    }

    /// Forgets all reads, before a walk. After a reconnect, the walk may be on another server.
    pub(super) fn clear(&mut self) {
        self.allow_several();
        self.walk.clear();
        self.events.clear();
        self.in_flight.clear();
        self.pending.clear();
        self.walk_left = 0;
    }

    /// Sends as many reads as may be in flight.
    pub(super) fn send(&mut self, client: &Client) {
        let _one_write = client.batch();
        let mut left = self.in_flight_max.saturating_sub(self.reads_in_flight());
        while left > 0 && !self.next_queue().is_empty() {
            let reads = self.next_request(left);
            left = left.saturating_sub(reads.len());
            self.in_flight.push_back(Request::send(client, reads));
        }
    }

    /// Waits for the answer to the first request in flight. [`take`](Self::take) then removes it.
    ///
    /// Dropping the future loses nothing.
    pub(super) async fn next_answer(&mut self) -> Result<Vec<Answer>, Error> {
        match self.in_flight.front_mut() {
            Some(request) => request.answer().await,
            None => std::future::pending().await,
        }
    }

    /// Removes the first request in flight, which has been answered, and returns its reads. They stay
    /// pending until they are [done](Self::done).
    pub(super) fn take(&mut self) -> Vec<Read> {
        self.in_flight.pop_front().map(Request::into_reads).unwrap_or_default()
    }

    /// Notes that the answer to a read is about to be applied.
    pub(super) fn done(&mut self, read: &Read) {
        self.walk_left -= usize::from(read.cause == Cause::Walk);
        if let Some(pending) = self.pending_of(read) {
            pending.in_flight -= 1;
            if pending.queued + pending.in_flight == 0 {
                self.pending.remove(&read.path);
            }
        }
    }

    /// Puts all reads in flight back to the front of their queues, after a request has failed.
    pub(super) fn requeue(&mut self) {
        while let Some(request) = self.in_flight.pop_back() {
            for read in request.into_reads().into_iter().rev() {
                if let Some(pending) = self.pending_of(&read) {
                    pending.in_flight -= 1;
                    pending.queued += 1;
                }
                self.queue_of(&read).push_front(read);
            }
        }
    }

    /// Sends one read in each request after a request of several has failed. Returns false if the error
    /// has another cause.
    pub(super) fn send_singly(&mut self, error: &Error) -> bool {
        let helps = self.per_request > 1 && is_due_to_several(error);
        if helps {
            self.per_request = 1;
            self.is_unsupported = error.code() == Some(ErrorCode::UNIMPLEMENTED);
        }
        helps
    }

    /// Tries again to send several reads in one request, if the server did not support it. If they were
    /// too large, another attempt would cost another connection.
    fn allow_several(&mut self) {
        if std::mem::take(&mut self.is_unsupported) {
            self.per_request = READS_PER_REQUEST.min(self.in_flight_max);
        }
    }

    /// Returns true if nothing is left to read of the walk over the tree.
    pub(super) fn is_walk_done(&self) -> bool {
        self.walk_left == 0
    }

    pub(super) fn is_pending(&self, path: &str) -> bool {
        self.pending.contains_key(path)
    }

    pub(super) fn is_unconfirmed(&self, path: &str) -> bool {
        self.pending.get(path).is_some_and(|pending| pending.is_unconfirmed)
    }

    pub(super) fn queued(&self) -> usize {
        self.walk.len() + self.events.len()
    }

    fn queue_of(&mut self, read: &Read) -> &mut VecDeque<Read> {
        if read.cause == Cause::Walk { &mut self.walk } else { &mut self.events }
    }

    /// Returns the queue whose reads are sent next: a walk comes before events.
    fn next_queue(&mut self) -> &mut VecDeque<Read> {
        if self.walk_left > 0 { &mut self.walk } else { &mut self.events }
    }

    fn reads_in_flight(&self) -> usize {
        self.in_flight.iter().map(Request::len).sum()
    }

    /// Removes the next reads from their queue that fit into one request: at least one.
    fn next_request(&mut self, max: usize) -> Vec<Read> {
        let mut left = self.per_request.min(max);
        let mut reads = Vec::new();
        let queue = self.next_queue();
        while let Some(read) = queue.front() {
            let weight = weight(read.what).unwrap_or(usize::MAX);
            if weight > left && !reads.is_empty() {
                break;
            }
            left = left.saturating_sub(weight);
            reads.extend(queue.pop_front());
            if left == 0 {
                break;
            }
        }
        for read in &reads {
            if let Some(pending) = self.pending_of(read) {
                pending.queued -= 1;
                pending.in_flight += 1;
            }
        }
        reads
    }

    /// Returns the entry that counts a read; `None` for a list of children.
    fn pending_of(&mut self, read: &Read) -> Option<&mut Pending> {
        match read.what {
            What::Data | What::Stat => self.pending.get_mut(&read.path),
            What::Children(_) => None,
        }
    }
}

/// Returns the part of a request that a read takes, or `None` if it needs a request of its own.
fn weight(what: What) -> Option<usize> {
    match what {
        What::Data => Some(1),
        What::Children(count) => Some(1 + count / NAMES_PER_READ),
        What::Stat => None,
    }
}

/// Returns true if a request may have failed because it had several reads: the server does not
/// support it, or the request or its reply was too large.
fn is_due_to_several(error: &Error) -> bool {
    error.code() == Some(ErrorCode::UNIMPLEMENTED)
        || matches!(error.kind(), ErrorKind::ReplyTooLarge { .. } | ErrorKind::TooLarge { .. })
}
