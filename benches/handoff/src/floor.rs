//! The floor: a blocking socket deletes a node, and another one reads the event. No lock can be
//! handed over with less. No lock can be acquired with less than a create and a list in one write.

use std::io;

use zk_benches::contest::{Clock, Hold, Job, Kind, Refusal};

use crate::raw::{Create, EVENT_XID, NO_NODE, Raw};
use crate::stream::Transport;
use crate::threads;

pub(crate) fn run(job: &Job) -> Result<Vec<Hold>, Refusal> {
    let mut releasing = Raw::connect(&job.address, Transport::Plain)?;
    if job.kind == Kind::Uncontended {
        return Ok(uncontended(&mut releasing, job)?);
    }
    let mut waiting = Raw::connect(&job.address, Transport::Plain)?;
    let clock = Clock;
    let mut owner = clock.now();
    let mut holds = Vec::with_capacity(job.holds);
    let prefix = format!("{}/floor-", job.path);
    for order in 0.. {
        if holds.len() == job.holds {
            break;
        }
        releasing.create(&prefix, Create::EphemeralSequential);
        let node = releasing.call()?.path()?;
        // The waiter's server may be behind that of the create.
        loop {
            waiting.watch_data(&node);
            match waiting.answer()?.error {
                0 => break,
                NO_NODE => {}
                error => return Err(Refusal::Failed(format!("error {error} of the server"))),
            }
        }
        threads::hold(job);
        releasing.delete(&node);
        let release = clock.now();
        releasing.flush()?;
        while waiting.read()?.xid != EVENT_XID {}
        let next_owner = clock.now();
        releasing.read()?;
        // The next owner waits from the start of the contest.
        let call = 0;
        holds.push(Hold { call, owner, release, released: clock.now(), order, shared: false });
        owner = next_owner;
    }
    Ok(holds)
}

fn uncontended(raw: &mut Raw, job: &Job) -> io::Result<Vec<Hold>> {
    let clock = Clock;
    let prefix = format!("{}/floor-lock-", job.path);
    let mut holds = Vec::with_capacity(job.holds);
    for order in 0.. {
        if holds.len() == job.holds {
            break;
        }
        let call = clock.now();
        raw.create(&prefix, Create::EphemeralSequential);
        raw.children(&job.path);
        let node = raw.call()?.path()?;
        raw.call()?;
        let owner = clock.now();
        raw.delete(&node);
        let release = clock.now();
        raw.call()?;
        holds.push(Hold { call, owner, release, released: clock.now(), order, shared: false });
    }
    Ok(holds)
}
