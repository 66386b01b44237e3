//! The lock of one node, over raw sockets: every waiter watches the node of the holder, and tries to
//! create it when it is deleted. All waiters wake at each release, and one of them gets the lock.
//! There is no queue.

use std::io;

use zk_benches::contest::{Clock, Hold, Job, Kind, Refusal};

use crate::raw::{Create, EVENT_XID, NO_NODE, NODE_EXISTS, Raw};
use crate::stream::Transport;
use crate::threads;

pub(crate) fn run(job: &Job) -> Result<Vec<Hold>, Refusal> {
    if job.kind != Kind::Handoff || job.again || job.sessions != job.waiters {
        return Err(Refusal::none("only waiters with a session each, which hold once"));
    }
    let clock = Clock;
    Ok(threads::run(job, |_| contend(job, clock))?)
}

/// Returns the path of the node, which exists while the lock is held.
pub(crate) fn node(path: &str) -> String {
    format!("{path}/held")
}

fn contend(job: &Job, clock: Clock) -> io::Result<(Raw, Vec<Hold>)> {
    let mut raw = Raw::connect(&job.address, Transport::Plain)?;
    let node = node(&job.path);
    let call = clock.now();
    while !created(&mut raw, &node)? {
        raw.watch_data(&node);
        match raw.answer()?.error {
            0 => while raw.read()?.xid != EVENT_XID {},
            // The holder has released in between, so no event will follow.
            NO_NODE => {}
            error => return Err(io::Error::other(format!("error {error} of the server"))),
        }
    }
    let owner = clock.now();
    threads::hold(job);
    let release = clock.now();
    raw.delete(&node);
    raw.call()?;
    let hold = Hold { call, owner, release, released: clock.now(), order: -1, shared: false };
    Ok((raw, vec![hold]))
}

fn created(raw: &mut Raw, node: &str) -> io::Result<bool> {
    raw.create(node, Create::Ephemeral);
    match raw.answer()?.error {
        0 => Ok(true),
        NODE_EXISTS => Ok(false),
        error => Err(io::Error::other(format!("error {error} of the server"))),
    }
}
