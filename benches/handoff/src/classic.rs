//! The algorithms of a fair lock over raw sockets, one request after the other.
//!
//! The textbook algorithm creates a node, lists, watches the predecessor, and lists again when it is
//! deleted. With a marked release, a holder that had to wait releases with one transaction, which
//! sets the data of its node and deletes it. A data watch and a child watch on that node report both
//! with the same transaction id. Only the holder releases so, and it was first. Therefore the next
//! waiter acquires the lock without a list. It joins without a list, too: the names differ in their
//! numbers only, so a waiter knows the name ahead of its own. These are the requests and names of this
//! library.
//!
//! Each session has a thread, which waits only on its socket. If waiters share a session, the
//! thread processes the replies and events of all of them.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use zk_benches::contest::{Clock, Hold, Job, Kind, Refusal, sequence_of};
use zk_proto::{ChildList, EventType, WatcherEvent};

use crate::raw::{Create, EVENT_XID, Frame, NO_NODE, PING_XID, Raw};
use crate::stream::Transport;
use crate::threads;

/// The request that releases the lock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Release {
    Plain,
    Marked,
}

impl Release {
    /// Returns the start of the nodes' names. `Plain` has names as long as Curator's, `Marked` has
    /// names as long as this library's: longer names take the server longer to list.
    fn protection(self) -> &'static str {
        match self {
            Self::Plain => "_c_00000000-0000-4000-8000-000000000000",
            Self::Marked => "_c_0000000000000000",
        }
    }
}

pub(crate) fn run(job: &Job, release: Release, transport: Transport) -> Result<Vec<Hold>, Refusal> {
    if !matches!(job.kind, Kind::Handoff | Kind::Uncontended) {
        return Err(Refusal::none("only the mutual exclusion lock is written out"));
    }
    let clock = Clock;
    let done = AtomicUsize::new(0);
    Ok(threads::run(job, |session| {
        Session::contend(job, release, transport, session, clock, &done)
    })?)
}

/// The waiters of one session.
struct Session<'a> {
    raw: Raw,
    job: &'a Job,
    release: Release,
    clock: Clock,
    waiters: Vec<Waiter>,
    /// Waiters that have started for the first time.
    started: usize,
    /// The waiter and the kind of each pending request, by xid.
    asked: HashMap<i32, (usize, Asked)>,
    /// The waiter for an event, by path.
    watching: HashMap<String, usize>,
    holds: Vec<Hold>,
}

#[derive(Default)]
struct Waiter {
    node: String,
    /// The transaction that has created the node.
    created: i64,
    /// The path that it watches; empty if it did not have to wait.
    predecessor: String,
    /// The transaction that set the data of the predecessor.
    marked: Option<i64>,
    hold: Hold,
}

#[derive(Clone, Copy)]
enum Asked {
    Create,
    /// The Stat of the queue's node.
    Parent,
    List,
    Watch,
    Delete,
}

impl<'a> Session<'a> {
    fn contend(
        job: &'a Job,
        release: Release,
        transport: Transport,
        session: usize,
        clock: Clock,
        done: &AtomicUsize,
    ) -> io::Result<(Raw, Vec<Hold>)> {
        let raw = Raw::connect(&job.address, transport)?;
        let heartbeat = raw.heartbeat();
        raw.limit_reads(if job.again { LOOK_UP } else { heartbeat })?;
        let count = (session..job.waiters).step_by(job.sessions).count();
        let waiters = (0..count).map(|_| Waiter::default()).collect();
        let (asked, watching, holds) = (HashMap::new(), HashMap::new(), Vec::new());
        let started = 0;
        let mut this = Self { raw, job, release, clock, waiters, started, asked, watching, holds };
        this.start_next()?;
        let has_work = |this: &Self| match job.again {
            true => done.load(Ordering::Relaxed) < job.holds,
            false => this.holds.len() < count,
        };
        let mut pinged = clock.now();
        while has_work(&this) {
            // The lists of ten thousand waiters take longer to arrive than a session timeout.
            if u128::from(clock.now() - pinged) > heartbeat.as_nanos() {
                pinged = clock.now();
                this.raw.ping();
                this.raw.flush()?;
            }
            match this.raw.read() {
                Ok(frame) => {
                    let before = this.holds.len();
                    this.step(&frame)?;
                    done.fetch_add(this.holds.len() - before, Ordering::Relaxed);
                }
                // Nothing to read: the loop checks whether the contest is over or a ping is due.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok((this.raw, this.holds))
    }

    /// Starts one more waiter, after the list of the one before. A server has no memory for the lists
    /// of ten thousand waiters at a time.
    fn start_next(&mut self) -> io::Result<()> {
        if self.started == self.waiters.len() {
            return Ok(());
        }
        self.started += 1;
        self.start(self.started - 1)
    }

    fn start(&mut self, waiter: usize) -> io::Result<()> {
        self.waiters[waiter] = Waiter::default();
        self.waiters[waiter].hold.call = self.clock.now();
        let prefix = format!("{}/{}-lock-", self.job.path, self.release.protection());
        let xid = self.raw.create(&prefix, Create::EphemeralSequential);
        self.asked.insert(xid, (waiter, Asked::Create));
        if self.release == Release::Marked {
            let xid = self.raw.stat(&self.job.path);
            self.asked.insert(xid, (waiter, Asked::Parent));
        }
        self.raw.flush()
    }

    fn list(&mut self, waiter: usize) -> io::Result<()> {
        let xid = self.raw.children(&self.job.path);
        self.ask(xid, waiter, Asked::List)
    }

    fn ask(&mut self, xid: i32, waiter: usize, what: Asked) -> io::Result<()> {
        self.asked.insert(xid, (waiter, what));
        self.raw.flush()
    }

    fn step(&mut self, frame: &Frame) -> io::Result<()> {
        if frame.xid == EVENT_XID {
            return self.wake(frame);
        }
        if frame.xid == PING_XID {
            return Ok(());
        }
        let Some((waiter, what)) = self.asked.remove(&frame.xid) else {
            return Err(io::Error::other("an answer to nothing"));
        };
        match what {
            Asked::Create => {
                (self.waiters[waiter].node, self.waiters[waiter].created) =
                    (frame.path()?, frame.zxid);
                match self.release {
                    Release::Plain => self.list(waiter),
                    Release::Marked => Ok(()), // the Stat follows
                }
            }
            Asked::Parent => self.join(waiter, frame),
            Asked::List => self.look(waiter, &frame.names()?),
            // The predecessor is deleted already, so no event will follow.
            Asked::Watch if frame.error == NO_NODE => {
                match self.watching.remove(&self.waiters[waiter].predecessor) {
                    Some(_) => self.list(waiter),
                    None => Ok(()),
                }
            }
            Asked::Watch => Ok(()),
            Asked::Delete => {
                self.waiters[waiter].hold.released = self.clock.now();
                self.holds.push(self.waiters[waiter].hold);
                if self.job.again { self.start(waiter) } else { Ok(()) }
            }
        }
    }

    fn wake(&mut self, event: &Frame) -> io::Result<()> {
        let WatcherEvent { event_type, path, .. } = event.event()?;
        let Some(&waiter) = self.watching.get(&path) else { return Ok(()) };
        let marked = &mut self.waiters[waiter].marked;
        if event_type == EventType::NODE_DATA_CHANGED {
            *marked = Some(event.zxid);
            return Ok(());
        }
        self.watching.remove(&path);
        if event.zxid > 0 && *marked == Some(event.zxid) {
            let order = sequence_of(&self.waiters[waiter].node);
            return self.own(waiter, order);
        }
        self.list(waiter)
    }

    /// Takes its place without a list: it is alone, or watches the name ahead.
    fn join(&mut self, waiter: usize, parent: &Frame) -> io::Result<()> {
        let Waiter { node, created, .. } = &self.waiters[waiter];
        let own = sequence_of(node);
        if parent.children()? == (1, *created) {
            self.start_next()?;
            return self.own(waiter, own);
        }
        let ahead = format!("{}{:010}", &node[..node.len() - 10], own - 1);
        self.start_next()?;
        self.watch(waiter, ahead)
    }

    fn look(&mut self, waiter: usize, names: &ChildList) -> io::Result<()> {
        if self.release == Release::Plain {
            self.start_next()?;
        }
        let own = sequence_of(&self.waiters[waiter].node);
        let names = names.iter().filter_map(|name| str::from_utf8(name).ok());
        let ahead = names.filter(|name| sequence_of(name) < own);
        let Some(predecessor) = ahead.max_by_key(|name| sequence_of(name)) else {
            return self.own(waiter, own);
        };
        self.watch(waiter, format!("{}/{predecessor}", self.job.path))
    }

    fn watch(&mut self, waiter: usize, path: String) -> io::Result<()> {
        let Waiter { node, created, .. } = &self.waiters[waiter];
        let xid = match self.release {
            Release::Plain => self.raw.watch(&path),
            // The watch on the own node shows a waiter that its node is deleted.
            Release::Marked => self.raw.set_watches(*created, &[&path], &[&path, node]),
        };
        self.asked.insert(xid, (waiter, Asked::Watch));
        // The entry must exist before the reply, because the event may follow the reply
        // immediately.
        self.watching.insert(path.clone(), waiter);
        (self.waiters[waiter].predecessor, self.waiters[waiter].marked) = (path, None);
        self.raw.flush()
    }

    fn own(&mut self, waiter: usize, order: i64) -> io::Result<()> {
        let hold = &mut self.waiters[waiter].hold;
        (hold.owner, hold.order) = (self.clock.now(), order);
        threads::hold(self.job);
        hold.release = self.clock.now();
        let Waiter { node, predecessor, .. } = &self.waiters[waiter];
        // The transaction takes the server longer than a delete. If the holder did not have to wait,
        // a next waiter is unlikely.
        let xid = match self.release {
            Release::Marked if !predecessor.is_empty() => self.raw.set_and_delete(node),
            _ => self.raw.delete(node),
        };
        self.ask(xid, waiter, Asked::Delete)
    }
}

/// How long a thread with nothing to read may take to notice the end of the contest.
const LOOK_UP: Duration = Duration::from_millis(20);
