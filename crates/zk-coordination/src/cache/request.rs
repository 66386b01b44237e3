//! A request of a cache: one read, or several at once.

use std::sync::Arc;

use zk_recipes::session::{
    ChildList, Children, Client, Error, ErrorCode, ErrorKind, NodeData, Outcome, Pending,
    ReadOutcome, Stat,
};

use super::snapshot::Snapshot;
use crate::limits::RECHECKED_DATA_MAX;

/// Read of one node.
#[derive(Clone, Debug)]
pub(super) struct Read {
    pub(super) path: Arc<str>,
    pub(super) what: What,
    pub(super) cause: Cause,
}

/// Why a node is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// An event reported a change of the node.
    Event,
    /// A walk over the tree, so everything below the node is read, too.
    Walk,
    /// A [check](super::checks), without an event.
    Check,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// The data and the Stat.
    Data,
    /// The Stat, of a node whose cached data is large.
    Stat,
    /// The names of the children, of which there are about so many.
    Children(usize),
}

/// Reads that were sent in one request.
#[derive(Debug)]
pub(super) struct Request {
    reads: Vec<Read>,
    reply: Reply,
}

#[derive(Debug)]
enum Reply {
    Several(Pending<Vec<Result<ReadOutcome, ErrorCode>>>),
    Data(Pending<NodeData>),
    Stat(Pending<Option<Stat>>),
    Children(Pending<Children>),
}

/// Answer to one read.
#[derive(Debug)]
pub(super) enum Answer {
    Data(NodeData),
    Stat(Stat),
    Children(ChildList),
    /// The node does not exist.
    NoNode,
    /// The node exists, and this client may not read it.
    NoAuth,
}

impl What {
    /// Returns how to read a node that may be cached: large data only if it has changed.
    pub(super) fn again(nodes: &Snapshot, path: &str) -> Self {
        match nodes.get(path) {
            Some(node) if node.data().len() > RECHECKED_DATA_MAX => Self::Stat,
            _ => Self::Data,
        }
    }
}

impl Request {
    pub(super) fn send(client: &Client, reads: Vec<Read>) -> Self {
        let reply = match &reads[..] {
            [Read { path, what: What::Data, .. }] => Reply::Data(client.get_data(path)),
            [Read { path, what: What::Stat, .. }] => Reply::Stat(client.exists(path)),
            [Read { path, what: What::Children(_), .. }] => {
                Reply::Children(client.get_children(path))
            }
            several => {
                let mut request = client.multi_read();
                for Read { path, what, .. } in several {
                    request = match what {
                        What::Children(_) => request.get_children(path),
                        What::Data | What::Stat => request.get_data(path),
                    };
                }
                Reply::Several(request.send())
            }
        };
        Self { reads, reply }
    }

    pub(super) fn len(&self) -> usize {
        self.reads.len()
    }

    pub(super) fn into_reads(self) -> Vec<Read> {
        self.reads
    }

    /// Waits for the answers, one for each read. Dropping the future loses nothing. It must not be
    /// called again after it has returned.
    pub(super) async fn answer(&mut self) -> Result<Vec<Answer>, Error> {
        match &mut self.reply {
            Reply::Several(reply) => reply.await?.into_iter().map(of_several).collect(),
            Reply::Data(reply) => one(reply.await.map(Answer::Data)),
            Reply::Stat(reply) => {
                one(reply.await.map(|stat| stat.map_or(Answer::NoNode, Answer::Stat)))
            }
            Reply::Children(reply) => {
                one(reply.await.map(|Children { names, .. }| Answer::Children(names)))
            }
        }
    }
}

fn one(answer: Result<Answer, Error>) -> Result<Vec<Answer>, Error> {
    let answer = answer.or_else(|error| match error.code().and_then(rejected) {
        Some(answer) => Ok(answer),
        None => Err(error),
    });
    answer.map(|answer| vec![answer])
}

fn of_several(outcome: Result<ReadOutcome, ErrorCode>) -> Result<Answer, Error> {
    match outcome {
        Ok(ReadOutcome::Data(node)) => Ok(Answer::Data(node)),
        Ok(ReadOutcome::Children(names)) => Ok(Answer::Children(names)),
        Ok(_) => Err(Error::new(ErrorKind::UnfitReply, Outcome::NotApplied)),
        Err(code) => rejected(code).ok_or_else(|| Error::not_applied(ErrorKind::Server(code))),
    }
}

/// Returns what the rejection of a read says about its node.
fn rejected(code: ErrorCode) -> Option<Answer> {
    match code {
        ErrorCode::NO_NODE => Some(Answer::NoNode),
        ErrorCode::NO_AUTH => Some(Answer::NoAuth),
        _ => None,
    }
}
